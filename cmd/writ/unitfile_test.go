package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/kernel"
)

// TestUnitFile_RestartsWhereItMust holds the unit file of the documentation to the
// exit statuses: what mends itself, or is mended outside of writ, is tried again for
// ever, and what only another configuration mends is not.
func TestUnitFile_RestartsWhereItMust(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n```ini\n")
	unit, _, _ := strings.Cut(after, "\n```\n")
	set := map[string]string{}
	for line := range strings.Lines(unit) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		set[key] = value
	}
	never := strings.Fields(set["RestartPreventExitStatus"])
	if set["Restart"] != "always" || !slices.Equal(never, []string{"2"}) {
		t.Fatalf("it restarts %q, never after %q", set["Restart"], never)
	}
	// systemd gives up after 5 starts within 10 seconds, unless they are further apart.
	if rest, err := time.ParseDuration(set["RestartSec"] + "s"); err != nil || rest < 3*time.Second || set["StartLimitBurst"] != "" {
		t.Errorf("it gives up after a few starts: every %s s", set["RestartSec"])
	}
	for _, c := range []kernel.Code{
		kernel.CodeEnvStore, kernel.CodeEnvState, kernel.CodeEnvDisk, kernel.CodeEnvRepository, kernel.CodeLedgerUnavailable,
		kernel.CodeForgeUnreachable, kernel.CodeForgeCredential, kernel.CodeStateInUse, kernel.CodeSandboxUnavailable, kernel.CodeMachinePanic,
	} {
		if exit := problem.ExitOfCode(c); exit == problem.ExitUsage || exit == problem.ExitDone {
			t.Errorf("%s ends with %d, after which nothing starts it again", c, exit)
		}
	}
	if problem.ExitOfCode(kernel.CodeConfigInvalid) != problem.ExitUsage {
		t.Error("a configuration that can't be used is tried for ever")
	}
}
