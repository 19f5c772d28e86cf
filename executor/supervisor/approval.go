package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/marker"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Forge is where the issues of a world are, and where its people look.
type Forge struct {
	Client forge.Client
	Repo   forge.Repo // as configured: the id is its identity
	// Evidence keeps what signed payloads said; nil for nothing.
	Evidence Evidence
	// EditHistory says that the client's History lists every edit of title and body.
	EditHistory bool
	// PayloadWithin is how long after an act its signed payload may still be on its
	// way; 0 where none is sent. Until then nobody is told that it is missing.
	PayloadWithin time.Duration
	// Workflows reports whether writ's pushes may change GitHub's workflows; nil where
	// the forge has nothing against that.
	Workflows func(ctx context.Context) (bool, error)
	// Allowed is the operator's allow-list; nil allows every name of the repository.
	Allowed func(owner, name string) bool
}

// Evidence keeps what the signed payloads of approving events said.
type Evidence interface {
	// Approvals lists what they said of one issue, in any order.
	Approvals(ctx context.Context, repo, issue int64) ([]approval.Row, error)
}

// forgeIssues reads one issue of the forge, everything fresh at each reading but
// who writ itself is.
type forgeIssues struct {
	s      *Supervisor
	number int64
}

// Issue implements [Issues]. An issue or repository that is gone is a violation;
// an error means that the forge gave no answer.
func (f *forgeIssues) Issue(ctx context.Context, terms Terms) (Issue, error) {
	facts, err := f.read(ctx, terms)
	if err != nil {
		return Issue{}, err
	}
	if facts.Issue.ID != 0 {
		if err := f.ask(ctx, &facts); err != nil {
			return Issue{}, err
		}
	}
	return f.judged(facts, terms), nil
}

// judged is what the facts of the forge come to.
func (f *forgeIssues) judged(facts approval.Facts, terms Terms) Issue {
	out := Issue{Title: facts.Issue.Title, Body: facts.Issue.Body, Asked: !terms.Brief, seen: &facts}
	if facts.Issue.ID == 0 {
		out.Policy = []kernel.Violation{{Code: kernel.CodeTargetIneligible, Subject: f.name(), Detail: "The issue is gone, or hidden from writ."}}
		return out
	}
	v := approval.Judge(facts)
	out.Actor, out.Evidence, out.Approved, out.Time = v.Approval.Actor, v.Approval.Evidence, v.Approval.Digest, v.Approval.Time
	out.Act, out.Retry, out.Said = v.Act.ID(), v.Act.Verb == approval.Retry && !f.settled(facts, v.Act), v.Act.Text
	out.ByBot = v.Act.Actor.Kind == forge.Bot
	out.Policy, out.Human, out.TakenBack = v.Violations, v.Human, v.TakenBack.ID()
	if terms.Brief {
		out.Policy = nil
	}
	return out
}

// settled reports whether a command was answered in words, which the issue shows to
// whoever looks: a retry is, where the task then stood so that it couldn't count. It
// doesn't count later either, however the task stands then.
func (f *forgeIssues) settled(facts approval.Facts, a approval.Act) bool {
	return repliesOn(marker.Marker{World: f.s.cfg.World, Task: f.number}, ownComments(facts)).told[a.Ref]
}

func (f *forgeIssues) name() string { return fmt.Sprintf("%s#%d", f.s.deps.Forge.Repo, f.number) }

// read reads the facts of a judgement but for permissions.
func (f *forgeIssues) read(ctx context.Context, terms Terms) (approval.Facts, error) {
	p := f.s.deps.Forge
	facts := approval.Facts{
		Trigger: terms.Trigger, Prior: terms.Prior, Live: terms.Live, EditHistory: p.EditHistory,
		Target:      approval.Target{Wanted: p.Repo, Found: &forge.Repository{Repo: p.Repo}, Allowed: true},
		Permissions: map[int64]forge.Permission{},
	}
	f.s.locked(func() {
		facts.Earlier, facts.Stopped = f.s.world.ClaimedOn(f.number), f.s.world.TaskView(f.number).Stopped
	})
	if !approval.Proven(facts.Earlier) { // a text that was given at the keyboard has no evidence
		facts.Earlier = kernel.Approval{}
	}
	var err error
	if facts.Self, err = f.s.self(ctx); err != nil {
		return facts, err
	}
	if !terms.Brief {
		if facts.Target, err = f.target(ctx); err != nil {
			return facts, err
		}
	}
	if facts.Issue, err = p.Client.Issue(ctx, p.Repo, f.number); err != nil {
		if forge.IsReason(err, forge.NotFound) {
			return facts, nil // without an id: it is gone
		}
		return facts, err
	}
	if facts.History, err = p.Client.History(ctx, p.Repo, f.number); err != nil {
		return facts, err
	}
	if facts.Comments, err = p.Client.Comments(ctx, p.Repo, f.number); err != nil {
		return facts, err
	}
	if p.Evidence != nil {
		facts.Rows, err = p.Evidence.Approvals(ctx, p.Repo.ID, f.number)
	}
	facts.Digest = digestText(facts.Issue.Title, facts.Issue.Body)
	return facts, err
}

