// Package status reads how a task stands, from HEAD of its state ref and from what the ledger
// of this installation has seen of it, beside whoever works on it: it takes no lock and
// changes nothing.
package status

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"strconv"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/webhook/inbox"
)

// Task is how a task stands, read from HEAD of its state ref; what HEAD can't
// say comes from the ledger of this installation, if it has one.
type Task struct {
	Kind          string        `json:"kind"` // "task"
	World         string        `json:"world_id"`
	Repository    string        `json:"repository"` // what people call it
	Number        int64         `json:"task_id"`
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

// Look reads how a task stands; it takes no lock and changes nothing.
func Look(ctx context.Context, proc *wire.Process, at wire.Found, number int64) (Task, error) {
	s := Task{Kind: "task", Number: number, Codes: []kernel.Code{}}
	if err := at.Settle(ctx); err != nil {
		return s, err
	}
	if s.World, s.Repository = at.Place.World, at.Place.Display; at.Place.URL == "" {
		return s, at.Unknown()
	}
	repo, err := proc.Repository(ctx, at.Cfg, at.Place, nil)
	if err != nil {
		return s, err
	}
	defer repo.Close()
	ref, acts := installation.StateRef(at.Cfg.Refs, number), worldref.Ref(installation.RefPrefix(at.Cfg.Refs))
	refs, err := repo.Refs(ctx, ref, acts, git.OnlyHead)
	if err != nil {
		return s, at.Explain(err, "")
	}
	view, err := s.readLedger(ctx, at)
	if err != nil {
		return s, err
	}
	view.Task = number // also where nothing was recorded
	place := seenPlace{repo: repo, world: s.World, lease: at.Cfg.Lease.Policy()}
	if place.standing, err = standing(ctx, at, repo, refs); err != nil {
		return s, at.Explain(err, "")
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
func (s *Task) disown(fault kernel.Violation, waits bool) {
	s.Fault, s.Codes = fault.Detail, []kernel.Code{fault.Code}
	if waits {
		s.Repair, s.WaitingFor = fault.Code, kernel.WaitRepair
	}
}

// standing is who counts for this installation, read beside it. Where there is none,
// everybody's good signature is taken for what it says.
func standing(ctx context.Context, at wire.Found, repo *git.Repo, refs git.Refs) (worldref.Standing, error) {
	in := &installation.Installation{Cfg: at.Cfg}
	var line []byte
	if dir, err := installation.OpenDir(at.State, false); err == nil {
		in.Dir = dir
		line, _ = os.ReadFile(dir.File(instancekey.PublicFile)) // without one no key was made here
	}
	if len(line) == 0 {
		return worldref.Fold(at.Place.World, nil, func(string) bool { return true }), nil
	}
	keys, err := installation.ParseKeys(append([]string{string(line)}, at.Cfg.TrustedRunners...))
	if err != nil {
		return worldref.Standing{}, err
	}
	acts, err := worldref.Open(repo, at.Place.World, worldref.Ref(installation.RefPrefix(at.Cfg.Refs)), unwritten{in.MemoryOf(at.Place.World)})
	if err != nil {
		return worldref.Standing{}, err
	}
	cfg := supervisor.Config{World: at.Place.World, RefPrefix: installation.RefPrefix(at.Cfg.Refs), Base: (&installation.Governed{Installation: in}).BaseRef(), Trusted: keys}
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
func (s *Task) readHead(c git.Commit, at wire.Found) {
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
		s.Holder, s.HeldUntil = ev.RunnerID, kernel.Timestamp(leaseEnd(ev, at.Cfg.Lease.Policy()))
	}
}

// readLedger asks this installation's ledger, beside its writer, whether the task is
// halted, and what was seen of it. Without one there is nothing to ask.
func (s *Task) readLedger(ctx context.Context, at wire.Found) (view kernel.TaskView, err error) {
	dir, err := installation.OpenDir(at.State, false)
	if err != nil {
		return view, nil // no installation here, or not ours to read: HEAD has said the rest
	}
	u := dir.LastUse()
	s.RunningHere = dir.Probe() != nil && u.Task == s.Number
	if !ledger.Recorded(dir.Path) {
		return view, nil
	}
	path := dir.File(ledger.FileName)
	store, err := ledger.OpenReadOnly(ctx, path, ledger.Options{})
	if err != nil {
		return view, err
	}
	defer store.Close()
	l, err := store.World(ctx, at.Place.World)
	if err != nil || l.Chain().Head == kernel.NoHead() {
		return view, err
	}
	h, err := dir.Folded(ctx, l)
	if err != nil {
		return view, err
	}
	view = h.World.TaskView(s.Number)
	if err := s.readAsked(ctx, path, at.Place.World); err != nil {
		return view, err
	}
	s.Halted, s.HaltReason, s.StoppedBy = view.Halted, view.HaltReason, view.Stop
	if s.Halted {
		if s.HaltedBy, err = haltedBy(l.RecordsOfTask(ctx, s.Number)); err != nil {
			return view, err
		}
	}
	if view.Stopped != "" && !kernel.NewerAct(view.Act, view.Stopped) { // a HEAD takes in a stop, too
		s.StoppedAt = kernel.Timestamp(kernel.ActTime(view.Stopped) / 1000)
	}
	return view, nil
}

// readAsked reads whether somebody asked for a halt that no look has recorded yet.
func (s *Task) readAsked(ctx context.Context, path, world string) error {
	db, err := store.OpenReadOnly(ctx, path, store.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	note, err := inbox.New(db).Note(ctx, inbox.Key{World: world, Task: s.Number})
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

// Held is what somebody is asked to accept of a task, which must have work that waits for that.
func Held(ctx context.Context, proc *wire.Process, at wire.Found, s Task) (*supervisor.Held, error) {
	if err := at.Settle(ctx); err != nil {
		return nil, err
	}
	repo, err := proc.Repository(ctx, at.Cfg, at.Place, nil)
	if err != nil {
		return nil, err
	}
	defer repo.Close()
	var held *supervisor.Held
	if s.Fault == "" && s.Head != "" {
		if held, err = supervisor.HeldAt(ctx, repo, s.World, git.OID(s.Head)); err != nil {
			return nil, at.Explain(err, "")
		}
	}
	if held == nil {
		return nil, problem.Usage("Task %d has no sealed work that waits for somebody to accept its guarded paths. What a refresh waits for is on the issue.", s.Number)
	}
	return held, nil
}
