# A named pipe, which a reader would wait for.
mkfifo calc/pipe
rm calc/add.go && mkfifo calc/add.go
