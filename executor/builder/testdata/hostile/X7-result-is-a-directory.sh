# The result is a directory.
echo 'package calc // changed' > calc/add.go
mkdir "$WRIT_RESULT"
