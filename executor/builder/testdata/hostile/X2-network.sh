# Every way to talk to somebody else.
echo 'package calc // changed' > calc/add.go
exec "$INIT" act-network "$LISTENER" "$ABSTRACT"
