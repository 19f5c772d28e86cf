package supervisor

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// forged is an installation whose task is an issue on a fake forge, over a real
// repository.
type forged struct {
	otherWrap func(Repo) Repo // of another installation, see another; nil for nothing
	*bench
	scene *forgetest.Scene
	rows  rows
	job   executor.BuildJob // that a builder was given last, see newReviewed
}

// rows are kept payloads.
type rows []approval.Row

func (r *rows) Approvals(context.Context, int64, int64) ([]approval.Row, error) { return *r, nil }

// newForged files an issue that nobody has approved.
func newForged(t *testing.T, change func(*forged)) *forged {
	t.Helper()
	f := &forged{}
	newBench(t, newRepo(t), func(b *bench) {
		f.bench = b
		f.scene = forgetest.NewScene(func() time.Time { return time.UnixMilli(b.clock.Now().WallMs) })
		_, err := f.scene.Owner.FileIssue(t.Context(), f.scene.Repo, "Say hello", issueBody)
		must(t, err)
		must(t, f.scene.Bot.EnsureLabels(t.Context(), f.scene.Repo, []forge.Label{{Name: "writ", Color: "cccccc"}}))
		b.place.issue = nil
		b.place.forge = &Forge{Client: f.scene.Bot, Repo: f.scene.Repo, Evidence: &f.rows, EditHistory: true}
		if change != nil {
			change(f)
		}
	})
	return f
}

// label has somebody set the contract's label.
func (f *forged) label(by *forgetest.Account) {
	f.t.Helper()
	f.clock.advance(1000)
	must(f.t, by.AddLabel(f.t.Context(), f.scene.Repo, 1, "writ"))
}

func (f *forged) unlabel(by *forgetest.Account) {
	f.t.Helper()
	f.clock.advance(1000)
	must(f.t, by.RemoveLabel(f.t.Context(), f.scene.Repo, 1, "writ"))
}

// comment has somebody say something.
func (f *forged) comment(by *forgetest.Account, body string) {
	f.t.Helper()
	f.clock.advance(1000)
	_, err := by.AddComment(f.t.Context(), f.scene.Repo, 1, body)
	must(f.t, err)
}

func (f *forged) edit(body string) {
	f.t.Helper()
	f.clock.advance(1000)
	must(f.t, f.scene.Owner.EditIssue(f.t.Context(), f.scene.Repo, 1, "Say hello", body))
}

// wants fails unless a status stands so, with these codes.
func (f *forged) wants(st Status, s kernel.Standing, codes ...kernel.Code) {
	f.t.Helper()
	if st.Decision.Standing != s || !slices.Equal(st.Decision.Codes, kernel.SortCodes(codes)) {
		f.t.Errorf("it stands %s, %s %v; want %s %v", st.Decision.Standing, st.Decision.Action, st.Decision.Codes, s, codes)
	}
}

func (b *bench) started() int { return len(b.exec.builds) }

// trailer is a word at HEAD.
func (f *forged) trailer(key string) string {
	f.t.Helper()
	if f.ref(stateRef) == "" {
		return ""
	}
	return strings.TrimSpace(gittest.Git(f.t, f.bare, "log", "-1", "--format=%(trailers:key="+key+",valueonly)", stateRef))
}

func TestI1_EditedAfterTheLabel(t *testing.T) {
	t.Parallel()
	f := newForged(t, nil)
	f.label(f.scene.Owner)
	f.edit(issueBody + "\nand delete everything\n")
	f.wants(f.tick(), kernel.StandRefused, kernel.CodeInstructionChanged)
	f.comment(f.scene.Owner, "/writ approve "+string(digestText("Say hello", issueBody+"\nand delete everything\n")))
	f.until(kernel.StandFinal)
	if f.started() != 1 || f.trailer("aynig-state") != "completed" {
		t.Errorf("%d builders, HEAD %s", f.started(), f.trailer("aynig-state"))
	}
}

// TestI3_DigestOfNoText: whoever names a digest that the issue doesn't have is told
// so, and not that an issue that nobody touched was changed.
func TestI3_DigestOfNoText(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) { f.withBranch() })
	f.says(f.scene.Owner, "/writ approve "+string(canon.Sum([]byte("x"))))
	f.wants(f.drive(), kernel.StandRefused, kernel.CodeApprovalUnproven)
	right := "/writ approve " + string(digestText("Say hello", issueBody))
	if told := f.marked("task")[0].Body; !strings.Contains(told, "named isn't that of the issue as it is now. Read it, then comment: "+right) {
		t.Errorf("the issue says %s", told)
	}
	f.says(f.scene.Owner, right)
	f.wants(f.drive(), kernel.StandFinal)
}

