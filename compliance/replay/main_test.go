package replay

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets garbage lie longer: the tests verify small evidence thousands of times, and
// what they hold is little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