func (f *forgeIssues) target(ctx context.Context) (approval.Target, error) {
	p := f.s.deps.Forge
	t := approval.Target{Wanted: p.Repo}
	found, err := p.Client.Repository(ctx, p.Repo.ID)
	switch {
	case forge.IsReason(err, forge.NotFound):
		return t, nil
	case err != nil:
		return t, err
	}
	t.Found = &found
	t.Allowed = p.Allowed == nil || p.Allowed(found.Owner, found.Name)
	return t, nil
}

// ask asks for the live permissions that the judgement turns on. Where too many
// would have to be asked about the issue can't be read this time; those of them who
// may not are remembered, and the next reading comes further.
func (f *forgeIssues) ask(ctx context.Context, facts *approval.Facts) error {
	f.s.recall(facts)
	for {
		account, ok := approval.Needs(*facts)
		if !ok {
			break
		}
		if err := f.askAbout(ctx, facts, account); err != nil {
			return err
		}
	}
	if approval.TooMany(*facts) {
		return errAskers
	}
	return nil
}

// errAskers says that an issue has commands of more accounts than the forge is
// asked about at a time.
var errAskers = errors.New("supervisor: more accounts gave commands than are asked about at a time; the next look goes on")

// askAbout asks for one account's permission.
func (f *forgeIssues) askAbout(ctx context.Context, facts *approval.Facts, account int64) error {
	p := f.s.deps.Forge
	has, err := p.Client.Permission(ctx, p.Repo, account)
	if err != nil && !forge.IsReason(err, forge.NotFound) {
		return err
	}
	facts.Permissions[account] = has
	f.s.remember(*facts, account, has)
	return nil
}

// self is the account that writ acts as, asked once.
func (s *Supervisor) self(ctx context.Context) (forge.User, error) {
	var known *forge.User
	s.locked(func() { known = s.account })
	if known != nil {
		return *known, nil
	}
	u, err := s.deps.Forge.Client.Self(ctx)
	if err == nil {
		s.locked(func() { s.account = &u })
	}
	return u, err
}

// digestText is the approval digest of a text on the forge.
func digestText(title, body string) canon.Digest { return digestOf(Issue{Title: title, Body: body}) }

const (
	// strangerFor is how long it is remembered that an account may not, in
	// milliseconds. Whoever is given the permission meanwhile needs only to act
	// again. What somebody may is never remembered.
	strangerFor = 600_000
	// maxStrangers bounds how many are remembered.
	maxStrangers = 10_000
)

// stranger is an account that may not do what it did.
type stranger struct {
	has    forge.Permission
	latest int64 // its newest act that was seen then
	asked  int64 // Unix milliseconds
}

// recall adds what the forge said a moment ago of accounts that may not, and that
// have done nothing since.
func (s *Supervisor) recall(f *approval.Facts) {
	least, err := forge.ParsePermission(f.Trigger.Permission)
	if err != nil {
		return
	}
	latest, now := approval.Latest(*f), s.now().WallMs
	s.locked(func() {
		for account, at := range latest {
			k, known := s.strangers[account]
			if known && k.has < least && at <= k.latest && now-k.asked < strangerFor {
				f.Permissions[account] = k.has
			}
		}
	})
	f.Remembered = len(f.Permissions)
}

// remember keeps that an account may not.
func (s *Supervisor) remember(f approval.Facts, account int64, has forge.Permission) {
	least, err := forge.ParsePermission(f.Trigger.Permission)
	s.locked(func() {
		delete(s.strangers, account)
		if err != nil || has >= least {
			return
		}
		if len(s.strangers) >= maxStrangers {
			clear(s.strangers)
		}
		s.strangers[account] = stranger{has: has, latest: approval.Latest(f)[account], asked: s.now().WallMs}
	})
}

// heard reports whether a stranger is to be answered, which is once an hour, on
// whatever issue of the repository.
func (s *Supervisor) heard(account, comment int64) (ok bool) {
	const hour = 3_600_000
	now := s.now().WallMs
	s.locked(func() {
		last, known := s.answered[account]
		if ok = !known || last.comment == comment || now-last.at >= hour; !ok || last.comment == comment {
			return
		}
		if len(s.answered) >= maxStrangers {
			clear(s.answered)
		}
		s.answered[account] = lastAnswer{comment: comment, at: now}
	})
	return ok
}

// lastAnswer is the last answer to a stranger.
type lastAnswer struct {
	comment int64
	at      int64 // Unix milliseconds
}
