package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"
)

// TestScripts runs the program as a process, in a directory of its own, once
// for each file of testdata/script.
func TestScripts(t *testing.T) {
	runScripts(t, testscript.Params{Dir: filepath.Join("testdata", "script")})
}

// The cases have files of their own, so that each test bears its number.

func TestG1_Names(t *testing.T)               { runCase(t, "G1_names") }
func TestX4_ScriptNoSandbox(t *testing.T)     { runCase(t, "X4_no_sandbox") }
func TestF3_Secrets(t *testing.T)             { runCase(t, "F3_secrets") }
func TestR2_Adopt(t *testing.T)               { runCase(t, "R2_adopt") }
func TestR2_CheckpointGone(t *testing.T)      { runCase(t, "R2_unsigned") }
func TestR2_KeyOfAnInstallation(t *testing.T) { runCase(t, "R2_key") }
func TestL18_Copies(t *testing.T)             { runCase(t, "L18_copies") }
func TestL18_Shown(t *testing.T)              { runCase(t, "L18_shown") }
func TestL18_RevokedMeanwhile(t *testing.T)   { runCase(t, "L18_revoked_meanwhile") }
func TestL18_Repair(t *testing.T)             { runCase(t, "L18_repair") }
func TestL18_Rebind(t *testing.T)             { runCase(t, "L18_rebind") }
func TestL19_KeyOfMovedState(t *testing.T)    { runCase(t, "L19_key_moved") }
func TestL19_Resume(t *testing.T)             { runCase(t, "L19_resume") }
func TestR10_StateDirectory(t *testing.T)     { runCase(t, "R10_state") }

func runCase(t *testing.T, name string) {
	runScripts(t, testscript.Params{Files: []string{filepath.Join("testdata", "cases", name+".txtar")}})
}

// scriptTime bounds the scripts of one test: what hangs fails with its log, long before the
// package's time is over.
const scriptTime = 15 * time.Minute

func runScripts(t *testing.T, p testscript.Params) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Fatal("bubblewrap is missing: make setup, or apt-get install bubblewrap")
	}
	p.Deadline = time.Now().Add(scriptTime)
	p.RequireExplicitExec, p.RequireUniqueNames, p.Setup = true, true, setUpScript
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){
		"exits":  scriptExits,
		"report": scriptReport,
		"await":  scriptAwait,
		"repo":   scriptRepo,
		"tamper": scriptTamper,
		"absent": scriptAbsent,
		"within": scriptWithin,
		"readme": scriptReadme,
	}
	testscript.Run(t, p)
}

func setUpScript(env *testscript.Env) error {
	env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state-home"))
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("USER", "tester")
	env.Setenv(envRace, endAtOnce)
	for _, kv := range []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com",
	} {
		k, v, _ := strings.Cut(kv, "=")
		env.Setenv(k, v)
	}
	return nil
}

// exits N program args…: it must end with exactly this status.
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit %d, want %d\nstdout:\n%s\nstderr:\n%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// readme file: the quick start of the README, as a script. The program is the one
// of the search path, and the Go toolchain the one that runs this test.
func scriptReadme(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(readme)
	ts.Check(err)
	_, after, _ := strings.Cut(string(text), "\n## Quick start\n")
	_, after, _ = strings.Cut(after, "\n````sh\nmake build ")
	_, after, _ = strings.Cut(after, "\n")
	script, _, found := strings.Cut(after, "\n````\n")
	if !found {
		ts.Fatalf("the README has no quick start")
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	ts.Check(err)
	script = strings.NewReplacer("bin/writ ", "writ ", "--ro /usr/local/go", "--ro "+strings.TrimSpace(string(goroot))+":/usr/local/go").Replace(script)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(script), 0o600))
}

// readme is the project's.
var readme, _ = filepath.Abs(filepath.Join("..", "..", "README.md"))

// reportKeys are the keys that --json promises.
var reportKeys = []string{
	"execution_dispatched", "execution_verified", "codes", "changed_files", "discarded", "change_commit",
	"attempts", "run_id", "governance_hash", "dispatch_hash", "ledger_head",
}

