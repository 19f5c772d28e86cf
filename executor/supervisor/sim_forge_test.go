package supervisor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// simForged is the forge of a simulation: one issue, approved by its owner.
type simForged struct {
	*forgetest.Scene // nil where the issue is on a real adapter's forge
	Repo             forge.Repo
	Owner, Reader    forgetest.Human
	Robot            simRobot
	owner            int64      // the owner's account
	slips            int        // closings that a stale owner's pause let slip
	hosted           *simHosted // nil on the fake
}

// simRobot is writ's account, without faults.
type simRobot struct {
	forge.Client
	forge.User
}

// newSimForged is a simulation whose task is an issue on a forge that may lie.
func newSimForged(t testing.TB, seed int64, terms string, rules kerneltest.Rules, skews ...int64) *sim {
	s := simOf(t, seed, terms, rules)
	scene := forgetest.NewScene(func() time.Time { return time.UnixMilli(s.time.Now()) })
	s.forged = &simForged{
		Scene: scene, Repo: scene.Repo, Owner: scene.Owner, owner: scene.Owner.ID, Reader: scene.Reader,
		Robot: simRobot{scene.Robot, scene.Robot.User},
	}
	ctx, f := context.Background(), s.forged
	must(t, f.Robot.EnsureLabels(ctx, f.Repo, []forge.Label{{Name: "writ", Color: "cccccc"}}))
	_, err := f.Owner.FileIssue(ctx, f.Repo, "Say hello", issueBody)
	must(t, err)
	must(t, f.Owner.AddLabel(ctx, f.Repo, 1, "writ"))
	return startSim(s, skews...)
}

func (s *sim) issues() Issues {
	if s.forged != nil {
		return nil
	}
	return s.issue
}

// forge is the process's client; what it writes is held against the invariants.
func (p *simProc) forge() *Forge {
	s := p.r.s
	switch {
	case s.forged == nil:
		return nil
	case s.forged.hosted != nil:
		return p.hosted()
	}
	if p.r.client == nil {
		p.r.client = forgetest.Wrap(s.forged.Robot)
	}
	return &Forge{Client: &simClient{p.r.client, p}, Repo: s.forged.Repo, EditHistory: true}
}

// simClient is the forge as one process reaches it: a dead one doesn't.
type simClient struct {
	forge.Client
	p *simProc
}

// sends holds a write against what was announced; an error says that the process
// is dead.
func (c *simClient) sends(a kernel.Action, texts ...string) error {
	if c.p.dead {
		return &forge.Error{Reason: forge.Unavailable, Op: string(a), Err: errDead}
	}
	c.p.r.s.check.Told(c.p.r.instance(), a, texts...)
	return nil
}

func (c *simClient) SetState(ctx context.Context, r forge.Repo, n int64, s forge.State) error {
	a := kernel.ActionClose
	if s == forge.Open {
		a = kernel.ActionReopen
	}
	if err := c.sends(a); err != nil {
		return err
	}
	return c.Client.SetState(ctx, r, n, s)
}

func (c *simClient) AddComment(ctx context.Context, r forge.Repo, n int64, body string) (forge.Comment, error) {
	a := kernel.ActionComment
	for kind, other := range map[string]kernel.Action{"alert": kernel.ActionAlert, "answer": kernel.ActionAnswer, "explain": kernel.ActionAnswer} {
		if strings.HasPrefix(body, "<!-- writ:"+kind+":") {
			a = other
		}
	}
	if err := c.sends(a, body); err != nil {
		return forge.Comment{}, err
	}
	return c.Client.AddComment(ctx, r, n, body)
}

func (c *simClient) EditComment(ctx context.Context, r forge.Repo, id int64, body string) error {
	a := kernel.ActionRevise
	if strings.HasPrefix(body, "<!-- writ:explain:") {
		a = kernel.ActionAnswer
	}
	if err := c.sends(a, body); err != nil {
		return err
	}
	return c.Client.EditComment(ctx, r, id, body)
}

func (c *simClient) DeleteComment(ctx context.Context, r forge.Repo, id int64) error {
	if err := c.sends(kernel.ActionUncomment); err != nil {
		return err
	}
	return c.Client.DeleteComment(ctx, r, id)
}

func (c *simClient) SetCheck(ctx context.Context, r forge.Repo, oid string, k forge.Check) error {
	if err := c.sends(kernel.ActionCheck, k.Summary, k.Detail); err != nil {
		return err
	}
	return c.Client.SetCheck(ctx, r, oid, k)
}

func (c *simClient) React(ctx context.Context, r forge.Repo, id int64, with forge.Reaction) error {
	if err := c.sends(kernel.ActionReact); err != nil {
		return err
	}
	return c.Client.React(ctx, r, id, with)
}

func (c *simClient) AddLabel(ctx context.Context, r forge.Repo, n int64, l string) error {
	if err := c.sends(kernel.ActionLabel); err != nil {
		return err
	}
	return c.Client.AddLabel(ctx, r, n, l)
}

