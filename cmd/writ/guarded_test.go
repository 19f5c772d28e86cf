package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/forge/git/gittest"
)

// TestP1_GuardedPathServed: a server leaves work that changes a guarded path unpushed, the
// command shows what the path would hold as the issue does, and once a maintainer accepts
// that in a comment, the next server delivers it.
func TestP1_GuardedPathServed(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	bare := p.Store.GitDir(p.Repo.ID)
	main := strings.TrimSpace(gittest.Git(t, bare, "rev-parse", "refs/heads/main"))
	gittest.Commit(t, bare, "refs/heads/main", main, map[string]string{"README": "hi\n", ".writ/contract.yaml": "version: 1\npaths: {guarded: [out.txt]}\n"})
	s := p.Serve()
	p.UntilReady()
	n := p.File("default")
	p.Approve(n)
	p.Until("the work waits", func() bool { return p.Head(n) == "waiting" })
	show := []string{"task", "show", fmt.Sprint(n), "--state-dir", p.State(), "--diff"}
	p.want(problem.ExitDone, "added out.txt, mode 100644\n@@ line 1, now 1 @@\n+hello\n", show...)
	_, out := p.cli(show...)
	_, line, _ := strings.Cut(out, "/writ accept ")
	line = "/writ accept " + strings.TrimSpace(line)
	p.Until("the issue says so", func() bool {
		comments := p.BotComments(n)
		return len(comments) > 0 && strings.Contains(comments[0], "```\n"+line+"\n```") && strings.Contains(comments[0], "+hello\n")
	})
	if got := gittest.Git(t, bare, "for-each-ref", "refs/heads/writ"); got != "" {
		t.Errorf("there are branches %q", got)
	}
	s.End()
	p.Says(n, line)
	s = p.Serve()
	p.Until("it is delivered", func() bool { return p.Head(n) == "completed" })
	if got := gittest.Git(t, bare, "show", fmt.Sprintf("refs/heads/writ/change/%d:out.txt", n)); got != "hello" {
		t.Errorf("delivered was %q", got)
	}
	p.want(problem.ExitUsage, "has no sealed work that waits", show...)
	s.End()
}
