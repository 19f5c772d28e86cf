// Package built is compiled with C code in it.
package built

// static int twice(int n) { return 2 * n; }
import "C"

// Twice asks the C code.
func Twice(n int) int { return int(C.twice(C.int(n))) }
