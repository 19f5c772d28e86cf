package problem

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Shelter runs f. Its panic is its error: a panic on a goroutine that nobody
// shelters would end the process, with all worlds, and again after each restart.
func Shelter(log *slog.Logger, what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("writ met a fault of its own; everything else goes on", "part", what, "panic", p, "stack", string(debug.Stack()))
			err = &Fault{p}
		}
	}()
	return f()
}

// Fault is a panic as an error.
type Fault struct{ value any }

func (f *Fault) Error() string { return fmt.Sprintf("writ met a fault of its own: %v", f.value) }
