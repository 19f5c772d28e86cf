package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/webhook"
)

// onBase adds a commit to the base, straight into the repository, of which no hook
// tells.
func (p *forgePlace) onBase(message string) {
	p.t.Helper()
	bare := p.Store.GitDir(p.Repo.ID)
	out := gittest.Git(p.t, bare, "-c", "user.name=ana", "-c", "user.email=ana@example.com", "commit-tree", "main^{tree}", "-p", "main", "-m", message)
	gittest.Git(p.t, bare, "update-ref", "refs/heads/main", strings.TrimSpace(out))
}

// TestF7_RevertOnTheBase: work that is taken back on the base is put back open,
// though nobody told of the push, nor of the merge before it, and nothing changed on
// the issue. A person's closing then stands.
func TestF7_RevertOnTheBase(t *testing.T) {
	for name, told := range map[string]bool{"told of the merge": true, "told of nothing": false} {
		t.Run(name, func(t *testing.T) {
			p := newForgePlace(t)
			s := p.serve()
			n := p.File("default")
			p.Approve(n)
			p.until("the issue is closed", func() bool { return p.Issue(n).State == forge.Closed })
			p.until("it is left alone", func() bool { return p.metric("writ_tasks_running") == 0 && p.metric("writ_schedule_due") == 0 })
			if !told {
				must(t, p.Store.ForgetHook(t.Context(), "http://"+p.hook+"/hooks/local"))
			}
			change, err := p.Maintainer.FindChange(t.Context(), p.Repo, "writ/change/1")
			must(t, err)
			change, err = p.Maintainer.MergeChange(t.Context(), p.Repo, change.Number)
			must(t, err)
			says := func(words string) bool {
				return slices.ContainsFunc(p.BotComments(n), func(body string) bool { return strings.Contains(body, words) })
			}
			if told {
				p.until("it says that the change is merged", func() bool { return says("its change is merged") })
			}
			p.onBase("Revert \"Say hello\"\n\nThis reverts commit " + change.MergedOID + ".")
			p.until("it is put back open", func() bool { return p.Issue(n).State == forge.Open && says("its change was reverted") })
			p.until("the base was looked through", func() bool { return strings.Contains(s.log.String(), "take back work") })
			must(t, p.Maintainer.SetState(t.Context(), p.Repo, n, forge.Closed))
			p.onBase("Once more\n\nThis reverts commit " + change.MergedOID + ".")
			p.until("it is looked at again", func() bool { return strings.Count(s.log.String(), "take back work") > 1 })
			p.until("it is left alone", func() bool { return p.metric("writ_tasks_running") == 0 && p.metric("writ_schedule_due") == 0 })
			if p.Issue(n).State != forge.Closed {
				t.Error("a person's closing doesn't stand")
			}
		})
	}
}

// TestF7_PushIsAHint: a delivery that tells of a push to a branch has that world's
// base looked at.
func TestF7_PushIsAHint(t *testing.T) {
	p := newForgePlace(t)
	a := newApp(strings.NewReader(""), io.Discard, io.Discard, append(os.Environ(), p.env...))
	cfg, err := a.load(p.config())
	must(t, err)
	s, err := a.newServer(t.Context(), cfg)
	must(t, err)
	defer s.close()
	in := told{accepting{}, s}
	for world, want := range map[string]int{"": 0, "local/o/n": 1} {
		_, err := in.Accept(t.Context(), webhook.Delivery{Hook: "local", Event: webhook.Event{Pushed: world}})
		must(t, err)
		if got := s.bases.take(); len(got) != want {
			t.Errorf("a push to %q: %v", world, got)
		}
	}
}
