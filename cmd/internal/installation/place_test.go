package installation

import (
	"testing"

	"github.com/writbot/writ/cmd/internal/problem"
)

func TestTaskNumber(t *testing.T) {
	for file, want := range map[string]int64{
		"12-fix.md": 12, "7.md": 7, "dir/007-x.md": 7, "fix.md": 1, "0-x.md": 1, "99999999999999999999.md": 1, "5": 5, "a12.md": 1,
	} {
		if got, err := TaskNumber(0, false, file); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", file, got, err, want)
		}
	}
}

// TestG1_Places: what --repo may be, and what its world is called.
func TestG1_Places(t *testing.T) {
	for repo, want := range map[string]string{
		"https://github.com/o/r.git": "github.com/o/r",
		"https://host:8443/o/r/":     "host-8443/o/r",
		"ssh://git@host/o/r":         "host/o/r",
		"git@host:o/r.git":           "host/o/r",
		"file:///srv/git/r.git":      "local/git/r",
		"/srv/git/r.git":             "local/git/r",
		"/srv/project/.git":          "local/srv/project",
		"/srv/a b/ü.git":             "local/a-b/x",
		"/":                          "local/x/x",
	} {
		p, err := NewPlace(repo)
		if err != nil || p.Display != want || p.World != want {
			t.Errorf("%s: %q, %v, want %q", repo, p.World, err, want)
		}
	}
	for _, repo := range []string{
		"", "-x", "--upload-pack=x", "ext::sh -c id", "fd::17", "https://h/a\nb", "https://u:p@h/a", "https://h/../a",
		"ssh://-oProxyCommand=id/x", "http:///x", "javascript://x/y", "/a\\b", "/a\x00b", "https://h/a?x", "https://h/a#x",
	} {
		if p, err := NewPlace(repo); err == nil || problem.Explain(err).Exit != problem.ExitUsage {
			t.Errorf("%q: %+v, %v", repo, p, err)
		}
	}
}

func TestPlaces_OfOneNameDiffer(t *testing.T) {
	a, _ := NewPlace("/srv/a/r")
	b, _ := NewPlace("/srv/b/r")
	if a.Name != b.Name || a.Key == b.Key {
		t.Errorf("%+v %+v", a, b)
	}
}