// TestS18_SecretInTheIssue: what an issue says is kept as evidence and in the subject of
// its commit, so one that shows a known secret is refused, and nothing of it is pushed.
func TestS18_SecretInTheIssue(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	held := func(text []byte) bool { return bytes.Contains(text, []byte(secret)) }
	for name, c := range map[string]struct{ title, body, says, subject string }{
		"title":                   {"Log in with " + secret, issueBody, "/writ run", "title"},
		"title that comes to one": {"Log in with hunter2*-hunter2", issueBody, "/writ run", "title"},
		"body":                    {"Say hello", issueBody + "\n" + secret + "\n", "/writ run", "body"},
		"retry":                   {"Say hello", issueBody, "/writ retry use " + secret, "retry"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForged(t, func(f *forged) { f.withBranch() })
			f.sup.deps.Holds = held
			must(t, f.scene.Owner.EditIssue(t.Context(), f.scene.Repo, 1, c.title, c.body))
			f.says(f.scene.Owner, c.says)
			st := f.drive()
			f.wants(st, kernel.StandRefused, kernel.CodeSecretDetected)
			if v := st.Decision.Violations[0]; v.Subject != c.subject || f.ref(stateRef) != "" || f.started() != 0 {
				t.Errorf("refused for %+v, HEAD %q", v, f.ref(stateRef))
			}
			for _, k := range f.marked("task") {
				if held([]byte(k.Body)) {
					t.Errorf("the status comment says %s", k.Body)
				}
			}
		})
	}
}

// TestI2_EditedBetweenClaimAndDispatch: the text is compared at the last moment
// before the start. What the bot itself does, labels and comments, is no edit.
func TestI2_EditedBetweenClaimAndDispatch(t *testing.T) {
	t.Parallel()
	f := newForged(t, nil)
	f.label(f.scene.Owner)
	f.reach(kernel.ActionClaim)
	f.comment(f.scene.Reader, "what is this?")
	must(t, f.scene.Owner.AddLabel(t.Context(), f.scene.Repo, 1, "bug"))
	f.edit(issueBody + "more\n")
	st := f.tick()
	f.wants(st, kernel.StandActing, kernel.CodeDispatchInvalid, kernel.CodeInstructionChanged)
	if f.started() != 0 || f.trailer("aynig-state") != "waiting" || f.trailer("writ-waiting-for") != "approval" {
		t.Errorf("%d builders, HEAD %s", f.started(), f.trailer("aynig-state"))
	}
	f.wants(f.tick(), kernel.StandWaiting)
	f.edit(issueBody) // taking the edit back is no approval
	f.wants(f.tick(), kernel.StandWaiting)
	f.comment(f.scene.Owner, "/writ run")
	f.until(kernel.StandFinal)
	if f.trailer("writ-attempt") != "1" || f.trailer("writ-interruptions") != "0" {
		t.Errorf("attempt %s, interruptions %s", f.trailer("writ-attempt"), f.trailer("writ-interruptions"))
	}
}

// TestI3_WithoutEvidence: where nobody can show what was approved, the task waits
// and says with which digest it can be approved.
func TestI3_WithoutEvidence(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) {
		f.place.forge.Client, f.place.forge.EditHistory = mute{f.scene.Bot}, false
	})
	f.label(f.scene.Owner)
	st := f.tick()
	f.wants(st, kernel.StandRefused, kernel.CodeApprovalUnproven)
	digest := digestText("Say hello", issueBody)
	if !strings.Contains(st.Decision.Violations[0].Detail, "/writ approve "+string(digest)) {
		t.Errorf("it says %s", st.Decision.Violations[0].Detail)
	}
	f.rows = rows{{Kind: approval.ByLabel, Actor: f.scene.Owner.ID, Label: "writ", Digest: digest, At: f.clock.Now().WallMs}}
	f.reach(kernel.ActionClaim)
}

// mute is a forge whose history doesn't know texts.
type mute struct{ forge.Client }

func (m mute) History(ctx context.Context, r forge.Repo, n int64) ([]forge.Event, error) {
	list, err := m.Client.History(ctx, r, n)
	for i := range list {
		list[i].Digest = ""
	}
	return list, err
}

