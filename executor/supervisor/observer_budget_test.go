package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// spends has builders use tokens, and end as before.
func spends(build func(executor.BuildJob) (executor.BuildOutcome, error), tokens int64, given *[]kernel.Spend) func(executor.BuildJob) (executor.BuildOutcome, error) {
	return func(job executor.BuildJob) (executor.BuildOutcome, error) {
		*given = append(*given, job.Spend)
		o, err := build(job)
		o.Result.Egress = &kernel.Egress{Total: 1, Connections: []kernel.Connection{}, Denied: []kernel.Denied{}, Usage: []kernel.Usage{{Model: "m", Requests: 1, Output: tokens}}}
		return o, err
	}
}

// failsWhile has the only check fail while that is so.
func failsWhile(fails *bool) func(executor.CheckJob) executor.CheckOutcome {
	return func(job executor.CheckJob) executor.CheckOutcome {
		out := passed(job)
		if *fails {
			out.Run.Checks[0].Passed, out.Run.Checks[0].Exit.Code = false, 1
			out.Violations = []kernel.Violation{{Code: kernel.CodeCheckFailed, Subject: "test", Detail: "It failed."}}
		}
		return out
	}
}

// attempts are budgets of which an attempt may use 60 tokens.
func attempts(task, day int64) Budgets {
	return Budgets{Attempts: map[string]kernel.Spend{"default": {Tokens: 60}}, Task: kernel.Spend{Tokens: task}, Day: kernel.Spend{Tokens: day}}
}

// TestBudget_SpentIsToldAndWaits: what is left for a task doesn't pay another attempt. It
// isn't claimed, no attempt is counted and no builder paid; the issue says once which key the
// operator may raise, also after a restart. Once it is raised the task goes on, its evidence
// verifies, and the builder is given what was reserved for it.
func TestBudget_SpentIsToldAndWaits(t *testing.T) {
	t.Parallel()
	var given []kernel.Spend
	fails := true
	f := newTold(t, func(f *forged) {
		f.place.terms, f.place.cfg.Budgets = termsWithCheck, attempts(100, 0)
		f.exec.build = spends(writes(map[string]string{"out.txt": "hello\n"}), 50, &given)
		f.exec.check = failsWhile(&fails)
	})
	f.tickTo(func(Status) bool { return f.trailer("aynig-state") == "retry_pending" }, "failed once")
	f.clock.advance(3_600_000)
	refused := func() {
		t.Helper()
		st := f.drive()
		f.wants(st, kernel.StandRefused, kernel.CodeBudgetSpent)
		if f.started() != 1 || f.trailer("writ-attempt") != "1" || st.Wake != st.Decision.Wake || st.Wake <= f.clock.Now().WallMs {
			t.Errorf("%d builders, attempt %s, wakes at %d, %d", f.started(), f.trailer("writ-attempt"), st.Wake, st.Decision.Wake)
		}
		if list := f.marked("task"); len(list) != 1 || !strings.Contains(list[0].Body, "budgets.task.tokens") || !strings.Contains(list[0].Body, "operator") {
			t.Errorf("the issue says %+v", list)
		}
	}
	refused()
	said := f.marked("task")[0].Body
	f.place.cfg.Budgets = attempts(101, 0) // more is left, and not enough
	f.open()
	refused()
	if again := f.marked("task")[0].Body; again != said {
		t.Errorf("it is told anew: %s\nbefore: %s", again, said)
	}
	fails, f.place.cfg.Budgets = false, attempts(110, 0)
	f.open()
	f.tickTo(func(Status) bool { return f.trailer("aynig-state") == "completed" }, "completed")
	if len(given) != 2 || given[1] != (kernel.Spend{Tokens: 60}) {
		t.Errorf("the builders were given %+v", given)
	}
	f.verify(stateRef)
}

