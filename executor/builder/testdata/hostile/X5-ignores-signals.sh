# It never ends and ignores being asked to.
trap '' TERM HUP INT QUIT
echo begun
while :; do sleep 1000; done