func (c *simClient) RemoveLabel(ctx context.Context, r forge.Repo, n int64, l string) error {
	if err := c.sends(kernel.ActionUnlabel); err != nil {
		return err
	}
	return c.Client.RemoveLabel(ctx, r, n, l)
}

func (c *simClient) OpenChange(ctx context.Context, r forge.Repo, ch forge.Change) (forge.Change, error) {
	if err := c.sends(kernel.ActionChange, ch.Title, ch.Body); err != nil {
		return forge.Change{}, err
	}
	c.p.r.s.showBranch()
	return c.Client.OpenChange(ctx, r, ch)
}

func (c *simClient) EditChange(ctx context.Context, r forge.Repo, n int64, title, body string) error {
	if err := c.sends(kernel.ActionAmend, title, body); err != nil {
		return err
	}
	return c.Client.EditChange(ctx, r, n, title, body)
}

// showBranch lets the forge know of the change branch, as one that hosts the
// repository does.
func (s *sim) showBranch() {
	if s.forged.hosted != nil {
		s.showHosted()
		return
	}
	s.forged.SetBranch(s.forged.Repo, s.forged.Robot.User, "writ/change/1", s.server.Ref(s.check.ChangeRef))
}

// tell moves the issue as a drive does once the task stands so; what it is asked
// about is how the task stands, so that is kept.
func (r *simRunner) tell(st Status) {
	last, failed := st, false
	for range 20 {
		told, err := r.ask(kernel.RequestTell)
		if err != nil || told.Outcome != nil && told.Outcome.Status != kernel.OutcomeDone {
			if failed || err != nil {
				break
			}
			failed = true
		}
		if err == nil && told.Decision.Action == kernel.ActionNone {
			r.untold = failed || told.Decision.Wake > 0
			r.last, r.lastError = last, nil
			return
		}
	}
	r.untold = true
	r.last, r.lastError = last, nil
}

// says has the owner comment.
func (s *sim) says(body string) {
	s.advance(1_000)
	s.logf("the owner says %s", body)
	k, err := s.forged.Owner.AddComment(context.Background(), s.forged.Repo, 1, body)
	must(s.t, err)
	if body == "/writ stop" {
		s.check.TakenBack(k.CreatedAt.UnixMilli())
	}
	if s.forged.hosted != nil {
		s.evidence(approval.ByComment, k.ID)
		s.hint()
	}
}

func (s *sim) onForge() (forge.Issue, []forge.Comment) {
	f, ctx := s.forged, context.Background()
	i, err := f.Owner.Issue(ctx, f.Repo, 1)
	must(s.t, err)
	list, err := f.Owner.Comments(ctx, f.Repo, 1)
	must(s.t, err)
	return i, slices.DeleteFunc(list, func(k forge.Comment) bool {
		return k.Author.ID != f.Robot.ID || !strings.HasPrefix(k.Body, "<!-- writ:task:")
	})
}

// history counts what the bot did.
func (s *sim) history(kind forge.EventKind) (n int) {
	list, err := s.forged.Owner.History(context.Background(), s.forged.Repo, 1)
	must(s.t, err)
	for _, e := range list {
		if e.Kind == kind && e.Actor.ID == s.forged.Robot.ID {
			n++
		}
	}
	return n
}

// expectIssue compares what people see at the end: one report, one label, and a
// completed task closed once.
func (s *sim) expectIssue(state string) {
	s.t.Helper()
	i, comments := s.onForge()
	if len(comments) != 1 || !strings.Contains(comments[0].Body, "- task_final_state: `"+state+"`") {
		s.fail("%d status comments, want one that says %s: %+v", len(comments), state, comments)
	}
	var ours []string
	for _, l := range i.Labels {
		if strings.HasPrefix(l, "writ:") {
			ours = append(ours, l)
		}
	}
	if want := "writ:" + strings.ReplaceAll(state, "_", "-"); len(ours) != 1 || ours[0] != want {
		s.fail("labels %v, want %s", ours, want)
	}
	closed := s.history(forge.EventClosed) - s.forged.slips
	if done := state == "completed"; (i.State == forge.Closed) != done || closed > 1 || done && s.forged.slips == 0 && closed != 1 {
		s.fail("the issue is %s, closed %d times", i.State, closed)
	}
}

// finishForged lets a runner bring the task to its end; the owner moves on from
// what waits.
func (s *sim) finishForged(r *simRunner) {
	s.t.Helper()
	for range 80 {
		r.up()
		st := r.tick()
		for _, j := range r.building() {
			j.finish()
		}
		switch st.Decision.Standing {
		case kernel.StandFinal:
			if !r.untold {
				return
			}
			s.advance(61_000)
		case kernel.StandWaiting:
			if !st.Facts.AwaitsMerge() {
				s.says("/writ retry")
			}
		case kernel.StandDue, kernel.StandHeld:
			s.advance(max(st.Decision.Wake-r.clock.Now().WallMs, 1000))
		}
	}
	s.fail("it doesn't end")
}
