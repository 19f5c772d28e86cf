package supervisor

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/world"
)

// TestM1_EachStateIsSeen: SM7, SM13, SM19, SM26, SM30, SM32: what a request does, it does
// while its machine says so, and the world is free for others while the effect is out.
func TestM1_EachStateIsSeen(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), nil)
	var seen []string
	look := b.sup.seen
	b.sup.seen = func(task *Task, c *cycle, what string) {
		look(task, c, what)
		seen = append(seen, what+" in "+task.machine.State().String())
		if what == "effect" {
			if b.sup.mu.TryLock() {
				b.sup.mu.Unlock()
			} else {
				t.Error("the world is held while the effect is out")
			}
		} else if b.sup.mu.TryLock() {
			b.sup.mu.Unlock()
			t.Errorf("%s, and nobody holds the world", what)
		}
	}
	b.task.Close()
	task, err := b.sup.Open(t.Context(), 1, b.task.issues)
	must(t, err)
	b.task = task
	want(t, b.tick(), kernel.ActionClaim, kernel.OutcomeDone)
	want(t, b.tick(), kernel.ActionDispatch, kernel.OutcomeDone)
	seen = append(seen[:6:6], "")
	want(t, b.tick(), kernel.ActionJudge, "") // an append is all there is
	diff := cmp.Diff([]string{
		"loading in BOOTING",
		"validation in VALIDATING", "decision in ARBITRATING", "append in ARBITRATING", "effect in EXECUTING", "append in AUDITING", "",
		"validation in VALIDATING", "decision in ARBITRATING", "append in AUDITING",
	}, seen)
	if diff != "" {
		t.Error(diff)
	}
}

// lastEntry is the last audit entry of task 1.
func (b *bench) lastEntry() machine.Entry {
	if e := b.sup.world.LastEntry(1, b.sup.View(1).Epoch); e != nil {
		return *e
	}
	return machine.Entry{}
}

// TestM3_PanicAnywhere: SM46, SM48: a panic in validation, decision, effect or append
// halts the kernel of its task, with an entry from where it happened if one can be
// written; the next process goes on.
func TestM3_PanicAnywhere(t *testing.T) {
	t.Parallel()
	for what, last := range map[string]string{
		"validation": "VALIDATING", "decision": "ARBITRATING", "effect": "EXECUTING", "append": "",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, newRepo(t), nil)
			before := b.lastEntry()
			b.sup.seen = func(_ *Task, _ *cycle, at string) {
				if at == what {
					panic("in " + what)
				}
			}
			_, err := b.task.Tick(t.Context(), kernel.RequestTick, "alice")
			var caught *machine.PanicError
			if !errors.As(err, &caught) || Passing(err) || b.task.machine.State() != machine.Halted {
				t.Errorf("%v, in %v", err, b.task.machine.State())
			}
			e := b.lastEntry()
			if last == "" && e.Seq != before.Seq || last != "" && (e.StateFrom != last || e.StateTo != "HALTED" || e.Error.Code != machine.CodePanic) {
				t.Errorf("the last entry is %+v", e)
			}
			b.open()
			if st := b.tick(); !slices.Contains([]kernel.Action{kernel.ActionClaim, kernel.ActionTakeOver}, st.Decision.Action) {
				t.Errorf("the next process does %s: %v", st.Decision.Action, st.Decision.Violations)
			}
		})
	}
}

// TestWK16_WhatTheProgramHandsIn: WK16, WK17, WK28: the program's own requests bring actions
// with agent, round and key: what a builder left, judged either way, and what a person did.
// Each stands once in the receipt of the round in which it was taken in, and is answered.
func TestWK16_WhatTheProgramHandsIn(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		b := newBench(t, newRepo(t), func(b *bench) {
			if fails {
				b.exec.build = spoilt(func(o *executor.BuildOutcome) {
					o.Diff.Violations = []kernel.Violation{{Code: kernel.CodeScopeOutside, Subject: "out.txt"}}
				})
			}
		})
		b.reach(kernel.ActionJudge)
		must(t, b.sup.Halt(t.Context(), 1, "ana", "wait"))
		task, _ := b.sup.world.Task(1)
		var accepted, rejected []string
		for _, r := range b.records() {
			if r.Kind == kernel.KindReceipt {
				var one world.RoundReceipt
				must(t, canon.UnmarshalCanonical(r.Body, &one))
				accepted, rejected = append(accepted, one.AcceptedActionIDs...), append(rejected, one.RejectedActionIDs...)
			}
		}
		built, person := "default:"+task.Run.ID, task.Acted[len(task.Acted)-1]
		want, not := []string{built, person}, []string(nil)
		if fails {
			want, not = []string{person}, []string{built}
		}
		if diff := cmp.Diff([][]string{want, not}, [][]string{accepted, rejected}); diff != "" || !strings.HasPrefix(person, "person:ana:") {
			t.Errorf("accepted and rejected: %s", diff)
		}
		if a := task.Answers; len(a) != 1 || a[0].Key != task.Run.ID || (a[0].Error != nil) != fails || a[0].New == a[0].Old {
			t.Errorf("the answers are %+v", a)
		}
	}
}

// TestWK16_ActHandedOverTwice: an act that is handed over again, after a crash say, is the
// same act: it has its answer, changes nothing and is recorded once.
func TestWK16_ActHandedOverTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), nil)
	b.reach(kernel.ActionClaim)
	halt, resume := Act{Actor: "ana", Reason: "wait", Key: "1"}, Act{Actor: "ana", Reason: "go on", Key: "2"}
	must(t, b.sup.haltBy(t.Context(), 1, halt))
	must(t, b.sup.resumeBy(t.Context(), 1, resume))
	before, booted := len(b.records()), b.task.machine
	must(t, b.sup.haltBy(t.Context(), 1, halt))
	must(t, b.sup.resumeBy(t.Context(), 1, resume))
	if v := b.sup.View(1); v.Halted || v.Epoch != 1 || len(b.records()) != before || b.task.machine != booted {
		t.Errorf("handed over again: %+v, %d records more", v, len(b.records())-before)
	}
	halt.Key = "3"
	must(t, b.sup.haltBy(t.Context(), 1, halt))
	if !b.sup.View(1).Halted {
		t.Error("another halt doesn't halt")
	}
}

