package tick

import (
	"strings"
	"testing"
)

// tree is a file's kind by its path: x executable, - regular, otherwise a link.
type tree map[string]string

func (f tree) Kind(path string) (FileKind, bool) {
	switch v, ok := f[path]; {
	case !ok:
		return FileOther, false
	case v == "x":
		return FileExecutable, true
	case v == "-":
		return FileRegular, true
	case v == "module":
		return FileOther, true
	}
	return FileLink, true
}

func (f tree) Target(path string) string { return f[path] }

// TestA9_TheStateSelectsTheCommand and nothing leads out of the command directory.
func TestA9_TheStateSelectsTheCommand(t *testing.T) {
	files := tree{
		"command/build": "x", "command/sub/build": "x", "command/text": "-", "command/module": "module",
		"command/alias": "build", "command/up": "../lib/tool", "command/out": "../../bin/sh", "command/abs": "/bin/sh",
		"command/loop": "loop", "command/linked": "../command", "command/role-only": "../roles/ops/command/check",
		"command/around": "../command/build", "command/dangling": "nothing", "command/dir/x": "x", "lib/tool": "x",
		"roles/ops/command/build": "x", "roles/ops/command/check": "x", "roles/ops/command/text": "-",
		"roles/ops/command/shared": "../../../command/build",
	}
	for _, c := range []struct {
		role, state string
		found       Found
		file        string
	}{
		{"", "build", FoundCommand, "command/build"},
		{"", "sub/build", FoundCommand, "command/sub/build"},
		{"", "gone", FoundNothing, ""},
		{"", "text", FoundNotExecutable, ""},
		{"", "module", FoundNotExecutable, ""},
		{"", "dir", FoundNothing, ""},
		{"", "alias", FoundCommand, "command/build"},
		{"", "around", FoundCommand, "command/build"},
		{"", "linked/build", FoundCommand, "command/build"},
		{"", "dangling", FoundNothing, ""},
		{"", "up", FoundOutside, ""},
		{"", "out", FoundOutside, ""},
		{"", "abs", FoundOutside, ""},
		{"", "loop", FoundOutside, ""},
		{"", "role-only", FoundOutside, ""},
		{"", "check", FoundNothing, ""},
		{"ops", "build", FoundCommand, "roles/ops/command/build"},
		{"ops", "check", FoundCommand, "roles/ops/command/check"},
		{"ops", "alias", FoundCommand, "command/build"},
		{"ops", "text", FoundNotExecutable, ""},
		{"ops", "shared", FoundOutside, ""},
		{"dev", "build", FoundCommand, "command/build"},
	} {
		got := Resolve(files, c.role, c.state)
		if got.Found != c.found || got.File != c.file {
			t.Errorf("%s/%s: %+v; want %s %s", c.role, c.state, got, c.found, c.file)
		}
	}
	for role, want := range map[string]bool{"ops": true, "": false, "../x": false, "a/b": false, "A": false} {
		if ValidRole(role) != want {
			t.Errorf("role %q", role)
		}
	}
}

// FuzzA9_NothingLeadsOut: whatever links there are, a command's file lies in a
// command directory.
func FuzzA9_NothingLeadsOut(f *testing.F) {
	f.Add("../../x", "../command", "a/../../..")
	f.Fuzz(func(t *testing.T, one, two, three string) {
		files := tree{"command/a": one, "command/b": two, "roles/r/command/a": three, "command/c": "x", "lib/x": "x", "x": "x"}
		for _, role := range []string{"", "r"} {
			for _, state := range []string{"a", "b", "a/c", "b/x"} {
				c := Resolve(files, role, state)
				if c.Found == FoundCommand && !strings.HasPrefix(c.File, "command/") && !strings.HasPrefix(c.File, "roles/r/command/") {
					t.Errorf("%s/%s leads to %s", role, state, c.File)
				}
			}
		}
	})
}
