package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/webhook/inbox"
)

// shown is how a task stands, read from HEAD of its state ref; what HEAD can't
// say comes from the ledger of this installation, if it has one.
type shown struct {
	Kind          string        `json:"kind"` // "task"
	World         string        `json:"world_id"`
	Repository    string        `json:"repository"` // what people call it
	Task          int64         `json:"task_id"`
	Head          string        `json:"head"`  // commit id, "" where nobody claimed it yet
	State         string        `json:"state"` // word at HEAD
	Since         string        `json:"since"` // UTC, ISO 8601: date of HEAD
	Title         string        `json:"title"`
	Signer        string        `json:"signer"`
	RunID         string        `json:"run_id"`
	Holder        string        `json:"holder"`     // runner id of a live lease
	HeldUntil     string        `json:"held_until"` // UTC, ISO 8601
	Attempt       int64         `json:"attempt"`    //
	Interruptions int64         `json:"interruptions"`
	NotBefore     string        `json:"not_before"`  // UTC, ISO 8601
	WaitingFor    string        `json:"waiting_for"` //
	Change        string        `json:"change_commit"`
	Codes         []kernel.Code `json:"codes"`
	Halted        bool          `json:"halted"` // by this installation's ledger
	HaltReason    string        `json:"halt_reason"`
	HaltedBy      string        `json:"halted_by"`     // the person; "" where the kernel did
	StoppedAt     string        `json:"stopped_at"`    // UTC, ISO 8601: of the stop on the issue that this installation saw to count
	StoppedBy     string        `json:"stopped_by"`    // who stopped it here, until that is carried out
	HaltAskedBy   string        `json:"halt_asked_by"` // who halted it, until the look under way records it
	Fault         string        `json:"fault"`         // why HEAD is no state of this task; what it says is then left out
	// Repair is why a person has to look at a HEAD that isn't this task's state; "" where
	// nobody has to.
	Repair      kernel.Code `json:"repair"`
	RunningHere bool        `json:"running_here"`
}

func (a *app) showCommand() *cobra.Command {
	var w whereFlags
	cmd := &cobra.Command{
		Use: "show N {--state-dir DIR | --repo DIR} [--diff]", Short: "How a task stands, from the repository", Args: cobra.ExactArgs(1),
		Long: `Show reads how task N stands from HEAD of its state ref, and from the ledger of this
installation whether it is halted. It changes nothing, and may be asked at any time.
Where reading needs the forge's token, give --config, and the secrets in the
environment as the server has them.

With --diff it shows, of work that waits for somebody to accept its guarded paths, what
these would hold, with everything spelled out that can't be seen, and the line that
accepts exactly that.`,
		Example: "  writ task show 12 --state-dir /var/lib/writ/state\n  writ task show 12 --repo ~/src/project --json",
	}
	w.add(cmd)
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	diff := cmd.Flags().Bool("diff", false, "show what waits for somebody to accept it")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		number, err := installation.ArgNumber(args[0])
		if err != nil {
			return err
		}
		at, err := a.find(w)
		if err != nil {
			return err
		}
		s, err := a.look(ctx, at, number)
		if err != nil {
			return err
		}
		if *diff {
			return a.showDiff(ctx, at, s)
		}
		if a.json {
			data, err := canon.Marshal(s)
			if err != nil {
				return err
			}
			a.printJSON(data)
			return nil
		}
		a.print("%s", s.plain())
		return nil
	})
	return cmd
}

// showDiff prints what somebody is asked to accept.
func (a *app) showDiff(ctx context.Context, at where, s shown) error {
	if err := at.settle(ctx); err != nil {
		return err
	}
	repo, err := a.Repository(ctx, at.cfg, at.place, nil)
	if err != nil {
		return err
	}
	defer repo.Close()
	var held *supervisor.Held
	if s.Fault == "" && s.WaitingFor == kernel.WaitPaths {
		if held, err = supervisor.HeldAt(ctx, repo, s.World, git.OID(s.Head)); err != nil {
			return at.explain(err, "")
		}
	}
	if held == nil {
		return problem.Usage("Task %d has no work that waits for somebody to accept its guarded paths.", s.Task)
	}
	if a.json {
		data, err := canon.Marshal(struct {
			Kind   string               `json:"kind"`
			Task   int64                `json:"task_id"`
			Digest canon.Digest         `json:"digest"`
			Paths  []kernel.GuardedPath `json:"paths"`
			Diff   string               `json:"diff"`
		}{"guarded_paths", s.Task, held.Digest, held.Paths, held.Diff})
		if err != nil {
			return err
		}
		a.printJSON(data)
		return nil
	}
	a.print("%s\nThe first line of a comment on the issue that accepts exactly this:\n\n  /writ accept %s\n", held.Diff, held.Digest)
	return nil
}

