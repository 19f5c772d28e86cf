package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/onboard"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/trial"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"golang.org/x/sys/unix"
)

func (a *app) contractCommand() *cobra.Command {
	cmd := group("contract", "Write, check and name a repository's contract")
	cmd.AddCommand(a.contractInit(), a.contractLint(), a.contractHash(), a.contractTry())
	return cmd
}

// readContract reads the contract that an argument names, itself or by the
// directory that it lies in, or the one of the current directory.
func readContract(args []string) (string, []byte, error) {
	path := contract.Path
	if len(args) == 1 {
		path = args[0]
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, contract.Path) // as `writ contract init` takes it
	}
	const maxRead = 1 << 20 // more than a contract may have, so that lint can say so
	data, err := installation.ReadLimited(path, maxRead)
	if err != nil {
		return path, nil, &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be read: %s.", path, problem.Cause(err)), Remedy: "`writ contract init` writes one."}
	}
	return path, data, nil
}

func (a *app) contractLint() *cobra.Command {
	return &cobra.Command{
		Use:   "lint [FILE | DIR]",
		Short: "Say what is wrong with a contract, and what to know of it",
		Args:  cobra.MaximumNArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error {
			path, data, err := readContract(args)
			if err != nil {
				return err
			}
			bad := 0
			for _, f := range contract.Lint(data) {
				word := string(kernel.CodeGovernanceInvalid)
				if f.Warning {
					word = "warning"
				} else {
					bad++
				}
				at := path
				if f.Line > 0 {
					at += fmt.Sprintf(":%d", f.Line)
				}
				if f.Path != "" {
					at += ": " + f.Path
				}
				a.print("%s: %s: %s\n", at, word, f.Detail)
			}
			if bad > 0 {
				return problem.Quiet(problem.ExitOther)
			}
			a.print("%s is valid\n", path)
			return nil
		}),
	}
}

func (a *app) contractHash() *cobra.Command {
	return &cobra.Command{
		Use:   "hash [FILE | DIR]",
		Short: "Print the governance hash: SHA-256 of the file's bytes",
		Args:  cobra.MaximumNArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error {
			_, data, err := readContract(args)
			if err != nil {
				return err
			}
			a.print("%s\n", canon.Sum(data))
			return nil
		}),
	}
}

// initFlags are those of `writ contract init`.
type initFlags struct {
	gitlab, govern     bool
	config, repo, host string
}

func (a *app) contractInit() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write " + contract.Path + " with every key explained, the issue form and a guide, or propose them at a forge",
		Long: "Writes what a repository needs to be governed into a directory: the contract with every key explained, " +
			"the form in which issues are filed, and a short guide. With --config and --repo the same is proposed " +
			"at the forge, as a pull or merge request. What is there already is left as it is. In a clone with commits it says what the contract would " +
			"have said to them, and which paths tasks could be allowed by default; a forge's repository isn't fetched for that: \"writ contract try\" says it in a clone.\n\n" +
			"The contract observes at first: writ says what it would do and does nothing. Its first lines say how to change that.",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&f.gitlab, "gitlab", false, "the repository is at a GitLab: write its issue template in place of GitHub's form")
	cmd.Flags().BoolVar(&f.govern, "govern", false, "write the contract with all its defaults: writ works at once and closes verified issues")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration file of writ serve, with the forge and its secrets")
	cmd.Flags().StringVar(&f.repo, "repo", "", "OWNER/NAME: open the request in this repository of the configuration")
	cmd.Flags().StringVar(&f.host, "forge", "", "github, gitlab or local, where the repository is at several")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if f.repo == "" && f.config == "" && f.host == "" {
			return a.initDirectory(ctx, f, args)
		}
		switch {
		case f.repo == "" || f.config == "":
			return problem.Usage("--config and --repo go together: the request is opened with what the configuration says.")
		case len(args) > 0 || f.gitlab || f.govern:
			return problem.Usage("With --repo nothing is written here; leave DIR, --gitlab and --govern out.")
		}
		return a.initAtForge(ctx, f)
	})
	return cmd
}

// initDirectory writes the files into a directory.
func (a *app) initDirectory(ctx context.Context, f initFlags, args []string) error {
	dir, kind := ".", onboard.GitHub
	if len(args) == 1 {
		dir = args[0]
	}
	if f.gitlab {
		kind = onboard.GitLab
	}
	wrote := 0
	for _, file := range onboard.Files(kind) {
		if f.govern && file.Path == contract.Path {
			file.Data = contract.Template()
		}
		path := filepath.Join(dir, filepath.FromSlash(file.Path))
		switch there, err := writeNew(path, file.Data); {
		case err != nil:
			return err
		case there:
			fmt.Fprintf(a.Stderr, "%s is there already and was left as it is\n", path)
		default:
			wrote++
			a.print("wrote %s\n", path)
		}
	}
	if wrote == 0 {
		return &problem.Error{Exit: problem.ExitOther, Text: "Nothing was written: all of it is there already.", Remedy: "Remove a file first if you want a new one."}
	}
	if err := a.tryAfterInit(ctx, dir); err != nil {
		fmt.Fprintf(a.Stderr, "the last commits could not be tried: %s\n", problem.Explain(err).Error())
	}
	return nil
}

