package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// Statements of seed 001 (rows D of docs/conformance.md) that no case holds,
// over a real repository and a real ledger.

// termsWithCheck is a contract with one check.
const termsWithCheck = "version: 1\nchecks: [{name: test, run: [\"true\"]}]\n"

// records are those of the task, oldest first.
func (b *bench) records() (out []kernel.Record) {
	b.t.Helper()
	for r, err := range b.led.Records(b.t.Context(), 0, 0) {
		must(b.t, err)
		out = append(out, r)
	}
	return out
}

// first is where a kind of record stands in the ledger for the first time, -1
// for nowhere.
func first(list []kernel.Record, kind kernel.Kind) int {
	return slices.IndexFunc(list, func(r kernel.Record) bool { return r.Kind == kind })
}

// body decodes the last record of a kind.
func body[T any](b *bench, kind kernel.Kind) (v T) {
	b.t.Helper()
	for _, r := range slices.Backward(b.records()) {
		if r.Kind == kind {
			must(b.t, json.Unmarshal(r.Body, &v))
			return v
		}
	}
	b.t.Fatalf("no record is a %s", kind)
	return v
}

// file reads a file of the state ref's HEAD.
func (b *bench) file(name string) string {
	b.t.Helper()
	return gittest.Git(b.t, b.bare, "show", "refs/writ/task/1:"+name)
}

// D1, D2, D5, D9, D45, D47, D59, D61: from an approved text to an end for which
// the repository vouches, without anybody in between.
func TestD1_TheLoopEndsVouchedFor(t *testing.T) {
	t.Parallel()
	bare := newRepo(t)
	b := newBench(t, bare, func(b *bench) { b.place.terms = termsWithCheck })
	b.until(kernel.StandFinal)
	delivered(t, bare)
	if n := len(b.exec.builds); n != 1 {
		t.Errorf("%d builds, want 1", n)
	}
	r, err := replay.VerifyTask(t.Context(), b.repo, "refs/writ/task/1", replay.Options{Keys: []ssh.PublicKey{b.key}, World: b.place.cfg.World})
	if err != nil || !r.OK || !r.Vouched || r.State != kernel.TaskCompleted {
		t.Errorf("%v\n%s", err, r.Plain())
	}
	var rep report.Report
	must(t, json.Unmarshal([]byte(b.file(replay.FileReport)), &rep))
	if !rep.Dispatched || !rep.Verified || rep.FinalState != kernel.TaskCompleted || len(rep.Codes) != 0 {
		t.Errorf("the summary says %+v", rep)
	}
	if text := b.file(replay.FileMarkdown); !strings.Contains(text, "completed") {
		t.Errorf("for people it says\n%s", text)
	}
}

// stages are the first records of each stage, in the order of seed 001.
var stages = []kernel.Kind{
	kernel.KindSeedPack, kernel.KindDispatch, kernel.KindBuilderResult, kernel.KindDiff, kernel.KindRunResult, kernel.KindReport,
}

// checksThat answers what the test wants of the runner.
type checksThat struct {
	*fakeExecutor
	end func(*executor.CheckOutcome)
	err error
}

func (e checksThat) Check(_ context.Context, job executor.CheckJob) (executor.Checks, error) {
	if e.err != nil {
		return nil, e.err
	}
	j := &fakeJob[executor.CheckOutcome]{done: make(chan struct{}), out: passed(job)}
	e.end(&j.out)
	j.finish()
	return j, nil
}

// reachingNothing lets no check reach any host.
type reachingNothing struct{ *fakeExecutor }

func (reachingNothing) Reach(_ string, checks []kernel.Check, _ []kernel.Step) (out []kernel.Violation) {
	for _, c := range checks {
		out = append(out, kernel.Violation{Code: kernel.CodeEgressDenied, Subject: c.Name})
	}
	return out
}

