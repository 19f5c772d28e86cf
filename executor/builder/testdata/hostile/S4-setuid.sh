# A file of the scope becomes setuid.
echo 'package calc // changed' > calc/add.go
chmod 4755 calc/add.go
