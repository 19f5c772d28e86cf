// Package lazyregexp has regular expressions that are compiled when they are used
// first. There are more than a hundred; to compile all of them as it starts took
// most of the time of a short command such as `writ tick`.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp returns the compiled expression. Several may call it at once.
type Regexp func() *regexp.Regexp

// New is for a package's variable. A text that is no expression panics at its first
// use.
func New(text string) Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
