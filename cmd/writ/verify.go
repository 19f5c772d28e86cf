package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/ledgers"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/report"
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
		cfg, keys, err := a.vouched(f)
		if err != nil {
			return err
		}
		switch {
		case len(args) == 1 && f.state == "" && fl.Changed("task") && len(f.checkpoints) == 0 && f.archive == "":
			return a.verifyTask(ctx, args[0], f, cfg, keys)
		case len(args) == 0 && f.state != "" && !fl.Changed("task"):
			return a.verifyState(ctx, f, keys)
		}
		return problem.Usage("Give --state-dir DIR, or REPO and --task N.")
	})
	return cmd
}

// vouched reads the keys that the caller vouches for.
func (a *app) vouched(f verifyFlags) (config.Config, []ssh.PublicKey, error) {
	cfg, err := a.Load(f.config)
	if err != nil {
		return cfg, nil, err
	}
	keys, err := installation.ReadKeys(f.keys, cfg.TrustedRunners)
	return cfg, keys, err
}

// verifyTask checks a task's evidence, from the repository alone.
func (a *app) verifyTask(ctx context.Context, repo string, f verifyFlags, cfg config.Config, keys []ssh.PublicKey) error {
	if f.task < 1 {
		return problem.Usage("--task must be at least 1.")
	}
	rep, err := ledgers.VerifyTask(ctx, a.Process, cfg, repo, f.task, f.world, keys)
	if err != nil {
		return err
	}
	return a.tellVerified(rep, rep.Plain(), rep.OK)
}

// verifyState checks every ledger of a state directory, beside its writer.
func (a *app) verifyState(ctx context.Context, f verifyFlags, keys []ssh.PublicKey) error {
	if err := installation.PathFlag("state-dir", f.state); err != nil {
		return err
	}
	if err := installation.PathFlag("archive", f.archive); err != nil {
		return err
	}
	kept, err := ledgers.ReadCheckpoints(f.checkpoints)
	if err != nil {
		return err
	}
	reps, err := ledgers.Verify(ctx, f.state, f.archive, kept, keys)
	if err != nil {
		return err
	}
	ok := len(reps) > 0
	var b strings.Builder
	for _, r := range reps {
		ok = ok && r.OK
		b.WriteString(ledgerPlain(r))
	}
	if len(reps) == 0 {
		b.WriteString("the ledger is empty: nothing was recorded yet\n")
	}
	b.WriteString("outside the ledgers, and not verified: evidence of webhooks, acts that wait, pauses, the schedule, pushes and work that is kept (docs/security.md)\n")
	return a.tellVerified(verification{Kind: "verification", OK: ok, Ledgers: reps}, b.String(), ok)
}

// verification is the JSON of a verified state directory.
type verification struct {
	Kind    string           `json:"kind"` // "verification"
	OK      bool             `json:"ok"`
	Ledgers []ledgers.Report `json:"ledgers"`
}

func ledgerPlain(r ledgers.Report) string {
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
