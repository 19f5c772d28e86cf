package supervisor

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// edits is a builder that writes these files, and whose work is judged by the real scope.
// What it says is nobody's word: alter changes the recorded diff.
func edits(t *testing.T, files map[string]string, alter func(*kernel.Diff)) func(executor.BuildJob) (executor.BuildOutcome, error) {
	return func(job executor.BuildJob) (executor.BuildOutcome, error) {
		o, err := writes(files)(job)
		must(t, err)
		before := map[string]executor.File{}
		entries := make([]scope.Entry, 0, len(job.Base.Files))
		for _, f := range job.Base.Files {
			before[f.Path], entries = f, append(entries, scope.Entry{Path: f.Path, Mode: f.Mode, OID: f.ID})
		}
		for i, c := range o.Diff.Changes {
			if f, there := before[c.Path]; there {
				c.Op, c.BeforeID, c.BeforeMode = kernel.OpModify, f.ID, f.Mode
				o.Diff.Changes[i] = c
			}
		}
		slices.SortFunc(o.Diff.Changes, func(a, b kernel.Change) int { return strings.Compare(a.Path, b.Path) })
		s, err := scope.New(entries, scope.Rules{
			Allowed: job.Scope.Allowed, Forbidden: job.Scope.Forbidden, Guarded: job.Scope.Guarded, Unprotect: job.Scope.Unprotect,
			Accepts: job.Scope.Accepts, MaxFiles: job.Budgets.Files, MaxBytes: job.Budgets.Bytes, LockSources: job.Scope.LockSources,
			Blob: func(id string) (data []byte, err error) {
				err = job.Base.Blobs(context.Background(), []string{id}, func(_ string, b []byte) error { data = bytes.Clone(b); return nil })
				return data, err
			},
		})
		must(t, err)
		v, err := s.Again(t.Context(), o.Diff.Changes, o.Contents)
		must(t, err)
		o.Diff = v.Diff(job.Run, job.Base.Commit)
		if alter != nil {
			alter(&o.Diff)
		}
		return o, nil
	}
}

// based puts files on the base.
func (b *bench) based(files map[string]string) {
	b.t.Helper()
	all := map[string]string{"README": "hi\n"}
	maps.Copy(all, files)
	gittest.Commit(b.t, b.bare, "refs/heads/main", b.ref("refs/heads/main"), all)
}

const (
	lockBefore = "github.com/a/b v1.0.0 h1:x=\n"
	lockMore   = lockBefore + "github.com/c/d v1.0.0 h1:y=\n"
	lockOther  = lockBefore + "evil.example/c/d v1.0.0 h1:y=\n"
)

// newLocked is an installation whose base has a lock file, and whose task is about its
// manifest.
func newLocked(t *testing.T, lock string, alter func(*kernel.Diff)) *bench {
	b := newBench(t, newRepo(t), nil)
	b.based(map[string]string{"go.mod": "module x\n", "go.sum": lockBefore})
	b.issue.issue.Body = strings.Replace(b.issue.issue.Body, "out.txt", "go.mod", 1)
	b.exec.build = edits(t, map[string]string{"go.mod": "module y\n", "go.sum": lock}, alter)
	return b
}

// TestS14_LockIsDeliveredWithItsManifest: nobody is asked about a lock file that comes
// with its manifest, the report names it, and it verifies offline.
func TestS14_LockIsDeliveredWithItsManifest(t *testing.T) {
	t.Parallel()
	b := newLocked(t, lockMore, nil)
	b.until(kernel.StandFinal)
	if got := gittest.Git(t, b.bare, "show", changeRef+":go.sum"); got+"\n" != lockMore {
		t.Errorf("delivered was %q", got)
	}
	var r report.Report
	data, err := b.task.readFile(t.Context(), git.OID(b.ref(stateRef)), replay.FileReport)
	must(t, err)
	must(t, canon.UnmarshalCanonical(data, &r))
	if !slices.ContainsFunc(r.FirstLines, func(l string) bool { return strings.Contains(l, "`go.sum`") }) {
		t.Errorf("the report says first %q", r.FirstLines)
	}
	b.verify(stateRef)
}

