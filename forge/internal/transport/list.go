package transport

import (
	"fmt"
	"net/http"

	"github.com/writbot/writ/forge"
)

// MaxList is how many bytes all pages of one list may have: ten thousand comments
// of usual length are a third of it, and what is made of them takes a few times
// as much memory.
const MaxList = 96 << 20

// List counts the bytes of a list's pages. The zero value is ready.
type List struct{ read int64 }

// Add counts a page. It refuses the list when that is too much.
func (l *List) Add(res *http.Response) error {
	if res != nil {
		l.read += max(res.ContentLength, 0)
	}
	if l.read > MaxList {
		return &forge.Error{Reason: forge.Invalid, Err: fmt.Errorf("the list is longer than %d bytes", int64(MaxList))}
	}
	return nil
}