// TestBudget_TimeOfBuilders: of a budget of time what the contract lets a builder take is
// reserved, also for one that asks no model, and what it took counts. It isn't given to the
// executor, which holds the contract's limit, and the evidence verifies.
func TestBudget_TimeOfBuilders(t *testing.T) {
	t.Parallel()
	const minute = 60_000
	var given []kernel.Spend
	fails := true
	f := newTold(t, func(f *forged) {
		f.place.terms, f.place.cfg.Budgets = termsWithCheck+"budgets: {build_timeout: 10m}\n", Budgets{Task: kernel.Spend{Time: 15 * minute}, Day: kernel.Spend{Tokens: 1}}
		build := spends(writes(map[string]string{"out.txt": "hello\n"}), 5, &given) // of which its budget has none
		f.exec.build = func(job executor.BuildJob) (executor.BuildOutcome, error) {
			o, err := build(job)
			o.Result.Started, o.Result.Ended = 1000, 1000+6*minute
			return o, err
		}
		f.exec.check = failsWhile(&fails)
	})
	f.tickTo(func(Status) bool { return f.trailer("aynig-state") == "retry_pending" }, "failed once")
	f.clock.advance(3_600_000)
	f.wants(f.drive(), kernel.StandRefused, kernel.CodeBudgetSpent)
	if list := f.marked("task"); len(list) != 1 || !strings.Contains(list[0].Body, "budgets.task.time") || !strings.Contains(list[0].Body, "10m0s") {
		t.Errorf("the issue says %+v", list)
	}
	fails, f.place.cfg.Budgets.Task.Time = false, 16*minute
	f.open()
	f.tickTo(func(Status) bool { return f.trailer("aynig-state") == "completed" }, "completed")
	if len(given) != 2 || given[1] != (kernel.Spend{}) {
		t.Errorf("the builders were given %+v", given)
	}
	if p := f.sup.world.Pot(kernel.ScopeWorld, 2, f.clock.Now().WallMs); p.Used.Time != 12*minute || p.Held.Time != 0 {
		t.Errorf("of the world's time %+v", p)
	}
	f.verify(stateRef)
}

// TestBudget_TheContractLowersIt: what an attempt may use is the lower one of what the
// operator and the contract say. A contract that asks for more is told so in the report, and
// a builder without a budget of the operator's spends nothing of the operator's others.
func TestBudget_TheContractLowersIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contract  string
		operators int64
		want      kernel.Spend
		note      string
	}{
		"lower":             {"tokens: 7, cost_cents: 2", 60, kernel.Spend{Tokens: 7, Cost: 20_000}, ""},
		"higher":            {"tokens: 70", 60, kernel.Spend{Tokens: 60}, "budgets.tokens: lowered from 70 to 60, the server's cap."},
		"the contract only": {"tokens: 70", 0, kernel.Spend{Tokens: 70}, ""},
	} {
		var given []kernel.Spend
		b := newBench(t, newRepo(t), func(b *bench) {
			b.place.terms = "version: 1\nbudgets: {" + c.contract + "}\n"
			b.place.cfg.Budgets = Budgets{Day: kernel.Spend{Tokens: 65}}
			if c.operators > 0 {
				b.place.cfg.Budgets.Attempts = map[string]kernel.Spend{"default": {Tokens: c.operators}}
			}
			b.exec.build = spends(writes(map[string]string{"out.txt": "hello\n"}), 1, &given)
		})
		st := b.until(kernel.StandFinal)
		report := gittest.Git(t, b.bare, "show", stateRef+":"+replay.FileReport)
		if len(given) != 1 || given[0] != c.want || st.Decision.State != kernel.TaskCompleted || strings.Contains(report, "lowered") != (c.note != "") || !strings.Contains(report, c.note) {
			t.Errorf("%s: given %+v, %s, %s", name, given, st.Decision.State, report)
		}
		b.verify(stateRef)
	}
}

