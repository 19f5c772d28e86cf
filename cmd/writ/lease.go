package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/executor/branch"
	"github.com/writbot/writ/executor/command"
	"github.com/writbot/writ/kernel/lease"
)

// holderFlags say on which branch a command's own commits stand.
type holderFlags struct {
	branchFlags
	branch string
	run    string
}

func (f *holderFlags) add(cmd *cobra.Command, env map[string]string) {
	f.branchFlags.add(cmd, env, env["AYNIG_REMOTE"])
	cmd.Flags().StringVar(&f.branch, "branch", "", "the branch (default $AYNIG_BRANCH, then the one that is checked out)")
	f.run = env["AYNIG_RUN_ID"]
}

// ref is the full name of the branch that is meant.
func (f holderFlags) ref(ctx context.Context, a *app, p branchPlace) (string, error) {
	name := f.branch
	if name == "" {
		name = a.Env["AYNIG_BRANCH"]
	}
	if name == "" {
		_, at, err := p.clone.Worktree().Head(ctx)
		if err != nil {
			return "", err
		}
		if name = at; name == "" {
			return "", problem.Usage("No branch is checked out here: give --branch.")
		}
	}
	if !strings.HasPrefix(name, "refs/") {
		name = "refs/heads/" + name
	}
	return name, nil
}

// withHolder opens what a command's commit is made in.
func (a *app) withHolder(ctx context.Context, f holderFlags, do func(*branch.Holder, branchPlace) error) error {
	p, err := a.openBranches(ctx, f.remote)
	if err != nil {
		return err
	}
	defer p.close()
	ref, err := f.ref(ctx, a, p)
	if err != nil {
		return err
	}
	return do(&branch.Holder{Clone: p.clone, Remote: p.remote, Ref: ref, RunID: f.run, Now: installation.NewClock().Lag(a.Behind).Now, Host: installation.HostName()}, p)
}

func (a *app) leaseCommand() *cobra.Command {
	cmd := group("lease", "Keep the lease of a branch alive, from inside its command")
	cmd.AddCommand(a.leaseRenew(), a.leaseHold())
	return cmd
}

func (a *app) leaseRenew() *cobra.Command {
	var f holderFlags
	var seconds int64
	cmd := &cobra.Command{
		Use: "renew", Short: "Make one heartbeat on the lease of this run", Args: cobra.NoArgs,
		Long: `Renew makes a commit that repeats the lease with a new date, on what the command
has committed so far, and pushes it. Exit status 21 says that the lease is lost:
with "set -e" the command ends there, as it should. Nothing is left behind then.`,
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if f.run == "" {
			return errNoRun()
		}
		return a.withHolder(ctx, f, func(h *branch.Holder, _ branchPlace) error {
			oid, err := h.Renew(ctx, seconds)
			if errors.Is(err, branch.ErrCompleting) {
				return nil
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, oid)
			return nil
		})
	})
	f.add(cmd, a.Env)
	cmd.Flags().Int64Var(&seconds, "lease-seconds", 0, "how long it lasts from now (default as the claim has it)")
	return cmd
}

func errNoRun() error {
	p := problem.Usage("This isn't inside a command of writ tick: AYNIG_RUN_ID isn't set.")
	p.Remedy = "Call it from a file in .aynig/command, which writ tick runs."
	return p
}

func (a *app) leaseHold() *cobra.Command {
	var f holderFlags
	var seconds int64
	cmd := &cobra.Command{
		Use: "hold -- PROGRAM [ARGUMENT…]", Short: "Run a program and renew the lease meanwhile", Args: cobra.MinimumNArgs(1),
		Long: `Hold renews the lease of this run while a program works, after each third of its
time. When the lease is lost, or is about to end unrenewed, the program is killed
with its process group, and the exit status is 21. Otherwise it is the program's.`,
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if f.run == "" {
			return errNoRun()
		}
		if seconds < 1 || seconds > lease.MaxLeaseSeconds {
			return problem.Usage("--lease-seconds is 1 to %d.", lease.MaxLeaseSeconds)
		}
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return a.withHolder(ctx, f, func(h *branch.Holder, _ branchPlace) error {
			spec := command.Spec{Argv: args, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
			exit, err := h.Hold(ctx, seconds, spec, func(err error) { a.tell(problem.Explain(err)) })
			if err == nil && exit != 0 {
				return problem.Quiet(exit)
			}
			return err
		})
	})
	f.add(cmd, a.Env)
	given, err := strconv.ParseInt(a.Env["AYNIG_LEASE_SECONDS"], 10, 64)
	if err != nil {
		given = branchLeaseSeconds
	}
	cmd.Flags().Int64Var(&seconds, "lease-seconds", given, "how long each heartbeat lasts")
	return cmd
}