// TestS14_LockFromTheOperatorsSource: a lock file may name a source that the operator
// lists. The list is in the seed pack, and a replay holds the lock file to that one.
func TestS14_LockFromTheOperatorsSource(t *testing.T) {
	t.Parallel()
	b := newLocked(t, lockOther, nil)
	b.place.cfg.LockSources = []string{"evil.example"}
	b.open()
	b.until(kernel.StandFinal)
	if got := gittest.Git(t, b.bare, "show", changeRef+":go.sum"); got+"\n" != lockOther {
		t.Errorf("delivered was %q", got)
	}
	b.verify(stateRef)
}

// TestS14_SealedLockIsJudgedAsItWasBuilt: work that was sealed is gone on with under the
// operator's list of its own seed pack, whatever the list is by then: nobody pays a second
// builder for it, and it verifies.
func TestS14_SealedLockIsJudgedAsItWasBuilt(t *testing.T) {
	t.Parallel()
	b := newLocked(t, lockOther, nil)
	b.place.terms = termsWithCheck
	b.place.cfg.LockSources = []string{"evil.example"}
	b.open()
	b.reach(kernel.ActionSeal)
	b.place.cfg.LockSources = nil
	b.open() // the process died, and the list is another one
	b.pastLease()
	b.until(kernel.StandFinal)
	if got := gittest.Git(t, b.bare, "show", changeRef+":go.sum"); got+"\n" != lockOther || b.started() != 1 {
		t.Errorf("delivered was %q by %d builders", got, b.started())
	}
	b.verify(stateRef)
}

// newMember is an installation whose base has a workspace with a lock file at its root, and
// whose task is about the manifest of a member.
func newMember(t *testing.T, more map[string]string, alter func(*kernel.Diff)) *bench {
	crates := func(name string) string {
		return "[[package]]\nname = \"" + name + "\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n"
	}
	b := newBench(t, newRepo(t), nil)
	base := map[string]string{"crates/x/Cargo.toml": "# x\n", "Cargo.lock": crates("a")}
	maps.Copy(base, more)
	b.based(base)
	b.issue.issue.Body = strings.Replace(b.issue.issue.Body, "out.txt", "crates/x/Cargo.toml", 1)
	b.exec.build = edits(t, map[string]string{"crates/x/Cargo.toml": "# y\n", "Cargo.lock": crates("b")}, alter)
	return b
}

// TestS14_LockOfAWorkspaceIsDelivered: a lock file comes with the manifest of a member
// below it, and verifies offline; not where the member has a lock file of its own, and an
// instance that takes it all the same has no evidence that verifies.
func TestS14_LockOfAWorkspaceIsDelivered(t *testing.T) {
	t.Parallel()
	b := newMember(t, nil, nil)
	b.until(kernel.StandFinal)
	if got := gittest.Git(t, b.bare, "show", changeRef+":Cargo.lock"); !strings.Contains(got, `"b"`) {
		t.Errorf("delivered was %q", got)
	}
	b.verify(stateRef)
	own := map[string]string{"crates/Cargo.lock": "x\n"}
	b = newMember(t, own, nil)
	if st := b.reach(kernel.ActionResult); !slices.Contains(st.Decision.Codes, kernel.CodeProtectedPath) {
		t.Errorf("with a nearer lock file it came out as %v", st.Decision.Codes)
	}
	b = newMember(t, own, func(d *kernel.Diff) { d.Violations, d.Locks = []kernel.Violation{}, []string{"Cargo.lock"} })
	b.until(kernel.StandFinal)
	r, err := replay.VerifyTask(t.Context(), b.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{b.key}, World: b.place.cfg.World})
	must(t, err)
	if r.OK || !strings.Contains(r.Plain(), "Matched again") {
		t.Errorf("it verifies:\n%s", r.Plain())
	}
}

