package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
)

// panicked is a panic as an error.
type panicked struct {
	text  string
	stack string
	abort bool // http.ErrAbortHandler, net/http's own way of breaking off an answer
}

func (p *panicked) Error() string { return "panic: " + p.text }

// sheltered runs f, and returns its panic as an error. The value of a panic may hold
// anything, a piece of a body too, so only the runtime's own are kept as they
// are.
func sheltered(f func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		p := &panicked{text: fmt.Sprintf("a value of type %T", v), stack: string(debug.Stack())}
		if e, ok := v.(error); ok {
			var ofRuntime runtime.Error
			if errors.As(e, &ofRuntime) {
				p.text = ofRuntime.Error()
			}
			p.abort = errors.Is(e, http.ErrAbortHandler)
		}
		err = p
	}()
	return f()
}
