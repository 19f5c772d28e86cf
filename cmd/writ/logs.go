package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/kernel"
)

// followEvery is how soon a follower sees a new line.
const followEvery = 300 * time.Millisecond

func (a *app) logsCommand() *cobra.Command {
	var w whereFlags
	var follow bool
	cmd := &cobra.Command{
		Use: "logs N --state-dir DIR", Short: "What the builder or the checks of a running task print", Args: cobra.ExactArgs(1),
		Long: `Logs shows the newest output of the builder or the checks of task N, while a server works
on it: both streams, as they come, without secrets and control characters. A flood of
short lines is shown in part. Of what has ended, the report on the issue has the end.`,
		Example: "  writ logs 12 --state-dir /var/lib/writ/state --follow",
	}
	cmd.Flags().StringVar(&w.state, "state-dir", "", "state directory of the server")
	cmd.Flags().StringVar(&w.world, "world", "", "the repository, by its name or its identity, for a server with several")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until nothing of the task runs")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		number, err := argNumber(args[0])
		if err != nil {
			return err
		}
		if w.state == "" {
			return usage("--state-dir is missing: give the server's.")
		}
		if err := pathFlag("state-dir", w.state); err != nil {
			return err
		}
		return a.showLogs(ctx, w, number, follow)
	})
	return cmd
}

func (a *app) showLogs(ctx context.Context, w whereFlags, number int64, follow bool) error {
	dir, err := openState(w.state, false)
	if err != nil {
		return err
	}
	world := dir.lastUse().meant(w.world)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for next, first := int64(0), true; ; first = false {
		t, err := a.askLogs(ctx, dir, request{Act: actLogs, World: world, Task: number, Next: next})
		switch {
		case err != nil:
			return err
		case first && !t.Runs:
			return &problem{exit: exitOther, text: "Nothing of task " + strconv.FormatInt(number, 10) + " runs now.",
				remedy: "`writ task show` and the issue say how it stands; the report has the end of the output, where something failed."}
		}
		if t.Lost > 0 && !first {
			a.print("… %d lines left out\n", t.Lost)
		}
		for _, line := range t.Lines {
			a.print("%s\n", a.redactor.String(line))
		}
		if next = t.Next; !follow || !t.Runs {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *app) askLogs(ctx context.Context, dir *stateDir, r request) (t tailed, err error) {
	busy := func() bool { return errors.As(dir.probe(), new(*problem)) }
	if !busy() {
		return t, &problem{exit: exitOther, text: "No process runs with the state directory " + dir.path + ", so nothing of its tasks does.", remedy: "`writ serve` starts the server."}
	}
	r.Actor, r.Time = a.localActor(), time.Now().UnixMilli()
	ans, err := dir.ask(ctx, r, func() bool { return !busy() })
	switch {
	case errors.Is(err, errUnheard):
		return t, coded(kernel.CodeStateUnanswered, "The running process did not answer within %s.", answerTime)
	case err != nil:
		return t, err
	case !ans.OK:
		return t, ans.problem("Only a server (`writ serve`) keeps what its builders print; writ task run prints it itself.")
	}
	return t, json.Unmarshal([]byte(ans.Said), &t)
}
