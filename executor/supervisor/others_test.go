package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/marker"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// TestL14_OthersTell: an installation whose key isn't listed touches nothing of what
// another one, of the same account, wrote on the issue of a task that has ended or
// waits; whether the contract lists the other one, or nobody.
func TestL14_OthersTell(t *testing.T) {
	t.Parallel()
	for name, listed := range map[string]bool{"the contract lists the other": true, "nobody lists either": false} {
		for _, ends := range []kernel.TaskState{kernel.TaskCompleted, kernel.TaskRetryPending} {
			t.Run(fmt.Sprintf("%s, %s", name, ends), func(t *testing.T) {
				f := newTold(t, nil)
				if listed {
					f.place.terms = fmt.Sprintf("version: 1\nrunners: [%q]\n", ssh.MarshalAuthorizedKey(f.key))
					f.open()
				}
				if ends != kernel.TaskCompleted {
					f.exec.build = failing
				}
				f.drive()
				before := f.marked("task")
				other := newBench(t, f.bare, func(b *bench) {
					b.clock, b.issue = f.clock, nil
					b.place.clock, b.place.issue, b.place.forge, b.place.terms = f.clock, nil, f.place.forge, f.place.terms
				})
				f.clock.advance(3_600_000)
				writes := len(f.scene.Bot.Calls(forgetest.Writes()))
				for range 2 {
					_, err := other.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
					must(t, err)
				}
				if n := len(f.scene.Bot.Calls(forgetest.Writes())); n != writes || len(other.exec.builds) > 0 {
					t.Errorf("%d writes, %d builds", n-writes, len(other.exec.builds))
				}
				if now := f.marked("task"); len(now) != 1 || now[0] != before[0] {
					t.Errorf("the status comment is now %+v", now)
				}
			})
		}
	}
}

// TestL14_RetryThatNobodyMakesIsTold: an installation that is gone for good owes a
// retry. The one that is left says why it doesn't make it and what moves the task on,
// and answers.
func TestL14_RetryThatNobodyMakesIsTold(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.exec.build = failing
	f.drive()
	left := newBench(t, f.bare, func(b *bench) {
		b.clock, b.issue = f.clock, nil
		b.place.clock, b.place.issue, b.place.forge, b.place.terms = f.clock, nil, f.place.forge, f.place.terms
	})
	f.clock.advance(2 * othersRetry)
	_, err := f.scene.Owner.AddComment(t.Context(), f.scene.Repo, 1, "/writ explain")
	must(t, err)
	_, err = left.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
	must(t, err)
	f.shows(string(kernel.CodeLeaseUntrusted), "", true)
	if said := f.marked("task"); !strings.Contains(said[0].Body, kernel.CodeLeaseUntrusted.IssueRemedy()) {
		t.Errorf("the status comment names no remedy:\n%s", said[0].Body)
	}
	answers := f.marked("explain")
	if len(answers) != 1 || !strings.Contains(answers[0].Body, string(kernel.CodeLeaseUntrusted)) {
		t.Errorf("/writ explain is answered %+v", answers)
	}
}

// TestL14_ForgedResultIsTold: HEAD by a key that nobody lists, of a run that nobody
// told of, is still said on the issue.
func TestL14_ForgedResultIsTold(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	stranger := newBench(t, f.bare, func(b *bench) {
		b.clock, b.issue = f.clock, nil
		b.place.clock, b.place.issue, b.place.forge, b.place.terms = f.clock, nil, f.place.forge, f.place.terms
	})
	stranger.until(kernel.StandFinal)
	f.drive()
	f.shows(string(kernel.CodeLeaseUntrusted), "", true)
}

