# The result keeps silent about a changed file.
echo 'package calc // 1' > calc/add.go
echo 'package calc // 2' > calc/sub.go
result '["calc/add.go"]'
