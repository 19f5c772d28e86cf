package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestIDsIn(t *testing.T) {
	for name, want := range map[string]string{
		"TestL2_IdenticalLeaseCommits": "L2",
		"TestSim_K7":                   "K7",
		"TestK1_K2_Killed":             "K1 K2",
		"TestScope/S1_symlink":         "S1",
		"TestScope/S1#01":              "S1",
		"FuzzL13_Trailers/seed#0":      "L13",
		"TestM1_Pairs/IDLE/S4_mode":    "M1 S4",
		"TestSHA256_L":                 "",
		"TestL2x_Y":                    "",
		"TestXL2_Y":                    "",
		"TestA1_Y":                     "",
		"":                             "",
	} {
		if got := strings.Join(idsIn(name), " "); got != want {
			t.Errorf("idsIn(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestParseListFaults(t *testing.T) {
	for text, want := range map[string]string{
		"L1 owed":               "want an id",
		"Q1 owed a phrase":      "want an id",
		"# c\nL1 soon a phrase": "line 2",
		"L1 owed a\nL1 later b": "twice",
	} {
		if _, err := parseList(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseList(%q): %v, want %q", text, err, want)
		}
	}
}

// TestTheList pins the groups and how many cases each has, so that a case can't
// be lost by an edit.
func TestTheList(t *testing.T) {
	list, err := parseList(listText)
	if err != nil {
		t.Fatal(err)
	}
	want := map[byte]int{'W': 14, 'I': 17, 'L': 19, 'K': 12, 'S': 18, 'G': 7, 'X': 22, 'F': 7, 'J': 7, 'R': 11, 'M': 4}
	got := map[byte]int{}
	for _, c := range list {
		got[c.id[0]]++
	}
	for group, n := range want {
		if got[group] != n {
			t.Errorf("group %c has %d cases, want %d", group, got[group], n)
		}
	}
}

// TestNamesAreListed: no test of the repository bears the id of a case that the list
// doesn't have. The table says it too, but only after every test has run.
func TestNamesAreListed(t *testing.T) {
	list, err := parseList(listText)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, c := range list {
		ids[c.id] = true
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example|Benchmark)\w+)\(`)
	found := 0
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			for _, id := range idsIn(string(m[1])) {
				if found++; !ids[id] {
					t.Errorf("%s: %s names the case %s, which cases.txt doesn't have", path, m[1], id)
				}
			}
		}
		return nil
	})
	if err != nil || found < len(list) {
		t.Fatalf("%d names of cases were found, error %v: want at least %d", found, err, len(list))
	}
}

const stream = `
{"Action":"run","Package":"github.com/writbot/writ/forge/git","Test":"TestL2_Same"}
{"Action":"output","Package":"github.com/writbot/writ/forge/git","Test":"TestL2_Same","Output":"=== RUN\n"}
{"Action":"pass","Package":"github.com/writbot/writ/forge/git","Test":"TestL2_Same/a","Elapsed":0.1}
{"Action":"pass","Package":"github.com/writbot/writ/forge/git","Test":"TestL2_Same","Elapsed":0.1}
{"Action":"skip","Package":"github.com/writbot/writ/forge/git","Test":"TestL3_Gone"}
{"Action":"pass","Package":"github.com/writbot/writ/forge/git"}
`

func table(t *testing.T, list, run string) (string, bool) {
	t.Helper()
	cases, err := parseList(list)
	if err != nil {
		t.Fatal(err)
	}
	res, err := readRun(strings.NewReader(run))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ok := printTable(&out, cases, res)
	return out.String(), ok
}

func TestTable(t *testing.T) {
	const fail = `{"Action":"fail","Package":"github.com/writbot/writ/x","Test":"TestL1_X"}`
	for _, c := range []struct {
		name, list, run string
		ok              bool
		want            []string
	}{
		{"all held", "L2 owed same\nL9 later frozen", stream, true,
			[]string{"ok       L2   same\n", "              forge/git TestL2_Same\n", "later    L9   frozen\n", "1 of 1 owed cases held, 1 later"}},
		{"a skipped test holds nothing", "L2 owed same\nL3 owed gone", stream, false, []string{"MISSING  L3   gone"}},
		{"a failing one outweighs a passing one", "L1 owed many", strings.Replace(fail, "fail", "pass", 1) + fail, false,
			[]string{"FAILED   L1   many", "FAILED   x TestL1_X"}},
		{"a test that ran twice", "L2 owed same", stream + stream, true, []string{"              forge/git TestL2_Same\n\n"}},
		{"later but failing", "L1 later many", fail, false, []string{"FAILED   L1   many"}},
		{"unlisted", "L1 later many", stream, false, []string{"UNKNOWN  L2   not in cases.txt; named by forge/git TestL2_Same"}},
		{"a package that doesn't build", "L2 owed same",
			stream + `{"Action":"build-fail","ImportPath":"github.com/writbot/writ/y"}`, false, []string{"writ/y (build)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := table(t, c.list, c.run)
			if ok != c.ok {
				t.Errorf("held: %v, want %v", ok, c.ok)
			}
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("no %q in:\n%s", w, got)
				}
			}
			if strings.Contains(got, "TestL2_Same/a") {
				t.Errorf("a subtest is named beside its test:\n%s", got)
			}
		})
	}
}

func TestTableNamesAFewTests(t *testing.T) {
	var run strings.Builder
	for _, n := range []string{"A", "B", "C", "D", "E", "F"} {
		run.WriteString(`{"Action":"pass","Package":"p","Test":"Test` + n + `_L1"}`)
	}
	got, _ := table(t, "L1 owed x", run.String())
	if !strings.Contains(got, "p TestD_L1") || strings.Contains(got, "TestE_L1") || !strings.Contains(got, "and 2 more") {
		t.Errorf("want four tests and a count:\n%s", got)
	}
}

func TestReadRunFaults(t *testing.T) {
	for name, in := range map[string]string{"silence": "", "not JSON": `{"Action":"pass"} FAIL x [setup failed]`} {
		if _, err := readRun(strings.NewReader(in)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestRunReallyTests runs go test on a module of its own, with one case that
// passes and one that fails.
func TestRunReallyTests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.test/m\n\ngo 1.26\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestL1_Good(t *testing.T) {}\nfunc TestL2_Bad(t *testing.T) { t.Fail() }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out, errs bytes.Buffer
	ok, err := run(context.Background(), nil, nil, &out, &errs)
	if err != nil || ok {
		t.Fatalf("ok %v, error %v, want a run that isn't ok\n%s", ok, err, &errs)
	}
	for _, want := range []string{"ok       L1 ", "FAILED   L2 ", "MISSING  L3 ", "FAILED   example.test/m TestL2_Bad"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
}

func TestRunFromFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, []byte(stream), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{file, "-"} {
		var out bytes.Buffer
		ok, err := run(context.Background(), []string{"-in", in}, strings.NewReader(stream), &out, &out)
		if err != nil || ok {
			t.Errorf("-in %s: ok %v, error %v: want most cases missing", in, ok, err)
		}
		if lines := strings.Split(out.String(), "\n"); !slices.Contains(lines, "              forge/git TestL2_Same") {
			t.Errorf("-in %s: the test is not in the table:\n%s", in, &out)
		}
	}
}
