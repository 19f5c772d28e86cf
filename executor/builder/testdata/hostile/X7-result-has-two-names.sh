# The result is a second name of another file.
echo 'package calc // changed' > calc/add.go
result '["calc/add.go"]'
ln "$WRIT_RESULT" "$(dirname "$WRIT_RESULT")/other"