func TestI5_RevokedBeforeTheStart(t *testing.T) {
	t.Parallel()
	f := newForged(t, nil)
	f.label(f.scene.Owner)
	f.reach(kernel.ActionClaim)
	f.scene.Grant(f.scene.Repo, f.scene.Owner.ID, forge.Read)
	f.wants(f.tick(), kernel.StandActing, kernel.CodeAuthorityRevoked)
	f.wants(f.tick(), kernel.StandWaiting)
	if f.started() != 0 || f.trailer("writ-interruptions") != "0" {
		t.Errorf("%d builders, %s interruptions", f.started(), f.trailer("writ-interruptions"))
	}
	f.scene.Grant(f.scene.Repo, f.scene.Owner.ID, forge.Admin)
	f.wants(f.tick(), kernel.StandWaiting) // the old label is spent
	other := newBench(t, f.bare, func(b *bench) {
		b.clock, b.issue = f.clock, nil
		b.place.clock, b.place.issue, b.place.forge, b.place.terms = f.clock, nil, f.place.forge, f.place.terms
		b.place.cfg.Trusted = append(b.place.cfg.Trusted, f.key)
	})
	if st := other.tick(); st.Decision.Standing != kernel.StandWaiting { // HEAD says so to whoever has no memory of it
		t.Errorf("another installation stands %s", st.Decision.Standing)
	}
}

func TestI6_OwnLabel(t *testing.T) {
	t.Parallel()
	f := newForged(t, nil)
	f.label(f.scene.Robot)
	f.wants(f.tick(), kernel.StandRefused, kernel.CodeRecursion)
	f.comment(f.scene.Robot, "/writ run")
	f.wants(f.tick(), kernel.StandRefused, kernel.CodeRecursion)
}

// TestI10_ContractChanges: the contract in force at the start is the pinned one,
// or nothing starts.
func TestI10_ContractChanges(t *testing.T) {
	t.Parallel()
	f := newForged(t, nil)
	f.label(f.scene.Owner)
	f.reach(kernel.ActionClaim)
	gittest.Commit(t, f.bare, "refs/heads/main", f.ref("refs/heads/main"), map[string]string{".writ/contract.yaml": "version: 1\nbudgets: {attempts: 7}\n"})
	f.wants(f.tick(), kernel.StandActing, kernel.CodeDispatchInvalid, kernel.CodeGovernanceMismatch)
	if f.started() != 0 || f.trailer("aynig-state") != "stalled" {
		t.Errorf("%d builders, HEAD %s", f.started(), f.trailer("aynig-state"))
	}
	if st := f.until(kernel.StandFinal); st.Decision.State != kernel.TaskCompleted || st.Facts.Budgets.Attempts != 7 {
		t.Errorf("%s under %+v", st.Decision.State, st.Facts.Budgets)
	}
}

// TestI1_EditedBehindTheResult: an edit that comes once the work is judged undoes nothing,
// and is noted as long as it stands; with it the issue says another thing than was done.
func TestI1_EditedBehindTheResult(t *testing.T) {
	t.Parallel()
	for _, terms := range []string{"", mergeTerms} {
		f := newTold(t, func(f *forged) { f.place.terms = terms })
		f.drive()
		notes := func() bool {
			return strings.Contains(f.marked("task")[0].Body, "was edited after this work was judged")
		}
		if notes() {
			t.Errorf("%q: nobody edited it", terms)
		}
		f.edit(issueBody + "more\n")
		f.drive()
		if !notes() || f.started() != 1 {
			t.Errorf("%q: edited, %d builders, and the comment says\n%s", terms, f.started(), f.marked("task")[0].Body)
		}
		f.edit(issueBody)
		if f.drive(); notes() {
			t.Errorf("%q: the edit was taken back", terms)
		}
	}
}

// TestI12_TargetBeforeTheStart: what becomes ineligible after the claim isn't
// dispatched.
func TestI12_TargetBeforeTheStart(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(*forged){
		"archived": func(f *forged) {
			f.scene.ChangeRepo(f.scene.Repo, func(r *forge.Repository) { r.Archived = true })
		},
		"locked": func(f *forged) { must(t, f.scene.Owner.Lock(t.Context(), f.scene.Repo, 1, true)) },
		"gone":   func(f *forged) { f.scene.RemoveRepo(f.scene.Repo) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newForged(t, nil)
			f.label(f.scene.Owner)
			f.reach(kernel.ActionClaim)
			act(f)
			st := f.tick()
			if !slices.Contains(st.Decision.Codes, kernel.CodeTargetIneligible) || f.started() != 0 {
				t.Errorf("%s %v, %d builders", st.Decision.Action, st.Decision.Codes, f.started())
			}
		})
	}
}

