package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server"
	"github.com/writbot/writ/kernel"
)

func (a *app) queueCommand() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use: "queue --state-dir DIR", Short: "Which tasks of a running server wait, and for what", Args: cobra.NoArgs,
		Long: `Queue asks the running server which tasks wait for a build slot, for their forge's limits,
for another runner or for their next attempt, as it is at this moment. Tasks that wait
for a person are not among them: writ task show says what those wait for.`,
		Example: "  writ queue --state-dir /var/lib/writ/state",
	}
	cmd.Flags().StringVar(&state, "state-dir", "", "state directory of the server")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if state == "" {
			return problem.Usage("--state-dir is missing: give the server's.")
		}
		if err := installation.PathFlag("state-dir", state); err != nil {
			return err
		}
		said, err := a.askQueue(ctx, state)
		if err != nil {
			return err
		}
		if a.json {
			a.printJSON([]byte(said))
			return nil
		}
		var q server.Queue
		if err := json.Unmarshal([]byte(said), &q); err != nil {
			return err
		}
		a.print("%s", queueText(q))
		return nil
	})
	return cmd
}

func (a *app) askQueue(ctx context.Context, state string) (string, error) {
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return "", err
	}
	busy := func() bool { return errors.As(dir.Probe(), new(*problem.Error)) }
	if !busy() {
		return "", &problem.Error{Exit: problem.ExitOther, Text: "No process runs with the state directory " + state + ", so nothing waits in one.", Remedy: "`writ serve` starts the server."}
	}
	ans, err := dir.Ask(ctx, installation.Request{Act: server.ActQueue, Actor: a.LocalActor(), Time: time.Now().UnixMilli()}, func() bool { return !busy() })
	switch {
	case errors.Is(err, installation.ErrUnheard):
		return "", problem.Coded(kernel.CodeStateUnanswered, "The running process did not answer within %s.", installation.AnswerTime)
	case err != nil:
		return "", err
	case !ans.OK:
		return "", ans.Problem("Only a server (`writ serve`) has a queue.")
	}
	return ans.Said, nil
}

// queueText is the answer for a person.
func queueText(q server.Queue) string {
	var b strings.Builder
	fmt.Fprintf(&b, "build slots in use: %d of %d; tasks that wait: %d\n", q.Builds, q.Of, q.Total)
	for _, t := range q.Waiting {
		fmt.Fprintf(&b, "%s#%d  %s: %s", t.Repository, t.Task, t.Why, server.WaitWords[t.Why])
		if t.Place > 0 {
			fmt.Fprintf(&b, " (place %d)", t.Place)
		}
		if t.Until != "" {
			fmt.Fprintf(&b, " (until %s)", t.Until)
		}
		b.WriteString("\n")
	}
	if more := q.Total - len(q.Waiting); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String()
}
