package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/writbot/writ/kernel"
)

// SpentVersion is the version of the shape of [Spent].
const SpentVersion = 1

// Spent is who spent what, as one instance's records say it.
type Spent struct {
	Kind   string       `json:"kind"` // "usage"
	V      int64        `json:"v"`
	Since  string       `json:"since"` // UTC, ISO 8601: runs that began before it are left out; "" for none
	Total  Sum          `json:"total"`
	Worlds []SpentWorld `json:"worlds"`
}

// SpentWorld is what was spent in one world.
type SpentWorld struct {
	World      string      `json:"world_id"`
	Repository string      `json:"repository"` // what people call it, "" where that isn't known
	Total      Sum         `json:"total"`
	Tasks      []SpentTask `json:"tasks"` // by number
}

// SpentTask is what was spent on one task.
type SpentTask struct {
	Task  int64      `json:"task_id"`
	Total Sum        `json:"total"`
	Runs  []SpentRun `json:"runs"` // in the order of their beginnings
}

// SpentRun is what one run of a builder used.
type SpentRun struct {
	Run     string `json:"run_id"`
	Attempt int64  `json:"attempt"`
	Builder string `json:"builder"` // "" where its end isn't recorded
	Started string `json:"started"` // UTC, ISO 8601
	// Ended says that the builder's end is recorded. Of one that runs still, or whose end
	// nobody saw, it isn't known what it used.
	Ended  bool           `json:"ended"`
	WallMs int64          `json:"wall_ms"`
	Models []kernel.Usage `json:"models"` // none where no provider was asked

	started int64 // Unix milliseconds
}

// Sum is a number of runs together. Unpriced are the models that had no price: what they
// cost isn't known, and is in no cost.
type Sum struct {
	Runs       int64    `json:"runs"`
	NotEnded   int64    `json:"not_ended"` // of these: what they used isn't known
	WallMs     int64    `json:"wall_ms"`
	Requests   int64    `json:"requests"`
	Input      int64    `json:"input"`
	CacheRead  int64    `json:"cache_read"`
	CacheWrite int64    `json:"cache_write"`
	Output     int64    `json:"output"`
	Costs      []Cost   `json:"costs"` // by currency
	Unpriced   []string `json:"unpriced"`
}

// Cost is a sum in one currency.
type Cost struct {
	Currency string `json:"currency"`
	Micro    int64  `json:"cost_micro"` // millionths of it
}

// NewSpent is nothing yet. Since is in Unix milliseconds, 0 for all that there is.
func NewSpent(since int64) *Spent {
	s := &Spent{Kind: "usage", V: SpentVersion, Worlds: []SpentWorld{}, Total: newSum()}
	if since > 0 {
		s.Since = kernel.Timestamp(since / 1000)
	}
	return s
}

// SpentFold takes in the records of one world, in their order.
type SpentFold struct {
	runs  map[string]*SpentRun
	tasks map[int64][]*SpentRun
}

// NewSpentFold has seen no record.
func NewSpentFold() *SpentFold {
	return &SpentFold{runs: map[string]*SpentRun{}, tasks: map[int64][]*SpentRun{}}
}

// Take takes in one record. A run that was dispatched begins with that; one whose program
// never started is none.
func (f *SpentFold) Take(r kernel.Record) error {
	switch r.Kind {
	case kernel.KindDispatch:
		var d kernel.Dispatch
		if err := json.Unmarshal(r.Body, &d); err != nil {
			return err
		}
		f.run(r).Attempt = d.Attempt
	case kernel.KindOutcome:
		var o kernel.Outcome
		if err := json.Unmarshal(r.Body, &o); err != nil {
			return err
		}
		if o.Effect == kernel.ActionDispatch && o.Status == kernel.OutcomeFailed && f.runs[r.Run] != nil {
			f.tasks[r.Task] = slices.DeleteFunc(f.tasks[r.Task], func(x *SpentRun) bool { return x.Run == r.Run })
			delete(f.runs, r.Run)
		}
	case kernel.KindBuilderResult:
		var b kernel.BuilderResult
		if err := json.Unmarshal(r.Body, &b); err != nil {
			return err
		}
		if b.Run != r.Run { // what the run that it goes on with left, recorded before
			return nil
		}
		x := f.run(r)
		x.Builder, x.Ended, x.WallMs = b.Builder, true, max(b.Ended-b.Started, 0)
		if b.Egress != nil {
			x.Models = append([]kernel.Usage{}, b.Egress.Usage...)
		}
	}
	return nil
}

func (f *SpentFold) run(r kernel.Record) *SpentRun {
	x := f.runs[r.Run]
	if x == nil {
		x = &SpentRun{Run: r.Run, started: r.Time, Started: kernel.Timestamp(r.Time / 1000), Models: []kernel.Usage{}}
		f.runs[r.Run], f.tasks[r.Task] = x, append(f.tasks[r.Task], x)
	}
	return x
}

