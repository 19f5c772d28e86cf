package server

import (
	"context"
	"errors"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
)

// ofWorld does something for one world alone. Its panic must not keep the others
// from their turn, so it ends here; the world's next turn is its next try.
func (s *server) ofWorld(w *served, f func()) {
	_ = problem.Shelter(s.log.With(installation.LogWorld, w.World), "repository", func() error { f(); return nil }) // it was logged
}

// endure runs a part of the server until it ends by itself. After a panic it
// begins anew, later each time; what held for long enough counts as mended.
func (s *server) endure(ctx context.Context, name string, part func(context.Context) error) error {
	for tries := 0; ; tries++ {
		began := time.Now()
		err := problem.Shelter(s.log, name, func() error { return part(ctx) })
		var own *problem.Fault
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