// look reads; it takes no lock and changes nothing.
func (a *app) look(ctx context.Context, at where, number int64) (shown, error) {
	s := shown{Kind: "task", Task: number, Codes: []kernel.Code{}}
	if err := at.settle(ctx); err != nil {
		return s, err
	}
	if s.World, s.Repository = at.place.World, at.place.Display; at.place.URL == "" {
		return s, at.unknown()
	}
	repo, err := a.Repository(ctx, at.cfg, at.place, nil)
	if err != nil {
		return s, err
	}
	defer repo.Close()
	ref, acts := installation.StateRef(at.cfg.Refs, number), worldref.Ref(installation.RefPrefix(at.cfg.Refs))
	refs, err := repo.Refs(ctx, ref, acts, git.OnlyHead)
	if err != nil {
		return s, at.explain(err, "")
	}
	view, err := s.readLedger(ctx, at)
	if err != nil {
		return s, err
	}
	view.Task = number // also where nothing was recorded
	place := seenPlace{repo: repo, world: s.World, lease: at.cfg.Lease.Policy()}
	if place.standing, err = a.standing(ctx, at, repo, refs); err != nil {
		return s, at.explain(err, "")
	}
	h, commit, err := place.head(ctx, refs.OID(ref), ref, view)
	if err != nil {
		return s, err
	}
	if h.OID != "" {
		s.Head, s.Since, s.Signer = h.OID, kernel.Timestamp(commit.Committer.Seconds), h.Signer
	}
	if fault := headFault(h, view); fault.Code != "" {
		s.disown(fault, !h.Foreign() || view.Seen != "" || view.Told > 0 || h.Witnessed != nil)
		return s, nil
	}
	if h.OID != "" && (h.Trusted() || h.UnlistedLock()) {
		s.readHead(commit, at)
	} else if h.OID != "" {
		s.Fault = "a person moved on from it"
	}
	return s, nil
}

// headFault is why HEAD isn't this task's state, by what was seen of the task; no code
// where it may be, or where a person moved on from it. Of a task of which nothing was
// seen yet, a commit that was made for another place keeps nothing back: an approval
// begins the task on top of it.
func headFault(h kernel.HeadFacts, v kernel.TaskView) kernel.Violation {
	faults := kernel.HeadFaults(kernel.Facts{Head: h, View: v, Told: v.Told > 0})
	switch {
	case len(faults) > 0:
		return faults[len(faults)-1] // the one that says the most
	case h.Foreign() && v.ResumedHead != h.OID:
		return kernel.Violation{Code: kernel.CodeStateForeign, Detail: "HEAD was made for " + h.Named + "."}
	}
	return kernel.Violation{}
}

// disown says of HEAD only that it isn't this task's state, and whether a person has to
// look before anything is done.
func (s *shown) disown(fault kernel.Violation, waits bool) {
	s.Fault, s.Codes = fault.Detail, []kernel.Code{fault.Code}
	if waits {
		s.Repair, s.WaitingFor = fault.Code, kernel.WaitRepair
	}
}