func TestI13_AllowList(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) {
		f.place.forge.Allowed = func(owner, _ string) bool { return owner == "acme" }
	})
	f.label(f.scene.Owner)
	f.scene.ChangeRepo(f.scene.Repo, func(r *forge.Repository) { r.Owner = "evil" })
	f.wants(f.tick(), kernel.StandRefused, kernel.CodeTargetNotAllowed)
}

func TestW11_Stale(t *testing.T) {
	t.Parallel()
	f := newForged(t, nil)
	f.wants(f.tick(), kernel.StandRefused, kernel.CodeEventStale)
	f.label(f.scene.Owner)
	f.unlabel(f.scene.Owner)
	f.wants(f.tick(), kernel.StandRefused, kernel.CodeSuperseded)
	f.label(f.scene.Owner)
	f.reach(kernel.ActionClaim)
}

// TestF7_PersonEndsTheRun: what a person does during a run wins. The builder is
// killed, the task waits, and nothing is counted.
func TestF7_PersonEndsTheRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act  func(*forged)
		code kernel.Code
	}{
		"close":   {func(f *forged) { must(t, f.scene.Owner.SetState(t.Context(), f.scene.Repo, 1, forge.Closed)) }, kernel.CodeSuperseded},
		"unlabel": {func(f *forged) { f.unlabel(f.scene.Triage) }, kernel.CodeSuperseded},
		"stop":    {func(f *forged) { f.comment(f.scene.Owner, "/writ stop") }, kernel.CodeTaskStopped},
		"edit":    {func(f *forged) { f.edit("never mind") }, kernel.CodeInstructionChanged},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForged(t, func(f *forged) { f.exec.hold = true })
			f.label(f.scene.Owner)
			f.reach(kernel.ActionDispatch)
			c.act(f)
			f.wants(f.tick(), kernel.StandActing, c.code)
			f.wants(f.tick(), kernel.StandWaiting)
			if len(f.exec.running()) != 0 || f.trailer("writ-interruptions") != "0" || f.trailer("writ-attempt") != "1" {
				t.Errorf("%d builders run, %s interruptions, attempt %s", len(f.exec.running()), f.trailer("writ-interruptions"), f.trailer("writ-attempt"))
			}
			for range 3 {
				f.clock.advance(3_600_000)
				f.wants(f.tick(), kernel.StandWaiting)
			}
			if f.started() != 1 {
				t.Errorf("%d builders were started", f.started())
			}
		})
	}
}

// TestX5_StopCommandReachesTheBuilder: a stop on the forge reaches a running
// builder as soon as somebody says that there is something to see.
func TestX5_StopCommandReachesTheBuilder(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) { f.exec.hold = true })
	f.label(f.scene.Owner)
	started := make(chan struct{})
	f.exec.started = func(executor.BuildJob) { close(started) }
	nudges, ended := make(chan struct{}), make(chan Status, 1)
	go func() {
		st, err := f.task.Drive(context.Background(), DriveOptions{Actor: "writ", Yield: true, Nudges: nudges})
		if err != nil {
			t.Error(err)
		}
		ended <- st
	}()
	<-started
	nudge := func() {
		select {
		case nudges <- struct{}{}:
		case <-time.After(patience):
			t.Fatal("the drive hears nothing")
		}
	}
	nudge() // now it waits for the builder
	f.comment(f.scene.Owner, "/writ stop")
	select {
	case nudges <- struct{}{}:
	case st := <-ended: // it had not looked yet
		ended <- st
	case <-time.After(patience):
		t.Fatal("the drive hears nothing")
	}
	select {
	case st := <-ended:
		f.wants(st, kernel.StandWaiting)
	case <-time.After(patience):
		t.Fatal("the builder goes on")
	}
}