// report [file] key=JSON… !key…: standard output, or the file, is one report
// and nothing else.
func scriptReport(ts *testscript.TestScript, _ bool, args []string) {
	text := "stdout"
	if len(args) > 0 && !strings.ContainsAny(args[0], "=!") {
		text, args = args[0], args[1:]
	}
	var r map[string]json.RawMessage
	data := ts.ReadFile(text)
	if err := json.Unmarshal([]byte(data), &r); err != nil {
		ts.Fatalf("%s is not one JSON document: %v\n%s", text, err, data)
	}
	for _, k := range reportKeys {
		if r[k] == nil {
			ts.Fatalf("the report lacks %s:\n%s", k, data)
		}
	}
	for _, arg := range args {
		if k, ok := strings.CutPrefix(arg, "!"); ok {
			if r[k] != nil {
				ts.Fatalf("the report has %s: %s", k, r[k])
			}
			continue
		}
		k, want, _ := strings.Cut(arg, "=")
		if string(r[k]) != want {
			ts.Fatalf("%s is %s, want %s\n%s", k, r[k], want, data)
		}
	}
}

// awaitTime is far more than anything here needs.
const awaitTime = 60 * time.Second

// await file text: until a process has written it.
func scriptAwait(ts *testscript.TestScript, _ bool, args []string) {
	end := time.Now().Add(awaitTime)
	for time.Now().Before(end) {
		if data, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && strings.Contains(string(data), args[1]) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	ts.Fatalf("%s never said %q:\n%s", args[0], args[1], ts.ReadFile(args[0]))
}

// within seconds program args…: it must succeed, and in that time.
func scriptWithin(ts *testscript.TestScript, _ bool, args []string) {
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	start := time.Now()
	ts.Check(ts.Exec(args[1], args[2:]...))
	if took := time.Since(start); took > limit {
		ts.Fatalf("it took %v, at most %v were allowed", took, limit)
	}
}

// repo DIR [DIR2]: a repository with a commit on main, of the files below DIR2.
func scriptRepo(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	run := func(args ...string) { ts.Check(ts.Exec("git", append([]string{"-C", dir}, args...)...)) }
	run("init", "-q", "-b", "main")
	if len(args) > 1 {
		ts.Check(os.CopyFS(dir, os.DirFS(ts.MkAbs(args[1]))))
	}
	run("add", "-A")
	run("commit", "-q", "--allow-empty", "-m", "base")
}

// tamper DIR: change one letter of a record that the store keeps. $BAD is its
// sequence.
func scriptTamper(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", filepath.Join(ts.MkAbs(args[0]), "writ.db"))
	ts.Check(err)
	defer db.Close()
	if len(args) > 1 { // statements
		_, err := db.Exec(args[1])
		ts.Check(err)
		return
	}
	var seq int64
	ts.Check(db.QueryRow(`SELECT MIN(seq) FROM records WHERE CAST(raw AS TEXT) LIKE '%"keyboard"%'`).Scan(&seq))
	_, err = db.Exec(`UPDATE records SET raw = CAST(REPLACE(CAST(raw AS TEXT), '"keyboard"', '"keyboarD"') AS BLOB) WHERE seq = ?`, seq)
	ts.Check(err)
	ts.Setenv("BAD", strconv.FormatInt(seq, 10))
}

// absent TEXT DIR…: no file below says it, in any of the forms that a secret
// takes.
func scriptAbsent(ts *testscript.TestScript, _ bool, args []string) {
	for _, dir := range args[1:] {
		seen := 0
		ts.Check(filepath.Walk(ts.MkAbs(dir), func(path string, info os.FileInfo, err error) error {
			if err != nil || !info.Mode().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if seen++; err == nil && strings.Contains(string(data), args[0]) {
				return fmt.Errorf("%s holds the canary", path)
			}
			return err
		}))
		if seen == 0 {
			ts.Fatalf("there was no file below %s to look at", dir)
		}
	}
}