// standing is who counts for this installation, read beside it. Where there is none,
// everybody's good signature is taken for what it says.
func (a *app) standing(ctx context.Context, at where, repo *git.Repo, refs git.Refs) (worldref.Standing, error) {
	in := &installation.Installation{Cfg: at.cfg}
	var line []byte
	if dir, err := installation.OpenDir(at.state, false); err == nil {
		in.Dir = dir
		line, _ = os.ReadFile(dir.File(instancekey.PublicFile)) // without one no key was made here
	}
	if len(line) == 0 {
		return worldref.Fold(at.place.World, nil, func(string) bool { return true }), nil
	}
	keys, err := installation.ParseKeys(append([]string{string(line)}, at.cfg.TrustedRunners...))
	if err != nil {
		return worldref.Standing{}, err
	}
	acts, err := worldref.Open(repo, at.place.World, worldref.Ref(installation.RefPrefix(at.cfg.Refs)), unwritten{in.MemoryOf(at.place.World)})
	if err != nil {
		return worldref.Standing{}, err
	}
	cfg := supervisor.Config{World: at.place.World, RefPrefix: installation.RefPrefix(at.cfg.Refs), Base: (&installation.Governed{Installation: in}).BaseRef(), Trusted: keys}
	deps := supervisor.Deps{Repo: repo, Signer: publicKey{keys[0]}, Clock: installation.NewClock(), Acts: acts, Log: slog.New(slog.DiscardHandler)}
	return supervisor.New(cfg, deps, supervisor.NoHistory()).Standing(ctx, refs)
}

// unwritten is the memory of who only reads.
type unwritten struct{ installation.ActMemory }

// Save implements worldref.Memory.
func (unwritten) Save([]byte) error { return nil }

// publicKey is the key of an installation that signs nothing here.
type publicKey struct{ key ssh.PublicKey }

// PublicKey implements git.Signer.
func (k publicKey) PublicKey() ssh.PublicKey { return k.key }

// Sign implements git.Signer.
func (publicKey) Sign([]byte) ([]byte, error) {
	return nil, errors.New("only the public key was read")
}

