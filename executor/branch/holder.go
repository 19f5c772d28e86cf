package branch

import (
	"context"
	"errors"
	"time"

	"github.com/writbot/writ/executor/command"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
	"github.com/writbot/writ/kernel/lease"
)

// Holder makes the commits that are a command's duty: the heartbeats of its lease,
// and the state that ends it. A person may set a state, too, on a branch that
// nobody holds.
type Holder struct {
	Clone  *clone.Clone
	Remote *git.Repo // nil in local mode
	Ref    string    // the branch
	RunID  string    // of the run that holds it; "" by hand
	Now    func() lease.Clock
	Host   string
}

// Answer is why a commit didn't come to stand.
type Answer struct {
	Status Status
	Err    error
}

// Error is the sentence.
func (a *Answer) Error() string { return git.Reason(a.Err) }

// Unwrap is the cause.
func (a *Answer) Unwrap() error { return a.Err }

// ErrCompleting says that the working tree has a completion that isn't pushed yet:
// a heartbeat on it would bury it.
var ErrCompleting = errors.New("branch: the command has made its completion")

func lost(why string) error {
	return &Answer{StatusLost, &git.Error{Code: lease.CodeLost, Msg: why, Remedy: "stop; the owner at HEAD goes on"}}
}

// base is what the next commit stands on.
type base struct {
	head   git.Commit // HEAD where the truth is
	parent git.Commit // the same, or what the working tree has on it
	tree   *clone.Worktree
	branch string // that the working tree is on; "" for a detached HEAD
}

func (h *Holder) truth() place { return place{clone: h.Clone, remote: h.Remote} }

// base reads HEAD and finds out whether this working tree is the branch's.
func (h *Holder) base(ctx context.Context) (base, error) {
	var b base
	var err error
	if b.head, err = h.truth().head(ctx, h.Ref); err != nil {
		return b, err
	}
	if b.head.OID == "" {
		if h.RunID != "" {
			return b, lost("the branch is gone")
		}
		return b, &git.Error{Code: git.CodeRefInvalid, Msg: "there is no branch " + h.Ref, Remedy: "make it first: git branch, or git push"}
	}
	b.parent = b.head
	if h.Clone.Bare() {
		return b, nil
	}
	w := h.Clone.Worktree()
	oid, branch, err := w.Head(ctx)
	if err != nil || branch != h.Ref && (branch != "" || h.RunID == "") {
		return b, err // somebody's working tree of another branch
	}
	b.tree, b.branch = w, branch
	if oid == b.head.OID {
		return b, nil
	}
	if !h.Clone.Reaches(ctx, oid, b.head.OID) {
		return b, lost("HEAD of the branch isn't what this working tree stands on")
	}
	b.parent, err = h.Clone.Repo.Commit(ctx, oid)
	return b, err
}

// Renew makes a heartbeat: the same lease with a new date, on what the command has
// committed so far. seconds is the new lease time, 0 for the same. Where the lease
// is lost nothing is left behind.
func (h *Holder) Renew(ctx context.Context, seconds int64) (git.OID, error) {
	b, err := h.base(ctx)
	if err != nil {
		return "", err
	}
	ev, err := lease.ReadEvent(leaseHead(b.head))
	if err != nil {
		return "", lost("HEAD isn't a lease of this run")
	}
	message, err := lease.Renew(ev, lease.Renewal{RunID: h.RunID, LeaseSeconds: seconds})
	if lease.HasCode(err, lease.CodeLost) {
		return "", lost("HEAD isn't a lease of this run")
	}
	if err != nil {
		return "", err
	}
	if own, err := lease.ReadEvent(leaseHead(b.parent)); err == nil && own.State != lease.StateWorking {
		return "", ErrCompleting
	}
	return h.commit(ctx, b, b.parent.Tree, message, "heartbeat", true)
}

