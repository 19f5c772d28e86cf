package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
)

func (a *app) worldCommand() *cobra.Command {
	cmd := group("world", "Say that a repository goes on as another, and show what was said of keys")
	cmd.AddCommand(a.worldRebind(), a.worldRepair(), a.worldRestore(), a.worldLog())
	return cmd
}

// actPlace is a world in whose repository acts are written.
type actPlace struct {
	world, display, url string

	repo   *git.Repo
	room   *worldref.Room
	prefix string   // of its state refs
	refs   git.Refs // state refs, branches, and the ref of the acts
}

// openActs opens a world's repository, and reads its refs and its acts. Close its
// repository.
func (a *app) openActs(ctx context.Context, in *installation.Installation, world, url string) (p *actPlace, err error) {
	at := where{cfg: in.Cfg}
	if at.place, err = installation.NewPlace(url); err != nil {
		return nil, err
	}
	p = &actPlace{world: world, display: in.Dir.LastUse().Called(world), url: at.place.URL, prefix: installation.RefPrefix(in.Cfg.Refs)}
	if p.repo, err = a.repoOf(ctx, at, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	if err := p.read(ctx, in); err != nil {
		installation.CloseRepo(p.repo)
		return nil, err
	}
	return p, nil
}

func (p *actPlace) read(ctx context.Context, in *installation.Installation) (err error) {
	if p.room, err = in.ActsOf(p.repo, p.world); err != nil {
		return err
	}
	if p.refs, err = p.repo.Refs(ctx, p.prefix, p.room.Ref()); err != nil {
		return err
	}
	return p.room.Look(ctx, p.tip())
}

// tip is where the acts are.
func (p *actPlace) tip() git.OID { return p.refs.OID(p.room.Ref()) }

// stands are how the state refs stand to what the ledger of a world saw, for somebody
// who lists these keys too. The world is the place's own, or one that it goes on as.
func (a *app) stands(ctx context.Context, in *installation.Installation, p *actPlace, world string, also ...ssh.PublicKey) ([]supervisor.Stand, error) {
	history, err := in.Testimony(ctx, world)
	if err != nil {
		return nil, err
	}
	sup, err := a.reader(in, p, world, history, also...)
	if err != nil {
		return nil, err
	}
	return sup.Stands(ctx, p.refs)
}

// reader is a supervisor of a place's world that only reads, for somebody who lists these
// keys too.
func (a *app) reader(in *installation.Installation, p *actPlace, world string, history *supervisor.History, also ...ssh.PublicKey) (*supervisor.Supervisor, error) {
	g := &installation.Governed{Installation: in, Repo: p.repo, World: world, Display: p.display}
	cfg, deps, err := a.Supervision(g, nil, wire.Supervision{})
	if err != nil {
		return nil, err
	}
	cfg.Trusted, deps.Acts = append(cfg.Trusted, also...), p.room
	return supervisor.New(cfg, deps, history), nil
}

// marks are commits on refs, and the last of the acts.
func (p *actPlace) marks(stands []supervisor.Stand, until func(supervisor.Stand) git.OID) (marks []worldref.Mark) {
	for _, st := range stands {
		if oid := until(st); oid != "" {
			marks = append(marks, worldref.Mark{Ref: st.Ref, Head: string(oid)})
		}
	}
	if last := p.room.Last(); last != "" {
		marks = append(marks, worldref.Mark{Ref: p.room.Ref(), Head: string(last)})
	}
	return marks
}

// tellMoved names a ref that isn't as it was seen, why, and what becomes of it.
func (a *app) tellMoved(p *actPlace, st supervisor.Stand, until git.OID) {
	a.print("  %s: %s: %s\n", st.Ref, st.Code, st.Why)
	switch {
	case until != "" && st.Head != "":
		a.print("    what was seen last counts, and what is there now doesn't; put it back: git push --force %s %s:%s\n", p.url, until, st.Ref)
	case until != "":
		a.print("    what was seen last counts; put it back: git push %s %s:%s\n", p.url, until, st.Ref)
	default:
		a.print("    it doesn't count\n")
	}
}

// worldFlags are those of the commands that write an act.
type worldFlags struct {
	state, config, reason, world string
}

func (f *worldFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.state, "state-dir", "", "state directory of the installation that signs")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration, for the forge's token and trusted_runners")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why; it is recorded with your name. Without it nothing is changed")
}

