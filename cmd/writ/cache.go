package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/kernel"
)

func (a *app) cacheCommand() *cobra.Command {
	cmd := group("cache", "What is kept on the disk for further runs: trees of base commits, and what contracts prepared")
	cmd.AddCommand(a.cacheList(), a.cacheRemove())
	return cmd
}

func (a *app) cacheList() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use: "ls --state-dir DIR", Short: "What is kept, the one that was used last first", Args: cobra.NoArgs,
		Long: `Ls lists the layers of a state directory, also beside a running server: base and git are
the trees of base commits, prepare what the steps of a contract left. layers.size and
layers.age of the server's configuration bound what is kept that no run uses.`,
		Example: "  writ cache ls --state-dir /var/lib/writ/state",
	}
	cmd.Flags().StringVar(&state, "state-dir", "", "state directory of the installation")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	cmd.RunE = a.do(func(context.Context, []string) error {
		_, list, err := cached(state)
		if err != nil {
			return err
		}
		if a.json {
			data, err := json.Marshal(append([]builder.Cached{}, list...))
			a.printJSON(data)
			return err
		}
		var sum int64
		for _, c := range list {
			a.print("%s\n", cachedLine(c))
			sum += c.Bytes
		}
		a.print("%d kept, %s\n", len(list), mebibytes(sum))
		return nil
	})
	return cmd
}

func cachedLine(c builder.Cached) string {
	line := fmt.Sprintf("%s  %s, used %s", c.Name, mebibytes(c.Bytes), c.Used.UTC().Format(time.RFC3339))
	if c.InUse {
		line += ", in use now"
	}
	if c.Made != nil {
		line += fmt.Sprintf(", made %s by %s of %s", c.Made.UTC().Format(time.RFC3339), strings.Join(c.Steps, ", "), c.World)
	}
	return line
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// cached lists what a state directory keeps.
func cached(state string) (dir string, list []builder.Cached, err error) {
	if state == "" {
		return "", nil, problem.Usage("--state-dir is missing: give that of the installation.")
	}
	if err := installation.PathFlag("state-dir", state); err != nil {
		return "", nil, err
	}
	d, err := installation.OpenDir(state, false)
	if err != nil {
		return "", nil, err
	}
	dir = d.File(installation.Layers)
	if list, err = builder.ListCached(dir); err != nil {
		return "", nil, problem.Coded(kernel.CodeEnvLayers, "%s can't be listed: %v.", dir, err)
	}
	return dir, list, nil
}

func (a *app) cacheRemove() *cobra.Command {
	var state string
	var all bool
	cmd := &cobra.Command{
		Use: "rm --state-dir DIR NAME...", Short: "Remove what is kept; the next run that wants it makes it anew",
		Long: `Rm removes layers by the names that ls prints, or with --all every one of them, also
beside a running server. One that a run uses stays, and the exit status says so.`,
		Example: "  writ cache rm --state-dir /var/lib/writ/state --all",
	}
	cmd.Flags().StringVar(&state, "state-dir", "", "state directory of the installation")
	cmd.Flags().BoolVar(&all, "all", false, "remove all that no run uses")
	cmd.RunE = a.do(func(_ context.Context, names []string) error {
		if all == (len(names) > 0) {
			return problem.Usage("Give the names of what is to go, or --all.")
		}
		dir, list, err := cached(state)
		if err != nil {
			return err
		}
		if all {
			for _, c := range list {
				names = append(names, c.Name)
			}
		}
		return a.removeCached(dir, names)
	})
	return cmd
}

func (a *app) removeCached(dir string, names []string) error {
	var left []string
	for _, n := range names {
		switch err := builder.RemoveCached(dir, n); {
		case err == nil:
			a.print("%s removed\n", n)
		case errors.Is(err, builder.ErrInUse):
			left = append(left, n+": "+err.Error())
		case errors.Is(err, fs.ErrNotExist):
			left = append(left, n+": there is none of this name")
		default:
			left = append(left, n+": "+err.Error())
		}
	}
	if len(left) == 0 {
		return nil
	}
	return &problem.Error{Exit: problem.ExitOther, Text: "Not removed: " + strings.Join(left, "; ") + ".", Remedy: "`writ cache ls` says what there is. What a run uses can be removed once it has ended."}
}
