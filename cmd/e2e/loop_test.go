package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/demo"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github/githubtest"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/forge/worldtest"
)

// TestLoop: the four issues of the demonstration, with its repository and its
// builders, told by each forge's own webhook: one is done, one is refused twice
// and blocked, one is done although writ is killed in the middle of it, and one
// whose text was changed after its approval waits. A fifth, which nobody approves,
// is left alone. At the end everything verifies offline.
func TestLoop(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		s.shipped = true
		files, err := demo.Sample()
		s.must(err)
		sample := map[string]string{}
		for path, data := range files {
			sample[path] = string(data)
		}
		s.Commit(t, sample)
		mark := fmt.Sprintf("loop-%s-%d", s.Forge, os.Getpid())
		script := write(t, s.dir, "builders/builders.sh", string(demo.Builders()))
		s.must(os.Chmod(script, 0o644)) // the sandbox reads it as another user
		// In its first life writ has a slow builder that would never end.
		s.demoBuilders(mark, "600")
		first := s.serve()
		alone := s.file("Nobody approves this", demo.Issues()[demo.Renamed].Body())
		numbers := s.fileAll()
		s.until("the slow builder works", func() bool { return len(processes(mark)) > 0 })
		first.kill()
		s.until("nothing of the builder is left", func() bool { return len(processes(mark)) == 0 })
		edited := numbers[demo.Edited]
		s.approve(edited)
		text := demo.Issues()[demo.Edited]
		s.must(s.Reader.EditIssue(t.Context(), s.Repo, edited, text.Title, strings.Replace(text.Body(), "tidy", "rewrite", 1)))
		s.demoBuilders(mark, "0")
		second := s.serve()
		localtest.Until(t, 5*time.Minute, "all four have ended", func() bool {
			return s.done(numbers[demo.Renamed]) && s.done(numbers[demo.Survived]) && s.blocked(numbers[demo.Strayed]) && s.asksAgain(edited)
		})
		s.wantEnds(numbers)
		s.wantNothing(alone)
		second.end()
		shown := writ(t, s.all(), "task", "show", fmt.Sprint(numbers[demo.Survived]), "--state-dir", s.statePath(), "--config", s.config()).want(t, 0)
		if !strings.Contains(shown.stdout, "completed") {
			t.Errorf("the task is shown as %s", shown.stdout)
		}
		writ(t, nil, "verify", "--state-dir", s.statePath()).want(t, 0)
		s.wantNoSecret(first.log.String(), second.log.String())
	})
}

// demoBuilders are those of the demonstration; the slow one takes so many seconds.
func (s *forgeSite) demoBuilders(mark, slow string) {
	var all []string
	for _, b := range []string{"rename", "stray", "slow"} {
		argument := b
		if b == "slow" {
			argument += ", " + mark
		}
		all = append(all, fmt.Sprintf("%s: {argv: [sh, /builders/builders.sh, %s], ro: ['%s/builders:/builders'], env: {SLOW: '%s'}}", b, argument, s.dir, slow))
	}
	s.builders = strings.Join(all, "\n  ")
}

// fileAll files the four issues, and approves all but the one that is to be edited.
func (s *forgeSite) fileAll() (numbers []int64) {
	s.t.Helper()
	for n, i := range demo.Issues() {
		numbers = append(numbers, s.file(i.Title, i.Body()))
		if n != demo.Edited {
			s.approve(numbers[n])
		}
	}
	return numbers
}

func (s *forgeSite) blocked(n int64) bool {
	return s.head(n) == "blocked" && s.tells(n, "task_final_state: `blocked`") && count(s.ours(n), "writ:blocked") == 1 && len(s.said(n, "alert:")) > 0
}

// asksAgain reports whether writ says that the text of an issue needs an approval.
// GitHub's times are of whole seconds and GitLab shows no former text: there
// nobody can say what was approved, where the delivery that would was lost.
func (s *forgeSite) asksAgain(n int64) bool {
	unproven := s.Forge != "local" && s.tells(n, "authority.unproven") && s.tells(n, "/writ approve")
	return unproven || s.tells(n, "instruction.changed_after_approval")
}

// wantEnds fails unless the four issues ended as the demonstration says.
func (s *forgeSite) wantEnds(numbers []int64) {
	s.t.Helper()
	for i, n := range numbers {
		switch i {
		case demo.Renamed, demo.Survived:
			s.wantDone(n)
		case demo.Strayed:
			said := s.said(n, "task:")
			if len(said) != 1 || !strings.Contains(said[0], "execution.scope.violation") || len(s.said(n, "alert:")) != 1 {
				s.t.Errorf("#%d says %q", n, s.said(n, ""))
			}
			if s.issue(n).State != forge.Open || s.closings(n) != 0 || s.trailer(n, "writ-attempt") != "2" || len(s.ours(n)) != 1 {
				s.t.Errorf("#%d is %+v, after %s attempts", n, s.issue(n), s.trailer(n, "writ-attempt"))
			}
			s.replays(n)
		default:
			if s.issue(n).State != forge.Open || s.ref(n) != "" {
				s.t.Errorf("#%d is %s and at %q", n, s.issue(n).State, s.head(n))
			}
		}
	}
}

// TestServe_GitHubPolls: with a personal token and without any webhook. The
// owner's own label counts.
func TestServe_GitHubPolls(t *testing.T) {
	t.Parallel()
	p := githubtest.Start(t).Place(t, githubtest.Options{})
	s := newForgeSite(t, &worldtest.World{
		Forge: "github", Repo: p.Repo, Maintainer: p.As(t, p.Maintainer), Reader: p.As(t, p.Reader), Bot: p.Maintainer.ID, GitDir: p.GitDir,
		Config: fmt.Sprintf("github: {url: '%s', api: '%s', token: MINE, repositories: [%s], proxy: none}", p.GitURL, p.URL, p.Repo),
		Env:    []string{"MINE=" + p.Maintainer.Token}, Secrets: []string{p.Maintainer.Token},
		Checks: func(t testing.TB, oid string) []forge.Check { t.Helper(); return p.Checks(t, oid) },
	})
	s.server = ", intake: poll, poll: 1s"
	s.must(s.Maintainer.EnsureLabels(t.Context(), s.Repo, []forge.Label{{Name: worldtest.Label, Color: "0e8a16"}}))
	v := s.serve()
	if status := s.get("/hooks/github"); status != http.StatusNotFound {
		t.Errorf("without webhooks /hooks/github answers %d", status)
	}
	n := s.file("Say hello", localtest.Asks("default"))
	s.approve(n)
	s.until("it is done", func() bool { return s.done(n) })
	v.end()
	s.wantDone(n)
	s.wantNoSecret(v.log.String())
}
