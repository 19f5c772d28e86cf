package wizard

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/doctor"
	"github.com/writbot/writ/cmd/internal/terminal"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
)

// Wizard leads a person through a set-up.
type Wizard struct {
	*wire.Process
	terminal.Asker
	Stdout io.Writer // of the checks
	// Onboard proposes the contract to a repository, and says what became of it.
	Onboard func(ctx context.Context, at *wire.Forge, repo string, who config.Identity) error
}

// DefaultDir is where set-up keeps everything if nothing else is said.
const DefaultDir = "writ-server"

// Flags are what the set-ups of all forges take.
type Flags struct {
	Config, Dir, Refs  string
	Onboard, NoOnboard bool
}

// labels are those that a repository needs: the one with which people
// approve, as the built-in contract names it, and writ's own.
func labels() []forge.Label {
	approves := forge.Label{Name: contract.Default().Trigger.Label, Color: "1f6feb", Description: "Approves an issue for writ"}
	return append([]forge.Label{approves}, supervisor.Labels()...)
}

// makeLabels makes the labels that a repository lacks.
func makeLabels(ctx context.Context, at *wire.Forge, full string) error {
	owner, name, _ := wire.CutRepo(full)
	repo, err := at.Host.Find(ctx, owner, name)
	if err != nil {
		return wire.NotFound(at, full, err)
	}
	return at.Host.Client(repo.Repo).EnsureLabels(ctx, repo.Repo, labels())
}

// check makes the labels of each repository and checks it by using what writ
// may do in it. It reports whether all is well. Each check is a line.
func (w *Wizard) check(ctx context.Context, cfg config.Config, at *wire.Forge) bool {
	good := true
	for _, name := range at.Repositories {
		if err := makeLabels(ctx, at, name); err != nil {
			w.Print("The labels of %s could not be made: %s.\n", name, err.Error())
		}
		checks := doctor.Repository(ctx, doctor.Target{
			Forge: at.Name, Host: at.Host, Name: name, Git: at.Git, Refs: cfg.Refs, Base: cfg.Base,
			Identity: doctor.Identity{Name: cfg.Identity.Name, Email: cfg.Identity.Email},
			Poll:     cfg.Server.Intake == config.IntakePoll, Now: time.Now,
			Each: func(c doctor.Check) { _ = doctor.Line(w.Stdout, c) }, // a terminal that is gone
		})
		good = good && doctor.Good(checks)
	}
	return good
}

// sayStart says what is left to do.
func (w *Wizard) sayStart(env, file string, cfg config.Config) {
	w.Print("\nStart writ:\n\n  set -a; . %s; set +a\n  writ serve --config %s\n", shellWord(env), shellWord(file))
	if cfg.Server.Intake != config.IntakePoll {
		w.Print("\nYour proxy passes /hooks/ at the public address on to http://%s, and nothing else.\n", cfg.Server.Listen)
	}
	if cfg.Refs == config.RefsHidden {
		w.Print("\nWhoever may push can set a task's state back; writ sees it, and waits for a person. Where\nsuch people aren't trusted, write refs: heads into %s before the first task, and let\na ruleset keep writ/task/** and writ/world for writ's account.\n", file)
	} else {
		w.Print("\nState refs are branches: let a ruleset keep writ/task/** and writ/world for writ's account.\n")
	}
	if len(cfg.Builders) == 0 {
		w.Print("\nNo builder is named yet: %s has a place for one.\n", file)
	}
}

// shellSafe is what a shell reads as it stands.
var shellSafe = lazyregexp.New(`^[A-Za-z0-9_./:@%+=,-]+$`)

// shellWord writes a word as a shell reads it, for commands that a person copies.
func shellWord(s string) string {
	if shellSafe().MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
