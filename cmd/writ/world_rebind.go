package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/report"
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

func (a *app) worldRebind() *cobra.Command {
	var f worldFlags
	var repo string
	var taken []int64
	cmd := &cobra.Command{
		Use:   "rebind OLD NEW --state-dir DIR --reason TEXT",
		Short: "Say that the world OLD goes on as NEW, after a migration",
		Long: `Rebind is the way on where a repository has another identity than before: moved to
another forge, imported, made again. It says, in the repository that is NEW, which
state commits of OLD count there: the very commit on each task's ref, and nothing
newer. OLD's own ledger stays as it is.

The text of each task's issue at NEW is held against what was approved; a task whose
issue isn't the same is left out and told, unless --task names it. Without --reason
it only shows. No process may use the state directory: stop the server first.
Whatever interrupts it, the same command finishes it.`,
		Example: "  writ world rebind 'git.example#7' 'github.com#1296269' --repo https://github.com/acme/shop.git \\\n    --state-dir /var/lib/writ/state --config writ.yaml --reason 'moved to GitHub'",
		Args:    cobra.ExactArgs(2),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&repo, "repo", "", "path or URL of the repository that is NEW (default: where it was last)")
	cmd.Flags().Int64SliceVar(&taken, "task", nil, "task that goes on although its issue has another text; may be repeated")
	cmd.RunE = a.acting(&f, false, func(ctx context.Context, in *installation.Installation, args []string) error {
		return a.rebind(ctx, in, rebinding{old: in.Dir.LastUse().Meant(args[0]), next: in.Dir.LastUse().Meant(args[1]), repo: repo, reason: f.reason, taken: taken})
	})
	return cmd
}

// rebinding is what the command line asks for.
type rebinding struct {
	old, next, repo, reason string
	taken                   []int64
}

func (a *app) rebind(ctx context.Context, in *installation.Installation, r rebinding) error {
	if r.old == r.next {
		return problem.Usage("OLD and NEW are the same world, %s.", r.old)
	}
	if r.repo == "" {
		r.repo = in.Dir.LastUse().Repos[r.next]
	}
	if r.repo == "" {
		return problem.Usage("The state directory doesn't say where the repository of %s is: give --repo.", r.next)
	}
	at, err := a.identified(ctx, in.Cfg, r.repo, true)
	if err != nil {
		return err
	}
	defer at.close()
	if at.World != r.next {
		return problem.Coded(kernel.CodeWorldElsewhere, "The repository at %s is the world %s, not %s.", at.URL, at.World, r.next)
	}
	if err := (installation.Use{Repo: at.URL, World: at.World}).Contradicts(in.Dir.LastUse()); err != nil {
		return err
	}
	p, err := a.openActs(ctx, in, r.next, at.URL)
	if err != nil {
		return err
	}
	defer installation.CloseRepo(p.repo)
	p.display = at.Display
	marks, err := a.continuing(ctx, in, p, r, at.issues)
	if err != nil {
		return err
	}
	if r.reason == "" {
		return unsaid(r.old + " goes on as " + r.next)
	}
	a.reach(faultRebindBefore)
	if _, err := p.room.Append(ctx, a.newAct(worldref.Rebind, r.reason, r.old, r.next, marks), in.Writer(in.Key.SSHSigner())); err != nil {
		return err
	}
	a.reach(faultRebindActed)
	// The name is free for NEW: nobody means OLD by it any more.
	if err := inbox.New(in.DB).SetCursor(ctx, r.old, server.BindingNote, ""); err != nil {
		return err
	}
	a.reach(faultRebindFreed)
	if err := in.Dir.Remember(r.next, at.Display, at.URL); err != nil {
		return err
	}
	a.print("rebound: %s goes on as %s (%s)\n", r.old, r.next, at.Display)
	return nil
}

