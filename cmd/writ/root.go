package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/kernel"
)

// tree is the tree of commands.
type tree struct{ *cobra.Command }

// root makes the tree anew for each call; there are no globals to share.
func (a *app) root() tree {
	root := &cobra.Command{
		Use:           "writ",
		Short:         "Govern coding agents on a git repository",
		Long:          "Writ lets a coding agent, or any script, work on a repository without having to be trusted.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.Stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(a.taskCommand(), a.serveCommand(), a.healthzCommand(), a.pauseCommand(), a.unpauseCommand(), a.queueCommand(), a.usageCommand(), a.logsCommand(), a.cacheCommand(), a.demoCommand(), a.forgeCommand(), a.setupCommand(), a.contractCommand(), a.configCommand(), a.verifyCommand(), a.ledgerCommand(), a.keyCommand(), a.worldCommand(), a.versionCommand())
	root.AddCommand(a.doctorCommand(), a.tickCommand(), a.leaseCommand(), a.stateCommand())
	return tree{root}
}

// group is a command that only holds others.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return problem.Usage("%s needs a command.", cmd.CommandPath())
		},
	}
}

// execute runs the command line. What cobra itself refuses is a usage error;
// what a command returns was made by [app.do].
func (t tree) execute(ctx context.Context, args []string) error {
	if args == nil {
		args = []string{} // nil would be the test binary's own arguments
	}
	t.SetArgs(args)
	cmd, err := t.ExecuteContextC(ctx)
	var p *problem.Error
	var q problem.Quiet
	if err == nil || errors.As(err, &q) {
		return err
	}
	if !errors.As(err, &p) {
		p = problem.Usage("%s.", err.Error())
	}
	if p.Exit == problem.ExitUsage && p.Code == "" && p.Remedy == "" {
		p.Remedy = howToCall(cmd)
	}
	return p
}

// do makes a command's function: whatever error it returns is explained here,
// so that cobra's own errors can be told from it.
func (a *app) do(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd.Context(), args)
		var q problem.Quiet
		if err == nil || errors.As(err, &q) {
			return err
		}
		return problem.Explain(err)
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of the program and of its decision rules", Args: cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			fmt.Fprintf(a.stdout, "writ %s\nkernel %s\n%s %s/%s\n", version, kernel.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		}),
	}
}

// howToCall is the remedy of a mistake in the call of a command.
func howToCall(cmd *cobra.Command) string {
	if !cmd.HasSubCommands() {
		return "Usage: " + cmd.UseLine() + "; `" + cmd.CommandPath() + " --help` explains each flag."
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return "Its commands are " + strings.Join(names, ", ") + "; `" + cmd.CommandPath() + " --help` explains them."
}
