# Names that some file system takes for .git.
mkdir .GIT "calc/.g$(printf '\342\200\214')it" calc/git~1
echo x > .GIT/config
echo x > "calc/.g$(printf '\342\200\214')it/config"
echo x > calc/git~1/config