// Set makes the commit of a state, with what is staged in the branch's working tree.
func (h *Holder) Set(ctx context.Context, m lease.Message) (git.OID, error) {
	message, err := lease.Format(m)
	if err != nil {
		return "", err
	}
	b, err := h.base(ctx)
	if err != nil {
		return "", err
	}
	ev, err := lease.ReadEvent(leaseHead(b.head))
	held := err == nil && ev.State == lease.StateWorking
	switch {
	case h.RunID != "" && (!held || ev.RunID != h.RunID):
		return "", lost("HEAD isn't a lease of this run")
	case h.RunID == "" && held:
		return "", &Answer{StatusHeld, &git.Error{Code: "lease.held", Msg: "a run holds the branch: " + orUnknown(ev.RunID), Remedy: "wait until it ends, or until its lease does"}}
	}
	tree := b.parent.Tree
	if b.tree != nil {
		if tree, err = h.Clone.IndexTree(ctx); err != nil {
			return "", err
		}
	}
	return h.commit(ctx, b, tree, message, "", false)
}

// commit makes a commit on a base and moves the branch to it. A heartbeat's place in
// the working tree is taken before the push: a commit that the command makes
// meanwhile then stands on it, and not beside it.
func (h *Holder) commit(ctx context.Context, b base, tree git.OID, message []byte, note string, first bool) (git.OID, error) {
	who := h.Clone.Person(ctx, h.Host)
	who.Seconds = lease.NextCommitterSeconds(b.head.Committer.Seconds, h.Now().WallMs)
	objs := git.NewObjects()
	oid, err := objs.Commit(git.CommitSpec{Tree: tree, Parents: []git.OID{b.parent.OID}, Author: who, Committer: who, Message: message}, nil)
	if err != nil {
		return "", err
	}
	pack := objs.Pack()
	if b.parent.OID != b.head.OID || tree != b.head.Tree {
		if err := h.Clone.Repo.Store(objs); err != nil {
			return "", err
		}
		if pack, err = h.Clone.PackSince(ctx, oid, b.head.OID); err != nil {
			return "", err
		}
	}
	follows := h.Remote != nil && b.tree != nil
	if follows && first {
		if err := h.follow(ctx, b, b.parent.OID, oid, objs, note); err != nil {
			return "", err
		}
	}
	what := "writ state set"
	if note != "" {
		what = clone.Note(note)
	}
	out := h.truth().push(ctx, git.Command{Ref: h.Ref, Old: b.head.OID, New: oid}, objs, pack, what)
	if out.Status != git.Won {
		if follows && first {
			// It fails where the command has gone on from there, and then is right so.
			_ = h.follow(context.WithoutCancel(ctx), b, oid, b.parent.OID, nil, note)
		}
		var res Result
		res.answer(out)
		return "", &Answer{res.Status, out.Err}
	}
	if follows && !first {
		return oid, h.follow(ctx, b, b.parent.OID, oid, nil, "")
	}
	return oid, nil
}

// commitTime is how long git may take for a commit that is being made in the working
// tree, hooks included, before a heartbeat moves HEAD under it.
const commitTime = 2 * time.Second