// TestL14_StrangersWordOverAResult: somebody with push lays the words of a result, with
// another state and signed by his own key, on work that waits for its merge. The issue
// says what is wrong with HEAD, and no untruth of the work.
func TestL14_StrangersWordOverAResult(t *testing.T) {
	t.Parallel()
	const strangersRun = "00000000-0000-4000-8000-000000000000"
	f := newWaiting(t)
	result := f.ref(stateRef)
	stranger := newBench(t, f.bare, func(b *bench) { b.clock, b.issue = f.clock, nil })
	c, err := f.repo.Commit(t.Context(), git.OID(result))
	must(t, err)
	message := strings.NewReplacer("aynig-state: waiting", "aynig-state: open", "writ-waiting-for: merge\n", "",
		"writ-seq: "+f.trailer("writ-seq"), "writ-seq: 9", "writ-run-id: "+f.trailer("writ-run-id"), "writ-run-id: "+strangersRun).Replace(string(c.Message))
	objs := git.NewObjects()
	key, err := instancekey.Load(stranger.place.dir)
	must(t, err)
	made, err := objs.Commit(git.CommitSpec{Tree: c.Tree, Parents: []git.OID{c.OID}, Author: c.Author, Committer: c.Committer, Message: []byte(message)}, git.NewSigner(key.SSHSigner()))
	must(t, err)
	out := f.repo.CompareAndSwap(t.Context(), []git.Command{{Ref: stateRef, Old: c.OID, New: made}}, objs.Pack())
	if out.Status != git.Won {
		t.Fatal(out)
	}
	f.wants(f.later(), kernel.StandWaiting, kernel.CodeLeaseUntrusted)
	f.shows("execution_dispatched: `true`", "", true)
	if said := f.marked("task")[0].Body; strings.Contains(said, string(kernel.CodeTaskNumberTaken)) || strings.Contains(said, "was not carried out") || strings.Contains(said, strangersRun) {
		t.Errorf("the issue says\n%s", said)
	}
}

// TestL14_StrangersLeaseIsTold: the issue says that an unlisted writer holds the task and
// until when, commands are answered once, no label is touched, and once the ref is gone the
// task is done. Who approved nothing is told nothing.
func TestL14_StrangersLeaseIsTold(t *testing.T) {
	t.Parallel()
	lay := func(f *forged) {
		tree := gittest.Git(t, f.bare, "hash-object", "-t", "tree", "-w", "/dev/null")
		lease := "x\n\naynig-state: working\naynig-origin-state: open\naynig-run-id: 11111111-1111-4111-8111-111111111111\naynig-runner-id: eve/1\naynig-lease-seconds: 3600\nwrit-format: 1\nwrit-seq: 9000000000\n"
		gittest.Git(t, f.bare, "update-ref", stateRef, gittest.Git(t, f.bare, "commit-tree", tree, "-m", lease))
	}
	f := newTold(t, nil)
	lay(f)
	retry, explain := f.says(f.scene.Owner, "/writ retry"), f.says(f.scene.Owner, "/writ explain")
	must(t, f.scene.Bot.AddLabel(t.Context(), f.scene.Repo, 1, kernel.LabelClaimed)) // as another installation of the account
	for range 3 {
		f.wants(f.later(), kernel.StandHeld, kernel.CodeLeaseHeld)
		f.shows("is held by an unlisted writer", kernel.LabelClaimed, true)
		f.shows("waited for until `", kernel.LabelClaimed, true)
	}
	f.reacted(retry, forge.ReactionDone)
	f.reacted(explain, forge.ReactionDone)
	if n := len(f.marked("explain")); n != 1 || !strings.Contains(f.marked("task")[0].Body, " run=none ") {
		t.Errorf("%d explanations, under %s", n, f.marked("task")[0].Body)
	}
	gittest.Git(t, f.bare, "update-ref", "-d", stateRef)
	f.later()
	f.shows("task 1 completed", kernel.LabelCompleted, false)

	f = newForged(t, func(f *forged) { f.withBranch() })
	lay(f)
	f.later()
	if f.later(); len(f.marked("task")) != 0 {
		t.Error("nobody approved it, and it is told")
	}
}

