package forgetest

import (
	"errors"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
)

func scene(t *testing.T) (*Scene, forge.Issue) {
	t.Helper()
	s := NewScene(steps())
	return s, must[forge.Issue](t)(s.Owner.FileIssue(t.Context(), s.Repo, "Add fails", "text"))
}

// TestFaults_AppliedButFailed: the comment is there, and the answer is a 502.
func TestFaults_AppliedButFailed(t *testing.T) {
	s, i := scene(t)
	s.Bot.Fail(On(AddComment), 1, Fault{Reason: forge.Unavailable, Applied: true})
	_, err := s.Bot.AddComment(t.Context(), s.Repo, i.Number, "report")
	var e *forge.Error
	if !errors.As(err, &e) || !e.Applied || e.Reason != forge.Unavailable || !forge.Passing(err) {
		t.Errorf("error %#v, want unavailable and maybe applied", err)
	}
	got := must[[]forge.Comment](t)(s.Bot.Comments(t.Context(), s.Repo, i.Number))
	wantBodies(t, got, "report")
	_, err = s.Bot.AddComment(t.Context(), s.Repo, i.Number, "again")
	ok(t, err)
	calls := s.Bot.Calls(On(AddComment))
	if len(calls) != 2 || !calls[0].Applied || calls[0].Err == nil || calls[1].Err != nil {
		t.Errorf("the log: %+v", calls)
	}
}

// TestFaults_Refused: nothing is done, and the reason is told as often as asked for.
func TestFaults_Refused(t *testing.T) {
	s, i := scene(t)
	s.Bot.Fail(OnIssue(i.Number, SetState), 2, Fault{Reason: forge.Limited, RetryAfter: time.Minute})
	s.Bot.Fail(Writes(), Always, Fault{Reason: forge.Forbidden})
	for n, want := range []forge.Reason{forge.Limited, forge.Limited, forge.Forbidden, forge.Forbidden} {
		err := s.Bot.SetState(t.Context(), s.Repo, i.Number, forge.Closed)
		wantReason(t, "close", err, want)
		var e *forge.Error
		if errors.As(err, &e); e.Applied || (e.RetryAfter == time.Minute) != (n < 2) {
			t.Errorf("call %d: %+v", n, e)
		}
	}
	if got := must[forge.Issue](t)(s.Bot.Issue(t.Context(), s.Repo, i.Number)); got.State != forge.Open {
		t.Errorf("the issue is %s", got.State)
	}
	s.Bot.Clear()
	ok(t, s.Bot.SetState(t.Context(), s.Repo, i.Number, forge.Closed))
}

// TestFaults_Stale: a replica answers with what it has, so many times.
func TestFaults_Stale(t *testing.T) {
	s, i := scene(t)
	ok(t, s.Bot.Stale(t.Context(), s.Repo, i.Number, 3))
	ok(t, s.Owner.EditIssue(t.Context(), s.Repo, i.Number, "Add fails", "edited"))
	if got := must[[]forge.Event](t)(s.Bot.History(t.Context(), s.Repo, i.Number)); len(got) > 0 {
		t.Errorf("the replica knows of %+v", got)
	}
	for n, want := range []string{"text", "text", "edited", "edited"} {
		if got := must[forge.Issue](t)(s.Bot.Issue(t.Context(), s.Repo, i.Number)); got.Body != want {
			t.Errorf("read %d: %q, want %q", n, got.Body, want)
		}
	}
}

// TestFaults_SomebodyBetween: a person acts right before, or right after, a call.
func TestFaults_SomebodyBetween(t *testing.T) {
	s, i := scene(t)
	s.Bot.Before(On(SetState), 1, func(c Call) {
		ok(t, s.Owner.SetState(t.Context(), c.Repo, c.Number, forge.Closed))
	})
	s.Bot.After(On(SetState), 1, func(c Call) {
		if !c.Applied {
			t.Errorf("after: %+v", c)
		}
		ok(t, s.Owner.SetState(t.Context(), c.Repo, c.Number, forge.Open))
	})
	ok(t, s.Bot.SetState(t.Context(), s.Repo, i.Number, forge.Closed))
	got := must[[]forge.Event](t)(s.Bot.History(t.Context(), s.Repo, i.Number))
	if len(got) != 2 || got[0].Actor.ID != s.Owner.ID || got[1].Kind != forge.EventReopened {
		t.Errorf("history %+v, want the owner's close and his reopening", got)
	}
}

// TestFaults_Sent finds what left through any method.
func TestFaults_Sent(t *testing.T) {
	s, i := scene(t)
	_, err := s.Bot.AddComment(t.Context(), s.Repo, i.Number, "the token is canary-123, they say")
	ok(t, err)
	ok(t, s.Bot.AddLabel(t.Context(), s.Repo, i.Number, "quiet"))
	if got := s.Bot.Sent("canary-123"); len(got) != 1 || got[0].Op != AddComment || got[0].N != 1 {
		t.Errorf("sent: %+v", got)
	}
}
