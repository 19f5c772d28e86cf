# A file outside the scope becomes a directory with an allowed look.
rm docs/guide.md
mkdir docs/guide.md
echo x > docs/guide.md/add.go