// TestL19_SetBackForOneWhoSawNothing: an installation without memory of a task goes by
// the run that the issue tells of. What is set back from there waits for a person, and
// what came after it, or is that run's, doesn't.
func TestL19_SetBackForOneWhoSawNothing(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) {
		f.exec.build = failing
		f.place.terms = "version: 1\nbudgets: {attempts: 2}\n"
	})
	f.drive()
	first := f.ref(stateRef)
	f.clock.advance(3_600_000)
	f.exec.build = writes(map[string]string{"out.txt": "hello\n"})
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	last, said := f.ref(stateRef), f.marked("task")[0]
	number := marker.Marker{World: "local/test/repo", Task: 1}.SeqLine(marker.Marker{World: "local/test/repo", Task: 1}.Seq(said.Body))
	must(t, f.scene.Robot.EditComment(t.Context(), f.scene.Repo, said.ID, strings.Replace(said.Body, number, "", 1))) // as earlier versions wrote it
	must(t, f.scene.Owner.SetState(t.Context(), f.scene.Repo, 1, forge.Open))
	fresh := func(more ...ssh.PublicKey) *bench {
		return newBench(t, f.bare, func(b *bench) {
			b.clock, b.issue = f.clock, nil
			b.place.clock, b.place.issue, b.place.forge, b.place.terms = f.clock, nil, f.place.forge, f.place.terms
			b.place.cfg.Trusted = append([]ssh.PublicKey{f.key}, more...)
		})
	}
	other := fresh()
	f.wants(other.tick(), kernel.StandFinal)

	open := strings.TrimSpace(gittest.Git(t, f.bare, "rev-list", "--max-parents=0", last))
	for _, back := range []string{first, open} {
		gittest.Git(t, f.bare, "update-ref", stateRef, back)
		gittest.Git(t, f.bare, "update-ref", "-d", changeRef)
		f.clock.advance(tellerTime.Milliseconds())
		other = fresh()
		for range 3 {
			st := other.tick()
			f.wants(st, kernel.StandWaiting, kernel.CodeStateRollback)
			if st.Decision.WaitingFor != kernel.WaitRepair || len(other.exec.builds) > 0 {
				t.Errorf("it waits for %q, %d builders", st.Decision.WaitingFor, len(other.exec.builds))
			}
			f.clock.advance(3_600_000)
		}
	}
	must(t, other.sup.Resume(t.Context(), 1, "ana", "I looked"))
	if st := other.reach(kernel.ActionClaim); st.Outcome.Status != kernel.OutcomeDone {
		t.Errorf("the claim after the repair: %+v", st.Outcome)
	}

	other = fresh(other.key) // of a run that the issue doesn't tell of yet, by a live lease
	if st := other.tick(); st.Decision.Standing != kernel.StandHeld {
		t.Errorf("a live lease of which the issue doesn't tell yet: %s %v", st.Decision.Standing, st.Decision.Codes)
	}
}

// TestL19_LaterThanTheIssueTells: HEAD of a later run than the issue tells of has that
// one below, and goes on.
func TestL19_LaterThanTheIssueTells(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.exec.build = failing })
	f.drive() // the issue tells of the first attempt
	f.clock.advance(3_600_000)
	f.reach(kernel.ActionResult) // and not of the second
	other := newBench(t, f.bare, func(b *bench) {
		b.clock, b.issue = f.clock, nil
		b.place.clock, b.place.issue, b.place.forge = f.clock, nil, f.place.forge
		b.place.cfg.Trusted = []ssh.PublicKey{f.key}
	})
	f.clock.advance(3_600_000)
	if st := other.reach(kernel.ActionClaim); st.Decision.Attempt != 3 {
		t.Errorf("attempt %d", st.Decision.Attempt)
	}
}

