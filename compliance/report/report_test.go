package report

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", name, d)
	}
}

var digest = canon.Sum([]byte("x"))

func completed() Report {
	return Report{
		FinalState: kernel.TaskCompleted, Dispatched: true, Verified: true, World: "local/x/y", TaskID: 7, RunID: "run-1",
		ChangedFiles: []string{"calc/b.go", "calc/a.go"}, Discarded: []string{"build/"}, ChangeCommit: strings.Repeat("c", 40), BaseCommit: strings.Repeat("b", 40),
		Attempts: 1, GovernanceHash: digest, ContractSource: ".writ/contract.yaml", DispatchHash: digest, LedgerHead: digest, Builder: "default", Sandbox: "bubblewrap (memory limit watched)", ChecksSandbox: "bubblewrap",
		Checks: []Check{{"test", true, 1, true, 0, nil}},
	}
}

func failed() Report {
	r := completed()
	r.FinalState, r.Verified, r.ChangeCommit = kernel.TaskRetryPending, false, ""
	r.Codes = []kernel.Code{kernel.CodeVerificationFailed}
	r.Violations = []kernel.Violation{
		{Code: kernel.CodeScopeOutside, Subject: "docs/x", Detail: "No allowed pattern covers it."},
		{Code: kernel.CodeScopeViolation, Detail: "Broken rules of scope: 1."},
	}
	r.Checks = []Check{{"test", false, 2, true, 1, nil}, {"lint", false, 2, false, 0, nil}}
	r.Attempts, r.Interruptions, r.NotBefore = 2, 1, "2026-01-02T03:04:05Z"
	r.Warnings, r.Notes = []string{"mode: This is not built yet."}, []string{"The task leaves out these checks of the contract: slow."}
	r.Outputs = []Output{{"check test", "--- FAIL: TestAdd\nFAIL\n"}}
	return r
}

func TestGoldens(t *testing.T) {
	none := completed()
	none.Sandbox, none.Checks, none.TestsTouched = SandboxNone, nil, true
	blocked := failed()
	blocked.FinalState, blocked.NotBefore = kernel.TaskBlocked, ""
	blocked.Codes = append(blocked.Codes, kernel.CodeEscalationBlocked)
	refused := Report{World: "local/x/y", TaskID: 7, Codes: []kernel.Code{kernel.CodeDispatchMalformed}}
	held := Report{World: "local/x/y", TaskID: 7, Codes: []kernel.Code{kernel.CodeLeaseHeld}, Held: &Held{"host-2", "2026-01-02T03:04:05Z"}}
	waiting := Report{World: "local/x/y", TaskID: 7, WaitingFor: kernel.WaitRepair, Codes: []kernel.Code{kernel.CodeLeaseUntrusted}}
	for name, r := range map[string]Report{
		"completed": completed(), "failed": failed(), "none": none, "blocked": blocked, "refused": refused, "held": held, "waiting": waiting, "hostile": hostile(),
	} {
		data, err := r.JSON()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden(t, name+".json", append(data, '\n'))
		golden(t, name+".md", []byte(Markdown(r)))
		golden(t, name+".txt", []byte(Plain(r)))
		var back Report
		if err := canon.UnmarshalCanonical(data, &back); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if again, err := back.JSON(); err != nil || string(again) != string(data) {
			t.Errorf("%s does not survive a round trip: %v", name, err)
		}
	}
}