// TestS14_LockFromElsewhereIsRefused: a lock file that names a source which the base's
// doesn't is refused where nobody can be asked, and an instance that takes it all the same
// has no evidence that verifies.
func TestS14_LockFromElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	b := newLocked(t, lockOther, nil)
	if st := b.reach(kernel.ActionResult); !slices.Contains(st.Decision.Codes, kernel.CodeProtectedPath) {
		t.Errorf("it came out as %v", st.Decision.Codes)
	}
	for name, alter := range map[string]func(*kernel.Diff){
		"as free":       func(d *kernel.Diff) { d.Violations, d.Locks = []kernel.Violation{}, []string{"go.sum"} },
		"as no lock":    func(d *kernel.Diff) { d.Violations = []kernel.Violation{} },
		"as if guarded": func(d *kernel.Diff) { d.Violations, d.Guarded = []kernel.Violation{}, nil },
	} {
		b := newLocked(t, lockOther, alter)
		b.until(kernel.StandFinal)
		r, err := replay.VerifyTask(t.Context(), b.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{b.key}, World: b.place.cfg.World})
		must(t, err)
		if r.OK || !strings.Contains(r.Plain(), "Matched again") {
			t.Errorf("%s: it verifies:\n%s", name, r.Plain())
		}
	}
}

const (
	guardedTerms = "version: 1\nchecks:\n  - {name: test, run: [\"true\"]}\npaths: {guarded: [out.txt]}\n"
	hidden       = "hello\u202e\n"
)

// newGuarded is an installation whose task changes a guarded path, and whose work waits for
// somebody to accept that.
func newGuarded(t *testing.T, change func(*forged)) *forged {
	f := newTold(t, func(f *forged) {
		f.place.terms = guardedTerms
		f.exec.build = edits(t, map[string]string{"out.txt": hidden}, nil)
		if change != nil {
			change(f)
		}
	})
	f.wants(f.drive(), kernel.StandWaiting, kernel.CodePathGuarded)
	if f.trailer("writ-waiting-for") != kernel.WaitPaths {
		t.Fatalf("HEAD waits for %q", f.trailer("writ-waiting-for"))
	}
	return f
}

// line is what accepts the work that waits, as the issue says.
func (f *forged) line() string {
	f.t.Helper()
	said := f.marked("task")[0].Body
	_, rest, ok := strings.Cut(said, "```\n/writ accept ")
	if !ok {
		f.t.Fatalf("nothing says how it is accepted:\n%s", said)
	}
	digest, _, _ := strings.Cut(rest, "\n")
	return "/writ accept " + digest
}

// delivered fails unless the work came to its branch by the one build and run of checks,
// and verifies.
func (f *forged) delivered(checks int) {
	f.t.Helper()
	if got := gittest.Git(f.t, f.bare, "show", changeRef+":out.txt"); got+"\n" != hidden {
		f.t.Errorf("delivered was %q", got)
	}
	if f.started() != 1 || checks != 1 || f.trailer("writ-attempt") != "1" || f.trailer("writ-accepts") == "" {
		f.t.Errorf("%d builds, checks ran %d times, attempt %s, accepted by %q", f.started(), checks, f.trailer("writ-attempt"), f.trailer("writ-accepts"))
	}
	f.verify(stateRef)
}

// counts counts the runs of checks.
func (f *forged) counts() *int {
	n := new(int)
	f.exec.check = func(job executor.CheckJob) executor.CheckOutcome { *n++; return passed(job) }
	return n
}

