# The builders of the demo: small code mods, as a coding agent would be, but
# with no model behind them. The first word says which.
set -eu
rename() { sed -i "s/\\b$1(/$2(/g" ./*.awk; }
case $1 in
  rename) rename total amount ;;
  stray)  rename total amount; echo 'Written by somebody who was not asked.' >> README.md ;;
  slow)
    echo 'thinking about it'
    sleep "${SLOW:-5}"
    sed -i 's/^BEGIN { FS = "," }$/BEGIN { FS = "," } # fields are parted by commas/' ./*.awk
    echo 'done' ;;
esac
