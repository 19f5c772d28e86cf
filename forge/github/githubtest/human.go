package githubtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/github"
)

// Human is somebody with a personal token: a client of the adapter, and what
// people do beyond it.
type Human struct {
	forge.Client
	p  *Place
	by Person
}

var _ forgetest.Human = Human{}

// As is somebody's client.
func (p *Place) As(t testing.TB, by Person) Human {
	t.Helper()
	h, err := github.New(t.Context(), p.TokenConfig(by))
	must(t, err)
	t.Cleanup(h.Close)
	return Human{h.Client(p.Repo), p, by}
}

// FileIssue files an issue.
func (h Human) FileIssue(ctx context.Context, r forge.Repo, title, body string) (forge.Issue, error) {
	var made struct{ Number int64 }
	if err := h.call(ctx, http.MethodPost, fmt.Sprintf("/repos/%s/issues", r), map[string]any{"title": title, "body": body}, &made); err != nil {
		return forge.Issue{}, err
	}
	return h.Issue(ctx, r, made.Number)
}

// EditIssue changes title and body.
func (h Human) EditIssue(ctx context.Context, r forge.Repo, number int64, title, body string) error {
	return h.call(ctx, http.MethodPatch, fmt.Sprintf("/repos/%s/issues/%d", r, number), map[string]any{"title": title, "body": body}, nil)
}

// ReviewAt comments on a place of a change.
func (h Human) ReviewAt(ctx context.Context, r forge.Repo, change int64, at forge.ReviewPlace, body string) error {
	side := map[bool]string{false: "RIGHT", true: "LEFT"}[at.Old]
	said := map[string]any{"body": body, "commit_id": at.Commit, "path": at.Path, "side": side, "line": at.End, "subject_type": "line"}
	if at.End == 0 {
		delete(said, "line")
		said["subject_type"], said["side"] = "file", nil
	}
	if at.Start != at.End {
		said["start_line"], said["start_side"] = at.Start, side
	}
	return h.call(ctx, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/comments", r, change), said, nil)
}

// EditReview changes the text of such a comment.
func (h Human) EditReview(ctx context.Context, r forge.Repo, _, id int64, body string) error {
	return h.call(ctx, http.MethodPatch, fmt.Sprintf("/repos/%s/pulls/comments/%d", r, id), map[string]any{"body": body}, nil)
}

// call makes a request as GitHub's page would.
func (h Human) call(ctx context.Context, method, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, h.p.URL+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+h.by.Token)
	res, err := h.p.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode == http.StatusForbidden:
		return &forge.Error{Reason: forge.Forbidden, Op: path}
	case res.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, answer)
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer, into)
}

// IssueReactions are the contents of the reactions to an issue itself.
func (p *Place) IssueReactions(t testing.TB, number int64) (out []string) {
	t.Helper()
	return p.reactions(t, fmt.Sprint(number))
}

// CommentReactions are those of the reactions to a comment on an issue.
func (p *Place) CommentReactions(t testing.TB, comment int64) (out []string) {
	t.Helper()
	return p.reactions(t, fmt.Sprintf("comments/%d", comment))
}

func (p *Place) reactions(t testing.TB, to string) (out []string) {
	t.Helper()
	var all []struct{ Content string }
	must(t, Human{p: p, by: p.Owner}.call(t.Context(), http.MethodGet, fmt.Sprintf("/repos/%s/issues/%s/reactions", p.Repo, to), nil, &all))
	for _, r := range all {
		out = append(out, r.Content)
	}
	return out
}

// Checks lists the checks of a commit: the App's runs and the statuses of tokens.
func (p *Place) Checks(t testing.TB, oid string) []forge.Check {
	t.Helper()
	h := Human{p: p, by: p.Owner}
	var runs struct {
		Runs []struct {
			Name, Status, Conclusion string
			Output                   struct{ Summary, Text string }
		} `json:"check_runs"`
	}
	must(t, h.call(t.Context(), http.MethodGet, fmt.Sprintf("/repos/%s/commits/%s/check-runs", p.Repo, oid), nil, &runs))
	var out []forge.Check
	for _, r := range runs.Runs {
		state := map[string]forge.CheckState{"": forge.CheckRunning, "success": forge.CheckPassed, "failure": forge.CheckFailed}[r.Conclusion]
		out = append(out, forge.Check{Name: r.Name, Summary: r.Output.Summary, Detail: r.Output.Text, State: state})
	}
	var statuses []struct{ Context, State, Description string }
	must(t, h.call(t.Context(), http.MethodGet, fmt.Sprintf("/repos/%s/commits/%s/statuses", p.Repo, oid), nil, &statuses))
	for _, s := range statuses {
		state := map[string]forge.CheckState{"pending": forge.CheckRunning, "success": forge.CheckPassed, "failure": forge.CheckFailed}[s.State]
		out = append(out, forge.Check{Name: s.Context, Summary: s.Description, State: state})
	}
	return out
}
