package world

import (
	"maps"
	"slices"

	"github.com/writbot/writ/kernel"
)

// spending is what runs of a world spent and have reserved, by the records alone: whoever
// folds them comes to the same. It is told of by [Kernel.Pot].
//
// A claim that pays a builder reserves what its facts say that the attempt may use, with
// the intent of its push. The builder's result settles that: what was really used takes its
// place, also where it is recorded after the run's end. A run that is over and never started
// a builder holds nothing. Of one that was dispatched and whose end nobody recorded, all of
// it stays spent, once a look shows that HEAD isn't its lease any more.
type spending struct {
	total kernel.Spend
	tasks map[int64]spentBy
	days  map[int64]kernel.Spend // the last keptDays
	holds map[string]hold        // by run
	asked map[int64]kernel.Spend // by task: of the look under way
}

// spentBy is what a task spent, and the run that was settled last: a result that is recorded
// again counts once.
type spentBy struct {
	spend kernel.Spend
	run   string
}

// hold is what a run has reserved.
type hold struct {
	task, day int64
	spend     kernel.Spend
	started   bool // its builder was dispatched
}

// keptDays is of how many days it is known what was spent on them: no claim asks for another
// day than that of its own time, which never goes back.
const keptDays = 2

func newSpending() *spending {
	return &spending{tasks: map[int64]spentBy{}, days: map[int64]kernel.Spend{}, holds: map[string]hold{}, asked: map[int64]kernel.Spend{}}
}

// note takes in what a record says.
func (s *spending) note(task int64, run string, now int64, said any) {
	switch v := said.(type) {
	case kernel.Facts:
		s.leave(task, v)
		if delete(s.asked, task); v.Budget != nil && v.Pays() {
			spend := v.Budget.Attempt
			if v.Budget.Unshared {
				spend = kernel.Spend{Time: spend.Time}
			}
			s.asked[task] = spend
		}
	case kernel.Intent:
		s.intends(task, run, now, v)
	case kernel.Outcome:
		if v.Effect == kernel.ActionDispatch && v.Status == kernel.OutcomeFailed {
			delete(s.holds, run)
		}
	case kernel.BuilderResult:
		if v.Run == run && s.tasks[task].run != run {
			s.settle(task, run, now, v)
		}
	}
}

// intends reserves with the claim of a run, and keeps it once its builder is dispatched.
func (s *spending) intends(task int64, run string, now int64, i kernel.Intent) {
	h, held := s.holds[run]
	switch i.Effect {
	case kernel.ActionClaim:
		maps.DeleteFunc(s.holds, func(r string, h hold) bool { return h.task == task && !h.started && r != run }) // a task has one run
		if spend := s.asked[task]; spend != (kernel.Spend{}) {
			s.holds[run] = hold{task: task, day: kernel.Day(now), spend: spend}
		}
	case kernel.ActionDispatch:
		if held {
			h.started = true
			s.holds[run] = h
		}
	}
}

// leave ends what runs of a task hold of which nobody works any more: this process has no
// such run, and HEAD isn't its lease, whoever moved it on.
func (s *spending) leave(task int64, f kernel.Facts) {
	for _, run := range slices.Sorted(maps.Keys(s.holds)) {
		h := s.holds[run]
		switch lease := f.Head.State == kernel.HeadWorking && f.Head.RunID == run; {
		case h.task != task, lease, f.Run != nil && f.Run.RunID == run:
		case h.started:
			s.spend(task, run, h.day, h.spend)
		default:
			delete(s.holds, run)
		}
	}
}

// settle counts what a run used, and how long its builder ran, on the day on which it was
// claimed. Where a model had no
// price its cost isn't known, and all that was reserved of that counts.
func (s *spending) settle(task int64, run string, now int64, r kernel.BuilderResult) {
	h, held := s.holds[run]
	if !held {
		h.day = kernel.Day(now)
	}
	var used kernel.Spend
	if r.Egress != nil {
		var priced bool
		if used, priced = kernel.SpendOf(r.Egress.Usage); !priced {
			used.Cost = max(used.Cost, h.spend.Cost)
		}
	}
	used.Time = min(max(r.Ended-r.Started, 0), kernel.MaxCost)
	s.spend(task, run, h.day, used)
}