// readHead takes what HEAD says.
func (s *shown) readHead(c git.Commit, at where) {
	ev, err := eventOf(c)
	if err != nil {
		s.Fault = err.Error()
		return
	}
	s.State, s.RunID, s.Title = ev.State, ev.RunID, ev.Title
	said := map[string]string{}
	for _, t := range ev.Extra() {
		said[t.Key] = t.Value
	}
	number := func(key string) int64 {
		n, err := strconv.ParseInt(said[key], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	s.Attempt, s.Interruptions = number(kernel.TrailerAttempt), number(kernel.TrailerInterruptions)
	s.WaitingFor, s.Change, s.Codes = said[kernel.TrailerWaitingFor], said[kernel.TrailerChange], append(s.Codes, installation.CodesIn(said[kernel.TrailerCodes])...)
	if n := number(kernel.TrailerNotBefore); n > 0 {
		s.NotBefore = kernel.Timestamp(n)
	}
	if ev.State == lease.StateWorking {
		s.Holder, s.HeldUntil = ev.RunnerID, kernel.Timestamp(leaseEnd(ev, at.cfg.Lease.Policy()))
	}
}

// readLedger asks this installation's ledger, beside its writer, whether the task is
// halted, and what was seen of it. Without one there is nothing to ask.
func (s *shown) readLedger(ctx context.Context, at where) (view kernel.TaskView, err error) {
	dir, err := installation.OpenDir(at.state, false)
	if err != nil {
		return view, nil // no installation here, or not ours to read: HEAD has said the rest
	}
	u := dir.LastUse()
	s.RunningHere = dir.Probe() != nil && u.Task == s.Task
	if !ledger.Recorded(dir.Path) {
		return view, nil
	}
	path := dir.File(ledger.FileName)
	store, err := ledger.OpenReadOnly(ctx, path, ledger.Options{})
	if err != nil {
		return view, err
	}
	defer store.Close()
	l, err := store.World(ctx, at.place.World)
	if err != nil || l.Chain().Head == kernel.NoHead() {
		return view, err
	}
	h, err := dir.Folded(ctx, l)
	if err != nil {
		return view, err
	}
	view = h.World.TaskView(s.Task)
	if err := s.readAsked(ctx, path, at.place.World); err != nil {
		return view, err
	}
	s.Halted, s.HaltReason, s.StoppedBy = view.Halted, view.HaltReason, view.Stop
	if s.Halted {
		if s.HaltedBy, err = haltedBy(l.RecordsOfTask(ctx, s.Task)); err != nil {
			return view, err
		}
	}
	if view.Stopped != "" && !kernel.NewerAct(view.Act, view.Stopped) { // a HEAD takes in a stop, too
		s.StoppedAt = kernel.Timestamp(kernel.ActTime(view.Stopped) / 1000)
	}
	return view, nil
}

// readAsked reads whether somebody asked for a halt that no look has recorded yet.
func (s *shown) readAsked(ctx context.Context, path, world string) error {
	db, err := store.OpenReadOnly(ctx, path, store.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	note, err := inbox.New(db).Note(ctx, inbox.Key{World: world, Task: s.Task})
	for _, a := range note.Acts {
		switch a.Kind {
		case kernel.ActHalt:
			s.HaltAskedBy = cmp.Or(a.Actor, "somebody")
		case kernel.ActResume:
			s.HaltAskedBy = ""
		}
	}
	return err
}

// haltedBy is who halted the task since it was last resumed, by its records.
func haltedBy(records iter.Seq2[kernel.Record, error]) (by string, err error) {
	for r, err := range records {
		if err != nil {
			return "", err
		}
		if r.Kind != kernel.KindOperatorAct {
			continue
		}
		var a kernel.OperatorAct
		if err := canon.UnmarshalCanonical(r.Body, &a); err != nil {
			return "", err
		}
		switch a.Act {
		case kernel.ActHalt:
			by = a.Actor
		case kernel.ActResume:
			by = ""
		}
	}
	return by, nil
}

// plain is the same in words.
func (s shown) plain() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("task %d of %s %s", s.Task, s.Repository, s.standing())
	if s.Halted {
		line("  halted here by %s: %s", cmp.Or(s.HaltedBy, "its kernel"), cmp.Or(s.HaltReason, "no reason was given"))
		line("  nothing of it is done until `writ task resume %d`", s.Task)
	}
	if s.HaltAskedBy != "" && !s.Halted {
		line("  a halt by %s is stored; it is recorded when the look at the task that is under way ends", s.HaltAskedBy)
	}
	if s.StoppedAt != "" {
		line("  stopped on the issue at %s; the label set again, or `/writ run`, begins it anew", s.StoppedAt)
	}
	if s.StoppedBy != "" {
		line("  stopped by %s; that is carried out when the task is looked at next", s.StoppedBy)
	}
	if s.Head != "" {
		line("  HEAD %s of %s, signed by %s", s.Head, s.Since, orNone(s.Signer))
	}
	if s.Fault != "" {
		line("  not this task's state: %s", s.Fault)
	}
	if s.Attempt > 0 {
		line("  attempt %d, %s", s.Attempt, report.Counted(s.Interruptions, "interruption"))
	}
	if s.Change != "" {
		line("  change %s on writ/change/%d", s.Change, s.Task)
	}
	for _, c := range s.Codes {
		if c == kernel.CodeTaskHalted && !s.Halted {
			line("\n%s\n  It was halted when HEAD was written. This installation's ledger has no halt of it now.", c)
			continue
		}
		line("\n%s\n  %s\n  %s", c, c.Info().Meaning, c.Info().Remedy)
	}
	return b.String()
}

func (s shown) standing() string {
	switch {
	case s.Repair != "":
		return "waits for repair: " + string(s.Repair) + ". Nothing is done until a person looked"
	case s.Head == "":
		return "has not been run"
	case s.State == "":
		return "has no state: HEAD isn't this task's"
	case s.State == lease.StateWorking && s.leaseOver():
		return fmt.Sprintf("was held by %s until %s; that lease is over, and whoever looks at the task next breaks it", orNone(s.Holder), s.HeldUntil)
	case s.State == lease.StateWorking:
		where := ""
		if s.RunningHere {
			where = ", this installation"
		}
		return fmt.Sprintf("is held by %s%s, until %s unless renewed", orNone(s.Holder), where, s.HeldUntil)
	case s.State == lease.StateStalled:
		return "was interrupted; nobody works on it" + s.due()
	case s.WaitingFor != "":
		return "waits for " + s.WaitingFor
	}
	return "is " + s.State + s.due()
}

// leaseOver reports whether the lease at HEAD has ended without being renewed, by this
// machine's clock.
func (s shown) leaseOver() bool {
	until, err := time.Parse(time.RFC3339, s.HeldUntil)
	return err == nil && !until.After(time.Now())
}

// due is when the next attempt may begin, if that lies ahead.
func (s shown) due() string {
	if t, err := time.Parse(time.RFC3339, s.NotBefore); err != nil || !t.After(time.Now()) {
		return ""
	}
	return ", due at " + s.NotBefore
}

func orNone(s string) string {
	if s == "" {
		return "nobody"
	}
	return s
}
