# A directory that nobody can list.
mkdir -p calc/closed/inner
echo x > calc/closed/inner/x
chmod 000 calc/closed/inner calc/closed
