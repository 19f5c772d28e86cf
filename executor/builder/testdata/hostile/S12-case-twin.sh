# A name that differs from a tracked one in case only.
echo 'package calc' > calc/ADD.go
