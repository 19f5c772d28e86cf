# It uses the processor without an end.
while :; do :; done
