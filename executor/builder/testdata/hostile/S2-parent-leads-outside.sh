# The same, and the link leads out of the workspace.
rm -r calc
ln -s "$OUTSIDE" calc