// TestP1_GuardedPathIsAccepted: nothing of work that changes a guarded path is pushed to a
// branch. The issue shows what the path would hold and how somebody accepts it; once one
// does who may, state and change go out together, without another build, check or attempt.
func TestP1_GuardedPathIsAccepted(t *testing.T) {
	t.Parallel()
	for _, terms := range []string{guardedTerms, guardedTerms + "close_on: merged\n"} {
		var checks *int
		f := newGuarded(t, func(f *forged) { f.place.terms, checks = terms, f.counts() })
		waits := f.ref(stateRef)
		if f.ref(changeRef) != "" {
			t.Fatal("it has a change branch")
		}
		said := f.marked("task")[0].Body
		for _, want := range []string{"added out.txt, mode 100644", `+hello\u202e`, "`maintain`", "/writ reject"} {
			if !strings.Contains(said, want) {
				t.Errorf("the issue doesn't say %s:\n%s", want, said)
			}
		}
		if strings.Contains(said, "\u202e") {
			t.Error("the comment holds what can't be seen")
		}
		f.sound()
		accept := f.line()
		stranger, wrong := f.says(f.scene.Triage, accept), f.says(f.scene.Owner, "/writ accept sha256:"+strings.Repeat("0", 64))
		f.wants(f.later(), kernel.StandWaiting, kernel.CodePathGuarded)
		f.reacted(stranger, forge.ReactionRefused)
		f.reacted(wrong, forge.ReactionConfused)
		if f.ref(stateRef) != waits {
			t.Error("HEAD moved")
		}
		right := f.says(f.scene.Owner, accept)
		st := f.later()
		f.reacted(right, forge.ReactionDone)
		if want := map[bool]kernel.Standing{true: kernel.StandFinal, false: kernel.StandWaiting}[terms == guardedTerms]; st.Decision.Standing != want {
			t.Errorf("it stands %s, %v", st.Decision.Standing, st.Decision.Codes)
		}
		f.delivered(*checks)
		if terms == guardedTerms {
			continue
		}
		f.merge("Say hello (#2)", map[string]string{"out.txt": hidden})
		f.wants(f.later(), kernel.StandFinal)
		f.delivered(*checks)
	}
}

// TestP1_WhatWasAnsweredNoStaysNo: a line that was answered with a no counts for nothing
// when its author is given the permission, nor once the contract can be read again, in this
// process or the next. Said again, it counts.
func TestP1_WhatWasAnsweredNoStaysNo(t *testing.T) {
	t.Parallel()
	f := newGuarded(t, nil)
	accept := f.line()
	refused := f.says(f.scene.Triage, accept)
	f.wants(f.later(), kernel.StandWaiting, kernel.CodePathGuarded)
	f.reacted(refused, forge.ReactionRefused)
	f.scene.Grant(f.scene.Repo, f.scene.Triage.User.ID, forge.Admin)
	f.wants(f.later(), kernel.StandWaiting, kernel.CodePathGuarded)
	f.open()
	f.wants(f.later(), kernel.StandWaiting, kernel.CodePathGuarded)
	if f.ref(changeRef) != "" {
		t.Fatal("it was delivered")
	}
	f.says(f.scene.Triage, accept)
	f.wants(f.later(), kernel.StandFinal)
	f.verify(stateRef)
}

// TestP5_AcceptedWorkThroughCrashes: the process is killed before and after each effect on
// the way from the acceptance to the delivery, and another installation that is listed goes
// on, or the next process does. The work comes out once, from the one build.
func TestP5_AcceptedWorkThroughCrashes(t *testing.T) {
	t.Parallel()
	for _, at := range []kernel.Action{kernel.ActionWait, kernel.ActionClaim, kernel.ActionJudge, kernel.ActionResult} {
		for _, other := range []bool{false, true} {
			t.Run(string(at)+map[bool]string{true: ", taken over"}[other], func(t *testing.T) {
				t.Parallel()
				var checks *int
				f := newTold(t, func(f *forged) {
					f.place.terms, f.exec.build = guardedTerms, edits(t, map[string]string{"out.txt": hidden}, nil)
					checks = f.counts()
				})
				second := f.another()
				f.reach(kernel.ActionWait)
				f.drive()
				f.says(f.scene.Owner, f.line())
				if at != kernel.ActionWait {
					f.reach(at)
				}
				f.open() // the process that did it is gone
				who, st := f.bench, Status{}
				if other {
					who = second
				}
				for range 6 {
					f.clock.advance(3_600_000)
					var err error
					if st, err = who.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}); err != nil {
						t.Logf("not yet: %v", err)
					}
				}
				if st.Decision.Standing != kernel.StandFinal {
					t.Fatalf("it stands %s, %v", st.Decision.Standing, st.Decision.Codes)
				}
				if n := f.started() + len(second.exec.builds); n != 1 || *checks != 1 || f.trailer("writ-attempt") != "1" {
					t.Errorf("%d builds, checks ran %d times, attempt %s", n, *checks, f.trailer("writ-attempt"))
				}
				if got := gittest.Git(t, f.bare, "show", changeRef+":out.txt"); got+"\n" != hidden {
					t.Errorf("delivered was %q", got)
				}
				r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key, second.key}, World: f.place.cfg.World})
				if err != nil || !r.OK {
					t.Errorf("%v\n%s", err, r.Plain())
				}
			})
		}
	}
}

