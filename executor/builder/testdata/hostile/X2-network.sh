# Every way to talk to somebody else.
echo 'package calc // changed' > calc/add.go
exec "$ACT" act-network "$LISTENER" "$ABSTRACT"
