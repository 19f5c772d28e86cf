package supervisor

import (
	"context"
	"errors"
	"iter"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
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

// KindSaved is the kind of a [Saved], and SavedVersion the version of what a process
// folds: it grows with every change of what the same records are folded to.
const (
	KindSaved    = "saved_history"
	SavedVersion = 2
)

// Saved is a [History] between two rounds, to go on from without the records that led
// there.
type Saved struct {
	Kind   string      `json:"kind"`           // KindSaved
	V      int64       `json:"v"`              // SavedVersion
	Kernel string      `json:"kernel_version"` // of the kernel that folded
	World  world.Saved `json:"world"`
}

// Savings keeps what a process has folded, so that the next one needn't fold it again.
// It is called with the world locked, and must not wait.
type Savings interface {
	// Due reports whether so many records are worth it.
	Due(records int64) bool
	Save(s Saved)
}

// maySave offers what is folded once a round is settled. mu is held.
func (s *Supervisor) maySave() {
	if s.deps.Savings == nil || !s.deps.Savings.Due(s.deps.Ledger.Chain().Head.Seq+1) {
		return
	}
	if saved, err := s.history().save(); err == nil { // else the next round is as good
		s.deps.Savings.Save(saved)
	}
}

// Save has what is folded kept, if anybody keeps it and no round is under way.
func (s *Supervisor) Save() {
	s.locked(func() {
		if s.deps.Savings == nil || s.world == nil {
			return
		}
		if saved, err := s.history().save(); err == nil {
			s.deps.Savings.Save(saved)
		}
	})
}

func (s *Supervisor) history() *History { return &History{World: s.world} }

func (h *History) save() (Saved, error) {
	w, err := h.World.Save()
	return Saved{Kind: KindSaved, V: SavedVersion, Kernel: kernel.Version(), World: w}, err
}

// Resume goes on from what was saved with the records that follow it. The caller knows
// that both are this instance's own.
func Resume(s Saved, records iter.Seq2[kernel.Record, error]) (*History, error) {
	if s.Kind != KindSaved || s.V != SavedVersion || s.Kernel != kernel.Version() {
		return nil, errors.New("what was saved is of another version")
	}
	w, err := world.Restore(s.World)
	if err != nil {
		return nil, err
	}
	h := &History{World: w}
	return h, h.follow(records)
}

// Encode is the canonical form, the same for the same records.
func (s Saved) Encode() ([]byte, error) { return canon.Marshal(s) }

// DecodeSaved reads what [Saved.Encode] wrote, and nothing else.
func DecodeSaved(data []byte) (s Saved, err error) {
	err = canon.UnmarshalCanonical(data, &s)
	return s, err
}
