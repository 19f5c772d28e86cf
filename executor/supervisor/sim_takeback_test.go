package supervisor

import (
	"context"
	"fmt"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// TestSim_P10_TakenBack lets three installations work on one issue while processes die,
// disks are lost and pushes fail, and people take the approval back and seem to give it
// again: the issue is closed and put back open, the label taken off and set by somebody who
// may not approve, a stop deleted once git tells of it, or said by somebody who loses his
// permission. Nothing is dispatched or accepted on what was taken back, by whomever, and
// once somebody approves anew the task ends.
func TestSim_P10_TakenBack(t *testing.T) {
	t.Parallel()
	if *simSeed != 0 {
		for _, line := range simulateTakenBack(t, *simSeed).trace {
			t.Log(line)
		}
		return
	}
	for seed := int64(1); seed <= int64(max(*simSeeds/10, 1)); seed++ { // each takes ten times a plain one
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			simulateTakenBack(t, seed)
		})
	}
}

func simulateTakenBack(t testing.TB, seed int64) *sim {
	c := kerneltest.NewChoice(-seed)
	s := newSimForged(t, seed, simContract, simRules, c.Between(-40_000, 40_000), c.Between(-4_000_000, 4_000_000), c.Between(-2_000, 2_000))
	s.trace = append([]string{fmt.Sprintf("rerun with -run TestSim_P10_TakenBack -seed %d", seed)}, s.trace...)
	steps := 20 + s.choice.Intn(60)
	for faults, acts := 2+s.choice.Intn(6), 2+s.choice.Intn(6); steps > 0 && s.head().State != string(kernel.TaskCompleted); steps-- {
		switch {
		case faults > 0 && s.choice.Chance(15):
			faults--
			s.disturb()
		case acts > 0 && s.choice.Chance(20):
			acts--
			s.takesBack()
		}
		s.proceed()
	}
	s.calm()
	s.settleForged()
	return s
}

// takesBack is one act of a person by which the approval is taken back, or given.
func (s *sim) takesBack() {
	f, ctx := s.forged, context.Background()
	s.advance(1_000)
	issue, _ := s.onForge()
	must(s.t, f.Triage.AddLabel(ctx, f.Repo, 1, "writ")) // who may not approve; mostly it is there
	acts := []func(){
		func() { s.says("/writ retry") },
		func() { s.says("/writ stop") },
		func() {
			s.stopAnd(func(comment int64) { must(s.t, f.Scene.Owner.DeleteComment(ctx, f.Repo, comment)) })
		},
		func() { s.stopAnd(func(int64) {}) },
		func() {
			must(s.t, f.Scene.Owner.RemoveLabel(ctx, f.Repo, 1, "writ"))
			s.noteTaken(forge.EventUnlabeled)
		},
		func() {
			if issue.State == forge.Closed {
				return
			}
			must(s.t, f.Scene.Owner.SetState(ctx, f.Repo, 1, forge.Closed))
			s.noteTaken(forge.EventClosed)
		},
	}
	n := s.choice.Intn(len(acts))
	s.logf("a person: %d", n)
	acts[n]()
	if s.choice.Chance(50) { // somebody looks
		kerneltest.Pick(s.choice, s.runners).tick()
	}
	s.advance(1_000)
	if now, _ := s.onForge(); now.State == forge.Closed {
		must(s.t, f.Triage.SetState(ctx, f.Repo, 1, forge.Open))
	}
}

// noteTaken notes when the newest event of a kind was.
func (s *sim) noteTaken(kind forge.EventKind) {
	list, err := s.forged.Scene.Owner.History(context.Background(), s.forged.Repo, 1)
	must(s.t, err)
	for _, e := range list {
		if e.Kind == kind {
			s.check.TakenBack(e.At.UnixMilli())
		}
	}
}

// stopAnd has somebody stop the task who loses his permission, and what he said be undone,
// once git tells of it.
func (s *sim) stopAnd(undo func(comment int64)) {
	f, ctx := s.forged, context.Background()
	f.Grant(f.Repo, f.Triage.ID, forge.Write)
	k, err := f.Triage.AddComment(ctx, f.Repo, 1, "/writ stop")
	must(s.t, err)
	at := k.CreatedAt.UnixMilli()
	s.check.TakenBack(at)
	for range 12 {
		if s.head().State == string(kernel.TaskCompleted) || kernel.ActTime(s.head().Act) >= at {
			break
		}
		for _, r := range s.runners {
			r.up()
			r.tick()
		}
		s.advance(60_000)
	}
	f.Grant(f.Repo, f.Triage.ID, forge.Triage)
	if kernel.ActTime(s.head().Act) >= at {
		undo(k.ID)
		return
	}
	s.check.Stale = true // git never told of it
}