func TestT26_Combinations(t *testing.T) {
	for name, change := range map[string]func(*Report){
		"fourth state":             func(r *Report) { r.FinalState = kernel.TaskWaiting },
		"open":                     func(r *Report) { r.FinalState = kernel.TaskOpen },
		"completed, unverified":    func(r *Report) { r.Verified = false },
		"verified, undispatched":   func(r *Report) { r.Dispatched = false },
		"no change commit":         func(r *Report) { r.ChangeCommit = "" },
		"completed with a failure": func(r *Report) { r.Codes = []kernel.Code{kernel.CodeCheckFailed} },
		"no dispatch hash":         func(r *Report) { r.DispatchHash = "" },
		"no run":                   func(r *Report) { r.RunID = "" },
		"retry, verified":          func(r *Report) { r.FinalState, r.Codes = kernel.TaskRetryPending, []kernel.Code{kernel.CodeTimeout} },
		"retry without a code":     func(r *Report) { r.FinalState, r.Verified = kernel.TaskRetryPending, false },
		"blocked without its code": func(r *Report) {
			r.FinalState, r.Verified, r.Codes = kernel.TaskBlocked, false, []kernel.Code{kernel.CodeTimeout}
		},
		"completed with blocked's": func(r *Report) { r.Codes = []kernel.Code{kernel.CodeEscalationBlocked} },
		"failed without dispatch": func(r *Report) {
			r.FinalState, r.Verified, r.Dispatched, r.Codes = kernel.TaskNone, false, false, []kernel.Code{kernel.CodeVerificationFailed}
		},
		"ended and held":                  func(r *Report) { r.Held = &Held{"x", "y"} },
		"ended and waiting":               func(r *Report) { r.WaitingFor = kernel.WaitRepair },
		"ended, and its merge waited for": func(r *Report) { r.WaitingFor = kernel.WaitMerge },
		"verified and nothing more":       func(r *Report) { r.FinalState = kernel.TaskNone },
		"a merge of nothing waited for": func(r *Report) {
			r.FinalState, r.WaitingFor, r.ChangeCommit = kernel.TaskNone, kernel.WaitMerge, ""
		},
		"retry, and merged": func(r *Report) {
			r.FinalState, r.Verified, r.Codes, r.WaitingFor = kernel.TaskRetryPending, false, []kernel.Code{kernel.CodeVerificationFailed}, kernel.WaitMerge
		},
		"retry waits":  func(r *Report) { r.NotBefore = "2026-01-02T03:04:05Z" },
		"unknown code": func(r *Report) { r.Codes = []kernel.Code{"made.up"} },
	} {
		r := completed()
		change(&r)
		if data, err := r.JSON(); err == nil {
			t.Errorf("%s: %s", name, data)
		}
	}
	waits := completed()
	waits.FinalState, waits.WaitingFor = kernel.TaskNone, kernel.WaitMerge
	if _, err := waits.JSON(); err != nil || !strings.Contains(Markdown(waits), "is verified, and waits for the merge of its change") {
		t.Errorf("verified, and waits for the merge: %v", err)
	}
	done := waits.AtMerge(Merge{Commit: "c0ffee", AsVerified: true})
	if _, err := done.JSON(); err != nil || done.FinalState != kernel.TaskCompleted || !strings.Contains(Markdown(done), "completed, and its change is merged") {
		t.Errorf("once it is merged: %v", err)
	}
	raw := completed()
	raw.Codes = []kernel.Code{kernel.CodeCommitAmbiguous, kernel.CodeLeaseHeld}
	raw.Kind, raw.V = "report", Version
	if raw.Validate() == nil {
		t.Error("codes out of order pass")
	}
}

func TestD52_KeysAndAbsence(t *testing.T) {
	data, err := completed().JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"task_final_state", "execution_dispatched", "execution_verified", "codes", "changed_files", "discarded", "change_commit", "attempts",
		"run_id", "governance_hash", "dispatch_hash", "ledger_head",
	} {
		if !strings.Contains(string(data), `"`+key+`":`) {
			t.Errorf("%s is missing in %s", key, data)
		}
	}
	held := Report{TaskID: 1, Codes: []kernel.Code{kernel.CodeLeaseHeld}, Held: &Held{"x", "y"}}
	if data, err := held.JSON(); err != nil || strings.Contains(string(data), "task_final_state") || strings.Contains(string(data), `"codes":null`) {
		t.Errorf("%s %v", data, err)
	}
}

func TestFirstLines(t *testing.T) {
	r := completed()
	if got := r.Finish().FirstLines; len(got) > 0 {
		t.Errorf("%q", got)
	}
	r.Checks, r.Sandbox, r.TestsTouched = nil, SandboxNone, true
	if got := r.Finish().FirstLines; !slices.Equal(got, []string{LineNothingChecked, LineTestsTouched, LineNoSandbox}) {
		t.Errorf("%q", got)
	}
	elsewhere := completed()
	elsewhere.ChecksSandbox = SandboxNone
	if got := elsewhere.Finish().FirstLines; !slices.Equal(got, []string{LineChecksNoSandbox}) {
		t.Errorf("checks without a sandbox: %q", got)
	}
	if text := Markdown(elsewhere); !strings.Contains(text, "- sandbox of the checks: `none`") {
		t.Errorf("the text doesn't say where the checks ran:\n%s", text)
	}
	for _, text := range []string{Markdown(r), Plain(r)} {
		if first, _, _ := strings.Cut(text, "\n"); !strings.Contains(first, LineNothingChecked) {
			t.Errorf("first line: %q", first)
		}
	}
	r.Dispatched, r.Verified, r.FinalState = false, false, ""
	if got := r.Finish().FirstLines; len(got) > 0 {
		t.Errorf("nothing ran, and yet %q", got)
	}
}

