package onboard

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// Branch is where the files are proposed from.
const Branch = "writ/onboard"

// Changes is what is asked of the forge.
type Changes interface {
	FindChange(ctx context.Context, r forge.Repo, head, base string) (forge.Change, error)
	OpenChange(ctx context.Context, r forge.Repo, c forge.Change) (forge.Change, error)
}

// Site is a repository, and the way to it.
type Site struct {
	Kind        Kind
	Repo        forge.Repository // as Find says: its default branch is the base
	Changes     Changes
	Git         *git.Repo
	Name, Email string    // author of the commit
	Now         time.Time // of the commit
}

// State is what became of it.
type State string

// The states of an onboarding.
const (
	Opened   State = "opened"   // by this call
	Waiting  State = "waiting"  // opened before, and open
	Merged   State = "merged"   // and its branch is still there
	Closed   State = "closed"   // by a person, unmerged, and its branch is still there
	Complete State = "complete" // every file is on the base already
)

// Outcome says what became of it. Files are named with Opened and Complete.
type Outcome struct {
	State  State
	Change forge.Change // the zero one with Complete
	Added  []string     // paths that the change adds
	Kept   []string     // paths that were there, and stay as they are
}

// Error is what a person can do something about.
type Error struct {
	Code         kernel.Code
	Text, Remedy string
	Err          error // nil where the text says all
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Text }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// FailureCode is the code.
func (e *Error) FailureCode() kernel.Code { return e.Code }

// Open proposes the files that a repository lacks: one commit on its default
// branch, on a branch of its own, and a change from there. Calling it again finds
// branch and change. A change that a person closed stays closed as long as its
// branch is there. Errors: *Error, and those of git and of the forge.
func Open(ctx context.Context, s Site) (Outcome, error) {
	base, branch := "refs/heads/"+s.Repo.DefaultBranch, "refs/heads/"+Branch
	refs, err := s.Git.Refs(ctx, base, branch)
	if err != nil {
		return Outcome{}, err
	}
	if s.Repo.DefaultBranch == "" || refs.OID(base).IsZero() {
		return Outcome{}, &Error{Code: kernel.CodeEnvRepository, Text: s.Repo.String() + " has no commit on its default branch.", Remedy: "Make its first commit, then call this again."}
	}
	if !refs.OID(branch).IsZero() {
		change, err := s.Changes.FindChange(ctx, s.Repo.Repo, Branch, "")
		if !forge.IsReason(err, forge.NotFound) {
			return standing(change), err
		}
		return s.resume(ctx, refs.OID(branch))
	}
	tree, err := s.Git.Tree(ctx, refs.OID(base))
	if err != nil {
		return Outcome{}, err
	}
	add, out := s.missing(tree)
	if len(add) == 0 {
		out.State = Complete
		return out, nil
	}
	if err := s.push(ctx, branch, refs.OID(base), tree, add); err != nil {
		return out, err
	}
	return s.request(ctx, out)
}

// standing says how a change of before stands.
func standing(c forge.Change) Outcome {
	out := Outcome{State: Waiting, Change: c}
	switch c.State {
	case forge.ChangeMerged:
		out.State = Merged
	case forge.ChangeClosed:
		out.State = Closed
	case forge.ChangeOpen:
	}
	return out
}

// missing are the files that a tree lacks. One that it has in whatever form, or
// that something else is in the way of, is kept.
func (s Site) missing(tree git.Tree) (add []File, out Outcome) {
	for _, f := range Files(s.Kind) {
		if taken(tree, f.Path) {
			out.Kept = append(out.Kept, f.Path)
			continue
		}
		add = append(add, f)
		out.Added = append(out.Added, f.Path)
	}
	return add, out
}

func taken(tree git.Tree, path string) bool {
	for _, e := range tree.Entries {
		// Letters that differ in case alone are one file on many a disk.
		if have, want := strings.ToLower(e.Path), strings.ToLower(path); have == want || strings.HasPrefix(want, have+"/") || strings.HasPrefix(have, want+"/") {
			return true
		}
	}
	return false
}

