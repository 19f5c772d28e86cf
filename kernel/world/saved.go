package world

import (
	"slices"

	"github.com/writbot/writ/kernel"
)

// KindSaved is the kind of a [Saved].
const KindSaved = "saved_world"

// Saved is a kernel between two rounds, to go on from without the records that led
// there. It says what they say and proves nothing: whoever keeps one vouches for it.
type Saved struct {
	Kind        string         `json:"kind"`         // KindSaved
	V           int64          `json:"v"`            // Version
	Genesis     kernel.Genesis `json:"genesis"`      // the first record's body
	Head        kernel.Head    `json:"head"`         // last record that is folded
	RecordTime  int64          `json:"record_time"`  // of that record, Unix milliseconds
	Records     int64          `json:"records"`      // count of the folded records that aren't neutral
	State       WorldSnapshot  `json:"state"`        // with its hash
	SettledTime int64          `json:"settled_time"` // of the last settled round, Unix milliseconds
	Receipt     *RoundReceipt  `json:"receipt"`      // of that round, null before the first
	Archived    []*Task        `json:"archived"`     // by number
	Beside      SavedBeside    `json:"beside"`       // what is folded with the state and no part of it
}

// Save is what the kernel has folded. Inside a round it is [ErrOrder]. The lists are
// shared with the kernel, which replaces them and never writes to them.
func (k *Kernel) Save() (Saved, error) {
	f := k.fold
	if !f.now.empty() {
		return Saved{}, refuse(ErrOrder, nil, "a world is saved between two rounds")
	}
	state := f.snapshot()
	state.StateHash = f.hash
	state.Members, state.ActiveContracts = slices.Clone(f.members), slices.Clone(f.contracts)
	archived := make([]*Task, len(f.tasks.archived))
	for i, k := range f.tasks.archived {
		archived[i] = &k.Task
	}
	return Saved{
		Kind: KindSaved, V: Version, Genesis: f.config.Genesis(), Head: k.head, RecordTime: k.time, Records: k.version,
		State: state, SettledTime: f.time, Receipt: k.receipt, Archived: archived,
		Beside: k.beside.save(),
	}, nil
}

// empty reports whether nothing of a round is under way.
func (c current) empty() bool {
	return c.records == 0 && len(c.observed)+len(c.packs)+len(c.actions)+len(c.done)+len(c.charges) == 0
}

// Restore is the kernel that was saved: it takes the same records next, and makes the
// same receipts of them. What contradicts itself is refused.
func Restore(s Saved) (*Kernel, error) {
	k, err := New(ConfigOf(s.Genesis, s.State.Instance))
	if err != nil {
		return nil, err
	}
	f := k.fold
	f.round, f.seed, f.time, f.hash = s.State.RoundID, s.State.Seed, s.SettledTime, s.State.StateHash
	f.members, f.land, f.contracts, f.archive = s.State.Members, s.State.Land.Reserved, s.State.ActiveContracts, s.State.Archive
	f.pauses, f.acted = s.State.Pauses, s.State.Acted
	for _, t := range s.State.Tasks {
		f.tasks.live = append(f.tasks.live, &known{Task: t})
	}
	for _, t := range s.Archived {
		if t != nil {
			f.tasks.archived = append(f.tasks.archived, &known{Task: *t, archived: true})
		}
	}
	k.beside = s.Beside.restore()
	k.head, k.time, k.version, k.receipt = s.Head, s.RecordTime, s.Records, s.Receipt
	hash, err := f.stateHash()
	switch {
	case err != nil:
		return nil, refuse(ErrBody, err, "the saved world")
	case s.Kind != KindSaved || s.V != Version || s.State.WorldID != s.Genesis.World:
		return nil, refuse(ErrForeign, nil, "it is no saved world of version %d", Version)
	case hash != s.State.StateHash:
		return nil, refuse(ErrForeign, nil, "the saved state has another hash than it says")
	case slices.Contains(s.Archived, nil) || !inOrder(f.tasks.live) || !inOrder(f.tasks.archived):
		return nil, refuse(ErrForeign, nil, "the saved tasks are out of order")
	}
	return k, nil
}

func inOrder(list []*known) bool {
	return slices.IsSortedFunc(list, func(a, b *known) int { return int(a.Number - b.Number) })
}
