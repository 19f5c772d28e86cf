# A result is required and there is none.
echo 'package calc // changed' > calc/add.go