// TestBudget_TheContractReservesNothingShared: a builder that the operator gave no budget runs
// within the contract's limit. Nothing is reserved for it of the budgets that others share,
// neither while it runs nor after the process has died under it.
func TestBudget_TheContractReservesNothingShared(t *testing.T) {
	t.Parallel()
	var given []kernel.Spend
	b := newBench(t, newRepo(t), func(b *bench) {
		b.place.terms = "version: 1\nbudgets: {tokens: 70}\n"
		b.place.cfg.Budgets = Budgets{Attempts: map[string]kernel.Spend{"other": {Tokens: 60}}, Day: kernel.Spend{Tokens: 65}}
		b.exec.build, b.exec.hold = spends(writes(map[string]string{"out.txt": "hello\n"}), 1, &given), true
	})
	wants := func(when string) {
		t.Helper()
		for _, task := range []int64{1, 2} {
			if p := b.sup.world.Pot(kernel.ScopeDay, task, b.clock.Now().WallMs); p.Used != (kernel.Spend{}) || p.Held != (kernel.Spend{}) {
				t.Errorf("%s: of the day are used %+v, held %+v", when, p.Used, p.Held)
			}
		}
	}
	b.reach(kernel.ActionDispatch)
	wants("while it runs")
	b.open()
	wants("after the process died")
	if len(given) != 1 || given[0] != (kernel.Spend{Tokens: 70}) {
		t.Errorf("the builders were given %+v", given)
	}
}

// TestBudget_NobodyHoldsTheContract: where the executor can't hold the contract's limit the
// task waits, and nothing is claimed.
func TestBudget_NobodyHoldsTheContract(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) {
		b.place.terms = "version: 1\nbudgets: {tokens: 70}\n"
		b.exec.unheld = func(contracts kernel.Budgets) []kernel.Violation {
			return []kernel.Violation{{Code: kernel.CodeBudgetUnmetered, Subject: "default", Detail: fmt.Sprint(contracts.Tokens)}}
		}
	})
	if st := b.until(kernel.StandRefused); len(st.Decision.Violations) != 1 || st.Decision.Violations[0].Code != kernel.CodeBudgetUnmetered || st.Decision.Violations[0].Detail != "70" {
		t.Errorf("%+v", st.Decision.Violations)
	}
}

// TestBudget_TwoTasksAtOnce: what one task has reserved another can't have, and is given it
// back by what the first really used.
func TestBudget_TwoTasksAtOnce(t *testing.T) {
	t.Parallel()
	for used, want := range map[int64]kernel.Standing{40: kernel.StandFinal, 41: kernel.StandRefused} {
		var given []kernel.Spend
		b := newBench(t, newRepo(t), func(b *bench) {
			b.place.cfg.Budgets = attempts(0, 100)
			b.exec.build = spends(writes(map[string]string{"out.txt": "hello\n"}), used, &given)
			b.exec.hold = true
		})
		first := b.task
		b.reach(kernel.ActionDispatch)
		second, err := b.sup.Open(t.Context(), 2, sayHello())
		must(t, err)
		b.task = second
		if st := b.tick(); st.Decision.Standing != kernel.StandRefused || len(st.Decision.Violations) != 1 || st.Decision.Violations[0].Subject != "budgets.day.tokens" {
			t.Fatalf("beside the first: %s %+v", st.Decision.Standing, st.Decision.Violations)
		}
		b.task = first
		b.until(kernel.StandFinal)
		b.task = second
		if st := b.until(want); want == kernel.StandFinal && len(given) != 2 || want == kernel.StandRefused && len(given) != 1 {
			t.Errorf("after the first used %d: %v, builders %v", used, st.Decision.Codes, given)
		}
	}
}

