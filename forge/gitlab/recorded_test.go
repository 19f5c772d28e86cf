package gitlab

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// recorded is an answer of GitLab's that the library keeps.
func recorded(t *testing.T, name string) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/xanzy/go-gitlab").Output()
	ok(t, err)
	raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", name))
	ok(t, err)
	return string(raw)
}

// TestRecorded: answers that GitLab gave are read.
func TestRecorded(t *testing.T) {
	w := newWorld(t)
	var all []struct {
		IID     int64  `json:"iid"`
		Project int64  `json:"source_project_id"`
		Head    string `json:"source_branch"`
		Title   string
		SHA     string
	}
	raw := recorded(t, "get_merge_requests.json")
	ok(t, json.Unmarshal([]byte(raw), &all))
	for _, one := range all {
		w.Lie("GET", "/merge_requests", 1, gitlabtest.Fault{Status: http.StatusOK, Body: raw})
		w.Lie("GET", "/users/", 1, gitlabtest.Refuse(http.StatusNotFound))
		got := must[forge.Change](t)(w.bot.FindChange(t.Context(), forge.Repo{ID: one.Project}, one.Head, ""))
		if got.Head != one.Head || got.HeadOID != one.SHA || got.Number <= changeBase || got.State == "" || got.Author.ID == 0 || !strings.Contains(one.Title, got.Title) {
			t.Errorf("%+v was read as %+v", one, got)
		}
		w.Honest()
	}
	if len(all) == 0 {
		t.Error("there is no sample")
	}
	w.Lie("GET", "/user", 1, gitlabtest.Fault{Status: http.StatusOK, Body: recorded(t, "get_user.json")})
	if got := must[forge.User](t)(w.bot.Self(t.Context())); got.ID == 0 || got.Login == "" || got.Kind != forge.Person {
		t.Errorf("an account was read as %+v", got)
	}
}

// TestList_OtherWorkItems: tasks and incidents are listed with issues; hooks call
// them by another name, and so they are left out.
func TestList_OtherWorkItems(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	how := creating("file a task")
	_, _, err := w.owner.host.api.Issues.CreateIssue(int(w.repo.ID), &gitlab.CreateIssueOptions{Title: ptr("A task"), IssueType: ptr("task")}, how.in(t.Context()))
	ok(t, err)
	var listed []int64
	ok(t, w.bot.ListIssues(t.Context(), w.repo, time.Time{}, func(i forge.Issue) error {
		listed = append(listed, i.Number)
		return nil
	}))
	if len(listed) != 1 || listed[0] != i.Number {
		t.Errorf("listed %v, the issue is %d", listed, i.Number)
	}
}
