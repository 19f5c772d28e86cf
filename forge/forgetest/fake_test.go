package forgetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
)

// steps is a clock that moves with each look at it.
func steps() func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Millisecond)
		return now
	}
}

func TestExercise_Fake(t *testing.T) {
	Exercise(t, func(*testing.T) *Place {
		s := NewScene(steps())
		return &Place{
			Repo: s.Repo, Bot: s.Bot, Owner: s.Owner, Reader: s.Reader, Digests: true,
			Grant: func(_ *testing.T, user int64, p forge.Permission) { s.Grant(s.Repo, user, p) },
			Branch: func(_ *testing.T, name string) string {
				oid := CommitID(name + fmt.Sprint(len(s.Deliveries())))
				s.SetBranch(s.Repo, s.Robot.User, name, oid)
				return oid
			},
			Merge: func(t *testing.T, number int64) {
				ok(t, s.Owner.Merge(t.Context(), s.Repo, number, CommitID("merge")))
			},
			Checks: func(_ *testing.T, oid string) []forge.Check { return s.Checks(s.Repo, oid) },
		}
	})
}

// TestFake_Payloads: every act is told once, and what is told can be read.
func TestFake_Payloads(t *testing.T) {
	s := NewScene(steps())
	ctx := t.Context()
	i := must[forge.Issue](t)(s.Owner.FileIssue(ctx, s.Repo, "Add fails", "text"))
	ok(t, s.Owner.AddLabel(ctx, s.Repo, i.Number, "writ"))
	ok(t, s.Owner.EditIssue(ctx, s.Repo, i.Number, "Add fails", "more text"))
	c := must[forge.Comment](t)(s.Bot.AddComment(ctx, s.Repo, i.Number, "on it"))
	ok(t, s.Bot.EditComment(ctx, s.Repo, c.ID, "done"))
	ok(t, s.Bot.SetState(ctx, s.Repo, i.Number, forge.Closed))
	s.SetBranch(s.Repo, s.Robot.User, "writ/change/1", CommitID("work"))
	change := must[forge.Change](t)(s.Bot.OpenChange(ctx, s.Repo, forge.Change{Title: "Fix", Head: "writ/change/1", Base: "main"}))
	ok(t, s.Owner.Merge(ctx, s.Repo, change.Number, CommitID("merge")))

	want := []string{
		"push ", "issues opened", "issues labeled writ", "issues edited", "issue_comment created", "issue_comment edited",
		"issues closed", "push ", "change opened", "change merged",
	}
	all := s.Deliveries()
	if len(all) != len(want) {
		t.Fatalf("%d deliveries, want %d: %+v", len(all), len(want), all)
	}
	seen := map[string]bool{}
	for n, d := range all {
		got := fmt.Sprintf("%s %s", d.Payload.Event, d.Payload.Action)
		if d.Payload.Label != "" {
			got += " " + d.Payload.Label
		}
		if err := d.Payload.Check(); got != want[n] || err != nil || seen[d.ID] {
			t.Errorf("delivery %d is %q (%v), want %q", n, got, err, want[n])
		}
		seen[d.ID] = true
	}
	if got := Repeat(all[:2], 2); len(got) != 4 || got[0].ID != got[3].ID || got[1].ID != got[2].ID {
		t.Errorf("repeated: %+v", got)
	}
}

// TestFake_RepositoryIdentity: the id is the identity, whatever the name says.
func TestFake_RepositoryIdentity(t *testing.T) {
	s := NewScene(steps())
	i := must[forge.Issue](t)(s.Owner.FileIssue(t.Context(), s.Repo, "Before the move", ""))
	s.ChangeRepo(s.Repo, func(r *forge.Repository) { r.Name = "renamed" })
	if _, err := s.Bot.Issue(t.Context(), s.Repo, i.Number); err != nil {
		t.Errorf("after the repository was renamed: %v", err)
	}
	again := s.AddRepo(s.Repo.Owner, s.Repo.Name)
	wantReason(t, "the same name, another id", second(s.Bot.Issue(t.Context(), again, i.Number)), forge.NotFound)
	s.Grant(again, s.Owner.ID, forge.Admin)
	moved := must[forge.Issue](t)(s.Owner.Transfer(t.Context(), s.Repo, i.Number, again))
	wantReason(t, "a transferred issue", second(s.Bot.Issue(t.Context(), s.Repo, i.Number)), forge.NotFound)
	if moved.ID != i.ID {
		t.Errorf("transferred as %d, was %d", moved.ID, i.ID)
	}
	s.ChangeRepo(s.Repo, func(r *forge.Repository) { r.Archived = true })
	wantReason(t, "label in an archived repository", s.Bot.AddLabel(t.Context(), s.Repo, 2, "x"), forge.Forbidden)
	s.ChangeRepo(s.Repo, func(r *forge.Repository) { r.Private = true })
	wantReason(t, "a private repository", second(s.Reader.Repository(t.Context(), s.Repo.ID)), forge.NotFound)
	s.RemoveRepo(s.Repo)
	wantReason(t, "a deleted repository", second(s.Owner.Repository(t.Context(), s.Repo.ID)), forge.NotFound)
}

// TestFake_Concurrent: for the race detector, and no label is lost.
func TestFake_Concurrent(t *testing.T) {
	s := NewScene(steps())
	i := must[forge.Issue](t)(s.Owner.FileIssue(t.Context(), s.Repo, "Busy", ""))
	const writers = 16
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			_ = s.Bot.AddLabel(context.Background(), s.Repo, i.Number, fmt.Sprint("label ", n))
			_, _ = s.Bot.AddComment(context.Background(), s.Repo, i.Number, "word")
			_, _ = s.Bot.Issue(context.Background(), s.Repo, i.Number)
		})
	}
	wg.Wait()
	got := must[forge.Issue](t)(s.Bot.Issue(t.Context(), s.Repo, i.Number))
	if len(got.Labels) != writers || len(s.Bot.Calls(On(AddComment))) != writers {
		t.Errorf("labels %q, %d comments", got.Labels, len(s.Bot.Calls(On(AddComment))))
	}
}
