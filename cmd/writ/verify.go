package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// verifyFlags are the flags of `writ verify`.
type verifyFlags struct {
	state, config, world string
	archive              string
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
everything holds, 1 if not, with the first bad record, and 12 if store or repository
can't be read.

It says who signed. Whether to believe that key is yours to say: with --key. What was
said in the repository of keys that were replaced or revoked is shown, and counts as
far as you vouch for who says it. The world is worked out from the repository's git
directory, or asked of the forge of --config; where it can't be, the first line says
so. A
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
	fl.StringVar(&f.archive, "archive", "", "directory of the archived records, which are read, too, and must all be there (writ ledger archive)")
	fl.StringVar(&f.config, "config", "", "configuration, whose trusted_runners count as --key")
	fl.StringVar(&f.world, "world", "", "identity of the world that the evidence must be of")
	fl.BoolVar(&a.json, "json", false, "print JSON")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		keys, refs, err := a.vouched(f)
		if err != nil {
			return err
		}
		switch {
		case len(args) == 1 && f.state == "" && fl.Changed("task") && len(f.checkpoints) == 0 && f.archive == "":
			return a.verifyTask(ctx, args[0], f, keys, refs)
		case len(args) == 0 && f.state != "" && !fl.Changed("task"):
			return a.verifyState(ctx, f, keys)
		}
		return problem.Usage("Give --state-dir DIR, or REPO and --task N.")
	})
	return cmd
}

// vouched reads the keys that the caller vouches for.
func (a *app) vouched(f verifyFlags) ([]ssh.PublicKey, string, error) {
	cfg, err := a.Load(f.config)
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
		data, err := installation.ReadLimited(k, maxKeyBytes)
		if err != nil {
			return nil, "", problem.Usage("--key is neither a public key nor a file that can be read: %s.", problem.Cause(err))
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	keys, err := installation.ParseKeys(lines)
	if err == nil && len(f.keys) > 0 && len(keys) == 0 {
		err = problem.Usage("--key holds no key.")
	}
	return keys, cfg.Refs, err
}

// verifyTask checks a task's evidence, from the repository alone.
func (a *app) verifyTask(ctx context.Context, repoName string, f verifyFlags, keys []ssh.PublicKey, refs string) error {
	if f.task < 1 {
		return problem.Usage("--task must be at least 1.")
	}
	cfg, err := a.Load(f.config)
	if err != nil {
		return err
	}
	at, err := worlds.Identify(ctx, a.Process, cfg, repoName, false)
	if at.URL == "" {
		return err // it is no place at all
	}
	defer at.Close()
	repo, err := a.Repository(ctx, cfg, at.Place, nil)
	if err != nil {
		return err
	}
	defer repo.Close()
	o := replay.Options{Keys: keys, World: f.world}
	if o.World == "" && at.Vouched {
		o.World = at.World
	}
	rep, err := replay.VerifyTask(ctx, repo, installation.StateRef(refs, f.task), o)
	var re *replay.Error
	if errors.As(err, &re) && re.Code == kernel.CodeTargetIneligible && refs != "heads" {
		if again, err2 := replay.VerifyTask(ctx, repo, installation.StateRef("heads", f.task), o); err2 == nil {
			rep, err = again, nil
		}
	}
	if err != nil {
		p := unverified(err)
		if p.Code == kernel.CodeTargetIneligible {
			p.Remedy = "See to --task, and to the repository: an ordinary clone leaves these refs out. Name the URL that it was cloned from, or fetch them first: git fetch origin 'refs/writ/*:refs/writ/*'."
		}
		return p
	}
	return a.tellVerified(rep, rep.Plain(), rep.OK)
}

// unverified is why there is no report: what was looked at and doesn't hold ends with 1, as a
// bad report does, and what can't be looked at as it does with every other command.
func unverified(err error) *problem.Error {
	p := problem.Explain(err)
	if !strings.HasPrefix(string(p.Code), "environment.") && p.Code != kernel.CodeForgeCredential {
		p.Exit = problem.ExitOther
	}
	return p
}

// verifyState checks every ledger of a state directory, beside its writer.
func (a *app) verifyState(ctx context.Context, f verifyFlags, keys []ssh.PublicKey) error {
	if err := installation.PathFlag("state-dir", f.state); err != nil {
		return err
	}
	if err := installation.PathFlag("archive", f.archive); err != nil {
		return err
	}
	kept, err := readCheckpoints(f.checkpoints)
	if err != nil {
		return err
	}
	reps, err := verifyLedgers(ctx, f, kept)
	if err != nil {
		return unverified(err)
	}
	ok := len(reps) > 0
	var b strings.Builder
	for i := range reps {
		r := &reps[i]
		r.Vouched = slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return git.Fingerprint(k) == r.signer() })
		if r.OK && len(keys) > 0 && !r.Vouched {
			r.OK, r.Code, r.Reason = false, kernel.CodeLeaseUntrusted, "It is signed by none of the keys that you vouch for."
		}
		ok = ok && r.OK
		b.WriteString(r.plain())
	}
	if len(reps) == 0 {
		b.WriteString("the ledger is empty: nothing was recorded yet\n")
	}
	b.WriteString("outside the ledgers, and not verified: evidence of webhooks, acts that wait, pauses, the schedule, pushes and work that is kept (docs/security.md)\n")
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
	// Repository is what people call the world, "" where that isn't known.
	Repository string `json:"repository"`
}

