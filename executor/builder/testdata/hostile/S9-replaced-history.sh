# Replace refs, grafts, alternates and a shallow file say that nothing changed.
echo changed > docs/guide.md
blob=$(git hash-object -w docs/guide.md)
git replace "$(git rev-parse HEAD:docs/guide.md)" "$blob"
mkdir -p .git/info .git/objects/info
git rev-parse HEAD > .git/shallow
git rev-parse HEAD > .git/info/grafts
echo "$OUTSIDE/objects" > .git/objects/info/alternates
git -c user.name=x -c user.email=x@x commit -q -a -m 'nothing to see'