// TestL19_LeaseOfTheRunThatEnded: the state ref of a completed task is set back to the
// lease of the very run that completed it, or to its break, and the change branch is
// deleted as forges do. Who never saw the result, or saw that lease last, goes by the
// number that the issue tells of: nothing is reopened, built, said or overwritten.
func TestL19_LeaseOfTheRunThatEnded(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.reach(kernel.ActionClaim)
	another := func() *bench {
		return newBench(t, f.bare, func(b *bench) {
			b.clock, b.issue = f.clock, nil
			b.place.clock, b.place.issue, b.place.forge, b.place.terms = f.clock, nil, f.place.forge, f.place.terms
			b.place.cfg.Trusted = append([]ssh.PublicKey{f.key}, b.place.cfg.Trusted...)
		})
	}
	lease, witness := f.ref(stateRef), another()
	if st := witness.tick(); st.Decision.Standing != kernel.StandHeld {
		t.Fatalf("it is %s", st.Decision.Standing)
	}
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	last, said, issue := f.ref(stateRef), f.marked("task"), f.forgeIssue()

	gittest.Git(t, f.bare, "update-ref", stateRef, lease)
	gittest.Git(t, f.bare, "update-ref", "-d", changeRef)
	f.clock.advance(tellerTime.Milliseconds()) // until then the issue is left to who told it
	fresh := another()
	for range 4 {
		for name, b := range map[string]*bench{"fresh": fresh, "witness": witness} {
			st, err := b.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
			must(t, err)
			if st.Decision.WaitingFor != kernel.WaitRepair || !slices.Contains(st.Decision.Codes, kernel.CodeStateRollback) || len(b.exec.builds) > 0 {
				t.Errorf("%s: it waits for %q, %v, after %d builders", name, st.Decision.WaitingFor, st.Decision.Codes, len(b.exec.builds))
			}
		}
		f.clock.advance(3_600_000)
	}
	now := f.forgeIssue()
	if list := f.marked("task"); len(list) != 1 || list[0].Body != said[0].Body || now.State != issue.State || !slices.Equal(now.Labels, issue.Labels) || f.ref(stateRef) != lease {
		t.Errorf("the issue is %s with %v, and says %+v", now.State, now.Labels, list)
	}

	gittest.Git(t, f.bare, "update-ref", stateRef, last) // a person put it back
	for _, b := range []*bench{fresh, witness} {
		f.wants(b.tick(), kernel.StandFinal)
	}

	gittest.Git(t, f.bare, "update-ref", stateRef, lease)
	f.wants(fresh.tick(), kernel.StandWaiting, kernel.CodeStateRollback)
	must(t, fresh.sup.Resume(t.Context(), 1, "ana", "I looked"))
	if st := fresh.reach(kernel.ActionClaim); st.Outcome.Status != kernel.OutcomeDone || st.Facts.NextSeq() <= kernel.RepairSeqStep {
		t.Errorf("the claim after the repair: %+v", st.Outcome)
	}
}

// readFirst does something right before the issue is read.
type readFirst struct {
	forge.Client
	do func()
}

func (r *readFirst) Issue(ctx context.Context, repo forge.Repo, n int64) (forge.Issue, error) {
	r.do()
	return r.Client.Issue(ctx, repo, n)
}

// TestL19_ToldSinceTheLook: another installation pushes and tells of it between the look
// at HEAD and the one at the issue. Nobody set anything back.
func TestL19_ToldSinceTheLook(t *testing.T) {
	t.Parallel()
	for _, req := range []kernel.Request{kernel.RequestTick, kernel.RequestTell} {
		t.Run(string(req), func(t *testing.T) {
			f := newTold(t, nil)
			f.reach(kernel.ActionClaim)
			lease := f.ref(stateRef)
			f.drive()
			last := f.ref(stateRef)
			gittest.Git(t, f.bare, "update-ref", stateRef, lease)
			other := newBench(t, f.bare, func(b *bench) {
				b.clock, b.issue = f.clock, nil
				p := *f.place.forge
				p.Client = &readFirst{p.Client, func() { gittest.Git(t, f.bare, "update-ref", stateRef, last) }}
				b.place.clock, b.place.issue, b.place.forge, b.place.cfg.Trusted = f.clock, nil, &p, []ssh.PublicKey{f.key}
			})
			defer other.task.tells()()
			st, err := other.task.Tick(t.Context(), req, "writ")
			must(t, err)
			f.wants(st, kernel.StandFinal)
		})
	}
}

