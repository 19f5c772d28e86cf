# .git becomes a file that points outside, beside an honest change.
echo 'package calc // changed' > calc/add.go
rm -rf .git
echo "gitdir: $OUTSIDE/repository" > .git
