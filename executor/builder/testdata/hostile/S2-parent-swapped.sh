# The directory above a tracked file becomes a link to another one.
mv calc elsewhere
ln -s elsewhere calc
echo changed > calc/add.go
