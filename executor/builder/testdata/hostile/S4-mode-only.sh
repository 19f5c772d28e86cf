# Nothing but the mode of a file outside the scope changes.
chmod 755 docs/guide.md
