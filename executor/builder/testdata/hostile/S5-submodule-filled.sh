# The empty directory of a submodule becomes a repository.
mkdir vendor/lib/.git
echo 'package lib' > vendor/lib/lib.go
