# A file outside the scope is deleted, and nothing else.
rm docs/guide.md
