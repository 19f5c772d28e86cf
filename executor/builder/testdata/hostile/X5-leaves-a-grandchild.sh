# The builder ends, its grandchild does not and holds standard output.
echo 'package calc // changed' > calc/add.go
setsid sh -c 'trap "" TERM HUP; sleep 1000' &
