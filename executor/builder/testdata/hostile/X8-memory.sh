# It fills memory.
tail /dev/zero