// tryAfterInit tells whoever has just been given a contract what it would have said, and
// which paths tasks could be allowed by default. It is told nothing where there is no
// history.
func (a *app) tryAfterInit(ctx context.Context, dir string) error {
	in, err := clone.Open(ctx, dir)
	if git.CodeOf(err) == git.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was read only
	tip, err := headOf(ctx, in)
	var none *problem.Error
	if errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return err
	}
	k, err := contractToTry("", dir)
	if err != nil {
		return err
	}
	h := trial.Read(in.Repo)
	s, err := trial.Try(ctx, h, tip, triedCommits, k, nil)
	if err != nil || s.Commits == 0 {
		return err
	}
	a.print("\nof the last %d commits it would have accepted %d; `writ contract try` says why not the others\n", s.Commits, s.Accepted)
	if !s.OwnPaths {
		return nil
	}
	patterns, err := trial.Propose(ctx, h, tip, triedCommits, k)
	if err != nil || len(patterns) == 0 {
		return err
	}
	k.Defaults.AllowedFiles = patterns
	if s, err = trial.Try(ctx, h, tip, triedCommits, k, nil); err == nil {
		a.print("a proposal for defaults.allowed_files, where most work was done; it would have allowed %d of them:\n  allowed_files: [%s]\n", s.Accepted, trial.Flow(patterns))
	}
	return err
}

// writeNew makes a file that isn't there yet, and says whether it was.
func writeNew(path string, data []byte) (there bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // part of a repository that others read
		return false, &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be made: %s.", filepath.Dir(path), problem.Cause(err))}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644) //nolint:gosec // part of a repository that others read
	if errors.Is(err, fs.ErrExist) {
		return true, nil
	}
	if err != nil {
		return false, &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be written: %s.", path, problem.Cause(err))}
	}
	_, err = f.Write(data)
	return false, errors.Join(err, f.Close())
}

// initAtForge opens the request at the forge that the configuration names.
func (a *app) initAtForge(ctx context.Context, f initFlags) error {
	if err := installation.PathFlag("config", f.config); err != nil {
		return err
	}
	cfg, err := a.Load(f.config)
	if err != nil {
		return err
	}
	given, err := a.ReadSecrets(wire.WithoutHooks(cfg))
	if err != nil {
		return err
	}
	forges, err := a.Connect(ctx, cfg, given, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() {
		for _, one := range forges {
			one.Host.Close()
		}
	}()
	at, err := f.forge(forges)
	if err != nil {
		return err
	}
	return a.onboard(ctx, at, f.repo, cfg.Identity)
}

// forge is the one forge that governs the repository.
func (f initFlags) forge(all []*wire.Forge) (*wire.Forge, error) {
	owner, name, ok := wire.CutRepo(f.repo)
	if !ok {
		return nil, problem.Usage("--repo %s is no repository: give OWNER/NAME.", f.repo)
	}
	var at []*wire.Forge
	for _, one := range all {
		if one.Allowed(owner, name) && (f.host == "" || f.host == one.Name) {
			at = append(at, one)
		}
	}
	switch len(at) {
	case 1:
		return at[0], nil
	case 0:
		return nil, &problem.Error{Code: kernel.CodeTargetNotAllowed, Exit: problem.ExitUsage, Text: f.repo + " is not among the repositories of " + f.config + ".", Remedy: "Add it there, under forges, to repositories."}
	}
	return nil, problem.Usage("%s is at several forges of %s: name one with --forge.", f.repo, f.config)
}

// onboard proposes what a repository needs, and says what became of it.
func (a *app) onboard(ctx context.Context, at *wire.Forge, full string, who config.Identity) error {
	kind, err := onboard.KindOf(at.Name)
	if err != nil {
		return err
	}
	owner, name, _ := wire.CutRepo(full)
	repo, err := at.Host.Find(ctx, owner, name)
	if err != nil {
		return wire.NotFound(at, full, err)
	}
	g, err := git.Open(ctx, git.Endpoint{URL: at.Host.GitURL(repo.Repo), Auth: at.Host.GitAuth(repo.Repo)}, at.Git)
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }() // nothing is left to lose
	out, err := onboard.Open(ctx, onboard.Site{
		Kind: kind, Repo: repo, Changes: at.Host.Client(repo.Repo), Git: g, Name: who.Name, Email: who.Email, Now: time.Now(),
	})
	if err != nil {
		return badOnboarding(repo.String(), err)
	}
	for _, line := range out.Lines(kind) {
		a.print("%s\n", line)
	}
	return nil
}

// badOnboarding explains why nothing was proposed.
func badOnboarding(repo string, err error) error {
	var known *onboard.Error
	if errors.As(err, &known) {
		return &problem.Error{Code: known.Code, Exit: problem.ExitOther, Text: known.Text, Remedy: known.Remedy}
	}
	p := problem.Explain(err)
	if p.Code == "" {
		p.Text = "The request in " + repo + " could not be opened: " + p.Text
		p.Remedy = "Check that writ's account may push branches and open requests there, and call this again: it goes on where it stopped."
	}
	return p
}

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
