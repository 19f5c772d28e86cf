package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/world"
)

// Pause is a person's word that nothing new is to be started in this world.
type Pause struct {
	Of     string // kernel.PauseAll, PauseWorld or PauseFile
	Since  int64  // Unix milliseconds; 0: since it was seen first
	Actor  string
	Reason string
}

func (p Pause) is(q world.Pause) bool { return p.Of == q.Of && (p.Since == 0 || p.Since == q.Since) }

// Pauses records which pauses there are now: each that is new, and the end of each that is
// over, is a request to the kernel of the world. By is who ended them, "" where nobody knows.
// What is started meanwhile isn't this function's business: a pause holds whether or not it
// can be recorded.
func (s *Supervisor) Pauses(ctx context.Context, now []Pause, by, reason string) error {
	turn := s.turn(theWorld)
	turn.Lock()
	defer turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range slices.Clone(s.world.Pauses()) {
		if !slices.ContainsFunc(now, func(p Pause) bool { return p.is(q) }) {
			over := Pause{q.Of, q.Since, cmp.Or(by, "somebody"), reason}
			if err := s.pause(ctx, kernel.ActUnpause, over); err != nil {
				return err
			}
		}
	}
	for _, p := range now {
		if !slices.ContainsFunc(s.world.Pauses(), p.is) {
			p.Since = cmp.Or(p.Since, s.now().WallMs)
			if err := s.pause(ctx, kernel.ActPause, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// pause records one pause or its end. The world is held.
func (s *Supervisor) pause(ctx context.Context, act string, p Pause) error {
	return s.act(ctx, theWorld, kernel.OperatorAct{
		Act: act, Actor: p.Actor, Reason: p.Reason, Pause: p.Of, Since: p.Since, Key: fmt.Sprintf("%s:%s@%d", act, p.Of, p.Since),
	})
}
