# receipt.awk prints what is bought, a line each.
function total(count, cents) { return count * cents }
BEGIN { FS = "," }
NR > 1 { printf "%-6s %3d x %6d = %7d\n", $1, $2, $3, total($2, $3) }
