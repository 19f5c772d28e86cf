# The result names a file twice.
echo 'package calc // 1' > calc/add.go
result '["calc/add.go","calc/add.go"]'