// continuing tells which tasks go on, and which don't and why.
func (a *app) continuing(ctx context.Context, in *installation.Installation, p *actPlace, r rebinding, issues issueText) ([]worldref.Mark, error) {
	stands, err := a.stands(ctx, in, p, r.old)
	if err != nil {
		return nil, err
	}
	listed, err := in.Listed()
	if err != nil {
		return nil, err
	}
	here := p.room.Standing(listed...)
	if err := refuseSpoken(ctx, in, p, r.old, stands, here); err != nil {
		return nil, err
	}
	left := map[string]string{}
	own := 0
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
		has := st.World == p.world && here.Signs(st.Signer, st.Ref, string(st.Head))
		if has {
			own++
		}
		return has || st.Seen == "" && st.World != r.old
	})
	for _, st := range stands {
		if left[st.Ref], err = issues.leaves(ctx, st, until(st), r.taken); err != nil {
			return nil, err
		}
	}
	marks := p.marks(stands, until)
	a.print("%s: of %s go on: %s\n", p.display, r.old, tasks(marks, p.prefix))
	if own > 0 {
		a.print("  state of %s itself is kept: %s\n", p.world, report.Counted(own, "task"))
	}
	for _, st := range stands {
		if st.Code != "" {
			a.tellMoved(p, st, until(st))
		}
		if why := left[st.Ref]; why != "" {
			a.print("  left out: %s: %s\n", st.Ref, why)
		}
	}
	return marks, nil
}

// refuseSpoken is an error where neither the repository nor the state directory has a word of
// the world that is to go on: an act about it would stand there for ever, and say nothing.
func refuseSpoken(ctx context.Context, in *installation.Installation, p *actPlace, old string, stands []supervisor.Stand, acts worldref.Standing) error {
	named := map[string]bool{}
	for _, st := range stands {
		named[st.World] = true
	}
	for _, j := range acts.Acts {
		if named[j.Act.World] = true; j.Act.Act == worldref.Rebind {
			named[j.Old] = true
		}
	}
	use := in.Dir.LastUse()
	worlds, err := in.Store.Worlds(ctx)
	if err != nil || named[old] || slices.Contains(worlds, old) || use.Names[old] != "" || use.Repos[old] != "" {
		return err
	}
	unknown := problem.Coded(kernel.CodeWorldElsewhere, "Nothing speaks of a world %s: no state commit and no act in %s, nor this installation's store. Nothing was written.", old, p.url)
	delete(named, "")
	delete(named, p.world)
	if unknown.Remedy = "Give OLD as state commits name it (`git log refs/writ/task/N`, writ-world)."; len(named) > 0 {
		unknown.Remedy = "Give OLD as the repository names it: " + strings.Join(slices.Sorted(maps.Keys(named)), ", ") + "."
	}
	return unknown
}

// issueText reads issues of the new world; nil where tasks come from files.
type issueText func(ctx context.Context, number int64) (forge.Issue, error)

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

// identity is a place whose world is known as well as it can be.
type identity struct {
	installation.Place
	issues issueText
	// vouched: the repository itself, or its forge, says so.
	vouched bool
	close   func()
}

// identified learns which world a repository is: from its git directory, or from
// the forge of the configuration that has it. What it gives is to be closed.
func (a *app) identified(ctx context.Context, cfg config.Config, repo string, mint bool) (identity, error) {
	id := identity{close: func() {}}
	var err error
	if id.Place, err = installation.NewPlace(repo); err != nil {
		return id, err
	}
	if id.OnDisk {
		err := id.Identify(mint)
		id.vouched = id.World != id.Display
		return id, err
	}
	cfg.Server.Intake = config.IntakePoll // what takes webhooks isn't needed
	given, err := a.ReadSecrets(cfg)
	if err != nil {
		return id, err
	}
	forges, err := a.Connect(ctx, cfg, given, slog.New(slog.DiscardHandler))
	if err != nil {
		return id, err
	}
	for _, f := range forges {
		r, has := f.Named(id.URL)
		if !has || id.vouched {
			f.Host.Close()
			continue
		}
		if err := id.ask(ctx, f, r); err != nil {
			f.Host.Close()
			return id, err
		}
	}
	return id, nil
}

// ask asks the forge that has a repository.
func (id *identity) ask(ctx context.Context, f *wire.Forge, r forge.Repo) error {
	found, err := f.Host.Find(ctx, r.Owner, r.Name)
	if err != nil {
		return wire.NotFound(f, r.String(), err)
	}
	if id.World, err = f.World(ctx, found.Repo); err != nil {
		return err
	}
	client := f.Host.Client(found.Repo)
	id.vouched, id.Display, id.close = true, f.Display(found.Repo), f.Host.Close
	id.issues = func(ctx context.Context, n int64) (forge.Issue, error) { return client.Issue(ctx, found.Repo, n) }
	return nil
}