// Add adds a world's records. Nothing is added of a world without a run.
func (s *Spent) Add(world, repository string, f *SpentFold, since int64) {
	w := SpentWorld{World: world, Repository: repository, Tasks: []SpentTask{}, Total: newSum()}
	for _, n := range slices.Sorted(maps.Keys(f.tasks)) {
		t := SpentTask{Task: n, Runs: []SpentRun{}, Total: newSum()}
		for _, r := range f.tasks[n] {
			if r.started < since {
				continue
			}
			t.Runs = append(t.Runs, *r)
			for _, sum := range []*Sum{&t.Total, &w.Total, &s.Total} {
				sum.add(*r)
			}
		}
		if len(t.Runs) > 0 {
			w.Tasks = append(w.Tasks, t)
		}
	}
	if len(w.Tasks) > 0 {
		s.Worlds = append(s.Worlds, w)
	}
}

func newSum() Sum { return Sum{Costs: []Cost{}, Unpriced: []string{}} }

func (s *Sum) add(r SpentRun) {
	s.Runs++
	s.WallMs += r.WallMs
	if !r.Ended {
		s.NotEnded++
	}
	for _, u := range r.Models {
		s.Requests += u.Requests
		for _, n := range []struct {
			to   *int64
			more int64
		}{{&s.Input, u.Input}, {&s.CacheRead, u.CacheRead}, {&s.CacheWrite, u.CacheWrite}, {&s.Output, u.Output}} {
			*n.to = min(*n.to+n.more, kernel.MaxCost)
		}
		s.addCost(u)
	}
}

func (s *Sum) addCost(u kernel.Usage) {
	if u.Price == nil {
		if at, found := slices.BinarySearch(s.Unpriced, u.Model); !found {
			s.Unpriced = slices.Insert(s.Unpriced, at, u.Model)
		}
		return
	}
	at, found := slices.BinarySearchFunc(s.Costs, u.Price.Currency, func(c Cost, name string) int { return strings.Compare(c.Currency, name) })
	if !found {
		s.Costs = slices.Insert(s.Costs, at, Cost{Currency: u.Price.Currency})
	}
	s.Costs[at].Micro = min(s.Costs[at].Micro+u.Cost, kernel.MaxCost)
}

// Plain is the same as a table: a line for each model of each run, and one for each world.
func (s *Spent) Plain() string {
	if len(s.Worlds) == 0 {
		return "no run is recorded\n"
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "task\tattempt\trun\tbegan\twall\tmodel\trequests\tinput\tcache read\tcache write\toutput\tcost")
	for _, w := range s.Worlds {
		name := w.Repository
		if name == "" {
			name = w.World
		}
		for _, task := range w.Tasks {
			for _, r := range task.Runs {
				r.lines(t, fmt.Sprintf("%s#%d", name, task.Task))
			}
		}
		w.Total.line(t, name+": "+Counted(w.Total.Runs, "run"))
	}
	if len(s.Worlds) > 1 {
		s.Total.line(t, "all: "+Counted(s.Total.Runs, "run"))
	}
	_ = t.Flush() // a string takes everything
	if s.Total.NotEnded > 0 {
		fmt.Fprintf(&b, "\nOf %s the end isn't recorded, and what they used isn't known: they run still, or were interrupted.\n", Counted(s.Total.NotEnded, "run"))
	}
	return b.String()
}

func (r SpentRun) lines(t *tabwriter.Writer, task string) {
	head := fmt.Sprintf("%s\t%d\t%s\t%s\t%s", task, r.Attempt, Clean(r.Run), r.Started, wall(r.WallMs))
	switch {
	case !r.Ended:
		fmt.Fprintf(t, "%s\tnot ended\t\t\t\t\t\t\n", head)
	case len(r.Models) == 0:
		fmt.Fprintf(t, "%s\t-\t0\t0\t0\t0\t0\t\n", head)
	}
	for _, u := range r.Models {
		cost := "no price"
		if u.Price != nil {
			cost = kernel.Money(u.Cost) + " " + u.Price.Currency
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", head, Clean(u.Model), u.Requests, u.Input, u.CacheRead, u.CacheWrite, u.Output, cost)
	}
}

func (s Sum) line(t *tabwriter.Writer, name string) {
	var costs []string
	for _, c := range s.Costs {
		costs = append(costs, kernel.Money(c.Micro)+" "+c.Currency)
	}
	if len(s.Unpriced) > 0 {
		costs = append(costs, "no price for "+Clean(strings.Join(s.Unpriced, ", ")))
	}
	fmt.Fprintf(t, "%s\t\t\t\t%s\t\t%d\t%d\t%d\t%d\t%d\t%s\n", name, wall(s.WallMs), s.Requests, s.Input, s.CacheRead, s.CacheWrite, s.Output, strings.Join(costs, "; "))
}

// wall writes a time in seconds.
func wall(ms int64) string { return fmt.Sprintf("%d.%ds", ms/1000, ms%1000/100) }
