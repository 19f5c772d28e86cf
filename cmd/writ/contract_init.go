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
	"golang.org/x/sys/unix"

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
)

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
