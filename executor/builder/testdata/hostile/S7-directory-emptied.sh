# A directory outside the scope is emptied.
rm -r docs && mkdir docs