// TestE1_SecondResultIsSaid: where the issue's comment is gone, too, one who never saw the
// result does the task again. The installation that delivered it says so, once.
func TestE1_SecondResultIsSaid(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.reach(kernel.ActionClaim)
	lease := f.ref(stateRef)
	f.drive()
	gittest.Git(t, f.bare, "update-ref", stateRef, lease)
	gittest.Git(t, f.bare, "update-ref", "-d", changeRef)
	must(t, f.scene.Bot.DeleteComment(t.Context(), f.scene.Repo, f.marked("task")[0].ID))
	other := newBench(t, f.bare, func(b *bench) {
		b.clock, b.issue = f.clock, nil
		b.place.clock, b.place.issue, b.place.forge, b.place.cfg.Trusted = f.clock, nil, f.place.forge, []ssh.PublicKey{f.key}
	})
	other.tick()
	f.clock.advance(3_600_000)
	other.until(kernel.StandFinal)
	f.trusts(other)
	var log strings.Builder
	f.sup.deps.Log = slog.New(slog.NewTextHandler(&log, nil))
	f.wants(f.tick(), kernel.StandFinal)
	f.wants(f.tick(), kernel.StandFinal)
	if n := strings.Count(log.String(), "code="+string(kernel.CodeStateRollback)); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, log.String())
	}
}

// TestL12_NoCommitAtHead: a blob, a tree or a tag at the state ref, before a task or
// after it, is no outage of the server: it waits for a person, who moves on from it.
func TestL12_NoCommitAtHead(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]string{"blob": "main:README", "tree": "main^{tree}", "tag": "tagged"} {
		for _, after := range []bool{false, true} {
			f := newTold(t, nil)
			gittest.Git(t, f.bare, "-c", "user.name=ana", "-c", "user.email=ana@example.com", "tag", "-a", "-m", "x", "tagged", "main")
			if after {
				f.exec.build = failing
				f.reach(kernel.ActionResult)
				f.exec.build = writes(map[string]string{"out.txt": "hello\n"})
			}
			oid := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", what))
			gittest.Git(t, f.bare, "update-ref", stateRef, oid)
			st := f.tick()
			f.wants(st, kernel.StandWaiting, kernel.CodeLockViolation)
			if st.Decision.WaitingFor != kernel.WaitRepair || st.Unable {
				t.Errorf("%s: it waits for %q", name, st.Decision.WaitingFor)
			}
			f.comment(f.scene.Owner, "/writ retry")
			f.reach(kernel.ActionClaim)
			f.until(kernel.StandFinal)
			gittest.Git(t, f.bare, "fsck", "--strict")
		}
	}
}

// TestL12_BranchInTheWay: a branch that is the change branch's directory, or lies in it,
// is said before the build.
func TestL12_BranchInTheWay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"refs/heads/writ/change/1/x", "refs/heads/writ/change", stateRef + "/x", "refs/writ/task"} {
		f := newTold(t, nil)
		gittest.Git(t, f.bare, "update-ref", name, "main")
		f.wants(f.later(), kernel.StandRefused, kernel.CodeBranchTaken)
		f.shows("Delete or rename the ref", "", true)
		f.shows(name, "", true)
		gittest.Git(t, f.bare, "update-ref", "-d", name)
		f.reach(kernel.ActionJudge)
	}
}

