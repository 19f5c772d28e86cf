package world

import (
	"cmp"
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// fold is the engine: the state of a world and the round it is in. Facade and
// direct fold are both this and nothing else (REQUIREMENTS WK35).
//
// A task behind a pointer is never changed, only replaced, so that a clone
// shares them.
type fold struct {
	config    WorldConfig
	codec     *canon.Codec // shared by all clones; one at a time uses it
	round     int64        // last settled
	seed      int64        // of it
	time      int64        // of it
	hash      canon.Digest // state hash after it
	members   []Member     // by name
	tasks     []*Task      // by number, those that aren't archived
	archived  []*Task      // by number; never written to, only replaced
	archive   Archive
	land      []Reservation
	contracts []Contract
	now       current
}

// current is what the round under way has brought so far. It isn't part of the
// state: settling turns it into state.
type current struct {
	records  int64
	observed []observed        // one for each task, in order of arrival
	packs    []kernel.SeedPack // one for each task
	actions  []action          // judged in this round
	done     []effect          // effects that came to be
	charges  []charge          // of members' counters
}

// effect is a task's effect that came to be in this round.
type effect struct {
	task int64
	OpenIntent
}

// observed is the last observation of a task in this round.
type observed struct {
	task  int64
	hash  canon.Digest
	facts kernel.Facts
	stale bool // an effect of ours came to be after it
}

// action is a builder's outcome that a decision of this round took in.
type action struct {
	task     int64
	agent    string
	key      string
	code     canon.Digest
	accepted bool
	error    kernel.Code
}

func (a action) id() string { return actionID(a.agent, a.key) }

// actionID scopes an idempotency key to its agent.
func actionID(agent, key string) string { return agent + ":" + key }

// counter is one of a member's counters.
type counter int

const (
	countDispatched counter = iota
	countAccepted
	countRejected
	countInterrupted
)

type charge struct {
	member  string
	counter counter
}

func (s Stats) plus(c counter) Stats {
	switch c {
	case countDispatched:
		s.Dispatched++
	case countAccepted:
		s.Accepted++
	case countRejected:
		s.Rejected++
	case countInterrupted:
		s.Interrupted++
	}
	return s
}

// newFold is the state at genesis.
func newFold(c WorldConfig) (*fold, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = ConfigOf(c.Genesis(), c.Instance) // sorted, with its seed
	f := &fold{config: c, codec: &canon.Codec{}, seed: *c.RandomSeed}
	for _, name := range c.Members {
		f.members = append(f.members, Member{Name: name})
	}
	if c.GovernanceHash != "" {
		f.contracts = []Contract{{GovernanceHash: c.GovernanceHash}}
	}
	var err error
	f.hash, err = f.stateHash()
	return f, err
}

// clone is a fold that can go its own way.
func (f *fold) clone() *fold {
	c := *f
	c.members = slices.Clone(f.members)
	c.tasks = slices.Clone(f.tasks)
	c.land = slices.Clone(f.land)
	c.contracts = slices.Clone(f.contracts)
	c.now.observed = slices.Clone(f.now.observed)
	c.now.packs = slices.Clone(f.now.packs)
	c.now.actions = slices.Clone(f.now.actions)
	c.now.done = slices.Clone(f.now.done)
	c.now.charges = slices.Clone(f.now.charges)
	return &c
}

func find(list []*Task, number int64) (int, bool) {
	return slices.BinarySearchFunc(list, number, func(t *Task, n int64) int { return cmp.Compare(t.Number, n) })
}

// task is a copy of a task; a new one if it isn't known yet. Its lists are
// shared with the state: they are replaced, never written to.
func (f *fold) task(number int64) Task {
	t, _ := f.known(number)
	return t
}

func (f *fold) known(number int64) (Task, bool) {
	if i, ok := find(f.tasks, number); ok {
		return *f.tasks[i], true
	}
	if i, ok := find(f.archived, number); ok {
		return *f.archived[i], true
	}
	return Task{Number: number}, false
}

// put replaces a task; one that was archived comes back.
func (f *fold) put(t Task) {
	i, ok := find(f.tasks, t.Number)
	if ok {
		f.tasks[i] = &t
		return
	}
	f.tasks = slices.Insert(f.tasks, i, &t)
	if i, ok := find(f.archived, t.Number); ok {
		f.archived = slices.Concat(f.archived[:i], f.archived[i+1:])
	}
}

// all are the known tasks, the archived ones last.
func (f *fold) all() []*Task { return slices.Concat(f.tasks, f.archived) }

// putAway archives the tasks that need nothing more.
func (f *fold) putAway() error {
	var left []*Task
	for _, t := range f.tasks {
		if t.State != kernel.TaskCompleted || t.live() || t.Halted || len(t.Intents) > 0 {
			left = append(left, t)
			continue
		}
		hash, err := f.codec.Hash(Archived{Kind: KindArchived, Prev: f.archive.Hash, Task: *t})
		if err != nil {
			return err
		}
		f.archive = Archive{Count: f.archive.Count + 1, Hash: hash}
		i, _ := find(f.archived, t.Number)
		f.archived = slices.Concat(f.archived[:i], []*Task{t}, f.archived[i:])
	}
	f.tasks = left
	return nil
}

// member is the place of a builder; one that came after genesis is added.
func (f *fold) member(name string) int {
	i, ok := slices.BinarySearchFunc(f.members, name, func(m Member, n string) int { return strings.Compare(m.Name, n) })
	if !ok {
		f.members = slices.Insert(f.members, i, Member{Name: name})
	}
	return i
}

func (f *fold) stats(name string) Stats {
	for _, m := range f.members {
		if m.Name == name {
			return m.Stats
		}
	}
	return Stats{}
}

// live reports whether this instance holds a run of the task.
func (t *Task) live() bool { return t.Run.ID != "" && !t.Run.Over }

// reserved is the land that live tasks hold, without one of them.
func (f *fold) reserved(but int64) (list []Reservation, paths int64) {
	for _, t := range f.tasks {
		if t.live() && t.Number != but {
			list = append(list, Reservation{t.Number, t.AllowedFiles})
			paths += int64(len(t.AllowedFiles))
		}
	}
	return list, paths
}

// snapshot shares its lists with the state.
func (f *fold) snapshot() WorldSnapshot {
	tasks := make([]Task, len(f.tasks))
	for i, t := range f.tasks {
		tasks[i] = *t
	}
	return WorldSnapshot{
		Kind: KindSnapshot, V: Version, WorldID: f.config.WorldID, Instance: f.config.Instance,
		RoundID: f.round, Seed: f.seed, Members: f.members,
		Land:  Land{Shape: f.config.LandShape, Reserved: f.land},
		Tasks: tasks, Archive: f.archive, ActiveContracts: f.contracts,
		PhysicsConstraints: []Constraint{
			{Name: "kernel_version", Text: f.config.KernelVersion},
			{Name: "max_depth", Value: f.config.LandShape[1]},
			{Name: "max_paths", Value: f.config.LandShape[0]},
		},
	}
}

// stateHash equals snapshot().Hash().
func (f *fold) stateHash() (canon.Digest, error) {
	b, err := f.codec.Marshal(f.snapshot())
	if err != nil {
		return "", err
	}
	return canon.Sum(b), nil
}

// copySnapshot shares nothing with the state.
func (f *fold) copySnapshot() (WorldSnapshot, error) {
	b, err := f.codec.Marshal(f.snapshot())
	if err != nil {
		return WorldSnapshot{}, err
	}
	var s WorldSnapshot
	if err := f.codec.UnmarshalCanonical(b, &s); err != nil {
		return WorldSnapshot{}, err
	}
	s.StateHash = canon.Sum(b)
	return s, nil
}
