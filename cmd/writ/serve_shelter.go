package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// fault is a panic as an error.
type fault struct{ value any }

func (f *fault) Error() string { return fmt.Sprintf("writ met a fault of its own: %v", f.value) }

// shelter runs f. Its panic is its error: a panic on a goroutine that nobody
// shelters would end the process, with all worlds, and again after each restart.
func shelter(log *slog.Logger, what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("writ met a fault of its own; everything else goes on", "part", what, "panic", p, "stack", string(debug.Stack()))
			err = &fault{p}
		}
	}()
	return f()
}

// ofWorld does something for one world alone. Its panic must not keep the others
// from their turn, so it ends here; the world's next turn is its next try.
func (s *server) ofWorld(w *served, f func()) {
	_ = shelter(s.log.With(logWorld, w.world), "repository", func() error { f(); return nil }) // it was logged
}

// endure runs a part of the server until it ends by itself. After a panic it
// begins anew, later each time; what held for long enough counts as mended.
func (s *server) endure(ctx context.Context, name string, part func(context.Context) error) error {
	for tries := 0; ; tries++ {
		began := time.Now()
		err := shelter(s.log, name, func() error { return part(ctx) })
		var own *fault
		if !errors.As(err, &own) {
			return err
		}
		if time.Since(began) > mostTry {
			tries = 0
		}
		timer := time.NewTimer(tryAfter(tries))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// tryAfter is the wait after so many tries that failed before.
func tryAfter(tries int) time.Duration {
	if tries < 8 { // 2 s, doubled seven times, is almost five minutes
		return firstTry << tries
	}
	return mostTry
}
