package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/trial"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const (
	// triedCommits is how many commits are tried unless somebody says otherwise: months
	// of a busy repository.
	triedCommits = 1000
	// maxTriedCommits bounds --last: what a minute's work is on a large repository.
	maxTriedCommits = 100_000
)

type tryFlags struct {
	last                     int
	contract, whatIf, config string
}

func (a *app) contractTry() *cobra.Command {
	var f tryFlags
	cmd := &cobra.Command{
		Use:   "try [DIR]",
		Short: "Say what a contract would have said to the last commits of a repository",
		Long: `Try judges the last commits of the clone at DIR, or here, by the contract, as if a task's
builder had left each of them: classes of path, budgets, commit message. What a commit
may change is what it changed, unless the contract sets defaults.allowed_files. Checks
aren't run. A merge is compared with its first parent. Nothing is written.

With --what-if it shows which commits change sides under another contract. With --config
lock files may also name the lock_sources of that configuration, as on that server.`,
		Example: "  writ contract try\n  writ contract try --last 200 --what-if stricter.yaml",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().IntVar(&f.last, "last", triedCommits, "how many commits, following first parents")
	cmd.Flags().StringVar(&f.contract, "contract", "", "the contract (default "+contract.Path+" of the working tree, or the built-in one)")
	cmd.Flags().StringVar(&f.whatIf, "what-if", "", "another contract: show which commits change sides")
	cmd.Flags().StringVar(&f.config, "config", "", "the server's configuration, whose lock_sources lock files may name")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if f.last < 1 || f.last > maxTriedCommits {
			return problem.Usage("--last %d is not between 1 and %d.", f.last, maxTriedCommits)
		}
		dir := "."
		if len(args) == 1 {
			dir = args[0]
		}
		s, err := f.try(ctx, dir)
		if err != nil {
			return err
		}
		if !a.json {
			a.print("%s", s.Text())
			return nil
		}
		data, err := canon.Marshal(s)
		if err == nil {
			a.printJSON(data)
		}
		return err
	})
	return cmd
}

func (f tryFlags) try(ctx context.Context, dir string) (trial.Summary, error) {
	in, err := clone.Open(ctx, dir)
	if err != nil {
		return trial.Summary{}, err
	}
	defer func() { _ = in.Close() }() // it was read only
	k, err := contractToTry(f.contract, in.Top)
	if err != nil {
		return trial.Summary{}, err
	}
	var second *contract.Contract
	if f.whatIf != "" {
		other, err := contractToTry(f.whatIf, "")
		if err != nil {
			return trial.Summary{}, err
		}
		second = &other
	}
	tip, err := headOf(ctx, in)
	if err != nil {
		return trial.Summary{}, err
	}
	h := trial.Read(in.Repo)
	if f.config != "" {
		cfg, err := config.Load(f.config)
		if err != nil {
			return trial.Summary{}, err
		}
		h.LockSources = cfg.LockSources
	}
	return trial.Try(ctx, h, tip, f.last, k, second)
}

// headOf is the commit that a clone has checked out.
func headOf(ctx context.Context, in *clone.Clone) (git.OID, error) {
	refs, err := in.Repo.Refs(ctx, git.OnlyHead)
	if err != nil {
		return "", err
	}
	tip := refs.OID(git.OnlyHead)
	if tip.IsZero() {
		return "", &problem.Error{Code: kernel.CodeEnvRepository, Exit: problem.ExitOther, Text: "The repository at " + in.Top + " has no commit yet.", Remedy: "Commit something first."}
	}
	return tip, nil
}

// contractToTry reads a contract; without a name it is the one of a working tree, or the
// built-in one where that has none.
func contractToTry(name, top string) (contract.Contract, error) {
	src := contract.Source{Name: name}
	if name == "" {
		name, src.Name = filepath.Join(top, filepath.FromSlash(contract.Path)), contract.Path
	}
	data, err := installation.ReadLimited(name, contract.MaxBytes+1)
	if src.Name == contract.Path && errors.Is(err, fs.ErrNotExist) {
		return contract.Default(), nil
	}
	if err != nil {
		return contract.Contract{}, &problem.Error{Exit: problem.ExitUsage, Text: fmt.Sprintf("%s can't be read: %s.", name, problem.Cause(err)), Remedy: "Name a contract; `writ contract init` writes one."}
	}
	k, _, faults := contract.Load(data, src)
	if len(faults) > 0 {
		return k, &problem.Error{Code: kernel.CodeGovernanceInvalid, Subject: faults[0].Subject, Exit: problem.ExitRefused,
			Text: fmt.Sprintf("%s: %s: %s", src.Name, faults[0].Subject, faults[0].Detail), Remedy: "`writ contract lint` lists all that is wrong with it."}
	}
	return k, nil
}