// D3, A10: context, governance, environment, claim, dispatch, ingestion,
// verification, report, in this order. Whatever fails leaves no record of a
// later stage, and before the claim no ref either.
func TestD3_OrderOfTheStages(t *testing.T) {
	t.Parallel()
	unreadable := func() ([]byte, error) { return nil, errors.New("the disk is gone") }
	for _, c := range []struct {
		name   string
		change func(*bench)
		stages int // that are recorded
		claims bool
	}{
		{"all goes well", func(*bench) {}, len(stages), true},
		{"governance can't be read", func(b *bench) {
			b.place.terms, b.place.cfg.Contract = "", &ContractFile{Name: "contract.yaml", Read: unreadable}
		}, 0, false},
		{"governance isn't valid", func(b *bench) { b.place.terms = "version: 1\nchekcs: []\n" }, 0, false},
		{"the task isn't valid", func(b *bench) { b.issue.issue.Body = "Please do it.\n" }, 0, false},
		{"the environment isn't sound", func(b *bench) {
			b.exec.env = []kernel.Violation{{Code: kernel.CodeSandboxUnavailable, Subject: "bwrap"}}
		}, 0, false},
		{"a check's host can't be reached", func(b *bench) { b.place.exec = reachingNothing{b.exec} }, 0, false},
		{"the claim is refused", func(b *bench) { gittest.Hook(b.t, b.bare, "pre-receive", "exit 1") }, 1, false},
		{"the dispatch differs", func(b *bench) {
			b.place.fault = func(at Point) {
				if at == PointOf(kernel.ActionClaim, StageSettled) {
					b.task.worker.run.dispatchBytes = []byte("{}")
				}
			}
		}, 1, true},
		{"the builder can't be started", func(b *bench) {
			b.exec.build = func(executor.BuildJob) (executor.BuildOutcome, error) {
				return executor.BuildOutcome{}, &executor.Error{Code: kernel.CodeEnvBuilderFailed, Detail: "no"}
			}
		}, 2, true},
		{"the checks can't be started", func(b *bench) {
			b.place.exec = checksThat{fakeExecutor: b.exec, err: &executor.Error{Code: kernel.CodeEnvBuilderFailed, Detail: "no"}}
		}, 4, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, newRepo(t), func(b *bench) { b.place.terms = termsWithCheck; c.change(b) })
			for range 12 {
				st, err := b.task.Tick(t.Context(), kernel.RequestTick, "local:0:root")
				if err != nil || st.Decision.Standing != kernel.StandActing && st.Decision.Standing != kernel.StandRunning {
					break
				}
				if st.Decision.Action == kernel.ActionRelease {
					break
				}
			}
			list, last := b.records(), -1
			for i, kind := range stages {
				at := first(list, kind)
				if (at >= 0) != (i < c.stages) {
					t.Errorf("%s is recorded at %d; %d stages were to be", kind, at, c.stages)
				}
				if at >= 0 && at < last {
					t.Errorf("%s comes before an earlier stage", kind)
				}
				last = max(last, at)
			}
			if (b.ref("refs/writ/task/1") != "") != c.claims {
				t.Errorf("the state ref is at %q", b.ref("refs/writ/task/1"))
			}
			if started := len(b.exec.builds) > 0; started != (c.stages > 2) {
				t.Errorf("%d builds", len(b.exec.builds))
			}
		})
	}
}

// D8: the server's caps lower what the contract asks, and the report says so.
func TestD8_CapsClampAndSaySo(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) {
		b.place.terms = "version: 1\nbudgets: {build_timeout: 2h, attempts: 9}\n"
		b.place.cfg.Caps = contract.Caps{Budgets: kernel.Budgets{BuildTimeoutMs: 60_000, Attempts: 2}}
	})
	b.until(kernel.StandFinal)
	pack := body[kernel.SeedPack](b, kernel.KindSeedPack)
	if pack.Budgets.BuildTimeoutMs != 60_000 || pack.Budgets.Attempts != 2 {
		t.Errorf("budgets %+v", pack.Budgets)
	}
	d := body[kernel.Dispatch](b, kernel.KindDispatch)
	if d.Deadline <= d.Timestamp || d.Deadline > kernel.Timestamp(fixtureTime/1000+120) {
		t.Errorf("dispatched at %s, due at %s", d.Timestamp, d.Deadline)
	}
	notes := strings.Join(body[report.Report](b, kernel.KindReport).Notes, "\n")
	for _, want := range []string{"budgets.build_timeout (ms): lowered from 7200000 to 60000", "budgets.attempts: lowered from 9 to 2"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the report doesn't say %q but\n%s", want, notes)
		}
	}
}

// claimed is a bench whose run has its lease and no dispatch.
func claimed(t *testing.T) *bench {
	b := newBench(t, newRepo(t), nil)
	b.reach(kernel.ActionClaim)
	return b
}

// releases holds a dispatch that must not happen: the lease is given back with
// the code, nothing is spawned, nothing dispatched.
func (b *bench) releases(code kernel.Code) {
	b.t.Helper()
	st := b.tick()
	if st.Decision.Action != kernel.ActionRelease || !slices.Contains(st.Decision.Codes, code) {
		b.t.Errorf("%s %v, want it released for %s", st.Decision.Action, st.Decision.Codes, code)
	}
	if len(b.exec.builds) > 0 || first(b.records(), kernel.KindDispatch) >= 0 {
		b.t.Error("it was dispatched all the same")
	}
}

