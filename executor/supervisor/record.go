package supervisor

import (
	"context"
	"iter"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/world"
)

// History is what a process takes from a ledger when it starts.
type History struct {
	World *world.Kernel // nil of an installation that has seen nothing of the world
}

// NoHistory is that of an installation that has seen nothing of a world. No task can
// be driven with it.
func NoHistory() *History { return &History{} }

// Replay folds a world's records, genesis first.
func Replay(records iter.Seq2[kernel.Record, error]) (*History, error) {
	h := NoHistory()
	if err := h.follow(records); err != nil {
		return nil, err
	}
	return h, nil
}

// follow folds the records that come next.
func (h *History) follow(records iter.Seq2[kernel.Record, error]) error {
	for r, err := range records {
		if err == nil {
			err = h.take(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *History) take(r kernel.Record) (err error) {
	if h.World == nil {
		h.World, err = world.OpenGenesis(r)
		return err
	}
	return h.World.Apply(r)
}

// write makes drafts durable and folds them: part of a round, or with settle
// its end, whose receipt comes last. A round is one request; a process that dies
// inside one leaves it to the next request, which goes on with it.
func (s *Supervisor) write(ctx context.Context, now int64, drafts []kernel.Draft, settle bool) error {
	now = max(now, s.deps.Ledger.Chain().Time)
	r := s.world.Begin(now)
	if err := r.Observe(drafts...); err != nil {
		return err
	}
	if settle {
		if err := s.settleRound(r); err != nil {
			return err
		}
	}
	// A request that was begun is seen through: a record that is cut off by an
	// impatient caller would leave its effect without one.
	records, err := s.deps.Ledger.Write(context.WithoutCancel(ctx), now, r.Drafts()...)
	if err != nil {
		return err
	}
	if err := s.world.Commit(r, records); err != nil {
		return err
	}
	if settle {
		s.maySave()
	}
	return nil
}

// settleRound takes in what was done and closes the round.
func (s *Supervisor) settleRound(r *world.Round) error {
	if acts := r.Actions(); len(acts) > 0 {
		if _, err := r.AcceptActions(acts); err != nil {
			return err
		}
	}
	_, err := r.SettleRound(s.world.Config().Genesis().Seed)
	return err
}

// closeIntents records, at the start of a process, that the outcome of what a
// dead one had begun is unknown (REQUIREMENTS T37).
func (s *Supervisor) closeIntents(ctx context.Context, task int64) error {
	var drafts []kernel.Draft
	for _, o := range s.world.OpenIntents(task) {
		drafts = append(drafts, kernel.Draft{Kind: kernel.KindOutcome, Task: task, Run: o.Run, Body: kernel.Outcome{
			Kind: string(kernel.KindOutcome), Key: o.Intent.Key, Effect: o.Intent.Effect,
			Status: kernel.OutcomeUnknown, Code: kernel.CodeEffectUnknown, Detail: "the process ended before the outcome",
		}})
	}
	if len(drafts) == 0 {
		return nil
	}
	return s.write(ctx, s.now().WallMs, drafts, true)
}