// TestL12_BranchMadeMeanwhile: somebody makes a branch in the way of the change branch while
// the work is done. The work is kept and waits, for hours, and the issue names the branch;
// nobody else moves on, and nothing is counted. It is delivered by the look after the branch
// is gone, by this process or the next, and by the one builder.
func TestL12_BranchMadeMeanwhile(t *testing.T) {
	t.Parallel()
	for i, name := range []string{changeRef, changeRef + "/x", "refs/heads/writ/change"} {
		for n, terms := range []string{"", checkTerms} {
			for k, restarted := range []bool{false, true} {
				if !noTurns() && (i+n+k)%2 > 0 { // the suite has each two of them together once
					continue
				}
				t.Run(fmt.Sprintf("%s sealed=%v restarted=%v", name, terms != "", restarted), func(t *testing.T) {
					f := newTold(t, func(f *forged) { f.place.terms = terms })
					f.reach(kernel.ActionDispatch)
					gittest.Git(t, f.bare, "update-ref", name, "main")
					st := f.drive()
					if !slices.Contains(st.Decision.Codes, kernel.CodeBranchTaken) || st.Decision.Standing != kernel.StandDue {
						t.Fatalf("it stands %s: %v", st.Decision.Standing, st.Decision.Violations)
					}
					f.shows("a branch is in the way", "", true)
					f.shows(name, "", true)
					head := f.ref(stateRef)
					for range 3 {
						f.clock.advance(time.Minute.Milliseconds())
						f.drive()
					}
					if f.ref(stateRef) != head {
						t.Error("HEAD is pushed again at each look")
					}
					if restarted {
						f.task.Close()
						f.open()
						f.tellsOfKept(f.drive())
						other := *f
						other.bench = newBench(t, f.bare, func(b *bench) {
							b.clock, b.place.clock, b.place.forge, b.place.terms = f.clock, f.clock, f.place.forge, terms
							b.issue, b.place.issue, b.place.cfg.Trusted = nil, nil, []ssh.PublicKey{f.key}
						})
						f.clock.advance(2 * time.Minute.Milliseconds())
						other.tellsOfKept(other.drive())
						other.shows("a branch is in the way", "", true) // and no rule
					}
					for range 15 {
						f.clock.advance(10 * time.Minute.Milliseconds())
						if st = f.drive(); !slices.Contains(st.Decision.Codes, kernel.CodeBranchTaken) {
							t.Fatalf("it stands %s: %v", st.Decision.Standing, st.Decision.Violations)
						}
						if until := st.Facts.Head.NotBefore; !restarted && until <= f.clock.Now().WallMs {
							t.Error("others may move on")
						}
					}
					gittest.Git(t, f.bare, "update-ref", "-d", name)
					if st = f.drive(); st.Decision.Interruptions != 0 || f.started() != 1 {
						t.Errorf("%s with %d interruptions after %d builders", st.Decision.Standing, st.Decision.Interruptions, f.started())
					}
					f.shows("task 1 completed", kernel.LabelCompleted, false)
					delivered(t, f.bare)
					f.verify(stateRef)
				})
			}
		}
	}
}

// tellsOfKept: the issue, and whoever asks, is told that the work is done and kept.
func (f *forged) tellsOfKept(st Status) {
	f.t.Helper()
	f.shows("The work is done and kept", "", true)
	rep, err := f.task.Report(f.t.Context(), st)
	if err != nil || !rep.Dispatched || rep.RunID != st.Facts.Head.LastRun || rep.WaitingFor != kernel.WaitRule {
		f.t.Errorf("it reports %+v, %v", rep, err)
	}
	if _, err := rep.JSON(); err != nil {
		f.t.Error(err)
	}
}

// atPush calls something right before a push of a change branch.
type atPush struct {
	Repo
	do func()
}

func (r *atPush) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	if do := r.do; do != nil && len(cmds) > 1 {
		r.do = nil
		do()
	}
	return r.Repo.CompareAndSwap(ctx, cmds, pack)
}

