package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// verifyFlags are the flags of `writ verify`.
type verifyFlags struct {
	state, config, world string
	task                 int64
	keys, checkpoints    []string
}

func (a *app) verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify [--state-dir DIR | REPO --task N]",
		Short: "Check a ledger, or a finished task, offline",
		Long: `Verify checks an installation's ledger (chain, tree, checkpoint), or the evidence
of one task from its repository alone. It changes nothing. Exit status: 0 if
everything holds, 1 if not, with the first bad record.

It says who signed. Whether to believe that key is yours to say: with --key. A
checkpoint that you kept yourself, given with --checkpoint, must be fulfilled, or
the ledger must declare that it was abandoned (writ ledger adopt); the answer says
which.`,
		Example: "  writ verify ~/src/project --task 12 --key runner.pub\n  writ verify --state-dir ~/.local/state/writ/project-1a2b3c4d",
		Args:    cobra.MaximumNArgs(1),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.state, "state-dir", "", "state directory whose ledger is checked")
	fl.Int64Var(&f.task, "task", 0, "number of the task whose evidence is checked")
	fl.StringArrayVar(&f.keys, "key", nil, "public key that you vouch for: a file, or the text itself; may be repeated")
	fl.StringArrayVar(&f.checkpoints, "checkpoint", nil, "signed checkpoint that you kept, beside those in the state directory: a file; may be repeated")
	fl.StringVar(&f.config, "config", "", "configuration, whose trusted_runners count as --key")
	fl.StringVar(&f.world, "world", "", "world that the evidence must be of")
	fl.BoolVar(&a.json, "json", false, "print JSON")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		keys, refs, err := a.vouched(f)
		if err != nil {
			return err
		}
		switch {
		case len(args) == 1 && f.state == "" && fl.Changed("task") && len(f.checkpoints) == 0:
			return a.verifyTask(ctx, args[0], f, keys, refs)
		case len(args) == 0 && f.state != "" && !fl.Changed("task"):
			return a.verifyState(ctx, f, keys)
		}
		return usage("Give --state-dir DIR, or REPO and --task N.")
	})
	return cmd
}

// vouched reads the keys that the caller vouches for.
func (a *app) vouched(f verifyFlags) ([]ssh.PublicKey, string, error) {
	cfg, err := a.load(f.config)
	if err != nil {
		return nil, "", err
	}
	lines := slices.Clone(cfg.TrustedRunners)
	for _, k := range f.keys {
		if strings.Contains(k, " ") {
			lines = append(lines, k)
			continue
		}
		const maxKeyBytes = 64 << 10 // a file of some keys
		data, err := readLimited(k, maxKeyBytes)
		if err != nil {
			return nil, "", usage("--key is neither a public key nor a file that can be read: %s.", cause(err))
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	keys, err := parseKeys(lines)
	if err == nil && len(f.keys) > 0 && len(keys) == 0 {
		err = usage("--key holds no key.")
	}
	return keys, cfg.Refs, err
}

// verifyTask checks a task's evidence, from the repository alone.
func (a *app) verifyTask(ctx context.Context, repoName string, f verifyFlags, keys []ssh.PublicKey, refs string) error {
	if f.task < 1 {
		return usage("--task must be at least 1.")
	}
	p, err := newPlace(repoName)
	if err != nil {
		return err
	}
	repo, err := git.Open(ctx, git.Endpoint{URL: p.url}, git.Options{})
	if err != nil {
		return err
	}
	defer repo.Close()
	o := replay.Options{Keys: keys, World: f.world}
	rep, err := replay.VerifyTask(ctx, repo, stateRef(refs, f.task), o)
	var re *replay.Error
	if errors.As(err, &re) && re.Code == kernel.CodeTargetIneligible && refs != "heads" {
		if again, err2 := replay.VerifyTask(ctx, repo, stateRef("heads", f.task), o); err2 == nil {
			rep, err = again, nil
		}
	}
	if err != nil {
		p := explain(err)
		p.exit = exitOther
		if p.code == kernel.CodeTargetIneligible {
			p.remedy = "See to --task, and to the repository: an ordinary clone leaves these refs out. Name the URL that it was cloned from, or fetch them first: git fetch origin 'refs/writ/*:refs/writ/*'."
		}
		return p
	}
	return a.tellVerified(rep, rep.Plain(), rep.OK)
}

// verifyState checks every ledger of a state directory, beside its writer.
func (a *app) verifyState(ctx context.Context, f verifyFlags, keys []ssh.PublicKey) error {
	if err := pathFlag("state-dir", f.state); err != nil {
		return err
	}
	kept, err := readCheckpoints(f.checkpoints)
	if err != nil {
		return err
	}
	reps, err := verifyLedgers(ctx, f.state, kept)
	if err != nil {
		p := explain(err)
		p.exit = exitOther
		return p
	}
	ok := len(reps) > 0
	var b strings.Builder
	for i := range reps {
		r := &reps[i]
		r.Vouched = slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return git.Fingerprint(k) == r.Instance })
		if r.OK && len(keys) > 0 && !r.Vouched {
			r.OK, r.Code, r.Reason = false, kernel.CodeLeaseUntrusted, "It is signed by none of the keys that you vouch for."
		}
		ok = ok && r.OK
		b.WriteString(r.plain())
	}
	if len(reps) == 0 {
		b.WriteString("the ledger is empty: nothing was recorded yet\n")
	}
	return a.tellVerified(ledgers{Kind: "verification", OK: ok, Ledgers: reps}, b.String(), ok)
}

