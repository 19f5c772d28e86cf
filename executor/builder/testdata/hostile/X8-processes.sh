# Processes without an end, which stay.
(while :; do sleep 1000 & done) 2>/dev/null &
exec sleep 1000
