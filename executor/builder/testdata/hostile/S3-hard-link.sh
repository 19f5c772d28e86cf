# A file outside the scope gets a second name inside it.
ln docs/guide.md calc/guide.md
echo through the second name >> calc/guide.md
