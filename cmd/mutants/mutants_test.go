package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sample is a repository with one defence in one package, tests for it there and
// in another, and a file that a test reads by itself.
var sample = map[string]string{
	"go.mod": "module example.test/m\n\ngo 1.26\n",
	"m/m.go": "package m\n\n// Cap bounds n.\nfunc Cap(n int) int {\n\tif n > 3 {\n\t\treturn 3\n\t}\n\treturn n\n}\n",
	"m/m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestL1_Cap(t *testing.T) {\n\tif Cap(9) != 3 {\n\t\tt.Error(\"over\")\n\t}\n}\n\n" +
		"func TestL2_Blind(t *testing.T) {}\n\nfunc TestL3_Red(t *testing.T) { t.Fail() }\n\nfunc TestL4_Dies(t *testing.T) {\n\tif Cap(9) != 3 {\n\t\tpanic(\"over\")\n\t}\n}\n",
	"n/n_test.go": "package n\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n\t\"strings\"\n\t\"testing\"\n\n\t\"example.test/m/m\"\n)\n\n" +
		"func TestMain(t *testing.M) {\n\tif exec.Command(\"go\", \"build\", \"-o\", os.DevNull, \"../p\").Run() != nil {\n\t\tos.Exit(1)\n\t}\n\tos.Exit(t.Run())\n}\n\n" +
		"func TestL5_Cap(t *testing.T) {\n\tif m.Cap(9) != 3 {\n\t\tt.Error(\"over\")\n\t}\n}\n\n" +
		"func TestL6_Overlay(t *testing.T) {\n\toverlay, _ := os.ReadFile(os.Getenv(\"WRIT_MUTANT_OVERLAY\"))\n\tif strings.Contains(string(overlay), \"n/read.txt\") {\n\t\tt.Error(\"found\")\n\t}\n}\n",
	"n/read.txt": "one\ntwo\n",
	"p/main.go":  "package main\n\nfunc main() {}\n",
}

// uncap takes the defence out.
const uncap = "file m/m.go\n- if n > 3 {\n+ if false {\n"

// repository writes the sample and these tables, commits them and makes the
// repository the current one.
func repository(t *testing.T, tables map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, sample)
	write(t, tables)
	gitDo(t, "init", "-q")
	commit(t)
	return dir
}

func write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func gitDo(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{"-c", "user.name=Test", "-c", "user.email=test@example.test", "-c", "commit.gpgsign=false"}, args...)
	if _, err := gitOutput(t.Context(), ".", args...); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T) {
	t.Helper()
	gitDo(t, "add", "-A")
	gitDo(t, "commit", "-q", "--allow-empty", "-m", "x")
}

// call runs the command and gives what it printed.
func call(t *testing.T, args ...string) (bool, string, error) {
	t.Helper()
	var out, said bytes.Buffer
	ok, err := mutate(t.Context(), args, &out, &said)
	return ok, out.String() + said.String(), err
}

