package github

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// FindChange is forge.Changes. A branch of that name in a fork is another one.
func (c *client) FindChange(ctx context.Context, r forge.Repo, head, base string) (out forge.Change, err error) {
	a := act{op: fmt.Sprintf("find the change from %s in %s", head, r), scope: toRead}
	err = c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		out = forge.Change{}
		o := &api.PullRequestListOptions{State: "all", Head: at.owner + ":" + head, Sort: "created", Direction: "desc"}
		err := pages(func(p *api.ListOptions) (*api.Response, error) {
			o.ListOptions = *p
			got, res, err := at.PullRequests.List(ctx, at.owner, at.name, o)
			if err != nil {
				return nil, err
			}
			return res, readEach(got, func(g *api.PullRequest) (forge.Change, error) {
				if g.GetHead().GetRef() != head || g.GetHead().GetRepo().GetID() != at.about.ID {
					return forge.Change{}, nil
				}
				return change(g)
			}, func(c forge.Change) {
				if c.Number != 0 && (out.Number == 0 || c.Delivers(out, base)) {
					out = c
				}
			})
		})
		if err == nil && out.Number == 0 {
			return &forge.Error{Reason: forge.NotFound, Op: a.op}
		}
		return err
	})
	return out, err
}

// OpenChange is forge.Changes.
func (c *client) OpenChange(ctx context.Context, r forge.Repo, ch forge.Change) (out forge.Change, err error) {
	a := act{op: fmt.Sprintf("open a change from %s to %s in %s", ch.Head, ch.Base, r), scope: toTalk, lane: transport.Create}
	err = c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		made, _, err := at.PullRequests.Create(ctx, at.owner, at.name, &api.NewPullRequest{
			Title: &ch.Title, Body: &ch.Body, Head: &ch.Head, Base: &ch.Base, Draft: &ch.Draft,
		})
		var e *forge.Error
		var said *transport.StatusError
		switch {
		case err == nil:
			out, err = change(made)
		case errors.As(err, &e) && errors.As(err, &said) && strings.Contains(string(said.Body), "already exists"):
			there := *e
			there.Reason = forge.Conflict
			return &there
		}
		return err
	})
	return out, err
}

// EditChange is forge.Changes.
func (c *client) EditChange(ctx context.Context, r forge.Repo, number int64, title, body string) error {
	a := act{op: onItem("edit the change", r, number), scope: toTalk, lane: transport.Edit}
	return c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		_, _, err := at.PullRequests.Edit(ctx, at.owner, at.name, itemNumber(number), &api.PullRequest{Title: &title, Body: &body})
		return err
	})
}

// Limits on a check's texts, by GitHub: characters of a status' description,
// and bytes of a run's parts.
const (
	maxDescription = 140
	maxTitle       = 255
	maxOutput      = 65535
)

// SetCheck is forge.Changes: a check run by an App, which alone may make them; a
// commit status by a token, which has no room for the detail.
func (c *client) SetCheck(ctx context.Context, r forge.Repo, oid string, ch forge.Check) error {
	a := act{op: fmt.Sprintf("set the check %q on %s in %s", ch.Name, oid, r), scope: toCheck, lane: transport.Create}
	if ch.Name == "" {
		return invalid(a.op, "a check needs a name")
	}
	if c.h.key == nil {
		return c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
			state, known := map[forge.CheckState]string{forge.CheckRunning: "pending", forge.CheckPassed: "success", forge.CheckFailed: "failure"}[ch.State]
			if !known {
				return invalid(a.op, "%q is no state of a check", ch.State)
			}
			_, _, err := at.Repositories.CreateStatus(ctx, at.owner, at.name, oid, &api.RepoStatus{
				State: &state, Context: &ch.Name, Description: api.String(cut(ch.Summary, maxDescription)),
			})
			return err
		})
	}
	var run *api.CheckRun
	find := act{op: a.op, scope: toCheck}
	if err := c.h.do(ctx, r, find, func(ctx context.Context, at spot) (err error) {
		run, err = at.findRun(ctx, c.h.cfg.App.ID, oid, ch.Name)
		return err
	}); err != nil {
		return err
	}
	if run != nil {
		a.lane = transport.Edit
	}
	return c.h.do(ctx, r, a, func(ctx context.Context, at spot) error { return at.setRun(ctx, a.op, oid, run, ch) })
}

// findRun is the App's own latest run of that name; others may use it, too.
func (at spot) findRun(ctx context.Context, app int64, oid, name string) (*api.CheckRun, error) {
	o := &api.ListCheckRunsOptions{CheckName: &name, AppID: &app, ListOptions: api.ListOptions{PerPage: pageSize}}
	got, _, err := at.Checks.ListCheckRunsForRef(ctx, at.owner, at.name, oid, o)
	if err != nil {
		return nil, err
	}
	if got == nil {
		return nil, odd("it is null")
	}
	var last *api.CheckRun
	for _, run := range got.CheckRuns {
		if run.GetID() <= 0 {
			return nil, odd("a check without an id")
		}
		if run.GetName() == name && (last == nil || run.GetID() > last.GetID()) {
			last = run
		}
	}
	return last, nil
}

const completed = "completed"

func (at spot) setRun(ctx context.Context, op, oid string, run *api.CheckRun, ch forge.Check) error {
	state, conclusion := completed, (*string)(nil)
	switch ch.State {
	case forge.CheckRunning:
		state = "in_progress"
	case forge.CheckPassed:
		conclusion = api.String("success")
	case forge.CheckFailed:
		conclusion = api.String("failure")
	default:
		return invalid(op, "%q is no state of a check", ch.State)
	}
	output := &api.CheckRunOutput{Title: api.String(cut(ch.Summary, maxTitle)), Summary: api.String(cut(ch.Summary, maxOutput))}
	if ch.Detail != "" {
		output.Text = api.String(cut(ch.Detail, maxOutput))
	}
	// A run that has ended stays ended; what runs again is a new one.
	if run == nil || run.GetStatus() == completed && state != completed {
		_, _, err := at.Checks.CreateCheckRun(ctx, at.owner, at.name, api.CreateCheckRunOptions{
			Name: ch.Name, HeadSHA: oid, Status: &state, Conclusion: conclusion, Output: output,
		})
		return err
	}
	_, _, err := at.Checks.UpdateCheckRun(ctx, at.owner, at.name, run.GetID(), api.UpdateCheckRunOptions{
		Name: ch.Name, Status: &state, Conclusion: conclusion, Output: output,
	})
	return err
}

// cut shortens a text to a number of bytes, and shows that it did.
func cut(s string, limit int) string {
	const mark = "…"
	if len(s) <= limit {
		return s
	}
	s = s[:limit-len(mark)]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return strings.TrimSpace(s) + mark
}
