# It makes files without an end.
i=0
while :; do : > "$TMPDIR/f$i"; i=$((i+1)); done
