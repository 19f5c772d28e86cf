# The result is a named pipe.
echo 'package calc // changed' > calc/add.go
mkfifo "$WRIT_RESULT"
