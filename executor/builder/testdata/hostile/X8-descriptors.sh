# It opens files without an end.
exec "$INIT" act-descriptors
