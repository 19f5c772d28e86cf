# Git is told not to look: skip-worktree, assume-unchanged, info/exclude.
git update-index --skip-worktree docs/guide.md
git update-index --assume-unchanged README.md
mkdir -p .git/info && echo 'evil.txt' > .git/info/exclude
echo changed > docs/guide.md
echo changed > README.md
echo evil > evil.txt
test -z "$(git status --porcelain)" || echo "git sees it"
