package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
)

// TestIssueFile_EditAndLoss: an edit shows, a lost file doesn't.
func TestIssueFile_EditAndLoss(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "1.md")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# T\n\nB\n")
	f, err := newIssueFile(path, "me", 1)
	if err != nil {
		t.Fatal(err)
	}
	digest := func() string {
		t.Helper()
		i, err := f.Issue(context.Background(), supervisor.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := kernel.ApprovalDigest(i.Title, i.Body)
		if err != nil || i.Approved != f.approved {
			t.Fatal(err, i.Approved)
		}
		return string(d)
	}
	if got := digest(); got != string(f.approved) {
		t.Errorf("unchanged: %s", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := digest(); got != string(f.approved) {
		t.Errorf("lost: %s", got)
	}
	for _, text := range []string{"# T\n\nB!\n", "no issue any more", ""} {
		write(text)
		if got := digest(); got == string(f.approved) {
			t.Errorf("%q passes for what was approved", text)
		}
	}
}
