package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/kernel"
)

func sealed(t *testing.T, drafts ...kernel.Draft) []kernel.Record {
	t.Helper()
	records, _, err := kernel.Chain{World: "local/x/y", Instance: "i", Head: kernel.NoHead()}.Seal(1, drafts)
	if err != nil {
		t.Fatal(err)
	}
	return kernel.Records(records)
}

func runRecords(run string, end bool) []kernel.Draft {
	d := kernel.Dispatch{Kind: "dispatch", V: 1, TaskID: 7, RunID: run, Timestamp: "2026-01-02T03:04:05Z", WorldID: "local/x/y", Attempt: 1, AllowedFiles: []string{"a"}, GovernanceHash: digest}
	out := []kernel.Draft{{Kind: kernel.KindDispatch, Task: 7, Run: run, Body: d}}
	if !end {
		return out
	}
	b := kernel.BuilderResult{Kind: "builder_result", Run: run, Argv: []string{"agent", "--key", canary}, Exit: kernel.Exit{Code: 3, Cause: kernel.CauseExited}}
	r := completed()
	r.RunID = run
	return append(out, kernel.Draft{Kind: kernel.KindBuilderResult, Task: 7, Run: run, Body: b}, kernel.Draft{Kind: kernel.KindReport, Task: 7, Run: run, Body: r.Finish()})
}

func TestD53_Cycle(t *testing.T) {
	records := sealed(t, append(runRecords("r1", false), runRecords("r2", true)...)...)
	lines, err := Cycles(records)
	if err != nil || len(lines) != 2 {
		t.Fatal(lines, err)
	}
	killed, done := lines[0], lines[1]
	if killed.VerificationOutcome != OutcomeInterrupted || killed.ExitStatus != nil || killed.FinalTaskState != "" || killed.RunID != "r1" {
		t.Errorf("%+v", killed)
	}
	if done.DispatchTimestamp != "2026-01-02T03:04:05Z" || *done.ExitStatus != 3 || done.VerificationOutcome != OutcomeVerified ||
		done.FinalTaskState != kernel.TaskCompleted || len(done.ExecutorCommand) != 3 || !done.CommitCreated || len(done.FilesCommitted) != 2 {
		t.Errorf("%+v", done)
	}
	if _, ok, err := Cycle(records, "r3"); ok || err != nil {
		t.Error(ok, err)
	}
}

// A report whose push was lost or refused is no end of its cycle.
func TestD53_ReportThatNeverGotOut(t *testing.T) {
	for status, want := range map[kernel.OutcomeStatus]string{
		kernel.OutcomeDone: OutcomeVerified, kernel.OutcomeLost: OutcomeInterrupted,
		kernel.OutcomeRefused: OutcomeInterrupted, kernel.OutcomeUnknown: OutcomeInterrupted,
	} {
		o := kernel.Outcome{Kind: "outcome", Effect: kernel.ActionResult, Status: status}
		drafts := append(runRecords("r1", true), kernel.Draft{Kind: kernel.KindOutcome, Task: 7, Run: "r1", Body: o})
		line, ok, err := Cycle(sealed(t, drafts...), "r1")
		if err != nil || !ok || line.VerificationOutcome != want || line.CommitCreated != (want == OutcomeVerified) ||
			(line.FinalTaskState == kernel.TaskCompleted) != (want == OutcomeVerified) || *line.ExitStatus != 3 {
			t.Errorf("%s: %+v %v", status, line, err)
		}
	}
}

func TestD54_Log(t *testing.T) {
	lines, err := Cycles(sealed(t, append(runRecords("r1", true), runRecords("r2", false)...)...))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log, err := OpenLog(dir, NewRedactor([]string{canary}))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if err := log.Append(l); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(dir + "/logs/execution_cycle.log")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "execution_cycle.log", written)
	if leaks(string(written), canary) {
		t.Error("the log leaks")
	}
	states := map[string]kernel.TaskState{}
	for _, l := range lines {
		states[l.RunID] = l.FinalTaskState
	}
	for run, want := range map[string]bool{"r1": true, "r2": true, "r": false, "r3": false} {
		if got, err := log.Has(Line{RunID: run, FinalTaskState: states[run]}); got != want || err != nil {
			t.Errorf("has %s: %v %v", run, got, err)
		}
	}
	info, _ := os.Stat(log.Path())
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := os.Remove(log.Path()); err != nil {
		t.Fatal(err)
	}
	if err := log.Rebuild(lines); err != nil {
		t.Fatal(err)
	}
	rebuilt, _ := os.ReadFile(log.Path())
	if d := cmp.Diff(string(written), string(rebuilt)); d != "" {
		t.Error(d)
	}
}

// TestLog_NoHalfLines: a line for which there is no room leaves nothing of it, one that a
// crash cut off isn't taken for the line, and both come whole the next time.
func TestLog_NoHalfLines(t *testing.T) {
	lines, err := Cycles(sealed(t, append(runRecords("r1", true), runRecords("r2", false)...)...))
	if err != nil {
		t.Fatal(err)
	}
	log, err := OpenLog(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(lines[0]); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(log.Path())
	if err != nil {
		t.Fatal(err)
	}
	var free unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &free); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: uint64(len(first)) + 10, Max: free.Max}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &few); err != nil {
		t.Fatal(err)
	}
	err = log.Append(lines[1])
	if back := unix.Setrlimit(unix.RLIMIT_FSIZE, &free); back != nil {
		t.Fatal(back)
	}
	if !errors.Is(err, unix.EFBIG) {
		t.Fatalf("there was no room, and the answer is %v", err)
	}
	if got, err := os.ReadFile(log.Path()); err != nil || !bytes.Equal(got, first) {
		t.Errorf("half a line is left (%v):\n%s", err, got)
	}

	whole, err := log.encode(lines[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log.Path(), append(first, whole[:len(whole)-3]...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true} {
		if got, err := log.Has(lines[1]); got != want || err != nil {
			t.Errorf("has it: %v %v, want %v", got, err, want)
		}
		if err := log.Append(lines[1]); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLogRotatesAndMendsTornLines(t *testing.T) {
	lines, _ := Cycles(sealed(t, runRecords("r1", true)...))
	log, err := OpenLog(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	log.maxBytes = 2500
	if err := os.WriteFile(log.Path(), []byte(`{"torn":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if err := log.Append(lines[0]); err != nil {
			t.Fatal(err)
		}
	}
	entries, _ := os.ReadDir(strings.TrimSuffix(log.Path(), LogFile))
	if len(entries) != KeepLogs+1 {
		t.Errorf("%d files", len(entries))
	}
	f, err := os.Open(log.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, _ := f.Stat(); info.Size() > log.maxBytes {
		t.Errorf("%d bytes", info.Size())
	}
	for s := bufio.NewScanner(f); s.Scan(); {
		var l Line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Errorf("%q: %v", s.Text(), err)
		}
	}
}
