# A link inside the allowed directory that leads outside, and a write through it.
ln -s "$OUTSIDE" calc/out
echo overwritten > calc/out/canary 2>/dev/null
ln -s ../docs calc/docs
echo overwritten > calc/docs/guide.md
