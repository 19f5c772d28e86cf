# It never ends.
echo 'package calc // changed' > calc/add.go
sleep 1000