// ledgers is the JSON of a verified state directory.
type ledgers struct {
	Kind    string         `json:"kind"` // "verification"
	OK      bool           `json:"ok"`
	Ledgers []ledgerReport `json:"ledgers"`
}

// ledgerReport is a ledger's report and whether its key is vouched for.
type ledgerReport struct {
	ledger.Report
	Vouched bool `json:"vouched"`
}

// verifyLedgers checks what the store has, and what a checkpoint says that it
// must have.
func verifyLedgers(ctx context.Context, path string, kept signedNotes) ([]ledgerReport, error) {
	dir, err := openState(path, false)
	if err != nil {
		return nil, err
	}
	store, err := ledger.OpenReadOnly(ctx, dir.file(ledger.FileName), ledger.Options{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	worlds, err := store.Worlds(ctx)
	if err != nil {
		return nil, err
	}
	beside, err := dir.checkpoints()
	if err != nil {
		return nil, err
	}
	for _, signed := range beside {
		if w, ok := ledger.CheckpointWorld(signed); ok {
			worlds = append(worlds, w)
		}
	}
	for _, n := range kept {
		worlds = append(worlds, n.world)
	}
	slices.Sort(worlds)
	worlds = slices.Compact(worlds)
	reps := []ledgerReport{}
	for _, w := range worlds {
		l, err := store.World(ctx, w)
		if err != nil {
			return nil, err
		}
		signed, err := os.ReadFile(ledger.CheckpointFile(dir.path, w))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, badState(dir.path, "has a checkpoint that can't be read (%s)", cause(err))
		}
		r, err := l.Verify(ctx, ledger.VerifyOptions{Checkpoint: signed, Others: kept.of(w), Deep: true})
		if err != nil {
			return nil, err
		}
		reps = append(reps, ledgerReport{Report: r})
	}
	return reps, nil
}

func (r ledgerReport) plain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ledger of %s\n", r.World)
	if r.Instance != "" {
		fmt.Fprintf(&b, "  written by %s", r.Instance)
	}
	switch {
	case r.Instance == "":
		b.WriteString("  nothing of it is here\n")
	case r.Vouched:
		b.WriteString(", a key that you trust\n")
	default:
		b.WriteString("; nobody vouched for this key\n")
	}
	for _, a := range r.Adopted {
		fmt.Fprintf(&b, "  ADOPTED: history %d begins with record %d, %s, by %s: %s\n", a.History, a.Seq, kernel.Timestamp(a.Time/1000), a.Actor, a.Reason)
		for _, cp := range a.Abandoned {
			fmt.Fprintf(&b, "    it abandons what was signed as history %d: %d records, root %s\n", cp.History, cp.Size, cp.Root)
		}
	}
	for _, cp := range r.Declared {
		fmt.Fprintf(&b, "  a checkpoint of %d records, history %d, is not fulfilled: it is declared abandoned\n", cp.Size, cp.History)
	}
	if !r.OK {
		fmt.Fprintf(&b, "  NOT VERIFIED: %s", r.Code)
		if r.FirstBad != nil {
			fmt.Fprintf(&b, ": first bad record %d", *r.FirstBad)
		}
		fmt.Fprintf(&b, ": %s\n", r.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "  verified: %d records, head %s, checkpoint of %d\n", r.Records, r.Head.Hash, r.CheckpointSize)
	return b.String()
}

// tellVerified prints a verification; a bad one ends with 1.
func (a *app) tellVerified(v any, plain string, ok bool) error {
	if a.json {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		a.printJSON(data)
	} else {
		a.print("%s", plain)
	}
	if !ok {
		return quiet(exitOther)
	}
	return nil
}
