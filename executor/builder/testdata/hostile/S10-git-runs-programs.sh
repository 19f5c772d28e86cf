# Everything in .git that makes git execute a program, beside an honest change.
echo 'package calc // changed' > calc/add.go
mkdir -p .git/hooks .git/info
for hook in pre-commit post-checkout post-index-change reference-transaction post-commit fsmonitor-watchman pre-push; do
	printf '#!/bin/sh\ntouch "%s/executed"\n' "$OUTSIDE" > .git/hooks/$hook
	chmod 755 .git/hooks/$hook
done
cat >> .git/config <<EOF
[core]
	fsmonitor = touch $OUTSIDE/executed
	hooksPath = $PWD/.git/hooks
	sshCommand = touch $OUTSIDE/executed
	pager = touch $OUTSIDE/executed
	editor = touch $OUTSIDE/executed
	worktree = $OUTSIDE
[filter "x"]
	clean = touch $OUTSIDE/executed
	smudge = touch $OUTSIDE/executed
	required = true
[diff]
	external = touch $OUTSIDE/executed
[include]
	path = $OUTSIDE/canary
EOF
echo '* filter=x diff=x' > .git/info/attributes
