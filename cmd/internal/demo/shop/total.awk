# total.awk adds an order up. Each line has an item, how many, and a price in cents.
function total(count, cents) { return count * cents }
BEGIN { FS = "," }
NR > 1 { sum += total($2, $3) }
END { printf "%d.%02d\n", sum / 100, sum % 100 }