// follow moves the working tree's HEAD, or its branch, along.
func (h *Holder) follow(ctx context.Context, b base, from, to git.OID, objs *git.Objects, note string) error {
	if objs != nil {
		if err := h.Clone.Repo.Store(objs); err != nil {
			return err
		}
	}
	for waited := time.Duration(0); b.tree.Committing() && waited < commitTime; waited += commitTime / 100 {
		select {
		case <-time.After(commitTime / 100):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if b.branch == "" {
		return b.tree.Follow(ctx, from, to, note)
	}
	if out := h.Clone.Repo.MoveRef(ctx, git.Command{Ref: b.branch, Old: from, New: to}, nil, clone.Note(note)); out.Status != git.Won {
		return out.Err
	}
	return nil
}

// Hold runs a program and renews the lease meanwhile. It ends the program as soon as
// the lease is lost, or before the lease could end without having been renewed; what
// it returns then is an Answer with StatusLost. exit is the program's status.
// marginPart is how much of the lease is kept for ending it.
func (h *Holder) Hold(ctx context.Context, seconds int64, spec command.Spec, log func(error)) (exit int, err error) {
	const marginPart = 4
	margin := min(lease.DefaultMarginSeconds, max(1, seconds/marginPart))
	at := h.Now()
	if _, err := h.Renew(ctx, seconds); err != nil {
		return 0, err
	}
	deadlines := lease.NewDeadlines(at, seconds, margin)
	p, err := command.Start(spec)
	if err != nil {
		return 0, err
	}
	look := time.NewTicker(min(time.Second, time.Duration(seconds)*time.Second/30))
	defer look.Stop()
	for {
		select {
		case <-p.Done():
			return p.Wait(), nil
		case <-ctx.Done():
			p.Stop(command.StopGrace)
			return p.Wait(), nil
		case <-look.C:
		}
		at := h.Now()
		if deadlines.Overdue(at) {
			p.Stop(0)
			return p.Wait(), lost("the lease couldn't be renewed in time")
		}
		if !deadlines.RenewDue(at) {
			continue
		}
		left := time.Duration(deadlines.RenewDeadlineBootMs-at.BootMs) * time.Millisecond
		switch err := h.renewWithin(ctx, left, seconds); {
		case err == nil:
			deadlines = lease.NewDeadlines(at, seconds, margin)
		case isLost(err):
			p.Stop(0)
			return p.Wait(), err
		case !errors.Is(err, ErrCompleting):
			log(err)
		}
	}
}

func (h *Holder) renewWithin(ctx context.Context, left time.Duration, seconds int64) error {
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	_, err := h.Renew(ctx, seconds)
	return err
}

func isLost(err error) bool {
	var a *Answer
	return errors.As(err, &a) && a.Status == StatusLost
}

// Event is an entry of a branch's log, in the form that the existing implementation
// prints.
type Event struct {
	Commit      string              `json:"commit"`
	Date        string              `json:"date"`
	Message     string              `json:"message"` // the title
	State       string              `json:"state,omitempty"`
	RunID       string              `json:"runId,omitempty"`
	OriginState string              `json:"originState,omitempty"`
	Trailers    map[string][]string `json:"trailers"`
}

// Log reads the last events of a branch for a person, newest first, along the first
// parents. No decision rests on it.
func (h *Holder) Log(ctx context.Context, most int) ([]Event, error) {
	c, err := h.truth().head(ctx, h.Ref)
	if err == nil && c.OID == "" {
		err = &git.Error{Code: git.CodeRefInvalid, Msg: "there is no branch " + h.Ref, Remedy: "push it, or give --branch"}
	}
	if err != nil {
		return nil, err
	}
	out := []Event{eventOf(c)}
	for len(out) < most && len(c.Parents) > 0 {
		c, err = h.truth().commit(ctx, c.Parents[0])
		if git.CodeOf(err) == git.CodeObjectMissing {
			break // a clone without all of its history
		}
		if err != nil {
			return nil, err
		}
		out = append(out, eventOf(c))
	}
	return out, nil
}

func eventOf(c git.Commit) Event {
	m := lease.Parse(c.Message)
	e := Event{Commit: string(c.OID), Date: time.Unix(c.Committer.Seconds, 0).UTC().Format(time.RFC3339), Message: m.Title, Trailers: map[string][]string{}}
	for _, t := range m.Trailers {
		e.Trailers[t.Key] = append(e.Trailers[t.Key], t.Value)
	}
	e.State, _ = m.Get(lease.KeyState)
	e.RunID, _ = m.Get(lease.KeyRunID)
	e.OriginState, _ = m.Get(lease.KeyOriginState)
	return e
}
