# test.sh says whether the shop still counts right.
set -eu
got=$(awk -f total.awk orders.csv)
[ "$got" = 21.00 ] || { echo "the total is $got, 21.00 was expected"; exit 1; }
lines=$(awk -f receipt.awk orders.csv | wc -l)
[ "$lines" -eq 2 ] || { echo "the receipt has $lines lines, 2 were expected"; exit 1; }
echo "the shop counts right"
