package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/setup"
	"github.com/writbot/writ/cmd/internal/terminal"
)

func (a *app) setupCommand() *cobra.Command {
	cmd := group("setup", "Make what writ needs at a forge: credentials, configuration, checks")
	cmd.AddCommand(a.setupGitHub(), a.setupGitLab())
	return cmd
}

// setupDir is where set-up keeps everything if nothing else is said.
const setupDir = "writ-server"

// setupFlags are what the set-ups of all forges take.
type setupFlags struct {
	config, dir, refs  string
	onboard, noOnboard bool
}

// add gives a command these flags and what it does; a request is what the forge
// calls one. What follows -- is the builder.
func (f *setupFlags) add(a *app, cmd *cobra.Command, request string, run func(ctx context.Context, builder []string) error) {
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", "", "directory for secrets, configuration and state (default ./"+setupDir+")")
	flags.StringVar(&f.config, "config", "", "configuration that is there already; it is never written to")
	flags.StringVar(&f.refs, "refs", "", "where state refs live: hidden, or heads, as branches below writ/ that a ruleset can protect (default hidden)")
	flags.BoolVar(&f.onboard, "onboard", false, "open the "+request+" with the contract without asking")
	flags.BoolVar(&f.noOnboard, "no-onboard", false, "neither ask for it nor open it")
	cmd.MarkFlagsMutuallyExclusive("onboard", "no-onboard")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
			// It isn't repeated: it may be a secret that was pasted.
			return errors.New("an argument is not expected: the builder's command stands after --")
		}
		return nil
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		switch {
		case f.refs != "" && f.refs != config.RefsHidden && f.refs != config.RefsHeads:
			return problem.Usage("--refs is hidden or heads.")
		case f.refs != "" && f.config != "":
			return problem.Usage("--refs is for a configuration that set-up writes. Write refs: %s into %s yourself, before the first task.", f.refs, f.config)
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // the second signal kills
		return badSetup(run(ctx, args))
	})
}

// badSetup explains an error of set-up.
func badSetup(err error) error {
	var e *setup.Error
	if !errors.As(err, &e) {
		if errors.Is(err, context.Canceled) {
			return &problem.Error{Exit: problem.ExitOther, Text: "Interrupted. What was made is kept.", Remedy: "Call it again when you like: it goes on where it stood."}
		}
		return err
	}
	p := &problem.Error{Exit: problem.ExitOther, Text: e.Text, Remedy: e.Remedy}
	if e.Usage {
		p.Exit = problem.ExitUsage
	}
	return p
}

// asker asks whoever called the program.
func (a *app) asker() terminal.Asker { return terminal.Asker{In: a.stdin, Print: a.print} }

// shellSafe is what a shell reads as it stands.
var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// shellWord writes a word as a shell reads it, for commands that a person copies.
func shellWord(s string) string {
	if shellSafe.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
