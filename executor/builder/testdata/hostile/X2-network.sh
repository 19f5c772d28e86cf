# Every way to talk to somebody else.
echo 'package calc // changed' > calc/add.go
exec /run/writ/init act-network "$LISTENER" "$ABSTRACT"