// D12: a second dispatch of a run, or one whose claim isn't at HEAD, is
// execution.dispatch.invalid.
func TestD12_DispatchInvalid(t *testing.T) {
	t.Parallel()
	b := claimed(t)
	b.task.worker.run.build = &fakeJob[executor.BuildOutcome]{done: make(chan struct{})}
	b.releases(kernel.CodeDispatchInvalid)

	b = claimed(t)
	c, err := b.task.observer.observe(t.Context(), kernel.RequestTick, "local:0:root")
	must(t, err)
	c.facts.Head.OID = strings.Repeat("f", 40)
	if vs := b.task.worker.checkDispatch(c); len(vs) != 1 || vs[0].Code != kernel.CodeDispatchInvalid {
		t.Errorf("a foreign HEAD: %v", vs)
	}
}

// TestD12_ContractMoved: a person who changes the contract or the text between claim
// and start is told that the dispatch isn't admissible, and nothing is spawned.
func TestD12_ContractMoved(t *testing.T) {
	t.Parallel()
	b := claimed(t)
	gittest.Commit(t, b.bare, "refs/heads/main", b.ref("refs/heads/main"), map[string]string{".writ/contract.yaml": "version: 1\nbudgets: {attempts: 7}\n"})
	b.releases(kernel.CodeDispatchInvalid)

	b = claimed(t)
	b.issue.issue.Body += "\nAnd more."
	st := b.tick()
	if st.Decision.Action != kernel.ActionWait || !slices.Contains(st.Decision.Codes, kernel.CodeDispatchInvalid) || len(b.exec.builds) > 0 {
		t.Errorf("after an edit: %s %v, %d builders", st.Decision.Action, st.Decision.Codes, len(b.exec.builds))
	}
}

// D13, D7: a dispatch that is built twice and differs in a byte, or whose words
// leave a choice, is execution.dispatch.nondeterministic.
func TestD13_DispatchNondeterministic(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*run){
		"bytes": func(r *run) {
			r.dispatchBytes = append(r.dispatchBytes[:len(r.dispatchBytes):len(r.dispatchBytes)], ' ')
		},
		"seed pack": func(r *run) {
			r.objects.pack = []byte(strings.ReplaceAll(string(r.objects.pack), "out.txt", "out.txT"))
		},
		"time": func(r *run) { r.objects.seconds++ },
	} {
		t.Run(name, func(t *testing.T) {
			b := claimed(t)
			spoil(b.task.worker.run)
			b.releases(kernel.CodeDispatchNondeterministic)
		})
	}
	b := newBench(t, newRepo(t), func(b *bench) {
		b.issue.issue.Body = strings.Replace(issueBody, "says hello", "says hello if possible", 1)
	})
	st := b.tick()
	if st.Decision.Standing != kernel.StandRefused || !slices.Contains(st.Decision.Codes, kernel.CodeDispatchNondeterministic) || b.ref("refs/writ/task/1") != "" {
		t.Errorf("%s %v", st.Decision.Standing, st.Decision.Codes)
	}
}

