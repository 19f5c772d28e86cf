package git_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

// TestVersion: the number that git itself prints; a program that is no git, and
// one that isn't there, are errors.
func TestVersion(t *testing.T) {
	got, err := git.Version(t.Context(), "")
	if err != nil || !strings.HasPrefix(gittest.Git(t, "/", "--version"), "git version "+got) {
		t.Errorf("version %q, %v", got, err)
	}
	other := filepath.Join(t.TempDir(), "git")
	gittest.WriteProgram(t, other, "#!/bin/sh\necho hello\n")
	for _, binary := range []string{other, "/nonexistent/git"} {
		if got, err := git.Version(t.Context(), binary); err == nil || git.CodeOf(err) != git.CodeLocal {
			t.Errorf("%s: version %q, %v", binary, got, err)
		}
	}
}
