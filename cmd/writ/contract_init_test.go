package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/onboard"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local/localtest"
)

// TestContractInit_AtForge: with the configuration of the server the files are
// proposed, once.
func TestContractInit_AtForge(t *testing.T) {
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
	writ(exitUsage, "go together")
	writ(exitUsage, "give OWNER/NAME", "--repo", "n")
	writ(exitUsage, "not among the repositories", "--repo", "o/other")
	writ(exitUsage, "not among the repositories", "--repo", "o/n", "--forge", "gitlab")
	writ(exitDone, "opened the change", "--repo", "o/n")
	writ(exitDone, "is open already", "--repo", "o/n")
	change, err := p.Maintainer.FindChange(t.Context(), p.Repo, onboard.Branch)
	must(t, err)
	if change.Author.ID != p.Bot.ID || change.State != forge.ChangeOpen {
		t.Errorf("%+v", change)
	}
	must(t, p.Maintainer.CloseChange(t.Context(), p.Repo, change.Number))
	writ(exitDone, "was closed by somebody", "--repo", "o/n")
}
