package server

import (
	"context"
	"errors"
	"strconv"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/webhook/inbox"
)

// schedule is the inbox as the scheduler takes it.
type schedule struct{ *inbox.Inbox }

// Due implements scheduler.Schedule.
func (s schedule) Due(ctx context.Context, now int64, limit int) ([]scheduler.Key, error) {
	list, err := s.Inbox.Due(ctx, now, limit)
	keys := make([]scheduler.Key, len(list))
	for i, d := range list {
		keys[i] = scheduler.Key(d.Key)
	}
	return keys, err
}

// Take implements scheduler.Schedule.
func (s schedule) Take(ctx context.Context, k scheduler.Key) (scheduler.Ticket, bool, error) {
	t, ok, err := s.Inbox.Take(ctx, inbox.Key(k))
	return scheduler.Ticket{Key: k, Generation: t.Generation, Due: t.DueMs}, ok, err
}

// Done implements scheduler.Schedule.
func (s schedule) Done(ctx context.Context, t scheduler.Ticket, next int64) error {
	err := s.Inbox.Done(ctx, inbox.Ticket{Key: inbox.Key(t.Key), Generation: t.Generation, DueMs: t.Due}, next)
	if errors.As(err, new(*inbox.Error)) {
		return nil // it was given back before, and the answer was lost
	}
	return err
}

// Mark implements scheduler.Schedule.
func (s schedule) Mark(ctx context.Context, k scheduler.Key, at int64) error {
	return s.Inbox.Mark(ctx, []inbox.Key{inbox.Key(k)}, at)
}

// notes are what the inbox remembers for the scheduler.
type notes struct{ *inbox.Inbox }

// Load implements scheduler.Notes.
func (n notes) Load(ctx context.Context, k scheduler.Key) (scheduler.Note, error) {
	note, err := n.Note(ctx, inbox.Key(k))
	out := scheduler.Note{Failures: note.Failures}
	for _, a := range note.Acts {
		out.Acts = append(out.Acts, scheduler.Act(a))
	}
	return out, err
}

// Add implements scheduler.Notes.
func (n notes) Add(ctx context.Context, k scheduler.Key, a scheduler.Act) error {
	return n.AddAct(ctx, inbox.Key(k), inbox.Act(a))
}

// Settle implements scheduler.Notes.
func (n notes) Settle(ctx context.Context, k scheduler.Key, failures int, carried []string) error {
	return n.Inbox.Settle(ctx, inbox.Key(k), failures, carried)
}

// pauses are those that `writ pause` wrote down.
type pauses struct{ *inbox.Inbox }

// Paused implements scheduler.PauseSource.
func (p pauses) Paused(ctx context.Context) (scheduler.Paused, error) {
	list, err := p.Pauses(ctx)
	out := scheduler.Paused{Worlds: map[string]bool{}}
	for _, one := range list {
		if one.World == "" {
			out.All = true
		} else {
			out.Worlds[one.World] = true
		}
	}
	return out, err
}

// approvals is the evidence that signed payloads left, as a supervisor takes it.
type approvals struct {
	*inbox.Inbox
	world string
}

// Approvals implements supervisor.Evidence.
func (a approvals) Approvals(ctx context.Context, _, issue int64) ([]approval.Row, error) {
	list, err := a.Evidence(ctx, a.world, issue)
	rows := make([]approval.Row, 0, len(list))
	for _, e := range list {
		actor, err := strconv.ParseInt(e.ActorID, 10, 64)
		if err != nil {
			continue // not of a hook of ours
		}
		row := approval.Row{Kind: approval.RowKind(e.Kind), Actor: actor, Digest: canon.Digest(e.Digest), At: e.EventMs}
		if row.Kind == approval.ByComment {
			row.Ref, _ = strconv.ParseInt(e.Ref, 10, 64) // 0 names no comment
		} else {
			row.Label = e.Ref
		}
		rows = append(rows, row)
	}
	return rows, err
}
