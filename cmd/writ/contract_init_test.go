package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/onboard"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel"
)

// TestContractInit_AtForge: with the configuration of the server the files are
// proposed, once.
func TestContractInit_AtForge(t *testing.T) {
	t.Parallel()
	p := localtest.New(t)
	config := filepath.Join(t.TempDir(), "writ.yaml")
	must(t, os.WriteFile(config, []byte("forges: {local: {dir: "+p.Dir+", url: '"+p.URL+"', repositories: [o/n]}}\n"), 0o600))
	writ := func(want int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		exit := Main(append([]string{"contract", "init", "--config", config}, args...), strings.NewReader(""), &out, &out, []string{"WRIT_LOCAL_TOKEN=" + p.Token})
		if exit != want || !strings.Contains(out.String(), says) || strings.Contains(out.String(), p.Token) {
			t.Errorf("%v: exit %d: %s", args, exit, &out)
		}
	}
	writ(problem.ExitUsage, "go together")
	writ(problem.ExitUsage, "give OWNER/NAME", "--repo", "n")
	writ(problem.ExitUsage, "not among the repositories", "--repo", "o/other")
	writ(problem.ExitUsage, "not among the repositories", "--repo", "o/n", "--forge", "gitlab")
	writ(problem.ExitDone, "opened the change", "--repo", "o/n")
	writ(problem.ExitDone, "is open already", "--repo", "o/n")
	change, err := p.Maintainer.FindChange(t.Context(), p.Repo, onboard.Branch, "")
	must(t, err)
	if change.Author.ID != p.Bot.ID || change.State != forge.ChangeOpen {
		t.Errorf("%+v", change)
	}
	must(t, p.Maintainer.CloseChange(t.Context(), p.Repo, change.Number))
	writ(problem.ExitDone, "was closed by somebody", "--repo", "o/n")
}

// TestOnboarding_WatchesThenWorks: from the request to the first merged task. Once
// the contract is merged writ says what it would do; once its line is changed it
// works; and the issue is closed at the merge.
func TestOnboarding_WatchesThenWorks(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	if exit, out := p.cli("contract", "init", "--config", p.Config(), "--repo", "o/n"); exit != problem.ExitDone {
		t.Fatalf("exit %d: %s", exit, out)
	}
	p.Serve()
	change, err := p.Maintainer.FindChange(t.Context(), p.Repo, onboard.Branch, "")
	must(t, err)
	_, err = p.Maintainer.MergeChange(t.Context(), p.Repo, change.Number)
	must(t, err)
	n := p.File("default")
	p.Approve(n)
	p.Until("writ says what it would do", func() bool {
		return strings.Contains(strings.Join(p.BotComments(n), "\n"), string(kernel.CodeObserveOnly))
	})
	if head := p.Head(n); head != "" {
		t.Fatalf("it is %s all the same", head)
	}
	files := map[string]string{"README": "hi\n"}
	for _, f := range onboard.Files(onboard.Local) {
		files[f.Path] = strings.Replace(string(f.Data), "\nmode: observe\n", "\nmode: govern\n", 1)
	}
	bare := p.Store.GitDir(p.Repo.ID)
	gittest.Commit(t, bare, "refs/heads/main", strings.TrimSpace(gittest.Git(t, bare, "rev-parse", "main")), files)
	p.Says(n, "/writ run")
	p.Until("the work is done, and waits for the merge", func() bool { return p.Head(n) == "waiting" })
	var made forge.Change
	p.Until("its change is there", func() bool {
		made, err = p.Maintainer.FindChange(t.Context(), p.Repo, fmt.Sprintf("writ/change/%d", n), "")
		return err == nil
	})
	if i := p.Issue(n); i.State != forge.Open {
		t.Error("the issue was closed before the merge")
	}
	_, err = p.Maintainer.MergeChange(t.Context(), p.Repo, made.Number)
	must(t, err)
	p.Until("the issue is closed at the merge", func() bool { return p.Issue(n).State == forge.Closed })
	if head := p.Head(n); head != "completed" {
		t.Errorf("HEAD is %s", head)
	}
}
