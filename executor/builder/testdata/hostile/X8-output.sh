# It writes output without an end.
exec yes
