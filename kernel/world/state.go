package world

import (
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// fold is the engine: the state of a world and the round it is in. Facade and
// direct fold are both this and nothing else (conformance WK35).
//
// What is behind a pointer or in a list is replaced, never written to, so that a fork
// shares it.
type fold struct {
	config    WorldConfig
	round     int64        // last settled
	seed      int64        // of it
	time      int64        // of it
	hash      canon.Digest // state hash after it
	members   []Member     // by name
	tasks     tasks
	archive   Archive
	land      []Reservation
	contracts []Contract
	pauses    []Pause
	acted     []string // ids of the last acts on the whole world
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

// action is what wants to change the world and is to be accepted or rejected before the
// round is settled: a builder's outcome that a decision of this round took in, or a
// person's act.
type action struct {
	task     int64
	agent    string
	round    int64
	key      string
	code     canon.Digest
	act      *kernel.OperatorAct // nil of a builder's outcome
	answered bool                // it was accepted or rejected
	accepted bool                // of a builder's outcome the decision's word
	error    kernel.Code
}

func (a action) id() string { return actionID(a.agent, a.key) }

// actionID scopes an idempotency key to its agent.
func actionID(agent, key string) string { return agent + ":" + key }

// agentOf is a person as an agent, so that nobody is taken for a builder of the same name.
func agentOf(actor string) string { return "person:" + actor }

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
	f := &fold{config: c, seed: *c.RandomSeed}
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

// fork is a fold that can go its own way. It copies what the round has brought so far, and
// shares the world.
func (f *fold) fork() *fold {
	c := *f
	c.tasks.changed = slices.Clone(f.tasks.changed)
	c.now.observed = slices.Clone(f.now.observed)
	c.now.packs = slices.Clone(f.now.packs)
	c.now.actions = slices.Clone(f.now.actions)
	c.now.done = slices.Clone(f.now.done)
	c.now.charges = slices.Clone(f.now.charges)
	return &c
}

// task is a copy of a task; a new one if it isn't known yet. Its lists are
// shared with the state: they are replaced, never written to.
func (f *fold) task(number int64) Task {
	t, _ := f.known(number)
	return t
}

func (f *fold) known(number int64) (Task, bool) {
	if k := f.tasks.get(number); k != nil {
		return k.Task, true
	}
	return Task{Number: number}, false
}

// put replaces a task; one that was archived comes back.
func (f *fold) put(t Task) { f.tasks.put(&known{Task: t}) }

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
	f.tasks.each(func(k *known) {
		if k.live() && k.Number != but {
			list = append(list, Reservation{k.Number, k.AllowedFiles})
			paths += int64(len(k.AllowedFiles))
		}
	})
	return list, paths
}

// snapshot shares its lists with the state.
func (f *fold) snapshot() WorldSnapshot {
	s := f.frame()
	s.Tasks = make([]Task, 0, len(f.tasks.live))
	f.tasks.each(func(k *known) { s.Tasks = append(s.Tasks, k.Task) })
	return s
}

// frame is the snapshot without its tasks.
func (f *fold) frame() WorldSnapshot {
	return WorldSnapshot{
		Kind: KindSnapshot, V: Version, WorldID: f.config.WorldID, Instance: f.config.Instance,
		RoundID: f.round, Seed: f.seed, Members: f.members,
		Land:    Land{Shape: f.config.LandShape, Reserved: f.land},
		Archive: f.archive, ActiveContracts: f.contracts,
		PhysicsConstraints: []Constraint{
			{Name: "kernel_version", Text: f.config.KernelVersion},
			{Name: "max_depth", Value: f.config.LandShape[1]},
			{Name: "max_paths", Value: f.config.LandShape[0]},
		},
		Pauses: f.pauses, Acted: f.acted,
	}
}

// stateHash equals snapshot().Hash(). Of the tasks only those are encoded that changed
// since the last one.
func (f *fold) stateHash() (canon.Digest, error) {
	s := f.frame()
	tasks := make([]canon.Sealed, 0, len(f.tasks.live))
	var failed error
	f.tasks.each(func(k *known) {
		if k.sealed.Bytes() == nil && failed == nil {
			k.sealed, failed = canon.Seal(k.Task)
		}
		tasks = append(tasks, k.sealed)
	})
	if failed != nil {
		return "", failed
	}
	all, err := canon.Seal(struct { // as [WorldSnapshot], without StateHash
		Kind               string         `json:"kind"`
		V                  int64          `json:"v"`
		WorldID            string         `json:"world_id"`
		Instance           string         `json:"instance"`
		RoundID            int64          `json:"round_id"`
		Seed               int64          `json:"seed"`
		Members            []Member       `json:"members"`
		Land               Land           `json:"land"`
		Tasks              []canon.Sealed `json:"tasks"`
		Archive            Archive        `json:"archive"`
		ActiveMechanisms   []Mechanism    `json:"active_mechanisms"`
		ActiveContracts    []Contract     `json:"active_contracts"`
		PhysicsConstraints []Constraint   `json:"physics_constraints"`
		Pauses             []Pause        `json:"pauses,omitempty"`
		Acted              []string       `json:"acted,omitempty"`
	}{s.Kind, s.V, s.WorldID, s.Instance, s.RoundID, s.Seed, s.Members, s.Land, tasks, s.Archive,
		s.ActiveMechanisms, s.ActiveContracts, s.PhysicsConstraints, s.Pauses, s.Acted})
	return all.Hash(), err
}

// copySnapshot shares nothing with the state.
func (f *fold) copySnapshot() (WorldSnapshot, error) {
	b, err := canon.Marshal(f.snapshot())
	if err != nil {
		return WorldSnapshot{}, err
	}
	var s WorldSnapshot
	if err := canon.UnmarshalCanonical(b, &s); err != nil {
		return WorldSnapshot{}, err
	}
	s.StateHash = canon.Sum(b)
	return s, nil
}