// TestFirstLines_OnTheBase: a check that fails on the base as well, with the same exit status, is said
// first. That it passes there, or fails otherwise, stands beside it.
func TestFirstLines_OnTheBase(t *testing.T) {
	for name, c := range map[string]struct {
		on    *OnBase
		first []string
		line  string
	}{
		"not tried":       {nil, []string{}, "| test: failed, exit 1\n"},
		"the same way":    {&OnBase{1, true}, []string{"The check test fails on the base as well, with the same exit status."}, "| test: failed, exit 1; on the base it fails, too, with exit 1\n"},
		"another way":     {&OnBase{2, false}, []string{}, "| test: failed, exit 1; on the base it fails, too, with exit 2\n"},
		"it passes there": {&OnBase{0, false}, []string{}, "| test: failed, exit 1; it passes on the base\n"},
	} {
		r := failed()
		r.Checks = []Check{{"test", false, 1, true, 1, c.on}}
		if got := r.Finish().FirstLines; !slices.Equal(got, c.first) || !strings.Contains(Markdown(r), c.line) {
			t.Errorf("%s: first %q, and\n%s", name, got, Markdown(r))
		}
		if passes := strings.Contains(r.Comment(Around{}), "`test` failed (exit 1), and passes on the base"); passes != (name == "it passes there") {
			t.Errorf("%s: %s", name, r.Comment(Around{}))
		}
	}
}

// TestR8_TextFromTheReportAlone: a later program, whose words for a code are others,
// tells from a recorded report the text that was posted then.
func TestR8_TextFromTheReportAlone(t *testing.T) {
	r := failed().Finish()
	r.Words[0].Remedy = "What was said then."
	if then := r.Recorded(); !strings.Contains(then, "*What was said then.*") || strings.Contains(then, r.Codes[0].IssueRemedy()) {
		t.Errorf("the text of then:\n%s", then)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if r.Finish().Recorded() != Markdown(failed()) {
		t.Error("a report that is finished again has the words of now")
	}
	r.Words = r.Words[1:]
	if err := r.Validate(); err == nil {
		t.Error("a code without words passes")
	}
}

// TestR8_ReportsWithoutWords: a report that was recorded before reports had words is
// read as it stands, byte for byte, and its text names its codes all the same.
func TestR8_ReportsWithoutWords(t *testing.T) {
	r := failed().Finish()
	r.Words = nil
	then, err := canon.Marshal(r)
	if err != nil || strings.Contains(string(then), `"words"`) {
		t.Fatalf("%s, %v", then, err)
	}
	var back Report
	if err := canon.UnmarshalCanonical(then, &back); err != nil || back.Validate() != nil || !back.Wordless() {
		t.Fatalf("%v, %v", err, back.Validate())
	}
	if text := back.Finish().Recorded(); text != Markdown(failed()) {
		t.Errorf("its text now:\n%s", text)
	}
	if completed().Finish().Wordless() || failed().Finish().Wordless() {
		t.Error("a report of today has no words")
	}
}

// TestMarkdown_BranchInTheWay: what keeps done work is a branch, and no rule of the server.
func TestMarkdown_BranchInTheWay(t *testing.T) {
	r := Report{WaitingFor: kernel.WaitRule, Codes: []kernel.Code{kernel.CodeBranchTaken}}
	if got := Markdown(r); !strings.Contains(got, "a branch is in the way of its change branch") {
		t.Error(got)
	}
}

// TestCounted: one thing is named in the singular.
func TestCounted(t *testing.T) {
	for n, want := range map[int]string{0: "0 tasks", 1: "1 task", 2: "2 tasks"} {
		if got := Counted(n, "task"); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
