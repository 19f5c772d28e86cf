package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/kballard/go-shellquote"
	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/demo"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/kernel"
)

func (a *app) demoCommand() *cobra.Command {
	var keep, once bool
	var kind, agent string
	cmd := &cobra.Command{
		Use:   "demo [--builder KIND]",
		Short: "Show writ at work on this machine: an embedded forge, four issues, four ends",
		Long: `Demo starts writ with the embedded forge and a sample repository, approves four
issues and shows what becomes of them: one completes, one is refused and blocked,
one survives a kill -9 of writ, one is changed after its approval and waits. It
needs git and bubblewrap, and no account and no network.

With --builder it shows one issue, whose work a coding agent does: the one that you
have installed, as it is, in the sandbox and through the gateway. A stub plays the
provider of its model, so that it needs no key and costs nothing.

Exit status: 0 if all ended as they should.`,
		Example: "  writ demo\n  writ demo --builder claude-code --agent /opt/agents",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&kind, "builder", "", "kind of the agent that does the work of one issue: "+strings.Join(builder.Kinds(), ", "))
	cmd.Flags().StringVar(&agent, "agent", "", "the agent's program, or the directory in which npm installed it (default "+demo.Installed+")")
	cmd.Flags().BoolVar(&a.json, "json", false, "print the compliance report of the agent's issue on standard output, and all else on standard error")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave server and page running until Ctrl-C")
	cmd.Flags().BoolVar(&once, "once", false, "end when the four issues have ended (the default)")
	cmd.MarkFlagsMutuallyExclusive("keep", "once")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o := demo.Options{Writ: self, Out: a.stdout, Keep: keep}
		if a.json {
			o.Out, o.Report = a.Stderr, a.stdout
		}
		if o.Agent, err = demonstrated(kind, agent); err != nil {
			return err
		}
		if a.json && o.Agent == nil {
			return problem.Usage("--json is for one issue: give --builder.")
		}
		if o.Agent != nil {
			if err := a.tryAgent(ctx, *o.Agent); err != nil {
				return err
			}
		}
		return demo.Run(ctx, o)
	})
	return cmd
}

// demonstrated is the agent that is to be shown; nil for none.
func demonstrated(kind, at string) (*demo.Agent, error) {
	switch {
	case kind == "" && at == "":
		return nil, nil
	case !slices.Contains(builder.Kinds(), kind):
		return nil, problem.Usage("--builder is the kind of an agent: %s.", strings.Join(builder.Kinds(), ", "))
	}
	if err := installation.PathFlag("agent", at); err != nil {
		return nil, err
	}
	found, err := demo.Find(kind, at)
	if err != nil {
		where := cmp.Or(at, demo.Installed)
		if info, err := os.Stat(where); err == nil && !info.IsDir() {
			where = demo.Installed // npm installs into a directory
		}
		return nil, &problem.Error{
			Code: kernel.CodeEnvBuilder, Exit: problem.ExitOther, Text: "The agent can't be used: " + err.Error() + ".",
			Remedy: "Install it: " + builder.KindPackage(kind).Install(shellquote.Join(where)) + ". Or say with --agent where it is.",
		}
	}
	return found, nil
}

// tryAgent refuses a program that isn't the agent: its issue would wait for what nobody mends,
// or its work would have no end.
func (a *app) tryAgent(ctx context.Context, agent demo.Agent) error {
	fmt.Fprintf(a.Stderr, "Trying %s as %s, with nobody behind the gateway.\n", agent.Program, agent.Kind)
	e := examination{app: a, cfg: config.Default()}
	e.cfg.Builders = map[string]config.Builder{"agent": agent.Builder()}
	var found builder.Preflight
	if err := e.trying("agent", nil, func(x *builder.Local) { found = x.TryAgent(ctx, "agent") }); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &problem.Error{Exit: problem.ExitOther, Text: "Interrupted before anything was started.", Remedy: "Call it again when you like."}
	}
	if len(found.Faults) == 0 {
		return nil
	}
	v := found.Faults[0]
	p := &problem.Error{Code: v.Code, Exit: problem.ExitOther, Text: v.Detail, Remedy: v.Code.Info().Remedy}
	switch v.Code {
	case kernel.CodeEnvBuilderFailed:
		p.Text = fmt.Sprintf("%s doesn't work as %s: %s", agent.Program, agent.Kind, v.Detail)
		p.Remedy = "Say with --agent where the agent's own program is, or the directory in which npm installed it. Run by hand, it says more."
	case kernel.CodeEnvBuilderRequest:
		p.Remedy = "Install the tested version: " + builder.KindPackage(agent.Kind).Install(shellquote.Join(demo.Installed)) + "."
	}
	return p
}