// TestP10_HeldWorkTakenBack: whatever takes an approval back ends work that waits for its
// guarded paths, be they accepted by then or not, and so does who rejects it. Nothing is
// delivered, and what was accepted counts for nothing afterwards.
func TestP10_HeldWorkTakenBack(t *testing.T) {
	t.Parallel()
	all := maps.Clone(takings)
	all["reject"] = taking{func(f *forged) { f.comment(f.scene.Owner, "/writ reject") }, func(*forged) {}, kernel.CodeTaskStopped}
	for name, c := range all {
		for _, accepted := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", accepted"}[accepted], func(t *testing.T) {
				t.Parallel()
				f := newGuarded(t, nil)
				other, line := f.another(), f.line()
				if accepted {
					f.comment(f.scene.Owner, line)
				}
				c.act(f)
				f.wants(f.reach(kernel.ActionWait), kernel.StandActing, c.code)
				if f.trailer("writ-waiting-for") != kernel.WaitApproval || f.ref(changeRef) != "" {
					t.Errorf("HEAD waits for %q, the change branch is at %q", f.trailer("writ-waiting-for"), f.ref(changeRef))
				}
				c.undo(f)
				f.comment(f.scene.Owner, line)
				f.waits(other, 1)
				f.sound()
				f.comment(f.scene.Owner, "/writ run")
				f.reach(kernel.ActionDispatch)
			})
		}
	}
}

