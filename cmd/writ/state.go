package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor/branch"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/tick"
)

func (a *app) stateCommand() *cobra.Command {
	cmd := group("state", "Set and show the states of branches")
	cmd.AddCommand(a.stateSet(), a.stateShow(), a.stateLog())
	return cmd
}

func (a *app) stateSet() *cobra.Command {
	var f holderFlags
	var title, body, file string
	var trailers []string
	cmd := &cobra.Command{
		Use: "set STATE", Short: "Commit a state, with what is staged, and move the branch to it", Args: cobra.ExactArgs(1),
		Long: `Set makes the event that the next tick acts on, or, inside a command, the one that
completes its run. What is staged in the branch's working tree goes with it. The
branch moves by compare-and-swap, on the remote where one is given. Inside a
command it is refused with exit status 21 once the lease is lost; by hand with 13
while somebody's lease is at HEAD.`,
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		m, err := a.stateMessage(args[0], title, body, file, trailers)
		if err != nil {
			return err
		}
		return a.withHolder(ctx, f, func(h *branch.Holder, _ branchPlace) error {
			oid, err := h.Set(ctx, m)
			if lease.HasCode(err, lease.CodeUnwritable) {
				return &problem.Error{Exit: problem.ExitUsage, Text: err.Error() + "."}
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, oid)
			return nil
		})
	})
	f.add(cmd, a.Env)
	cmd.Flags().StringVar(&title, "title", "", "the commit's first line, for people (default \"writ: STATE\")")
	cmd.Flags().StringVar(&body, "body", "", "the prompt for the state's command")
	cmd.Flags().StringVar(&file, "body-file", "", "the prompt from a file, - for standard input")
	cmd.Flags().StringArrayVar(&trailers, "trailer", nil, "KEY=VALUE, handed to the command; may be repeated")
	cmd.MarkFlagsMutuallyExclusive("body", "body-file")
	return cmd
}

func (a *app) stateMessage(state, title, body, file string, trailers []string) (lease.Message, error) {
	if !lease.ValidState(state) {
		return lease.Message{}, problem.Usage("%q is no state: write lower-case letters, digits, _ and -, joined by single slashes.", state)
	}
	if state == lease.StateWorking || state == lease.StateStalled {
		return lease.Message{}, problem.Usage("The state %s is the runner's own.", state)
	}
	if title == "" {
		title = "writ: " + state
	}
	m := lease.Message{Title: title, Body: body, Trailers: []lease.Trailer{{Key: lease.KeyState, Value: state}}}
	for _, t := range trailers {
		key, value, ok := strings.Cut(t, "=")
		if !ok {
			return m, problem.Usage("--trailer %q isn't KEY=VALUE.", t)
		}
		if lease.Reserved(key) {
			return m, problem.Usage("The trailer %s is the runner's own.", key)
		}
		m.Trailers = append(m.Trailers, lease.Trailer{Key: key, Value: value})
	}
	if file == "" {
		return m, nil
	}
	in := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return m, problem.Usage("The prompt can't be read: %s.", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, lease.MaxMessageBytes+1))
	m.Body = strings.TrimSuffix(string(text), "\n")
	return m, err
}

func (a *app) stateShow() *cobra.Command {
	var f holderFlags
	cmd := &cobra.Command{Use: "show", Short: "Say how a branch stands: state, lease, command", Args: cobra.NoArgs}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		return a.withHolder(ctx, f, func(h *branch.Holder, p branchPlace) error {
			cfg := branch.Config{Remote: f.remote, Role: f.role, From: f.from, GraceSeconds: lease.DefaultGraceSeconds}
			r, err := branch.New(cfg, branch.Deps{Clone: p.clone, Remote: p.remote, Now: h.Now, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				return err
			}
			s, err := r.Show(ctx, h.Ref)
			if err != nil {
				return err
			}
			return a.printStanding(s)
		})
	})
	f.add(cmd, a.Env)
	cmd.Flags().StringVar(&f.from, "commands-from", "", "as for writ tick")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return cmd
}

func (a *app) printStanding(s branch.Standing) error {
	if a.json {
		return a.printLine(s)
	}
	a.print("branch:  %s\nhead:    %s\n", s.Branch, s.Head)
	command := s.Command
	if found := tick.Found(s.Found); found != "" && found != tick.FoundCommand {
		command += " (" + strings.ReplaceAll(s.Found, "_", " ") + ")"
	}
	for _, l := range []struct{ name, value string }{
		{"state", s.State}, {"origin", s.Origin}, {"run", s.RunID}, {"runner", s.RunnerID}, {"lease", s.Lease},
		{"faults", strings.Join(s.Faults, ", ")}, {"command", command}, {"reason", s.Reason},
	} {
		if l.value != "" {
			a.print("%-8s %s\n", l.name+":", l.value)
		}
	}
	if s.Until != 0 {
		a.print("until:   %s at the latest, if its holder stays silent\n", time.UnixMilli(s.Until).UTC().Format(time.RFC3339))
	}
	return nil
}

// printLine writes one value as one line of JSON.
func (a *app) printLine(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, report.CleanJSON(a.Redactor.String(string(data))))
	return nil
}

// logEvents is how many events `writ state log` shows by default.
const logEvents = 10

func (a *app) stateLog() *cobra.Command {
	var f holderFlags
	var most int
	cmd := &cobra.Command{Use: "log", Short: "Show the last events of a branch, newest first", Args: cobra.NoArgs}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		return a.withHolder(ctx, f, func(h *branch.Holder, _ branchPlace) error {
			events, err := h.Log(ctx, most)
			if err != nil {
				return err
			}
			if a.json {
				return a.printLine(events)
			}
			for _, e := range events {
				a.print("%s %s state=%s run=%s origin=%s %s\n", shortOID(e.Commit), e.Date, orDash(e.State), orDash(e.RunID), orDash(e.OriginState), e.Message)
			}
			return nil
		})
	})
	f.add(cmd, a.Env)
	cmd.Flags().IntVarP(&most, "limit", "n", logEvents, "how many")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return cmd
}

func shortOID(s string) string {
	const digits = 10
	if !git.OID(s).Valid() {
		return s
	}
	return s[:digits]
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
