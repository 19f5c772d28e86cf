# The result names absolute and roundabout paths.
echo 'package calc // 1' > calc/add.go
result '["/workspace/calc/add.go","./calc/add.go","calc/../calc/add.go"]'