// TestP1_AcceptanceLapses: what somebody accepted is the work, the base's own files at the
// guarded paths, the text and the contract as they were. Where one of them is another by
// then, nothing is delivered and nothing built, and the issue says why.
func TestP1_AcceptanceLapses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act   func(f *forged)
		says  string
		stays kernel.Standing
	}{
		"the path is another on the base": {func(f *forged) { f.based(map[string]string{"out.txt": "theirs\n"}) }, "The base has another out.txt", kernel.StandWaiting},
		"the base was rewritten": {func(f *forged) {
			gittest.Git(t, f.bare, "update-ref", "refs/heads/main", gittest.Commit(t, f.bare, "refs/heads/other", "", map[string]string{"README": "new\n"}))
		}, "is not on the base any more", kernel.StandWaiting},
		"the contract is another": {func(f *forged) { f.place.terms = guardedTerms + "builder: default\n"; f.open() }, "are not those that it was made under", kernel.StandWaiting},
		"nobody accepts any more": {func(f *forged) {
			f.place.terms = strings.Replace(guardedTerms, "paths: {", "paths: {accept: nobody, ", 1)
			f.open()
		}, "are not those that it was made under", kernel.StandWaiting},
		"the issue was edited":     {func(f *forged) { f.edit(issueBody + "\nmore\n") }, "To approve the text as it is now", kernel.StandRefused},
		"who accepted may not now": {func(f *forged) { f.scene.Grant(f.scene.Repo, f.scene.Triage.ID, forge.Write) }, "/writ accept sha256:", kernel.StandWaiting},
		"the comment was edited":   {func(f *forged) { f.editsLast("/writ accept sha256:") }, "/writ accept sha256:", kernel.StandWaiting},
		"another contract permits it": {func(f *forged) {
			f.place.terms = strings.Replace(guardedTerms, "guarded: [out.txt]", "unprotect: [go.sum]", 1)
			f.open()
		}, "are not those that it was made under", kernel.StandWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newGuarded(t, func(f *forged) { f.scene.Grant(f.scene.Repo, f.scene.Triage.ID, forge.Maintain) })
			waits := f.ref(stateRef)
			f.comment(f.scene.Triage, f.line())
			c.act(f)
			for range 2 {
				if st := f.later(); st.Decision.Standing != c.stays || f.ref(stateRef) != waits || f.ref(changeRef) != "" || f.started() != 1 {
					t.Errorf("it stands %s, %v; HEAD moved: %v, %d builds", st.Decision.Standing, st.Decision.Codes, f.ref(stateRef) != waits, f.started())
				}
			}
			if said := f.marked("task")[0].Body; !strings.Contains(said, c.says) {
				t.Errorf("the issue doesn't say %q:\n%s", c.says, said)
			}
			f.clock.advance(120_000)
			f.comment(f.scene.Owner, "/writ retry")
			if name == "nobody accepts any more" {
				f.wants(f.tick(), kernel.StandRefused, kernel.CodeProtectedPath)
				return
			}
			f.reach(kernel.ActionDispatch)
		})
	}
}

// editsLast changes the newest comment that begins so, and leaves the words.
func (f *forged) editsLast(words string) {
	f.t.Helper()
	list, err := f.scene.Owner.Comments(f.t.Context(), f.scene.Repo, 1)
	must(f.t, err)
	for _, k := range slices.Backward(list) {
		if strings.HasPrefix(k.Body, words) {
			f.clock.advance(1000)
			must(f.t, f.scene.Owner.EditComment(f.t.Context(), f.scene.Repo, k.ID, k.Body+"\n\nmore"))
			return
		}
	}
	f.t.Fatalf("nobody said %q", words)
}

// TestP1_WorkflowsWithoutThePermission: where GitHub would refuse workflows of writ's App,
// a task that names them is refused before a builder is paid, one that reaches them is told
// so in its report and its change of one is a violation; and with the permission they are
// guarded as all CI is. Whoever can't be asked has nothing begun.
func TestP1_WorkflowsWithoutThePermission(t *testing.T) {
	t.Parallel()
	const workflow = ".github/workflows/ci.yml"
	of := func(allowed string, may bool, err error) *forged {
		return newTold(t, func(f *forged) {
			f.place.forge.Workflows = func(context.Context) (bool, error) { return may, err }
			f.exec.build = edits(t, map[string]string{workflow: "on: push\n"}, nil)
			must(t, f.scene.Owner.EditIssue(t.Context(), f.scene.Repo, 1, "Say hello", strings.Replace(issueBody, "out.txt]", allowed+"]", 1)))
			f.clock.advance(1000)
		})
	}
	f := of(".github/workflows/*", false, nil)
	f.wants(f.drive(), kernel.StandRefused, kernel.CodeProtectedPath)
	if f.started() > 0 {
		t.Error("a builder was started")
	}
	f = of(`".github/*/*"`, false, nil)
	if st := f.reach(kernel.ActionResult); !slices.Contains(st.Decision.Codes, kernel.CodeProtectedPath) {
		t.Errorf("it came out as %v", st.Decision.Codes)
	}
	if notes := f.reportOf(f.ref(stateRef)).Notes; !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "lacks the permission `workflows`") }) {
		t.Errorf("the report notes %q", notes)
	}
	f = of(".github/workflows/*", true, nil)
	f.wants(f.drive(), kernel.StandWaiting, kernel.CodePathGuarded)
	f = of(".github/workflows/*", false, &forge.Error{Reason: forge.Unavailable})
	if _, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ"); err == nil || f.started() > 0 {
		t.Errorf("nobody can be asked: %v, %d builders", err, f.started())
	}
}

