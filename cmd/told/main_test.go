package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestI15_AFolderIsMeasured(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "<!-- x -->\n\n[a](b) [c](d)\n", "b/c.md": "[a](b)\n\n<script>\n", "d.txt": "![x](y)",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(dir, &out); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"link's address 3 2 " + dir + "/a.md:3", "HTML comment 1 1 " + dir + "/a.md:1", "refused: instruction.hidden_content 1 1 " + dir + "/b/c.md",
		"2 texts, 1 of them refused",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if err := run(filepath.Join(dir, "none"), &out); err == nil {
		t.Error("a folder that isn't there is measured")
	}
	if err := run(t.TempDir(), &out); err == nil {
		t.Error("an empty folder is measured")
	}
}