// push makes the branch.
func (s Site) push(ctx context.Context, branch string, tip git.OID, tree git.Tree, add []File) error {
	objects := git.NewObjects(tree)
	entries := append([]git.Entry{}, tree.Entries...)
	for _, f := range add {
		entries = append(entries, git.Entry{Path: f.Path, Mode: git.ModeFile, OID: objects.Blob(f.Data)})
	}
	root, err := objects.Tree(entries)
	if err != nil {
		return err
	}
	who := git.Person{Name: s.Name, Email: s.Email, Seconds: s.Now.Unix()}
	commit, err := objects.Commit(git.CommitSpec{Tree: root, Parents: []git.OID{tip}, Author: who, Committer: who, Message: []byte(title + "\n")}, nil)
	if err != nil {
		return err
	}
	commands := []git.Command{{Ref: branch, New: commit}}
	done := s.Git.CompareAndSwap(ctx, commands, objects.Pack())
	if done.Status == git.Unknown {
		done = s.Git.Reassert(ctx, commands, objects.Pack())
	}
	switch done.Status {
	case git.Won:
		return nil
	case git.Refused:
		return &Error{Code: kernel.CodePushRefused, Text: fmt.Sprintf("%s doesn't take the branch %s: %s.", s.Repo, Branch, said(done)), Err: done.Err,
			Remedy: "Let writ's account push branches that begin with writ/, and look at the rules for branches and pushes. Or write the files yourself: writ contract init."}
	case git.Lost:
		return &Error{Code: kernel.CodeEnvRepository, Text: "Somebody else has just made the branch " + Branch + ".", Remedy: "Call this again.", Err: done.Err}
	case git.Unknown, git.Unable:
	}
	return done.Err
}

// said are the server's words.
func said(o git.Outcome) string {
	if o.Reason != "" {
		return strings.TrimRight(o.Reason, ".")
	}
	return "it gives no reason"
}

// resume goes on with a branch that has no change: an earlier call was cut short.
// Somebody else's branch of that name is never proposed.
func (s Site) resume(ctx context.Context, tip git.OID) (Outcome, error) {
	commit, err := s.Git.Commit(ctx, tip)
	if err != nil {
		return Outcome{}, err
	}
	foreign := &Error{Code: kernel.CodeEnvRepository, Text: "The branch " + Branch + " is there and isn't what writ would propose.", Remedy: "Rename or delete it, then call this again."}
	if len(commit.Parents) != 1 {
		return Outcome{}, foreign
	}
	before, err := s.Git.Tree(ctx, commit.Parents[0])
	if err != nil {
		return Outcome{}, err
	}
	tree, err := s.Git.Tree(ctx, tip)
	if err != nil {
		return Outcome{}, err
	}
	add, out := s.missing(before)
	want := append([]git.Entry{}, before.Entries...)
	for _, f := range add {
		want = append(want, git.Entry{Path: f.Path, Mode: git.ModeFile, OID: git.HashBlob(f.Data)})
	}
	if root, err := git.NewObjects().Tree(want); err != nil || root != tree.OID || len(add) == 0 {
		return Outcome{}, foreign
	}
	return s.request(ctx, out)
}

// request opens the change. An answer that was lost is looked up.
func (s Site) request(ctx context.Context, out Outcome) (Outcome, error) {
	made, err := s.Changes.OpenChange(ctx, s.Repo.Repo, forge.Change{
		Title: title, Body: body(s.Kind, out), Head: Branch, Base: s.Repo.DefaultBranch,
	})
	var there error
	if err != nil {
		if made, there = s.Changes.FindChange(context.WithoutCancel(ctx), s.Repo.Repo, Branch, ""); there != nil {
			return out, err
		}
	}
	out.State, out.Change = Opened, made
	return out, nil
}
