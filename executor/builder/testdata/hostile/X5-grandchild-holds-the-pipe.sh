# A grandchild in a session of its own holds standard output.
setsid sh -c 'trap "" TERM HUP; sleep 1000' &
sleep 1000
