# The builder writes an ignore file of its own.
echo '*' > calc/.gitignore
echo evil > evil.txt