// spend counts what a run used in place of what it held.
func (s *spending) spend(task int64, run string, day int64, used kernel.Spend) {
	delete(s.holds, run)
	s.total, s.days[day] = s.total.Add(used), s.days[day].Add(used)
	s.tasks[task] = spentBy{s.tasks[task].spend.Add(used), run}
	for len(s.days) > keptDays {
		delete(s.days, slices.Min(slices.Collect(maps.Keys(s.days))))
	}
}

// Pot is what is used and held of a budget at a time, without the limit. Of the task itself
// no run is under way: it is to be claimed.
func (k *Kernel) Pot(scope string, task, now int64) kernel.Pot {
	s, p := k.beside.spent, kernel.Pot{Scope: scope}
	switch scope {
	case kernel.ScopeTask:
		p.Used = s.tasks[task].spend
	case kernel.ScopeWorld:
		p.Used = s.total
	case kernel.ScopeDay:
		p.Used = s.days[kernel.Day(now)]
	}
	for run, h := range s.holds {
		if scope == kernel.ScopeTask && h.task != task || scope == kernel.ScopeDay && h.day != kernel.Day(now) {
			continue
		}
		t := k.fold.task(h.task)
		switch live := t.live() && t.Run.ID == run && h.task != task; {
		case live:
			p.Held = p.Held.Add(h.spend)
		case h.started:
			p.Used = p.Used.Add(h.spend)
		}
	}
	return p
}

// SavedSpending is what was spent and is reserved. Lists are sorted by their first field.
type SavedSpending struct {
	Total kernel.Spend `json:"total"` // of all runs that were settled
	Tasks []SavedSpent `json:"tasks"` // of those of each task
	Days  []SavedDay   `json:"days"`  // of those of each of the last days
	Holds []SavedHold  `json:"holds"` // of runs that aren't settled
}

// SavedSpent is what a task spent.
type SavedSpent struct {
	Task  int64        `json:"task_id"` // number of the task
	Spend kernel.Spend `json:"spend"`   // by its settled runs
	Run   string       `json:"run_id"`  // that was settled last
}

// SavedDay is what was spent on a day.
type SavedDay struct {
	Day   int64        `json:"day"`   // UTC, from the first of January 1970
	Spend kernel.Spend `json:"spend"` // by the settled runs that were claimed on it
}

// SavedHold is what a run has reserved.
type SavedHold struct {
	Run     string       `json:"run_id"`  // that was claimed
	Task    int64        `json:"task_id"` // number of its task
	Day     int64        `json:"day"`     // on which it was claimed
	Spend   kernel.Spend `json:"spend"`   // that it may use
	Started bool         `json:"started"` // its builder was dispatched
}

func (s *spending) save() SavedSpending {
	return SavedSpending{
		Total: s.total,
		Tasks: sorted(s.tasks, func(n int64, t spentBy) SavedSpent { return SavedSpent{n, t.spend, t.run} }),
		Days:  sorted(s.days, func(n int64, spend kernel.Spend) SavedDay { return SavedDay{n, spend} }),
		Holds: sorted(s.holds, func(run string, h hold) SavedHold { return SavedHold{run, h.task, h.day, h.spend, h.started} }),
	}
}

func (s SavedSpending) restore() *spending {
	out := newSpending()
	out.total = s.Total
	for _, x := range s.Tasks {
		out.tasks[x.Task] = spentBy{x.Spend, x.Run}
	}
	for _, x := range s.Days {
		out.days[x.Day] = x.Spend
	}
	for _, x := range s.Holds {
		out.holds[x.Run] = hold{x.Task, x.Day, x.Spend, x.Started}
	}
	return out
}
