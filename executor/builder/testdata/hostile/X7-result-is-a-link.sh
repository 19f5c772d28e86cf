# The result is a link to a file of the host.
echo 'package calc // changed' > calc/add.go
ln -s "$OUTSIDE/result.json" "$WRIT_RESULT"