// TestP1_LongChangeIsShownByTheCommand: a change that no comment has room for is named with
// its digest, and with the command that shows it.
func TestP1_LongChangeIsShownByTheCommand(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of the change\n", 5_000)
	f := newGuarded(t, func(f *forged) { f.exec.build = edits(t, map[string]string{"out.txt": long}, nil) })
	said := f.marked("task")[0].Body
	if !strings.Contains(said, "writ task show 1 --diff") || strings.Contains(said, "+a line of") || len(said) > maxComment {
		t.Errorf("the issue says in %d bytes\n%.2000s", len(said), said)
	}
	held, err := HeldAt(t.Context(), f.repo, f.place.cfg.World, git.OID(f.ref(stateRef)))
	must(t, err)
	if strings.Count(held.Diff, "+a line of") != 5_000 || f.line() != "/writ accept "+string(held.Digest) {
		t.Errorf("the command shows %d bytes for %s", len(held.Diff), held.Digest)
	}
}

// TestL13_ReviewOfAcceptedPaths: what somebody pushes beside an accepted guarded path is
// reviewed by the same scope: the path may stay as it was accepted, and nothing else.
func TestL13_ReviewOfAcceptedPaths(t *testing.T) {
	t.Parallel()
	for text, passes := range map[string]bool{hidden: true, "other\n": false} {
		f := newGuarded(t, func(f *forged) {
			f.place.terms = guardedTerms + "close_on: merged\ndefaults: {allowed_files: [a.txt]}\n"
		})
		f.says(f.scene.Owner, f.line())
		f.later()
		f.reviewer(map[string]string{"out.txt": text})
		f.later()
		want := "Scope and checks hold for"
		if said := f.marked("task")[0].Body; strings.Contains(said, want) != passes {
			t.Errorf("pushed %q:\n%s", text, said)
		}
	}
}

// TestK7_AnAcceptanceOutlivesItsRun: the process that goes on with accepted work is killed
// twice, so that the next one waits for a while. It tells the issue how the task stands
// meanwhile, and doesn't answer the acceptance as one that nothing waits for.
func TestK7_AnAcceptanceOutlivesItsRun(t *testing.T) {
	t.Parallel()
	f := newGuarded(t, nil)
	accept := f.says(f.scene.Owner, f.line())
	for range 3 {
		f.reach(kernel.ActionClaim)
		f.open()
	}
	f.reach(kernel.ActionTakeOver)
	f.drive()
	if f.trailer("aynig-state") != kernel.HeadStalled {
		t.Fatalf("HEAD is %s", f.trailer("aynig-state"))
	}
	f.reacted(accept)
	for range 3 {
		f.clock.advance(3_600_000)
		f.drive()
		f.showBranch()
	}
	f.reacted(accept, forge.ReactionDone)
	if f.started() != 1 || f.ref(changeRef) == "" || f.answeredWith(accept) != "" {
		t.Errorf("%d builders, the branch is at %q, it is answered %q", f.started(), f.ref(changeRef), f.answeredWith(accept))
	}
}

// TestI4_AcceptedWhileCutOff: where a run is cut off that has sealed nothing, nothing waits for
// an acceptance, and whoever accepts is told so at once.
func TestI4_AcceptedWhileCutOff(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms = guardedTerms })
	for range 3 {
		f.reach(kernel.ActionDispatch)
		f.open()
	}
	f.reach(kernel.ActionTakeOver)
	accept := f.says(f.scene.Owner, "/writ accept sha256:"+strings.Repeat("0", 64))
	f.drive()
	if f.trailer("aynig-state") != kernel.HeadStalled {
		t.Fatalf("HEAD is %s", f.trailer("aynig-state"))
	}
	f.reacted(accept, forge.ReactionConfused)
}
