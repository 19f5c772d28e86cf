package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server"
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
	cmd.Flags().StringVar(&w.State, "state-dir", "", "state directory of the server")
	cmd.Flags().StringVar(&w.World, "world", "", "the repository, by its name or its identity, for a server with several")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until nothing of the task runs")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		number, err := installation.ArgNumber(args[0])
		if err != nil {
			return err
		}
		if w.State == "" {
			return problem.Usage("--state-dir is missing: give the server's.")
		}
		if err := installation.PathFlag("state-dir", w.State); err != nil {
			return err
		}
		return a.showLogs(ctx, w, number, follow)
	})
	return cmd
}

func (a *app) showLogs(ctx context.Context, w whereFlags, number int64, follow bool) error {
	dir, err := installation.OpenDir(w.State, false)
	if err != nil {
		return err
	}
	world := dir.LastUse().Meant(w.World)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for next, first := int64(0), true; ; first = false {
		t, err := a.askLogs(ctx, dir, installation.Request{Act: server.ActLogs, World: world, Task: number, Next: next})
		switch {
		case err != nil:
			return err
		case first && !t.Runs:
			return &problem.Error{Exit: problem.ExitOther, Text: "Nothing of task " + strconv.FormatInt(number, 10) + " runs now.",
				Remedy: "`writ task show` and the issue say how it stands; the report has the end of the output, where something failed."}
		}
		if t.Lost > 0 && !first {
			a.print("… %d lines left out\n", t.Lost)
		}
		for _, line := range t.Lines {
			a.print("%s\n", a.Redactor.String(line))
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

func (a *app) askLogs(ctx context.Context, dir *installation.Dir, r installation.Request) (t server.LogLines, err error) {
	busy := func() bool { return errors.As(dir.Probe(), new(*problem.Error)) }
	if !busy() {
		return t, &problem.Error{Exit: problem.ExitOther, Text: "No process runs with the state directory " + dir.Path + ", so nothing of its tasks does.", Remedy: "`writ serve` starts the server."}
	}
	r.Actor, r.Time = a.LocalActor(), time.Now().UnixMilli()
	ans, err := dir.Ask(ctx, r, func() bool { return !busy() })
	switch {
	case errors.Is(err, installation.ErrUnheard):
		return t, problem.Coded(kernel.CodeStateUnanswered, "The running process did not answer within %s.", installation.AnswerTime)
	case err != nil:
		return t, err
	case !ans.OK:
		return t, ans.Problem("Only a server (`writ serve`) keeps what its builders print; writ task run prints it itself.")
	}
	return t, json.Unmarshal([]byte(ans.Said), &t)
}
