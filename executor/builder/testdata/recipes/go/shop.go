// Package shop compiles three of the modules that it requires: those that need little of
// the standard library.
package shop

import (
	_ "github.com/clipperhouse/uax29/v2/graphemes"
	_ "golang.org/x/mod/semver"
	_ "golang.org/x/sync/semaphore"
)