// wants looks for lines that match.
func wants(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestMutate(t *testing.T) {
	repository(t, map[string]string{
		"m/mutants.txt": "# A comment.\n" +
			"mutant L1-cap\ntest ^TestL1_\n" + uncap +
			"\nmutant L1-cap-too\ntest ^TestL1_\nfile m/m.go\n- \tif n > 3 {\n- \t\treturn 3\n- \t}\n" +
			"\nmutant L2-blind\ntest ^TestL2_\n" + uncap +
			"\nmutant L3-red\ntest ^TestL3_\n" + uncap +
			"\nmutant L4-dies\ntest ^TestL4_\n" + uncap +
			"\nmutant L5-none\ntest ^TestL5_\n" + uncap +
			"\nmutant L6-astray\ntest ^TestL1_\nfile m/m.go\n- return 4\n+ return 0\n" +
			"\nmutant L7-broken\ntest ^TestL1_\nfile m/m.go\n- return n\n+ return x\n",
		"n/mutants.txt": "mutant L5-cap\ntest ^TestL5_ -race\n" + uncap +
			"\nmutant L5-helper\ntest ^TestL5_\nfile p/main.go\n- {}\n+ { x() }\n" +
			"\nmutant L6-read\ntest ^TestL6_\nfile n/read.txt\n- two\n+ three\n",
	})
	ok, out, err := call(t)
	if ok || err != nil {
		t.Errorf("ok %v, error %v, want survivors", ok, err)
	}
	wants(t, out,
		`killed  L1-cap .*: test failed`,
		`killed  L1-cap-too .*: test failed`,
		`ALIVE   L2-blind .*: SURVIVED`,
		`ALIVE   L3-red .*fails without any mutant`,
		`killed  L4-dies .*: test failed`,
		`ALIVE   L5-none .*names no test`,
		`ALIVE   L6-astray .*doesn't apply: m/mutants.txt:\d+: m/m.go: the old text occurs 0 times`,
		`ALIVE   L7-broken .*doesn't compile`,
		`killed  L5-cap +./n \^TestL5_: test failed`,
		`ALIVE   L5-helper .*doesn't run even without a test`,
		`killed  L6-read .*: test failed`,
		`5 of 11 mutants killed`)
	if text, err := os.ReadFile("m/m.go"); err != nil || string(text) != sample["m/m.go"] {
		t.Errorf("the original was touched (error %v):\n%s", err, text)
	}
}

// TestTogether: functions of each form have their mutants in one program, which has none of
// them unless it is told; what can't be in it, and what it doesn't show, is built by itself.
func TestTogether(t *testing.T) {
	repository(t, map[string]string{
		"k/k.go": "package k\n\nimport (\n\t\"os\"\n\t\"runtime\"\n)\n\nconst limit = 3\n\n// Box holds one.\ntype Box[T any] struct{ v T }\n\n" +
			"func (Box[T]) Size(int, ...T) int { return 1 }\n\nfunc (b *Box[T]) Put(_ int, v T) { b.v = v }\n\n" +
			"func Least[K comparable, V any](_ map[K]V, _, floor int, n ...int) (least int) {\n\tleast = floor\n\tfor _, n := range n {\n\t\tif n < least {\n\t\t\tleast = n\n\t\t}\n\t}\n\treturn least\n}\n\n" +
			"func Line() int { _, _, line, _ := runtime.Caller(1); return line }\n\nfunc Over(n int) bool { return n > limit }\n\nfunc Told() []string { return os.Environ() }\n",
		"k/k_test.go": "package k\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n\t\"testing\"\n)\n\n" +
			"func TestBox(t *testing.T) {\n\tvar b Box[string]\n\tif b.Put(1, \"x\"); b.v != \"x\" || b.Size(2, \"a\", \"b\") != 1 {\n\t\tt.Error(b)\n\t}\n}\n\n" +
			"func TestLeast(t *testing.T) {\n\tif Least(map[string]int{}, 0, 9, 7, 8) != 7 || Line() != 17 {\n\t\tt.Error(\"no\")\n\t}\n}\n\n" +
			"func TestOver(t *testing.T) {\n\tif Over(3) || !Over(4) {\n\t\tt.Error(\"no\")\n\t}\n}\n\n" +
			"func TestElsewhere(t *testing.T) {\n\tif os.Getenv(\"K_CHILD\") != \"\" {\n\t\tTestOver(t)\n\t\treturn\n\t}\n" +
			"\tcmd := exec.Command(os.Args[0], \"-test.run=^TestElsewhere$\")\n\tcmd.Env = []string{\"K_CHILD=1\"}\n\tif cmd.Run() != nil {\n\t\tt.Error(\"no\")\n\t}\n}\n\n" +
			"func TestSame(t *testing.T) {\n\tif os.Getenv(\"K_CHILD\") != \"\" {\n\t\tif Over(4) {\n\t\t\tos.Exit(4)\n\t\t}\n\t\tos.Exit(5)\n\t}\n" +
			"\tcmd := exec.Command(untold(t), \"-test.run=^TestSame$\")\n\tcmd.Env = []string{\"K_CHILD=1\"}\n\t_ = cmd.Run()\n" +
			"\tif (cmd.ProcessState.ExitCode() == 4) != Over(4) {\n\t\tt.Error(\"no\")\n\t}\n}\n\n" +
			"func TestTold(t *testing.T) {\n\tcmd := exec.Command(untold(t), \"-test.run=^$\")\n\tcmd.Env = Told()\n\tif out, err := cmd.CombinedOutput(); err != nil {\n\t\tt.Errorf(\"%s\", out)\n\t}\n}\n\n" +
			"func untold(t *testing.T) string {\n\tself, _ := os.ReadFile(os.Args[0])\n\tfor i := len(self) - 99; i < len(self)-1; i++ {\n\t\tif self[i] == 0 && self[i+1] == 'M' {\n\t\t\tself = self[:i]\n\t\t}\n\t}\n" +
			"\tother := t.TempDir() + \"/k\"\n\t_ = os.WriteFile(other, self, 0o700)\n\treturn other\n}\n",
		"k/mutants.txt": "mutant S1-size\ntest ^TestBox$\nfile k/k.go\n- return 1\n+ return 2\n" +
			"\nmutant S1-put\ntest ^TestBox$\nfile k/k.go\n- b.v = v\n+ _ = v\n" +
			"\nmutant S1-least\ntest ^TestLeast$\nfile k/k.go\n- n < least\n+ n > least\n" +
			"\nmutant S1-floor\ntest ^TestLeast$\nfile k/k.go\n- least = floor\n+ least = 1\n" +
			"\nmutant S1-two\ntest ^TestBox$\nfile k/k.go\n- b.v = v\n+ _ = v\n- least = floor\n+ least = 1\n" +
			"\nmutant S1-over\ntest ^TestOver$\nfile k/k.go\n- n > limit\n+ n >= limit\n" +
			"\nmutant S2-caller\ntest ^TestLeast$\nfile k/k.go\n- Caller(1)\n+ Caller(0)\n" +
			"\nmutant S2-const\ntest ^TestOver$\nfile k/k.go\n- limit = 3\n+ limit = 4\n" +
			"\nmutant S2-race\ntest ^TestOver$ -race\nfile k/k.go\n- n > limit\n+ true\n" +
			"\nmutant S2-broken\ntest ^TestOver$\nfile k/k.go\n- n > limit\n+ n > nothing\n" +
			"\nmutant S3-elsewhere\ntest ^TestElsewhere$\nfile k/k.go\n- n > limit\n+ n == limit\n" +
			"\nmutant S3-same\ntest ^TestSame$\nfile k/k.go\n- n > limit\n+ n == limit\n" +
			"\nmutant S3-untold\ntest ^TestTold$\nfile k/k.go\n- return os.Environ()\n+ return os.Environ()[:1:1]\n",
	})
	_, out, err := call(t)
	if err != nil {
		t.Error(err)
	}
	wants(t, out, `9 of 13 mutants are compiled together`, `10 of 13 mutants killed`, `ALIVE   S2-broken .*doesn't compile`, `ALIVE   S3-same .*SURVIVED`, `ALIVE   S3-untold .*SURVIVED`)
	for _, name := range []string{"S1-size", "S1-put", "S1-least", "S1-floor", "S1-two", "S1-over", "S3-elsewhere"} {
		wants(t, out, `killed  `+name+` .*: test failed\n`)
	}
	for _, name := range []string{"S2-caller", "S2-const", "S2-race"} {
		wants(t, out, `killed  `+name+` .*: test failed, built by itself`)
	}
}

// TestLimitAfter: a test with a mutant may take some times what it takes without, and never
// longer than any test.
func TestLimitAfter(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: hangTime, 10 * time.Second: hangTime + hangFactor*10*time.Second, time.Hour: testTimeout} {
		got, err := time.ParseDuration(limitAfter(time.Now().Add(-took)))
		if err != nil || got.Round(time.Second) != want {
			t.Errorf("what took %s may take %s, %v; want %s", took, got, err, want)
		}
	}
}