// TestBudget_EndUnseen: of a builder whose process died all that was reserved is spent, so
// that no crash makes room.
func TestBudget_EndUnseen(t *testing.T) {
	t.Parallel()
	var given []kernel.Spend
	b := newBench(t, newRepo(t), func(b *bench) {
		b.place.cfg.Budgets = attempts(100, 0)
		b.exec.build, b.exec.hold = spends(writes(map[string]string{"out.txt": "hello\n"}), 1, &given), true
	})
	b.reach(kernel.ActionDispatch)
	b.open()
	b.clock.advance(3_600_000)
	if st := b.until(kernel.StandRefused); len(given) != 1 || st.Decision.Violations[0].Code != kernel.CodeBudgetSpent {
		t.Errorf("%v, builders %v", st.Decision.Violations, given)
	}
}

// TestBudget_KilledCostsWhatItUsed: however a run is ended while it builds, what its builder
// really used takes the place of what was reserved, once, and the records replay. The process
// that follows has room for another attempt.
func TestBudget_KilledCostsWhatItUsed(t *testing.T) {
	t.Parallel()
	asks := func(r kernel.Request) func(*bench) { return func(b *bench) { b.ask(r) } }
	for name, end := range map[string]func(*bench){
		"shutdown": asks(kernel.RequestShutdown), "stop": asks(kernel.RequestStop), "halt": asks(kernel.RequestHalt),
		"its lease is lost": func(b *bench) {
			gittest.Commit(b.t, b.bare, stateRef, "", map[string]string{"x": "y"})
			b.tick()
		},
		"its lease can't be renewed": func(b *bench) {
			b.clock.advance(119_000)
			b.task.worker.giveUpIfOverdue()
			b.ask(kernel.RequestLook)
		},
		"the task is closed": func(b *bench) { b.task.Close() },
	} {
		var given []kernel.Spend
		b := newBench(t, newRepo(t), func(b *bench) {
			b.place.cfg.Budgets = attempts(100, 0)
			b.exec.build, b.exec.hold = spends(writes(map[string]string{"out.txt": "hello\n"}), 7, &given), true
		})
		b.reach(kernel.ActionDispatch)
		end(b)
		for _, after := range []string{"at once", "in the process that follows"} {
			if p := b.sup.world.Pot(kernel.ScopeTask, 1, b.clock.Now().WallMs); p.Used.Tokens != 7 {
				t.Errorf("%s, %s: %+v", name, after, p)
			}
			b.open()
		}
		results := slices.DeleteFunc(b.records(), func(r kernel.Record) bool { return r.Kind != kernel.KindBuilderResult })
		if len(results) != 1 || len(given) != 1 {
			t.Errorf("%s: %d results recorded of %d builders", name, len(results), len(given))
		}
		if fault, err := replay.VerifyWorld(b.led.Records(t.Context(), 0, 0)); fault != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, fault, err)
		}
		if name == "shutdown" {
			b.clock.advance(3_600_000)
			b.exec.hold = false
			b.until(kernel.StandFinal)
			b.verify(stateRef)
		}
	}
}

// TestBudget_TakenOverElsewhere: another installation finishes what a process began that died.
// Nothing is held for that run any more: what had no builder yet is free, what had one is used.
func TestBudget_TakenOverElsewhere(t *testing.T) {
	t.Parallel()
	for at, used := range map[kernel.Action]int64{kernel.ActionClaim: 0, kernel.ActionDispatch: 60} {
		var given []kernel.Spend
		b := newBench(t, newRepo(t), func(b *bench) {
			b.place.cfg.Budgets = attempts(0, 100)
			b.exec.build, b.exec.hold = spends(writes(map[string]string{"out.txt": "hello\n"}), 1, &given), true
		})
		b.reach(at)
		other := b.joins(t)
		other.pastLease()
		other.until(kernel.StandFinal)
		b.trusts(other)
		b.until(kernel.StandFinal)
		if p := b.sup.world.Pot(kernel.ScopeWorld, 2, b.clock.Now().WallMs); p.Used.Tokens != used || p.Held.Tokens != 0 {
			t.Errorf("after the %s: %+v", at, p)
		}
	}
}
