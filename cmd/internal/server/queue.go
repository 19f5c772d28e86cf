package server

import (
	"cmp"
	"slices"
	"sync"

	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/kernel"
)

// ActQueue asks a running server for what waits.
const ActQueue = "queue"

// Why a task waits that has no place in the line for a build slot.
const (
	waitLimits  = "limits"   // its forge limits what is asked of it
	waitBackOff = "back-off" // its next attempt is due later
	waitHeld    = "held"     // another runner has its lease
)

// WaitWords explain each reason to a person.
var WaitWords = map[string]string{
	scheduler.WaitSlots: "all build slots are in use (server.builds)", scheduler.WaitWorld: "its repository's build slots are in use (server.builds_per_world)",
	scheduler.WaitPaths: "another task holds some of its paths", scheduler.WaitPause: "a person's pause", scheduler.WaitServer: "its git server or forge can't be asked, for a reason that /readyz says, or is slow to answer",
	scheduler.WaitTurn: "it starts now", waitLimits: "the forge's limits", waitBackOff: "its next attempt is due later", waitHeld: "another runner works on it",
}

// QueueWords say on an issue why its task waits for a build slot.
var QueueWords = map[string]string{
	scheduler.WaitSlots:  "All build slots of the server are in use.",
	scheduler.WaitWorld:  "All build slots that the server keeps for this repository are in use.",
	scheduler.WaitPaths:  "Another task works on some of its paths.",
	scheduler.WaitPause:  "A person has paused the server, or this repository on it.",
	scheduler.WaitServer: "The repository's server, or its forge, can't be asked now.",
}

// maxQueued is how many tasks an answer lists, so that it stays a page.
const maxQueued = 1000

// Queue is the answer.
type Queue struct {
	Kind    string       `json:"kind"` // "queue"
	Builds  int          `json:"builds"`
	Of      int64        `json:"builds_of"`
	Total   int          `json:"waiting_total"`
	Waiting []QueuedTask `json:"waiting"` // at most maxQueued
}

// QueuedTask is a task that waits.
type QueuedTask struct {
	World      string `json:"world_id"`
	Repository string `json:"repository"`
	Task       int64  `json:"task_id"`
	Why        string `json:"why"`
	Place      int    `json:"place"` // in its repository's line for a build slot, from 1; 0 outside it
	Until      string `json:"until"` // UTC, ISO 8601; "" where nobody knows
}

// taskWaits remembers of tasks that were looked at why they are looked at later. The
// zero value is ready.
type taskWaits struct {
	mu sync.Mutex
	of map[scheduler.Key]taskWait
}

type taskWait struct {
	why   string
	until int64 // Unix milliseconds
}

// note takes what a look came to; an empty result forgets.
func (t *taskWaits) note(k scheduler.Key, r scheduler.Result) {
	why := map[string]string{
		outcomeLimited: waitLimits, outcomeUnable: scheduler.WaitServer,
		string(kernel.StandDue): waitBackOff, string(kernel.StandHeld): waitHeld,
	}[r.Outcome]
	t.mu.Lock()
	defer t.mu.Unlock()
	if why == "" || r.Ended || r.Next == 0 {
		delete(t.of, k)
		return
	}
	if t.of == nil {
		t.of = map[scheduler.Key]taskWait{}
	}
	t.of[k] = taskWait{why, r.Next}
}

// waiting lists what waits: the line for build slots, and what is looked at later for
// a reason of its own.
func (s *server) waiting() []QueuedTask {
	out := []QueuedTask{}
	if s.sched == nil {
		return out
	}
	inLine := map[scheduler.Key]bool{}
	for _, w := range s.sched.Queue() {
		inLine[w.Key] = true
		out = append(out, s.queuedTask(w.Key, w.Why, w.Place, 0))
	}
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	for k, w := range s.waits.of {
		if !inLine[k] {
			out = append(out, s.queuedTask(k, w.why, 0, w.until))
		}
	}
	slices.SortFunc(out, func(a, b QueuedTask) int {
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Task, b.Task))
	})
	return out
}

// numbers are shown by /readyz: slots in use, and tasks that wait for one or for something
// else.
func (s *server) numbers() map[string]int64 {
	out := map[string]int64{"builds_of": s.cfg.Server.Builds, "builds": 0, "waiting": 0, "waiting_for_build": 0}
	if s.sched == nil {
		return out
	}
	l := s.sched.Load()
	out["builds"], out["waiting_for_build"], out["waiting"] = int64(l.BuildSlots), int64(l.Waiting), int64(len(s.waiting()))
	return out
}

func (s *server) queuedTask(k scheduler.Key, why string, place int, until int64) QueuedTask {
	t := QueuedTask{World: k.World, Repository: cmp.Or(s.runs.called(k.World), k.World), Task: k.Task, Why: why, Place: place}
	if until > 0 {
		t.Until = kernel.Timestamp(until / 1000)
	}
	return t
}
