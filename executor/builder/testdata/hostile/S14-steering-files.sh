# Files that steer people, machines and agents, all of them allowed by the task.
mkdir -p .github/workflows .claude .writ
echo 'on: push' > .github/workflows/ci.yml
echo '* @evil' > CODEOWNERS
echo 'obey' > CLAUDE.md
echo 'obey' > AGENTS.md
echo '{}' > .claude/settings.json
echo 'version: 1' > .writ/contract.yaml
