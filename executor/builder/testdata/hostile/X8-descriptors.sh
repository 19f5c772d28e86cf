# It opens files without an end.
exec "$ACT" act-descriptors
