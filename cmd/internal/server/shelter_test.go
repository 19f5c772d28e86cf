package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge"
)

// TestJ2_APartThatPanics: it begins anew, later each time, and its own end or error
// is still its own.
func TestJ2_APartThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := &server{log: slog.New(slog.NewTextHandler(&log, nil))}
		var began []time.Duration
		start := time.Now()
		mine := errors.New("the store is gone")
		err := s.endure(t.Context(), "sweep", func(context.Context) error {
			began = append(began, time.Since(start))
			if len(began) <= 3 {
				panic("nil pointer")
			}
			return mine
		})
		if !errors.Is(err, mine) || len(began) != 4 || began[1] != firstTry || began[3] != 7*firstTry {
			t.Errorf("%v; begun at %v", err, began)
		}
		if n := strings.Count(log.String(), "shelter_test.go"); n < 3 {
			t.Errorf("the log says where %d times", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		tries := 0
		if err := s.endure(ctx, "sweep", func(context.Context) error { tries++; panic("again") }); err != nil || tries > 25 {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

// nilWorld is a forge's client that panics.
type nilWorld struct{ forge.Client }

func (nilWorld) ListIssues(context.Context, forge.Repo, time.Time, func(forge.Issue) error) error {
	panic("nil pointer")
}

// TestJ2_AWorldThatPanics: what a panic of one world meets ends there: sweeps,
// hints, and the opening of others.
func TestJ2_AWorldThatPanics(t *testing.T) {
	s, w := openedWith(t, &brokenList{})
	s.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	w.client = nilWorld{w.client}
	s.lookAfter(t.Context(), []string{w.World}, s.newTurns(s.hints["local"]))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.sweepAll(ctx); err != nil {
		t.Error(err)
	}
	w.sup = nil // its base can't be looked at
	s.bases["local"].add([]string{w.World})
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.watchBases(ctx); err != nil {
		t.Error(err)
	}
	l := &listing{name: "a/b", forge: &wire.Forge{Name: "broken"}} // no host: whoever asks it panics
	if err := s.tryAll(t.Context(), []*listing{l}); err != nil || l.why == nil || l.next.IsZero() {
		t.Errorf("%v; it is closed for %v until %v", err, l.why, l.next)
	}
	if a := s.obey(t.Context(), installation.Request{World: w.World, Task: 1, Act: "stop"}); a.OK {
		t.Errorf("answered %+v", a)
	}
}
