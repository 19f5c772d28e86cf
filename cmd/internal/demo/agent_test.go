package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/executor/builder"
)

// TestFind: what is no program is said before anything is started, whether it is named
// itself or lies where npm installs.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inside := strings.ReplaceAll(builder.KindPackage("claude-code").Program, "*", "x")
	write("installed/node_modules/"+inside, "#!/bin/sh\n", 0o700)
	write("broken/node_modules/"+inside, "nothing", 0o700)
	for path, want := range map[string]string{
		write("a/b/c/d/script", "#!/bin/sh\n", 0o700):     "",
		write("a/b/c/d/binary", "\x7fELF\x02\x01", 0o700): "",
		write("a/b/c/d/notes", "read me\n", 0o600):        "may be executed",
		write("a/b/c/d/marked", "read me\n", 0o700):       "neither as one of this system",
		write("a/b/c/d/empty", "", 0o700):                 "neither as one of this system",
		filepath.Join(dir, "a"):                           "is there 0 times",
		filepath.Join(dir, "none"):                        "is there 0 times",
		filepath.Join(dir, "installed"):                   "",
		filepath.Join(dir, "broken"):                      "is no program",
		"/dev/null":                                       "may be executed",
	} {
		found, err := Find("claude-code", path)
		if want == "" && (err != nil || !strings.HasPrefix(found.Program, path)) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v %v", path, found, err)
		}
	}
}
