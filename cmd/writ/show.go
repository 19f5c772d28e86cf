package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// shown is how a task stands, read from HEAD of its state ref; what HEAD can't
// say comes from the ledger of this installation, if it has one.
type shown struct {
	Kind          string        `json:"kind"` // "task"
	World         string        `json:"world_id"`
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
	Fault         string        `json:"fault"` // why HEAD is no state event
	RunningHere   bool          `json:"running_here"`
}

func (a *app) showCommand() *cobra.Command {
	var w whereFlags
	cmd := &cobra.Command{
		Use: "show N {--state-dir DIR | --repo DIR}", Short: "How a task stands, from the repository", Args: cobra.ExactArgs(1),
		Long: `Show reads how task N stands from HEAD of its state ref, and from the ledger of this
installation whether it is halted. It changes nothing, and may be asked at any time.
Where reading needs the forge's token, give --config, and the secrets in the
environment as the server has them.`,
		Example: "  writ task show 12 --state-dir /var/lib/writ/state\n  writ task show 12 --repo ~/src/project --json",
	}
	w.add(cmd)
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		number, err := argNumber(args[0])
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

// look reads; it takes no lock and changes nothing.
func (a *app) look(ctx context.Context, at where, number int64) (shown, error) {
	s := shown{Kind: "task", Task: number, Codes: []kernel.Code{}}
	if err := at.settle(ctx); err != nil {
		return s, err
	}
	if s.World = at.place.world; at.place.url == "" {
		return s, at.unknown()
	}
	repo, err := a.repoOf(ctx, at, nil)
	if err != nil {
		return s, err
	}
	defer repo.Close()
	ref := stateRef(at.cfg.Refs, number)
	refs, err := repo.Refs(ctx, ref)
	if err != nil {
		return s, at.explain(err, "")
	}
	if oid := refs.OID(ref); !oid.IsZero() {
		commit, err := repo.Commit(ctx, oid)
		if err != nil && git.CodeOf(err) != git.CodeCommitAmbiguous {
			return s, err
		}
		s.readHead(commit, at)
	}
	return s, s.readLedger(ctx, at)
}

// readHead takes what HEAD says.
func (s *shown) readHead(c git.Commit, at where) {
	s.Head, s.Since = string(c.OID), kernel.Timestamp(c.Committer.Seconds)
	if signer, err := c.Verify(nil); err == nil || git.CodeOf(err) == git.CodeUntrusted {
		s.Signer = signer
	}
	ev, err := lease.ReadEvent(lease.Head{
		OID: s.Head, Message: c.Message, CommitterSeconds: c.Committer.Seconds,
		CommitterOK: c.Committer.OK && len(c.Ambiguous) == 0,
	})
	if err != nil {
		var fault *lease.Error
		s.Fault = err.Error()
		if errors.As(err, &fault) {
			s.Fault = fault.Detail
		}
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
	s.WaitingFor, s.Change, s.Codes = said[kernel.TrailerWaitingFor], said[kernel.TrailerChange], append(s.Codes, codesIn(said[kernel.TrailerCodes])...)
	if n := number(kernel.TrailerNotBefore); n > 0 {
		s.NotBefore = kernel.Timestamp(n)
	}
	if ev.State == lease.StateWorking {
		pol := at.cfg.Lease.Policy()
		s.Holder = ev.RunnerID
		s.HeldUntil = kernel.Timestamp(ev.CommitterSeconds + min(max(ev.LeaseSeconds, 0), pol.MaxLeaseSeconds) + pol.GraceSeconds)
	}
}

// readLedger asks this installation's ledger, beside its writer, whether the
// task is halted. Without one there is nothing to ask.
func (s *shown) readLedger(ctx context.Context, at where) error {
	dir, err := openState(at.state, false)
	if err != nil {
		return nil // no installation here, or not ours to read: HEAD has said the rest
	}
	u := dir.lastUse()
	s.RunningHere = dir.probe() != nil && u.Task == s.Task
	path := dir.file(ledger.FileName)
	if _, err := os.Stat(path); err != nil {
		return nil // nothing was recorded yet
	}
	store, err := ledger.OpenReadOnly(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	l, err := store.World(ctx, at.place.world)
	if err != nil || l.Chain().Head == kernel.NoHead() {
		return err
	}
	h, err := supervisor.Replay(l.Records(ctx, 0, 0))
	if err != nil {
		return err
	}
	view := h.World.TaskView(s.Task)
	s.Halted, s.HaltReason = view.Halted, view.HaltReason
	return nil
}

// plain is the same in words.
func (s shown) plain() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("task %d of %s %s", s.Task, s.World, s.standing())
	if s.Halted {
		line("  halted here: %s", orNone(s.HaltReason))
	}
	if s.Head != "" {
		line("  HEAD %s of %s, signed by %s", s.Head, s.Since, orNone(s.Signer))
	}
	if s.Attempt > 0 {
		line("  attempt %d, %d interruptions", s.Attempt, s.Interruptions)
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
	case s.Head == "":
		return "has not been run"
	case s.State == "":
		return "has a HEAD that is no state event: " + s.Fault
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