// check reads the flags.
func (f *worldFlags) check(a *app) (cfg config.Config, err error) {
	if f.state == "" {
		return cfg, problem.Usage("--state-dir is missing: give that of the installation.")
	}
	for flag, path := range map[string]string{"state-dir": f.state, "config": f.config} {
		if err := installation.PathFlag(flag, path); err != nil {
			return cfg, err
		}
	}
	if f.reason, err = installation.ShortReason(f.reason); err != nil {
		return cfg, err
	}
	return a.Load(f.config)
}

// acting runs a command that writes acts, over the installation that signs them.
func (a *app) acting(f *worldFlags, rotating bool, do func(ctx context.Context, in *installation.Installation, args []string) error) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, args []string) error {
		cfg, err := f.check(a)
		if err != nil {
			return err
		}
		in, err := a.openForActs(ctx, cfg, f.state, rotating)
		if err != nil {
			return err
		}
		defer in.Close()
		return do(ctx, in, args)
	})
}

// unsaid is the end of a command that was to show only.
func unsaid(why string) error {
	return problem.Usage("--reason is missing: nothing was changed. Say why %s.", why)
}

// openForActs opens an installation that is there, for acts that it signs.
func (a *app) openForActs(ctx context.Context, cfg config.Config, state string, rotating bool) (*installation.Installation, error) {
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return nil, err
	}
	if use := dir.LastUse(); use.Refs == config.RefsHeads {
		cfg.Refs = use.Refs
	}
	log := slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutTime}))
	return installation.OpenAs(ctx, &installation.Installation{Cfg: cfg, Log: log, Rotating: rotating, Fault: a.Fault}, state, installation.Use{})
}

// eachWorld opens the worlds that are meant, all before anything is changed.
func (a *app) eachWorld(ctx context.Context, in *installation.Installation, worlds map[string]string) (places []*actPlace, end func(), err error) {
	end = func() {
		for _, p := range places {
			installation.CloseRepo(p.repo)
		}
	}
	for _, w := range slices.Sorted(maps.Keys(worlds)) {
		if now, err := git.Identity(worlds[w]); filepath.IsAbs(worlds[w]) && err == nil && now != "" && now != w {
			a.print("%s: %s is another world now, %s\n", in.Dir.LastUse().Called(w), worlds[w], now)
			continue
		}
		p, err := a.openActs(ctx, in, w, worlds[w])
		if err != nil {
			end()
			told := problem.Explain(err)
			told.Text = in.Dir.LastUse().Called(w) + ": " + told.Text
			told.Remedy += " Nothing was changed. A repository that is gone for good is left out with --without."
			return nil, nil, told
		}
		places = append(places, p)
	}
	return places, end, nil
}

// tasks are the numbers in state refs, for people.
func tasks(marks []worldref.Mark, prefix string) string {
	var numbers []string
	for _, m := range marks {
		if n, ok := strings.CutPrefix(m.Ref, prefix); ok {
			numbers = append(numbers, n)
		}
	}
	slices.SortFunc(numbers, func(x, y string) int {
		a, _ := strconv.ParseInt(x, 10, 64)
		b, _ := strconv.ParseInt(y, 10, 64)
		return int(a - b)
	})
	if len(numbers) == 0 {
		return "no task"
	}
	const most = 20
	if len(numbers) > most {
		numbers = append(numbers[:most], fmt.Sprintf("and %d more", len(numbers)-most))
	}
	return "tasks " + strings.Join(numbers, ", ")
}

// act begins an act in a person's name.
func (a *app) newAct(word, reason, old, next string, refs []worldref.Mark) worldref.Act {
	return worldref.Act{Act: word, Actor: a.LocalActor(), Reason: reason, Time: installation.NewClock().Now().WallMs, Old: old, New: next, Refs: refs}
}
