package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/setup"
	"github.com/writbot/writ/cmd/internal/terminal"
	"github.com/writbot/writ/cmd/internal/wizard"
)

func (a *app) setupCommand() *cobra.Command {
	cmd := group("setup", "Make what writ needs at a forge: credentials, configuration, checks")
	cmd.AddCommand(a.setupGitHub(), a.setupGitLab())
	return cmd
}

// addSetup gives a command the flags that all set-ups take, and what it does; a
// request is what the forge calls one. What follows -- is the builder.
func (a *app) addSetup(f *wizard.Flags, cmd *cobra.Command, request string, run func(ctx context.Context, builder []string) error) {
	flags := cmd.Flags()
	flags.StringVar(&f.Dir, "dir", "", "directory for secrets, configuration and state (default ./"+wizard.DefaultDir+")")
	flags.StringVar(&f.Config, "config", "", "configuration that is there already; it is never written to")
	flags.StringVar(&f.Refs, "refs", "", "where state refs live: hidden, or heads, as branches below writ/ that a ruleset can protect (default hidden)")
	flags.BoolVar(&f.Onboard, "onboard", false, "open the "+request+" with the contract without asking")
	flags.BoolVar(&f.NoOnboard, "no-onboard", false, "neither ask for it nor open it")
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
		case f.Refs != "" && f.Refs != config.RefsHidden && f.Refs != config.RefsHeads:
			return problem.Usage("--refs is hidden or heads.")
		case f.Refs != "" && f.Config != "":
			return problem.Usage("--refs is for a configuration that set-up writes. Write refs: %s into %s yourself, before the first task.", f.Refs, f.Config)
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

func (a *app) wizard() *wizard.Wizard {
	return &wizard.Wizard{Process: a.Process, Asker: terminal.Asker{In: a.stdin, Print: a.print}, Stdout: a.stdout, Onboard: a.onboard}
}
