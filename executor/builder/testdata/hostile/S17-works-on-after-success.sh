# A process in the background goes on when the builder has ended.
echo 'package calc // before' > calc/add.go
setsid sh -c 'trap "" HUP TERM INT; while :; do echo "package calc // after" > calc/add.go; echo more >> calc/late.go; done' >/dev/null 2>&1 &
while [ ! -e calc/late.go ]; do :; done
