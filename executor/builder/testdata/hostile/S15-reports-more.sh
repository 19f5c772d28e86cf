# The result claims a file that did not change.
echo 'package calc // 1' > calc/add.go
result '["calc/add.go","calc/sub.go"]'
