# Writes outside the workspace, on its own dispatch and on a path that is protected.
for path in "$OUTSIDE/canary" "$OUTSIDE/new" /etc/passwd /usr/bin/evil /evil /run/writ/evil "$INIT" "$WRIT_DISPATCH" /proc/sys/kernel/core_pattern /dev/evil; do
	echo overwritten 2>/dev/null > "$path" && echo "wrote $path"
done
rm -f "$WRIT_DISPATCH" 2>/dev/null && echo "removed the dispatch"
mount -o remount,rw / 2>/dev/null && echo "remounted"
mkdir -p .github/workflows && echo 'on: push' > .github/workflows/new.yml
