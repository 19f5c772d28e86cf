package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/store"
)

// model is what the inbox must be like, in memory and simple.
type model struct {
	tasks      map[Key]task
	deliveries map[string]int // how often each came
	evidence   map[Evidence]string
}

// task is one of the model: its earliest mark that no look has answered yet,
// and what it was taken with.
type task struct{ due, taken int64 }

func newModel() *model {
	return &model{tasks: map[Key]task{}, deliveries: map[string]int{}, evidence: map[Evidence]string{}}
}

func (m *model) clone() *model {
	return &model{tasks: maps.Clone(m.tasks), deliveries: maps.Clone(m.deliveries), evidence: maps.Clone(m.evidence)}
}

func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// step is one thing that is done to both.
type step struct {
	op   string // accept, mark, take, done, recover
	id   string // of a delivery
	keys []Key
	at   int64
}

func (s step) String() string { return fmt.Sprintf("%s %s %v %d", s.op, s.id, s.keys, s.at) }

// apply does it to the model.
func (m *model) apply(s step) {
	switch s.op {
	case "accept":
		if m.deliveries[s.id]++; m.deliveries[s.id] == 1 {
			for _, e := range s.evidence() {
				if m.evidence[e] == "" {
					m.evidence[e] = s.id
				}
			}
		}
		fallthrough
	case "mark":
		for _, k := range s.keys {
			t := m.tasks[k]
			t.due = earlier(t.due, s.at)
			m.tasks[k] = t
		}
	case "take":
		if t := m.tasks[s.keys[0]]; t.due != 0 && t.taken == 0 {
			m.tasks[s.keys[0]] = task{taken: t.due}
		}
	case "done":
		if t := m.tasks[s.keys[0]]; t.taken != 0 {
			m.tasks[s.keys[0]] = task{due: earlier(t.due, s.at)}
		}
	case "recover":
		for k, t := range m.tasks {
			m.tasks[k] = task{due: earlier(t.due, t.taken)}
		}
	}
}

// evidence of an accepted delivery: each task's, as if its body said so.
func (s step) evidence() (all []Evidence) {
	for _, k := range s.keys {
		all = append(all, Evidence{World: k.World, Task: k.Task, Kind: "label", ActorID: "17", Digest: "sha256:00", EventMs: s.at % 3})
	}
	return all
}

// run does it to the inbox. Tickets are the process's.
func (s step) run(in *Inbox, tickets map[Key]Ticket) (err error) {
	ctx := context.Background()
	switch s.op {
	case "accept":
		d := delivery(s.id, s.at)
		d.Evidence = s.evidence()
		_, err = in.Accept(ctx, d, s.keys)
	case "mark":
		err = in.Mark(ctx, s.keys, s.at)
	case "take":
		t, ok, takeErr := in.Take(ctx, s.keys[0])
		if err = takeErr; ok {
			tickets[s.keys[0]] = t
		}
	case "done":
		if t, ok := tickets[s.keys[0]]; ok {
			err = in.Done(ctx, t, s.at)
			delete(tickets, s.keys[0])
		}
	case "recover":
		clear(tickets)
		_, err = in.Recover(ctx)
	}
	return err
}

// text is all that the model holds, for comparing.
func (m *model) text() string {
	var lines []string
	for k, t := range m.tasks {
		lines = append(lines, fmt.Sprintf("task %s %d due %d taken %d", k.World, k.Task, t.due, t.taken))
	}
	for id, n := range m.deliveries {
		lines = append(lines, fmt.Sprintf("delivery %s %d body true", id, n))
	}
	for e, id := range m.evidence {
		lines = append(lines, fmt.Sprintf("evidence %s %d %d %s", e.World, e.Task, e.EventMs, id))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// stored is all that the file holds, in the same form.
func stored(s store.Store) (string, error) {
	var lines []string
	err := s.View(context.Background(), func(q store.Queries) error {
		return errors.Join(
			q.Rows(`SELECT world, task, due_ms, taken_ms FROM schedule`, nil, func(r store.Row) error {
				var k Key
				var t task
				err := r.Scan(&k.World, &k.Task, &t.due, &t.taken)
				lines = append(lines, fmt.Sprintf("task %s %d due %d taken %d", k.World, k.Task, t.due, t.taken))
				return err
			}),
			q.Rows(`SELECT delivery, arrivals, (SELECT count(*) FROM payloads p WHERE p.delivery = d.id) FROM deliveries d`, nil, func(r store.Row) error {
				var id string
				var n, bodies int64
				err := r.Scan(&id, &n, &bodies)
				lines = append(lines, fmt.Sprintf("delivery %s %d body %v", id, n, bodies == 1))
				return err
			}),
			q.Rows(`SELECT e.world, e.task, e.event_ms, d.delivery FROM evidence e JOIN deliveries d ON d.id = e.delivery`, nil, func(r store.Row) error {
				var e Evidence
				var id string
				err := r.Scan(&e.World, &e.Task, &e.EventMs, &id)
				lines = append(lines, fmt.Sprintf("evidence %s %d %d %s", e.World, e.Task, e.EventMs, id))
				return err
			}))
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n"), err
}

// taken are such tasks, in an order of their own.
func (m *model) taken() (keys []Key) {
	for k, t := range m.tasks {
		if t.taken != 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Task, b.Task))
	})
	return keys
}

// due is the model's answer to Due.
func (m *model) due(now int64, limit int) (all []Due) {
	lines := map[string][]Due{}
	for k, t := range m.tasks {
		if t.taken == 0 && t.due != 0 && t.due <= now {
			lines[k.World] = append(lines[k.World], Due{k, t.due})
		}
	}
	order := func(a, b Due) int {
		return cmp.Or(cmp.Compare(a.DueMs, b.DueMs), cmp.Compare(a.Key.World, b.Key.World), cmp.Compare(a.Key.Task, b.Key.Task))
	}
	for turn := 0; ; turn++ {
		var round []Due
		for _, line := range lines {
			if slices.SortFunc(line, order); turn < len(line) {
				round = append(round, line[turn])
			}
		}
		if len(round) == 0 || len(all) >= limit {
			return all[:min(limit, len(all))]
		}
		slices.SortFunc(round, order)
		all = append(all, round...)
	}
}