// TestM1_ActsAreRequests: SM10, SM38: what a person does to a task is a request of its own,
// with its entries and its record in one append, whether or not the task is driven. One
// that breaks a rule of the world is denied, and only that is recorded.
func TestM1_ActsAreRequests(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{true, false} {
		b := newBench(t, newRepo(t), nil)
		b.reach(kernel.ActionDispatch)
		if !open {
			b.task.Close()
		}
		for _, c := range []struct {
			intent string
			act    func() error
			allow  bool
		}{
			{kernel.ActHalt, func() error { return b.sup.Halt(t.Context(), 1, "ana", "wait") }, true},
			{kernel.ActPutBack, func() error {
				return b.sup.act(t.Context(), 1, kernel.OperatorAct{Act: kernel.ActPutBack, Actor: "ana", Head: "nothing"})
			}, false},
			{kernel.ActResume, func() error { return b.sup.Resume(t.Context(), 1, "ana", "go on") }, true},
		} {
			before := len(b.records())
			if err := c.act(); (err == nil) != c.allow {
				t.Errorf("%s: %v", c.intent, err)
			}
			acts, ways := 0, ""
			for _, r := range b.records()[before:] {
				if r.Kind == kernel.KindOperatorAct {
					acts++
				}
				if r.Kind == kernel.KindAudit {
					var e machine.Entry
					must(t, canon.UnmarshalCanonical(r.Body, &e))
					ways += e.StateFrom + ">"
					if *e.Intent != c.intent || *e.Actor != "ana" || e.EvidenceHash == nil {
						t.Errorf("%s: the entry says %+v", c.intent, e)
					}
				}
			}
			way := "IDLE>VALIDATING>AUDITING>"
			if c.allow {
				way = "IDLE>VALIDATING>ARBITRATING>AUDITING>"
			}
			if (acts == 1) != c.allow || ways != way {
				t.Errorf("%s: %d acts, by way of %s", c.intent, acts, ways)
			}
		}
		if e := b.lastEntry(); e.Epoch != 1 || e.Seq != 4 || e.StateTo != "IDLE" {
			t.Errorf("the resume is not the first request of its epoch: %+v", e)
		}
	}
}

// TestM3_LeftInTheMiddle: a goroutine that ends in the middle of a request, as testing's
// FailNow ends it, leaves a halted kernel, and the world to others.
func TestM3_LeftInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"validation", "decision", "effect", "append"} {
		b := newBench(t, newRepo(t), nil)
		b.sup.seen = func(_ *Task, _ *cycle, at string) {
			if at == what {
				b.sup.seen = nil
				runtime.Goexit()
			}
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = b.task.Tick(context.Background(), kernel.RequestTick, "alice") // it never returns
		}()
		<-ended
		if _, err := b.task.Tick(t.Context(), kernel.RequestTick, "alice"); !errors.Is(err, machine.ErrHalted) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// untrustedRepo stands for a look that shows what is wrong with the ledger.
type untrustedRepo struct {
	Repo
	err error
}

func (r *untrustedRepo) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	if r.err != nil {
		return git.Refs{}, r.err
	}
	return r.Repo.Refs(ctx, names...)
}

// TestM2_UntrustedLedgerHalts: SM23, T34: a ledger that is found to be tampered with while
// it is worked with halts the kernel by policy, with a record, and for good: a new process
// boots none until a person resumes. One that is older than its key halts without one.
func TestM2_UntrustedLedgerHalts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		found    error
		recorded bool
	}{
		{&ledger.Error{Code: kernel.CodeLedgerCorrupt, Seq: 3, Detail: "the stored record can't be read"}, true},
		{&ledger.Error{Code: kernel.CodeLedgerFork, Seq: 3, Detail: "somebody else wrote"}, true},
		{&RollbackError{Ref: stateRef, Head: "1", Seq: 9}, false},
	} {
		repo := &untrustedRepo{}
		b := newBench(t, newRepo(t), func(b *bench) {
			b.place.wrap = func(r Repo) Repo { repo.Repo = r; return repo }
		})
		b.reach(kernel.ActionDispatch)
		before := len(b.records())
		repo.err = c.found
		_, err := b.task.Tick(t.Context(), kernel.RequestTick, "alice")
		if !errors.Is(err, c.found) || Passing(err) || b.task.machine.State() != machine.Halted {
			t.Errorf("%v, in %v", err, b.task.machine.State())
		}
		e := b.lastEntry()
		halt := e.Halt != nil && *e.Halt == machine.HaltDurable && e.StateFrom == "ARBITRATING" && *e.Decision == machine.Halt && len(e.Faults) == 1
		if halt != c.recorded || (len(b.records()) > before) != c.recorded {
			t.Errorf("the last entry is %+v", e)
		}
		repo.err = nil
		if !c.recorded {
			continue
		}
		b.close()
		o, err := b.place.open(context.Background())
		if !errors.Is(err, machine.ErrHalted) {
			t.Fatalf("a new process boots: %v", err)
		}
		b.opened = o
		t.Cleanup(o.close)
		must(t, b.sup.Resume(t.Context(), 1, "ana", "it was looked at"))
		_, err = b.sup.Open(t.Context(), 1, b.place.issue)
		must(t, err)
	}
}
