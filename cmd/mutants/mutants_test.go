package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sample is a repository with one defence and a test for it.
var sample = map[string]string{
	"go.mod": "module example.test/m\n\ngo 1.26\n",
	"m/m.go": "package m\n\n// Cap bounds n.\nfunc Cap(n int) int {\n\tif n > 3 {\n\t\treturn 3\n\t}\n\treturn n\n}\n",
	"m/m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestL1_Cap(t *testing.T) {\n\tif Cap(9) != 3 {\n\t\tt.Error(\"over\")\n\t}\n}\n\n" +
		"func TestL2_Blind(t *testing.T) {}\n\nfunc TestL3_Red(t *testing.T) { t.Fail() }\n\nfunc TestL4_Dies(t *testing.T) {\n\tif Cap(9) != 3 {\n\t\tpanic(\"over\")\n\t}\n}\n",
	".gitignore": "/bin/\n",
	"bin/big":    "built",
}

// uncap takes the defence out; broken spoils the file; astray fits nothing.
const (
	uncap  = "diff --git a/m/m.go b/m/m.go\n--- a/m/m.go\n+++ b/m/m.go\n@@ -3,7 +3,4 @@\n // Cap bounds n.\n func Cap(n int) int {\n-\tif n > 3 {\n-\t\treturn 3\n-\t}\n \treturn n\n }\n"
	broken = "diff --git a/m/m.go b/m/m.go\n--- a/m/m.go\n+++ b/m/m.go\n@@ -6,4 +6,4 @@\n \t\treturn 3\n \t}\n-\treturn n\n+\treturn x\n }\n"
	astray = "diff --git a/m/m.go b/m/m.go\n--- a/m/m.go\n+++ b/m/m.go\n@@ -6,4 +6,4 @@\n \t\treturn 4\n \t}\n-\treturn n\n+\treturn 0\n }\n"
)

// repository writes the sample and these patches and makes it the current one.
func repository(t *testing.T, patches map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range sample {
		put(name, text)
	}
	for name, text := range patches {
		put("testdata/mutants/"+name+".patch", text)
	}
	if _, err := output(t.Context(), dir, "git", "init", "-q"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	return dir
}

func TestMutate(t *testing.T) {
	dir := repository(t, map[string]string{
		"L1-cap":     "# test: ./m ^TestL1_\n" + uncap,
		"L1-cap-too": "# test: ./m ^TestL1_\n" + uncap,
		"L2-blind":   "# test: ./m ^TestL2_\n" + uncap,
		"L3-red":     "# test: ./m ^TestL3_\n" + uncap,
		"L4-dies":    "# test: ./m ^TestL4_\n" + uncap,
		"L5-none":    "# test: ./m ^TestL5_\n" + uncap,
		"L6-astray":  "# test: ./m ^TestL1_\n" + astray,
		"L7-broken":  "# test: ./m ^TestL1_\n" + broken,
	})
	var out bytes.Buffer
	ok, err := mutate(context.Background(), nil, &out, &out)
	if err != nil {
		t.Fatal(err)
	}
	if ok {
		t.Error("a survivor and a patch that doesn't apply were accepted")
	}
	for _, want := range []string{
		`killed  L1-cap .*: test failed`,
		`killed  L1-cap-too .*: test failed`,
		`ALIVE   L2-blind .*: SURVIVED`,
		`ALIVE   L3-red .*fails without any mutant`,
		`killed  L4-dies .*: test failed`,
		`ALIVE   L5-none .*names no test`,
		`ALIVE   L6-astray .*doesn't apply`,
		`ALIVE   L7-broken .*doesn't compile`,
		`3 of 8 mutants killed`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "m", "m.go")); err != nil || string(text) != sample["m/m.go"] {
		t.Errorf("the original was touched (error %v):\n%s", err, text)
	}
}

func TestMutateOnly(t *testing.T) {
	repository(t, map[string]string{"L1-cap": "# test: ./m ^TestL1_\n" + uncap, "L2-blind": "# test: ./m ^TestL2_\n" + uncap})
	var out bytes.Buffer
	if ok, err := mutate(context.Background(), []string{"-only", "L1", "-j", "1"}, &out, &out); err != nil || !ok {
		t.Errorf("ok %v, error %v, want all killed\n%s", ok, err, &out)
	}
	if _, err := mutate(context.Background(), []string{"-only", "Q9"}, &out, &out); err == nil {
		t.Error("a pattern that matches no patch is no error")
	}
}

func TestScratchLeavesOutWhatIsIgnored(t *testing.T) {
	dir := repository(t, nil)
	s, err := newScratch(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(filepath.Join(s.dir, "m", "m.go")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "bin")); err == nil {
		t.Error("what was built is in the copy")
	}
}

func TestParseMutantFaults(t *testing.T) {
	for name, text := range map[string]string{
		"no first line":  uncap,
		"no package":     "# test: ^TestL1_\n" + uncap,
		"foreign":        "# test: example.test/m ^TestL1_\n" + uncap,
		"unknown flag":   "# test: ./m ^TestL1_ -short\n" + uncap,
		"broken pattern": "# test: ./m ^TestL1_(\n" + uncap,
		"no diff":        "# test: ./m ^TestL1_\nnothing\n",
	} {
		file := filepath.Join(t.TempDir(), "x.patch")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := parseMutant(file); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRaceIsPassedOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.patch")
	if err := os.WriteFile(file, []byte("# test: ./m ^TestM4_ -race\n"+uncap), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := parseMutant(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, buildOnly := range []bool{true, false} {
		if args := strings.Join(m.test.args(buildOnly), " "); !strings.Contains(args, " -race ") {
			t.Errorf("go %s: no -race", args)
		}
	}
}

// TestMutateCheck only looks whether patches apply, and touches nothing.
func TestMutateCheck(t *testing.T) {
	dir := repository(t, map[string]string{"L1-cap": "# test: ./m ^TestL1_\n" + uncap, "L2-astray": "# test: ./m ^TestL2_\n" + astray})
	for pattern, want := range map[string]bool{"L1": true, "L": false} {
		var out, errs bytes.Buffer
		ok, err := mutate(context.Background(), []string{"-check", "-only", pattern}, &out, &errs)
		if err != nil || ok != want || strings.Contains(out.String(), "STALE   L2-astray") == want {
			t.Errorf("%s: %v %v\n%s", pattern, ok, err, &out)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "m", "m.go")); err != nil || string(text) != sample["m/m.go"] {
		t.Errorf("m.go is changed: %v", err)
	}
}
