# It writes a file without an end.
exec head -c 1G /dev/zero > calc/endless
