package supervisor

import (
	"errors"
	"iter"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/world"
)

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