// TestL12_RetryCommand: only a person's `/writ retry` after it moves on from
// somebody else's commit, once, and it is recorded.
func TestL12_RetryCommand(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) { f.exec.hold = true })
	f.label(f.scene.Owner)
	f.reach(kernel.ActionDispatch)
	gittest.Commit(t, f.bare, stateRef, f.ref(stateRef), map[string]string{"x": "y"})
	foreign := f.ref(stateRef)
	f.tick()
	for _, by := range []*forgetest.Account{f.scene.Reader, f.scene.Triage} {
		f.comment(by, "/writ retry")
		f.wants(f.tick(), kernel.StandWaiting, kernel.CodeLockViolation)
	}
	f.comment(f.scene.Owner, "/writ run")
	f.wants(f.tick(), kernel.StandWaiting, kernel.CodeLockViolation)
	f.comment(f.scene.Owner, "/writ retry")
	newer := f.says(f.scene.Owner, "/writ retry")
	f.reach(kernel.ActionDispatch)
	act := body[kernel.OperatorAct](f.bench, kernel.KindOperatorAct)
	if act.Act != kernel.ActResume || act.Head != foreign || !strings.HasSuffix(act.Actor, ":ana") || act.ActID == "" {
		t.Errorf("recorded %+v", act)
	}
	gittest.Commit(t, f.bare, stateRef, f.ref(stateRef), map[string]string{"x": "z"})
	f.wants(f.tick(), kernel.StandAbandoned, kernel.CodeLockViolation)
	f.wants(f.tick(), kernel.StandWaiting, kernel.CodeLockViolation) // that retry is spent
	must(t, f.scene.Owner.DeleteComment(t.Context(), f.scene.Repo, newer))
	f.wants(f.tick(), kernel.StandWaiting, kernel.CodeLockViolation) // and so is each that came before it
	f.comment(f.scene.Owner, "/writ retry")
	f.exec.hold = false
	f.until(kernel.StandFinal)
}

// TestK8_RetryAfterBlocked: a person's act after the task was blocked begins
// anew; the one that it was claimed on does not.
func TestK8_RetryAfterBlocked(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) {
		f.exec.build = failing
		f.place.terms = "version: 1\nbudgets: {attempts: 1}\n"
	})
	f.label(f.scene.Owner)
	f.until(kernel.StandFinal)
	f.clock.advance(3_600_000)
	f.wants(f.tick(), kernel.StandFinal)
	f.comment(f.scene.Reader, "/writ retry")
	f.wants(f.tick(), kernel.StandFinal)
	f.exec.build = writes(map[string]string{"out.txt": "hello\n"})
	f.comment(f.scene.Owner, "/writ retry")
	f.reach(kernel.ActionClaim)
	f.until(kernel.StandFinal)
	if f.trailer("aynig-state") != "completed" || f.trailer("writ-attempt") != "1" {
		t.Errorf("HEAD %s, attempt %s", f.trailer("aynig-state"), f.trailer("writ-attempt"))
	}
}

// TestI8_ModeObserve: a contract that says observe has nothing claimed.
func TestI8_ModeObserve(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) { f.place.terms = "version: 1\nmode: observe\n" })
	f.label(f.scene.Owner)
	f.wants(f.tick(), kernel.StandRefused, kernel.CodeObserveOnly)
	if f.ref(stateRef) != "" {
		t.Error("it was claimed")
	}
}

// TestF4_ForgeDown: a forge that gives no answer keeps nothing from renewing its
// lease, and nothing is started or accepted that can't be asked about.
func TestF4_ForgeDown(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) { f.exec.hold = true })
	f.label(f.scene.Owner)
	f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Unavailable})
	if _, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ"); !Passing(err) || !forge.Passing(err) {
		t.Errorf("unasked: %v", err)
	}
	f.scene.Bot.Clear()
	f.reach(kernel.ActionClaim)
	f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Limited, RetryAfter: time.Minute})
	if _, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ"); !forge.Passing(err) || f.started() != 0 {
		t.Errorf("unasked before the start: %v", err)
	}
	f.scene.Bot.Clear()
	f.reach(kernel.ActionDispatch)
	f.scene.Bot.Fail(forgetest.Any(), forgetest.Always, forgetest.Fault{Reason: forge.Unavailable})
	f.clock.advance(45_000)
	if st := f.tick(); st.Decision.Action != kernel.ActionHeartbeat {
		t.Errorf("it does %s", st.Decision.Action)
	}
	f.exec.finish()
	f.reach(kernel.ActionJudge)
	if st := f.tick(); !st.Facts.Run.Unheard || st.Decision.Standing != kernel.StandRunning || f.ref(changeRef) != "" {
		t.Errorf("unasked before the result: %s, %s", st.Decision.Standing, st.Decision.Action)
	}
	f.clock.advance(400_000)
	if st := f.tick(); st.Decision.Action != kernel.ActionHeartbeat {
		t.Errorf("while nobody can be asked it does %s", st.Decision.Action)
	}
	f.scene.Bot.Clear()
	if st := f.reach(kernel.ActionResult); st.Outcome.Status != kernel.OutcomeDone {
		t.Errorf("the result: %+v", st.Outcome)
	}
}