// TestMutate_LeavesNothing: what a test with a mutant leaves, in a session of its own, ends
// with the command, whether the mutant was compiled with others or by itself.
func TestMutate_LeavesNothing(t *testing.T) {
	repository(t, map[string]string{
		"q/q.go": "package q\n\nconst most = 3\n\n// Cap bounds n.\nfunc Cap(n int) int {\n\tif n > most {\n\t\treturn most\n\t}\n\treturn n\n}\n",
		"q/q_test.go": "package q\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n\t\"syscall\"\n\t\"testing\"\n\t\"time\"\n)\n\n" +
			"func TestCap(t *testing.T) {\n\tif os.Getenv(\"Q_STAYS\") != \"\" {\n\t\ttime.Sleep(time.Minute)\n\t}\n\tif Cap(9) == 3 {\n\t\treturn\n\t}\n" +
			"\theld, err := os.OpenFile(os.Getenv(\"Q_HELD\"), os.O_WRONLY, 0)\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n" +
			"\tcmd := exec.Command(os.Args[0], \"-test.run=^TestCap$\")\n\tcmd.Env = []string{\"Q_STAYS=1\"}\n\tcmd.ExtraFiles = []*os.File{held}\n" +
			"\tcmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}\n\tt.Error(\"over\", cmd.Start())\n\t_, _ = held.WriteString(\"left \")\n}\n",
		"q/mutants.txt": "mutant Q-body\ntest ^TestCap$\nfile q/q.go\n- if n > most {\n+ if false {\n" +
			"\nmutant Q-constant\ntest ^TestCap$\nfile q/q.go\n- const most = 3\n+ const most = 4\n",
	})
	held := filepath.Join(t.TempDir(), "held")
	if err := syscall.Mkfifo(held, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("Q_HELD", held)
	ends, err := os.OpenFile(held, os.O_RDONLY|syscall.O_NONBLOCK, 0) // once nobody has it any more
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	ok, out, err := call(t, "-pkg", "./q")
	if !ok || err != nil {
		t.Fatalf("%v, %v:\n%s", ok, err, out)
	}
	wants(t, out, `killed  Q-body .*: test failed\n`, `killed  Q-constant .*: test failed, built by itself`)
	if err := ends.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(ends); err != nil || string(data) != "left left " {
		t.Errorf("%q, and it is there: %v", data, err)
	}
}

func TestMutateSome(t *testing.T) {
	repository(t, map[string]string{
		"m/mutants.txt":   "mutant L1-cap\ntest ^TestL1_\n" + uncap + "\nmutant L2-blind\ntest ^TestL2_\n" + uncap,
		"n/mutants.txt":   "mutant L5-cap\ntest ^TestL5_ -race\n" + uncap,
		"n/o/mutants.txt": "mutant L6-deep\ntest ^Test\n" + uncap,
		"n/o/o_test.go":   "package o\n\nfunc TestNothing() {}\n",
	})
	for _, c := range []struct {
		args []string
		line string
	}{
		{nil, `^4 of 4 mutants apply`},
		{[]string{"-only", "L[15]"}, `^2 of 2 mutants apply`},
		{[]string{"-pkg", "./n"}, `^1 of 1 mutants apply`},
		{[]string{"-pkg", "./n/..."}, `^2 of 2 mutants apply`},
		{[]string{"-pkg", "m/"}, `^2 of 2 mutants apply`},
		{[]string{"-pkg", "./...", "-only", "cap"}, `^2 of 2 mutants apply`},
	} {
		ok, out, err := call(t, append(c.args, "-check")...)
		if err != nil || !ok {
			t.Errorf("%v: ok %v, error %v", c.args, ok, err)
		}
		wants(t, out, c.line)
	}
	for _, args := range [][]string{{"-only", "Q9"}, {"-pkg", "./q"}, {"-only", "("}, {"./m"}, {"-changed", "nothing"}} {
		if _, _, err := call(t, args...); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
}

// TestCheck: an entry that no longer applies and one whose test has another
// name are seen without building anything.
func TestCheck(t *testing.T) {
	repository(t, map[string]string{"m/mutants.txt": "mutant L1-cap\ntest ^TestL1_Cap$/^x$\n" + uncap +
		"\nmutant L2-astray\ntest ^TestL1_\nfile m/m.go\n- return 4\n+ return 0\n" +
		"\nmutant L2-gone\ntest ^TestL1_\nfile m/gone.go\n- return 4\n+ return 0\n" +
		"\nmutant L9-none\ntest ^TestL9_\n" + uncap +
		"\nmutant L8-unused\ntest ^TestL1_\nfile m/m.go\n- if n > 3 {\n+ m := n\n+ if n > 3 {\n" +
		"\nmutant L8-shape\ntest ^TestL1_\nfile m/m.go\n- Cap(n int) int {\n+ Cap(n int64) int64 {\n" +
		"\nmutant L8-text\ntest ^TestL1_\nfile n/read.txt\n- two\n+ three\n",
		"m/use.go": "package m\n\nimport \"os\"\n\nfunc use() int { return Cap(len(os.Args)) }\n"})
	ok, out, err := call(t, "-check")
	if ok || err != nil {
		t.Errorf("ok %v, error %v, want stale entries", ok, err)
	}
	wants(t, out, `STALE   L2-astray: m/mutants.txt:7: m/m.go: the old text occurs 0 times`, `STALE   L2-gone: .*gone.go`,
		`STALE   L9-none: ./m \^TestL9_ names no test`, `STALE   L8-unused: m/mutants.txt:\d+: what comes out doesn't compile: .*m.go:5:2: declared and not used: m`,
		`STALE   L8-shape: m/mutants.txt:\d+: what comes out doesn't compile: .*use.go:5:29: cannot use`, `2 of 7 mutants apply`)
}

func TestChanged(t *testing.T) {
	top := repository(t, map[string]string{
		"m/mutants.txt": "mutant L1-cap\ntest ^TestL1_\n" + uncap,
		"n/mutants.txt": "mutant L5-cap\ntest ^TestL5_\n" + uncap + "\nmutant L6-read\ntest ^TestL6_\nfile n/read.txt\n- two\n+ three\n",
	})
	picked := func(base string, want ...string) {
		t.Helper()
		all, err := loadTables(t.Context(), top)
		if err != nil {
			t.Fatal(err)
		}
		mutants, err := pick(t.Context(), top, base, "s", all)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range mutants {
			got = append(got, m.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("picked %v, want %v", got, want)
		}
	}
	// By lot, the seed "s" gives L6, L1, L5.
	picked("auto", "L6-read", "L1-cap", "L5-cap") // one commit, so everything
	gitDo(t, "branch", "began")
	write(t, map[string]string{"docs/x.md": "x\n"})
	commit(t)
	picked("auto")
	write(t, map[string]string{"n/testdata/new.txt": "x\n"}) // not even committed
	picked("auto", "L6-read", "L5-cap")
	commit(t)
	write(t, map[string]string{"m/m.go": strings.Replace(sample["m/m.go"], "bounds", "limits", 1)})
	commit(t)
	picked("auto", "L1-cap", "L5-cap") // the defence is in m, one test in n
	picked("began", "L6-read", "L1-cap", "L5-cap")
	gitDo(t, "update-ref", "refs/remotes/origin/main", "began")
	picked("auto", "L6-read", "L1-cap", "L5-cap")
	gitDo(t, "update-ref", "refs/remotes/origin/main", "HEAD")
	picked("auto", "L1-cap", "L5-cap")
	// Entries that are new or different come first.
	write(t, map[string]string{"n/mutants.txt": "mutant L5-cap\ntest ^TestL5_Cap$\n" + uncap + "\nmutant L6-read\ntest ^TestL6_\nfile n/read.txt\n- two\n+ three\n"})
	picked("HEAD", "L5-cap", "L6-read")
	write(t, map[string]string{"m/mutants.txt": "mutant L1-cap\ntest ^TestL1_\n" + uncap + "\nmutant L4-dies\ntest ^TestL4_\n" + uncap})
	picked("HEAD", "L4-dies", "L5-cap", "L6-read", "L1-cap")
}

func TestChangedRuns(t *testing.T) {
	repository(t, map[string]string{"m/mutants.txt": "mutant L2-blind\ntest ^TestL2_\n" + uncap})
	ok, out, err := call(t, "-changed", "auto", "-seed", "again")
	if ok || err != nil {
		t.Errorf("a survivor was accepted: %v", err)
	}
	wants(t, out, `^1 mutants are touched by the change; -seed again`, `ALIVE   L2-blind .*: SURVIVED`)
	if ok, out, err := call(t, "-changed", "HEAD"); !ok || err != nil || !strings.HasPrefix(out, "0 mutants") {
		t.Errorf("nothing changed: ok %v, error %v\n%s", ok, err, out)
	}
}

// TestBudget: what isn't tried in time is no error, and is said; that nothing
// was tried is one, and so is a survivor.
func TestBudget(t *testing.T) {
	mutants := []mutant{{name: "A"}, {name: "B"}, {name: "C"}}
	for _, c := range []struct {
		killed, tried int
		ok, err       bool
		line          string
	}{
		{2, 2, true, false, `2 of 2 mutants killed; 1 were not tried`},
		{1, 2, false, false, `1 of 2 mutants killed; 1 were not tried`},
		{0, 0, false, true, `0 of 0 mutants killed; 3 were not tried`},
	} {
		n := 0
		try := func(ctx context.Context, m mutant) verdict {
			if n++; n > c.tried {
				<-ctx.Done()
				return verdict{mutant: m, detail: "interrupted"}
			}
			return verdict{mutant: m, killed: n <= c.killed}
		}
		var out bytes.Buffer
		ok, err := tryAll(t.Context(), mutants, options{workers: 1, budget: 20 * time.Millisecond}, try, &out)
		if ok != c.ok || (err != nil) != c.err {
			t.Errorf("%+v: ok %v, error %v", c, ok, err)
		}
		wants(t, out.String(), c.line)
	}
}

func TestParseTableFaults(t *testing.T) {
	const start = "mutant x\ntest ^T\nfile a.go\n"
	for name, text := range map[string]string{
		"no entry":          "test ^T\n",
		"a bad name":        "mutant a/b\ntest ^T\nfile a.go\n- x\n+ y\n",
		"no test":           "mutant x\nfile a.go\n- x\n+ y\n",
		"two tests":         start + "test ^U\n- x\n+ y\n",
		"an unknown flag":   "mutant x\ntest ^T -short\nfile a.go\n- x\n+ y\n",
		"a broken pattern":  "mutant x\ntest ^T(\nfile a.go\n- x\n+ y\n",
		"no file":           "mutant x\ntest ^T\n- x\n+ y\n",
		"a path outside":    "mutant x\ntest ^T\nfile ../a.go\n- x\n+ y\n",
		"no text":           start,
		"new before old":    start + "+ y\n",
		"a file without":    start + "- x\n+ y\nfile b.go\n",
		"two files at once": start + "file b.go\n- x\n+ y\n",
		"another word":      start + "- x\n+ y\nand so on\n",
	} {
		if _, err := parseTable("p/mutants.txt", text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	table := "mutant L1-cap\ntest ^TestL1_\n" + uncap
	repository(t, map[string]string{"m/mutants.txt": table, "n/mutants.txt": table})
	if _, _, err := call(t, "-check"); err == nil || !strings.Contains(err.Error(), "m/mutants.txt:1 has a mutant L1-cap already") {
		t.Errorf("error %v", err)
	}
}

func TestReplace(t *testing.T) {
	const text = "a b\n\n\tc\na\n\tc d\n"
	for _, c := range []struct {
		name, table, want string
	}{
		{"a part of a line", "- a b\n+ x", "x\n\n\tc\na\n\tc d\n"},
		{"nothing instead", "-  b\n+", "a\n\n\tc\na\n\tc d\n"},
		{"a whole line, of two that begin alike", "- \tc", "a b\n\na\n\tc d\n"},
		{"several lines and an empty one", "- b\n-\n- \tc\n+ x\n+\n+ y", "a x\n\ny\na\n\tc d\n"},
		{"two places, the later first", "- d\n+ e\n- a b\n+ x", "x\n\n\tc\na\n\tc e\n"},
		{"twice", "- c\n+ x", ""},
		{"a whole line that is a part", "- c", ""},
		{"an empty line alone", "-\n+ x", ""},
		{"overlap", "- a b\n+ x\n- b\n+ y", ""},
		{"no change", "- a b\n+ a b", ""},
	} {
		table, err := parseTable("p/mutants.txt", "mutant x\ntest ^T\nfile a.go\n"+c.table+"\n")
		if err != nil {
			t.Fatal(c.name, err)
		}
		if got, err := replace(text, table[0].edits); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, error %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestRaceIsPassedOn(t *testing.T) {
	table, err := parseTable("p/mutants.txt", "mutant M4-x\ntest ^TestM4_ -race\n"+uncap)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(table[0].test.raceFlag([]string{"test"}), " "); got != "test -race" {
		t.Errorf("go %s", got)
	}
}
