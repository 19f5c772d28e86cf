package worlds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

// Fault points of a rebinding, for crash tests.
const (
	faultRebindBefore supervisor.Point = "world.rebind.before"
	faultRebindActed  supervisor.Point = "world.rebind.acted"
	faultRebindFreed  supervisor.Point = "world.rebind.freed"
)

// Rebinding is a world that is to go on as another.
type Rebinding struct {
	*Place
	Old     string
	Marks   []worldref.Mark // what of it goes on
	Own     int             // tasks whose state is the other world's own, which is kept
	Remarks []Remark        // refs that are not as they were seen, or whose task is left out
	at      Identity
	acting  *Acting
}

// Rebinding reads the repository of the world that another goes on as: "" for where it was
// last. The tasks that are taken go on although their issue has another text. Close it.
func (s *Acting) Rebinding(ctx context.Context, old, next, repo string, taken []int64) (r *Rebinding, err error) {
	if old == next {
		return nil, problem.Usage("OLD and NEW are the same world, %s.", old)
	}
	if repo == "" {
		repo = s.Dir.LastUse().Repos[next]
	}
	if repo == "" {
		return nil, problem.Usage("The state directory doesn't say where the repository of %s is: give --repo.", next)
	}
	r = &Rebinding{Old: old, acting: s}
	if r.at, err = Identify(ctx, s.proc, s.Cfg, repo, true); err != nil {
		return nil, err
	}
	if err := r.open(ctx, next, taken); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close gives the repository back, and the forge that said which it is.
func (r *Rebinding) Close() {
	if r.Place != nil {
		installation.CloseRepo(r.Repo)
	}
	r.at.Close()
}

func (r *Rebinding) open(ctx context.Context, next string, taken []int64) (err error) {
	if r.at.World != next {
		return problem.Coded(kernel.CodeWorldElsewhere, "The repository at %s is the world %s, not %s.", r.at.URL, r.at.World, next)
	}
	if err := (installation.Use{Repo: r.at.URL, World: r.at.World}).Contradicts(r.acting.Dir.LastUse()); err != nil {
		return err
	}
	if r.Place, err = r.acting.Place(ctx, next, r.at.URL); err != nil {
		return err
	}
	r.Display = r.at.Display
	return r.continuing(ctx, taken)
}

// continuing works out which tasks go on, and which don't and why.
func (r *Rebinding) continuing(ctx context.Context, taken []int64) error {
	stands, err := r.acting.stands(ctx, r.Place, r.Old)
	if err != nil {
		return err
	}
	listed, err := r.acting.Listed()
	if err != nil {
		return err
	}
	here := r.Room.Standing(listed...)
	if err := r.refuseSpoken(ctx, stands, here); err != nil {
		return err
	}
	left := map[string]string{}
	until := func(st supervisor.Stand) git.OID {
		switch {
		case left[st.Ref] != "":
			return ""
		case st.Legitimate():
			return st.Head
		}
		return st.Seen
	}
	stands = slices.DeleteFunc(stands, func(st supervisor.Stand) bool {
		has := st.World == r.World && here.Signs(st.Signer, st.Ref, string(st.Head))
		if has {
			r.Own++
		}
		return has || st.Seen == "" && st.World != r.Old
	})
	for _, st := range stands {
		if left[st.Ref], err = r.at.issues.leaves(ctx, st, until(st), taken); err != nil {
			return err
		}
	}
	r.Marks = r.marks(stands, until)
	for _, st := range stands {
		if st.Code != "" || left[st.Ref] != "" {
			r.Remarks = append(r.Remarks, Remark{Stand: st, Until: until(st), Left: left[st.Ref]})
		}
	}
	return nil
}

// refuseSpoken is an error where neither the repository nor the state directory has a word of
// the world that is to go on: an act about it would stand there for ever, and say nothing.
func (r *Rebinding) refuseSpoken(ctx context.Context, stands []supervisor.Stand, acts worldref.Standing) error {
	named := map[string]bool{}
	for _, st := range stands {
		named[st.World] = true
	}
	for _, j := range acts.Acts {
		if named[j.Act.World] = true; j.Act.Act == worldref.Rebind {
			named[j.Old] = true
		}
	}
	old, use := r.Old, r.acting.Dir.LastUse()
	worlds, err := r.acting.Store.Worlds(ctx)
	if err != nil || named[old] || slices.Contains(worlds, old) || use.Names[old] != "" || use.Repos[old] != "" {
		return err
	}
	unknown := problem.Coded(kernel.CodeWorldElsewhere, "Nothing speaks of a world %s: no state commit and no act in %s, nor this installation's store. Nothing was written.", old, r.URL)
	delete(named, "")
	delete(named, r.World)
	if unknown.Remedy = "Give OLD as state commits name it (`git log refs/writ/task/N`, writ-world)."; len(named) > 0 {
		unknown.Remedy = "Give OLD as the repository names it: " + strings.Join(slices.Sorted(maps.Keys(named)), ", ") + "."
	}
	return unknown
}

// leaves is why a task doesn't go on from a commit, "" if it does: numbers may be given
// out again by a migration, and what was approved is a text.
func (read issueText) leaves(ctx context.Context, st supervisor.Stand, until git.OID, taken []int64) (string, error) {
	if read == nil || until == "" || slices.Contains(taken, st.Task) {
		return "", nil
	}
	if !st.Legitimate() && st.SeenSigner == "" {
		return "what was seen last, " + string(until) + ", isn't in this repository; push it there first", nil
	}
	issue, err := read(ctx, st.Task)
	var gone *forge.Error
	if errors.As(err, &gone) && gone.Reason == forge.NotFound {
		return "there is no such issue", nil
	}
	if err != nil {
		return "", err
	}
	now, err := kernel.ApprovalDigest(issue.Title, issue.Body)
	if err != nil || string(now) != st.Approval {
		return fmt.Sprintf("the issue has another text than was approved; if it is the same task: --task %d", st.Task), nil //nolint:nilerr // a text that can't be hashed is another text
	}
	return "", nil
}

// Write says in the repository that the world goes on, and has the state directory know it.
func (r *Rebinding) Write(ctx context.Context, reason string) error {
	s := r.acting
	s.proc.Reach(faultRebindBefore)
	if _, err := r.Room.Append(ctx, s.act(worldref.Rebind, reason, r.Old, r.World, r.Marks), s.Writer(s.Key.SSHSigner())); err != nil {
		return err
	}
	s.proc.Reach(faultRebindActed)
	// The name is free for NEW: nobody means OLD by it any more.
	if err := inbox.New(s.DB).SetCursor(ctx, r.Old, server.BindingNote, ""); err != nil {
		return err
	}
	s.proc.Reach(faultRebindFreed)
	return s.Dir.Remember(r.World, r.Display, r.URL)
}
