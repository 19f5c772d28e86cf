package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/worldref"
)

func (a *app) worldCommand() *cobra.Command {
	cmd := group("world", "Say that a repository goes on as another, and show what was said of keys")
	cmd.AddCommand(a.worldRebind(), a.worldRepair(), a.worldRestore(), a.worldLog())
	return cmd
}

// tellMoved names a ref that isn't as it was seen, why, and what becomes of it.
func (a *app) tellMoved(p *worlds.Place, st worlds.Remark) {
	a.print("  %s: %s: %s\n", st.Ref, st.Code, st.Why)
	switch until := st.Until; {
	case until != "" && st.Head != "":
		a.print("    what was seen last counts, and what is there now doesn't; put it back: git push --force %s %s:%s\n", p.URL, until, st.Ref)
	case until != "":
		a.print("    what was seen last counts; put it back: git push %s %s:%s\n", p.URL, until, st.Ref)
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
func (a *app) acting(f *worldFlags, rotating bool, do func(ctx context.Context, by *worlds.Acting, args []string) error) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, args []string) error {
		cfg, err := f.check(a)
		if err != nil {
			return err
		}
		by, err := worlds.Open(ctx, a.Process, cfg, f.state, rotating)
		if err != nil {
			return err
		}
		defer by.Close()
		return do(ctx, by, args)
	})
}

// unsaid is the end of a command that was to show only.
func unsaid(why string) error {
	return problem.Usage("--reason is missing: nothing was changed. Say why %s.", why)
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

// tellElsewhere names a repository that is left out, for its path holds another world.
func (a *app) tellElsewhere(called, path, now string) {
	a.print("%s: %s is another world now, %s\n", called, path, now)
}
