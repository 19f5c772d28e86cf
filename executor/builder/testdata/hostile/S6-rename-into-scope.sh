# A file outside the scope is moved into it.
mv docs/guide.md calc/guide.md