// TestL12_BranchMadeAtThePush: a branch comes in the way between the look and the push, goes,
// and another one comes at the next push. Each is named, and the evidence stays whole.
func TestL12_BranchMadeAtThePush(t *testing.T) {
	t.Parallel()
	at := &atPush{}
	f := newTold(t, func(f *forged) {
		f.place.terms = checkTerms
		f.place.wrap = func(r Repo) Repo { at.Repo = r; return at }
	})
	f.reach(kernel.ActionDispatch)
	f.exec.finish()
	for _, name := range []string{changeRef + "/x", changeRef + "/y"} {
		at.do = func() { gittest.Git(t, f.bare, "update-ref", name, "main") }
		f.drive()
		f.shows(name, "", true)
		gittest.Git(t, f.bare, "update-ref", "-d", name)
		if name != changeRef+"/x" {
			continue
		}
		gittest.Hook(t, f.bare, "pre-receive", noBranches) // a rule comes between the two, and is mended
		f.drive()
		gittest.Hook(t, f.bare, "pre-receive", "exit 0")
		f.clock.advance(ruleSoon.Milliseconds())
	}
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	if files := gittest.Git(t, f.bare, "ls-tree", "--name-only", stateRef); f.started() != 1 || !strings.Contains(files, replay.FileRecords) {
		t.Errorf("after %d builders the evidence is %s", f.started(), files)
	}
	f.verify(stateRef)
}

// TestL12_BranchThenRule: the issue names what keeps the work from being delivered now, be it
// a branch or a rule, and not what kept it before.
func TestL12_BranchThenRule(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms = checkTerms })
	f.reach(kernel.ActionDispatch)
	f.exec.finish()
	for range 2 {
		gittest.Git(t, f.bare, "update-ref", changeRef+"/x", "main")
		f.drive()
		f.shows(waitsForBranch, "", true)
		gittest.Hook(t, f.bare, "pre-receive", noBranches)
		gittest.Git(t, f.bare, "update-ref", "-d", changeRef+"/x")
		f.drive()
		f.shows(waitsForRule, "", true)
		f.shows("policy 7: bots may not make branches", "", true)
	}
	gittest.Hook(t, f.bare, "pre-receive", "exit 0")
	f.clock.advance(ruleAgain.Milliseconds())
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	f.verify(stateRef)
}

// TestL12_BranchInTheWayOfNothing: who approved nothing is told nothing of a branch.
func TestL12_BranchInTheWayOfNothing(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) { f.withBranch() })
	gittest.Git(t, f.bare, "update-ref", changeRef, "main")
	if st := f.later(); slices.Contains(st.Decision.Codes, kernel.CodeBranchTaken) || len(f.marked("task")) != 0 {
		t.Errorf("%v, and %d comments", st.Decision.Codes, len(f.marked("task")))
	}
}

// TestL8_AListedClockFarAhead: a listed writer whose clock is a day ahead keeps nobody
// silent, and nobody from trying again: what it dates counts from when it was first seen.
func TestL8_AListedClockFarAhead(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 3} {
		f := newTold(t, func(f *forged) { f.place.terms = fmt.Sprintf("version: 1\nbudgets: {attempts: %d}\n", attempts) })
		ahead := newBench(t, f.bare, func(b *bench) {
			b.clock.advance(24 * time.Hour.Milliseconds())
			b.exec.build = failing
			b.issue, b.place.issue, b.place.forge, b.place.terms = nil, nil, f.place.forge, f.place.terms
			b.place.cfg.Trusted = []ssh.PublicKey{f.key}
		})
		f.trusts(ahead)
		ahead.reach(kernel.ActionResult) // and dies before it tells
		told := func() kernel.Action { return f.ask(kernel.RequestTell).Decision.Action }
		if got := told(); got != kernel.ActionNone {
			t.Errorf("%d attempts: at once it is told: %s", attempts, got)
		}
		f.clock.advance(61_000)
		if first, then := told(), told(); first != kernel.ActionSee || then != kernel.ActionComment {
			t.Errorf("%d attempts: after a minute: %s, %s", attempts, first, then)
		}
		if attempts == 1 {
			continue
		}
		f.clock.advance(10 * time.Minute.Milliseconds())
		if st := f.tick(); st.Decision.Action != kernel.ActionClaim || st.Decision.Attempt != 2 {
			t.Errorf("after the longest back-off it is %s, %s in %d s", st.Decision.Standing, st.Decision.Action, (st.Decision.Wake-f.clock.Now().WallMs)/1000)
		}
	}
}
