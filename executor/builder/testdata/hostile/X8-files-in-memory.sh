# It makes files without an end.
i=0
while :; do : > /tmp/f$i; i=$((i+1)); done