// signer is the key that signs the ledger now.
func (r ledgerReport) signer() string {
	if n := len(r.Rotated); n > 0 {
		return r.Rotated[n-1].Key
	}
	return r.Instance
}

// verifyLedgers checks what the store has, and what a checkpoint says that it
// must have.
func verifyLedgers(ctx context.Context, f verifyFlags, kept signedNotes) ([]ledgerReport, error) {
	dir, err := installation.OpenDir(f.state, false)
	if err != nil {
		return nil, err
	}
	store, err := ledger.OpenReadOnly(ctx, dir.File(ledger.FileName), ledger.Options{Archive: f.archive})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	worlds, err := store.Worlds(ctx)
	if err != nil {
		return nil, err
	}
	beside, err := dir.Checkpoints()
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
		signed, err := ledger.KeptCheckpoint(dir.Path, w)
		if err != nil {
			return nil, err
		}
		r, err := l.Verify(ctx, ledger.VerifyOptions{Checkpoint: signed, Outside: true, Others: kept.of(w), Deep: true, Archived: f.archive != ""})
		if err != nil {
			return nil, err
		}
		if err := verifyWorld(ctx, l, &r); err != nil {
			return nil, err
		}
		reps = append(reps, ledgerReport{Report: r, Repository: dir.LastUse().Names[w]})
	}
	return reps, nil
}

// verifyWorld holds the records of a sound chain against the rules of their world, where
// all of them are at hand.
func verifyWorld(ctx context.Context, l *ledger.Ledger, r *ledger.Report) error {
	if !r.OK || r.Records == 0 || r.ArchiveMissing != "" {
		return nil
	}
	fault, err := replay.VerifyWorld(l.Records(ctx, 0, r.Records))
	if fault != nil {
		r.OK, r.Code, r.Reason, r.FirstBad = false, kernel.CodeLedgerCorrupt, fault.Detail, &fault.Seq
	}
	return err
}

func (r ledgerReport) plain() string {
	var b strings.Builder
	if r.Repository == "" || r.Repository == r.World {
		fmt.Fprintf(&b, "ledger of %s\n", r.World)
	} else {
		fmt.Fprintf(&b, "ledger of %s (%s)\n", r.Repository, r.World)
	}
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
		if a.Unsigned {
			b.WriteString("    its checkpoint was missing: what was signed besides isn't known\n")
		}
		for _, cp := range a.Abandoned {
			fmt.Fprintf(&b, "    it abandons what was signed as history %d: %s, root %s\n", cp.History, report.Counted(cp.Size, "record"), cp.Root)
		}
	}
	for _, k := range r.Rotated {
		fmt.Fprintf(&b, "  another key signs since record %d: %s, %s, by %s: %s\n", k.Seq, k.Key, kernel.Timestamp(k.Time/1000), k.Actor, k.Reason)
	}
	for _, cp := range r.Declared {
		fmt.Fprintf(&b, "  a checkpoint of %s, history %d, is not fulfilled: it is declared abandoned\n", report.Counted(cp.Size, "record"), cp.History)
	}
	if r.ArchiveMissing != "" && r.OK {
		fmt.Fprintf(&b, "  ARCHIVED, NOT READ: the first %s: %s isn't there. A mark that the ledger's key signed stands for them, and no record was held against the rules of its world. Give --archive DIR to read them\n", report.Counted(r.Archived, "record"), r.ArchiveMissing)
	} else if r.Archived > 0 && r.OK {
		fmt.Fprintf(&b, "  archived, and read: the first %s\n", report.Counted(r.Archived, "record"))
	}
	if !r.OK {
		fmt.Fprintf(&b, "  NOT VERIFIED: %s", r.Code)
		if r.FirstBad != nil {
			fmt.Fprintf(&b, ": first bad record %d", *r.FirstBad)
		}
		fmt.Fprintf(&b, ": %s\n", r.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "  verified: %s, head %s, checkpoint of %d\n", report.Counted(r.Records, "record"), r.Head.Hash, r.CheckpointSize)
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
		return problem.Quiet(problem.ExitOther)
	}
	return nil
}