// D25, D35 to D43, D48 to D51: each of the five verifications, failing alone,
// keeps the task open. What was broken is recorded before it is told to anybody,
// and the next attempt is due at a time that follows from the records.
func TestD40_EachVerificationFailsAlone(t *testing.T) {
	t.Parallel()
	fails := func(code kernel.Code) func(*bench) {
		return func(b *bench) {
			b.place.exec = checksThat{fakeExecutor: b.exec, end: func(o *executor.CheckOutcome) {
				o.Run.Checks[0].Passed = false
				o.Violations = []kernel.Violation{{Code: code, Subject: "test"}}
			}}
		}
	}
	for name, c := range map[string]struct {
		change func(*bench)
		code   kernel.Code
	}{
		"deterministic status": {fails(kernel.CodeNondeterministic), kernel.CodeNondeterministic},
		"changed in allowed": {func(b *bench) {
			b.exec.build = spoilt(func(o *executor.BuildOutcome) {
				o.Diff.Violations = []kernel.Violation{{Code: kernel.CodeScopeOutside, Subject: "out.txt"}}
			})
		}, kernel.CodeScopeViolation},
		"commit message": {func(b *bench) {
			b.place.fault = func(at Point) {
				if at == PointOf(kernel.ActionDispatch, StageSettled) {
					b.task.worker.run.intake.Message = []kernel.Violation{{Code: kernel.CodeMessageInvalid, Subject: "commit.pattern"}}
				}
			}
		}, kernel.CodeMessageInvalid},
		"governance": {fails(kernel.CodeCheckFailed), kernel.CodeCheckFailed},
		"in time": {func(b *bench) {
			b.exec.build = spoilt(func(o *executor.BuildOutcome) {
				o.Violations = []kernel.Violation{{Code: kernel.CodeTimeout, Subject: "builder"}}
			})
		}, kernel.CodeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, newRepo(t), func(b *bench) { b.place.terms = termsWithCheck; c.change(b) })
			judged := b.reach(kernel.ActionJudge)
			codes := judged.Decision.Codes
			if judged.Decision.State != kernel.TaskRetryPending || !slices.Contains(codes, kernel.CodeVerificationFailed) || !slices.Contains(codes, c.code) {
				t.Fatalf("judged %s %v", judged.Decision.State, codes)
			}
			if rep := body[report.Report](b, kernel.KindReport); !slices.Equal(rep.Codes, codes) || rep.Verified {
				t.Errorf("recorded before the push: %v", rep.Codes)
			}
			if want := kernel.RetryAt(judged.Facts.Now, 1, 60_000, 600_000); judged.Decision.NotBefore != want {
				t.Errorf("due at %d, want %d", judged.Decision.NotBefore, want)
			}
			b.reach(kernel.ActionResult)
			if b.ref("refs/heads/writ/change/1") != "" {
				t.Error("something was delivered")
			}
			if got := gittest.Git(t, b.bare, "log", "-1", "--format=%(trailers:key=aynig-state,valueonly)", "refs/writ/task/1"); strings.TrimSpace(got) != "retry_pending" {
				t.Errorf("HEAD says %q", got)
			}
		})
	}
}

// spoilt is a builder that writes out.txt, with something wrong about it.
func spoilt(how func(*executor.BuildOutcome)) func(executor.BuildJob) (executor.BuildOutcome, error) {
	return func(job executor.BuildJob) (executor.BuildOutcome, error) {
		o, err := writes(map[string]string{"out.txt": "hello\n"})(job)
		how(&o)
		return o, err
	}
}

// D42, D50, D51, A42: a failed attempt is retried by a new claim, at a time that
// stands at HEAD: this process, its successor and another installation say the same.
func TestD50_EverybodyComputesTheSameRetry(t *testing.T) {
	t.Parallel()
	bare := newRepo(t)
	b := newBench(t, bare, func(b *bench) { b.exec.build = failing })
	due := b.until(kernel.StandDue)
	if due.Decision.Wake%1000 != 0 || due.Decision.Wake < due.Facts.Now+59_000 || due.Decision.Wake > due.Facts.Now+61_000 {
		t.Errorf("due %d ms from now", due.Decision.Wake-due.Facts.Now)
	}
	b.open()
	other := newBench(t, bare, nil)
	other.trusts(b)
	for who, st := range map[string]Status{"a new process": b.tick(), "another installation": other.tick()} {
		if st.Decision.Standing != kernel.StandDue || st.Decision.Wake != due.Decision.Wake {
			t.Errorf("%s: %s, due %d, want %d", who, st.Decision.Standing, st.Decision.Wake, due.Decision.Wake)
		}
	}
	b.until(kernel.StandFinal)
	runs := map[string]bool{}
	for _, r := range b.records() {
		if r.Kind == kernel.KindDispatch {
			runs[r.Run] = true
		}
	}
	if len(runs) != 3 || len(b.exec.builds) != 3 {
		t.Errorf("%d runs dispatched, %d builds; want 3 and 3", len(runs), len(b.exec.builds))
	}
}

// D53, D54: what the log of cycles says is derived from the ledger, so that a
// lost log can be written again.
func TestD54_LogFollowsFromTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) { b.exec.build = failing })
	b.until(kernel.StandDue)
	b.exec.build = writes(map[string]string{"out.txt": "hello\n"})
	b.until(kernel.StandFinal)
	lines, err := report.Cycles(b.records())
	must(t, err)
	if len(lines) != 2 || lines[0].FinalTaskState != kernel.TaskRetryPending || lines[1].FinalTaskState != kernel.TaskCompleted {
		t.Fatalf("%+v", lines)
	}
	for _, l := range lines {
		if l.DispatchTimestamp == "" || len(l.ExecutorCommand) == 0 || l.ExitStatus == nil || l.VerificationOutcome == "" {
			t.Errorf("a fact is missing: %+v", l)
		}
	}
	log, err := report.OpenLog(b.place.dir, nil)
	must(t, err)
	must(t, log.Rebuild(lines))
	if want := filepath.Join(b.place.dir, "logs", "execution_cycle.log"); log.Path() != want {
		t.Errorf("it is at %s, want %s", log.Path(), want)
	}
}
