package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// TestStart_TheCallersSettings: of what is set for a writ of the caller's own the demo's sees
// nothing, and of everything else all.
func TestStart_TheCallersSettings(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "writ")
	gittest.WriteProgram(t, program, "#!/bin/sh\nenv | sort\n")
	t.Setenv("WRIT_LOCAL_TOKEN_FILE", "/nonexistent")
	t.Setenv("WRIT_LOCAL_HOOK_SECRET", "the caller's")
	t.Setenv("WRIT_GITHUB_PRIVATE_KEY", "the caller's")
	t.Setenv("LANG", "C.UTF-8")
	s := &show{o: Options{Writ: program}, dir: dir, token: "a token", secret: "a secret"}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	if err := <-s.writ.ended; err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "writ.log"))
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "WRIT_") {
			own = append(own, line)
		}
	}
	if got := strings.Join(own, ""); got != "WRIT_LOCAL_HOOK_SECRET=a secret\nWRIT_LOCAL_TOKEN=a token\n" || !strings.Contains(string(data), "LANG=C.UTF-8\n") {
		t.Errorf("the demo's writ is started with\n%s", data)
	}
}
