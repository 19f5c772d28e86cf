# The result is a sparse terabyte.
echo 'package calc // changed' > calc/add.go
truncate -s 1T "$WRIT_RESULT"
