package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

// phone is what a phone shows of a comment: lines of so many characters, and so many.
const (
	phoneWidth = 44
	phoneLines = 24
)

// TestComment_FitsAPhone: above the evidence stand the outcome with its link, what changed,
// the checks, the finest code with its cause, and what is to be done now.
func TestComment_FitsAPhone(t *testing.T) {
	const link = "[change 9](https://forge.example/acme/shop/pull/9)"
	merges := completed()
	merges.FinalState, merges.WaitingFor = kernel.TaskNone, kernel.WaitMerge
	merged := completed()
	merged.Merge = &Merge{Commit: "c0ffee", AsVerified: true}
	otherwise := completed()
	otherwise.Merge = &Merge{Commit: "c0ffee", Differs: []string{"calc/a.go"}}
	blocked := failed()
	blocked.FinalState, blocked.NotBefore = kernel.TaskBlocked, ""
	blocked.Codes = append(blocked.Codes, kernel.CodeEscalationBlocked)
	silent := blocked
	silent.Violations = nil
	loud := completed()
	loud.Checks, loud.Sandbox = nil, SandboxNone
	edited := Report{TaskID: 7, Violations: []kernel.Violation{
		{Code: kernel.CodeInstructionChanged, Detail: "Approved was " + string(digest) + ", the issue now has " + string(digest) + "."}}}
	stopped := Report{TaskID: 7, Violations: []kernel.Violation{
		{Code: kernel.CodeTaskStopped, Subject: "1795751963300/comment:4", Detail: "Stopped by ana."}}}
	refused := Report{TaskID: 7, Violations: []kernel.Violation{
		{Code: kernel.CodeDispatchMalformed, Subject: "allowed_files", Detail: "It is missing."},
		{Code: kernel.CodeDispatchMalformed, Subject: "expected_outcome", Detail: "It is missing."},
		{Code: kernel.CodeAuthority, Subject: "ana", Detail: "read is less than write."}}}
	held := Report{TaskID: 7, Held: &Held{"host-2", "2026-01-02T03:04:05Z"}, Codes: []kernel.Code{kernel.CodeLeaseHeld}}
	for name, c := range map[string]struct {
		report Report
		around Around
		want   string
	}{
		"completed": {completed(), Around{Change: link, Lines: &Lines{12, 4, 0}}, `**Writ: task 7 completed (` + link + `).**

- 2 files changed, +12 −4: ¬calc/a.go¬, ¬calc/b.go¬
- Checks: ¬test¬ passed
- **Now:** Review the change and merge it, or close it. Writ merges nothing.
`},
		"waits for its merge": {merges, Around{Change: link, Lines: &Lines{12, 4, 1}}, `**Writ: task 7 is verified, and waits for the merge of its change (` + link + `).**

- 2 files changed, +12 −4 (without 1 of the files): ¬calc/a.go¬, ¬calc/b.go¬
- Checks: ¬test¬ passed
- **Now:** Review the change and merge it; the issue is closed then. Writ merges nothing.
`},
		"merged": {merged, Around{Change: link}, `**Writ: task 7 completed, and its change is merged (` + link + `).**

- 2 files changed: ¬calc/a.go¬, ¬calc/b.go¬
- Checks: ¬test¬ passed
`},
		"merged otherwise": {otherwise, Around{Change: link}, `**Writ: task 7 completed, and its change is merged (` + link + `).**

- 2 files changed: ¬calc/a.go¬, ¬calc/b.go¬
- Checks: ¬test¬ passed
- **Now:** Look at what was merged: it is not what was verified.
`},
		"retry": {failed(), Around{MaxAttempts: 3}, `**Writ: task 7 failed, and will be tried again.**

- 2 files changed, and not delivered: ¬calc/a.go¬, ¬calc/b.go¬
- Checks: ¬test¬ failed (exit 1), ¬lint¬ contradicted itself
- ¬scope.outside¬: ¬docs/x: No allowed pattern covers it.¬
- **Now:** Nothing. It is tried again by itself, not before ¬2026-01-02T03:04:05Z¬; attempt 2 of 3 failed.
`},
		"blocked": {blocked, Around{MaxAttempts: 3}, `**Writ: task 7 is blocked.**

- 2 files changed, and not delivered: ¬calc/a.go¬, ¬calc/b.go¬
- Checks: ¬test¬ failed (exit 1), ¬lint¬ contradicted itself
- ¬scope.outside¬: ¬docs/x: No allowed pattern covers it.¬
- **Now:** Add the path to allowed_files if the change is wanted. Then comment ¬/writ retry¬, with a word to the builder behind it if you like.
`},
		"an umbrella alone": {silent, Around{MaxAttempts: 3}, `**Writ: task 7 is blocked.**

- 2 files changed, and not delivered: ¬calc/a.go¬, ¬calc/b.go¬
- Checks: ¬test¬ failed (exit 1), ¬lint¬ contradicted itself
- ¬execution.verification.failed¬: A dispatched execution was not accepted.
- **Now:** Read the finer codes beside it. Then comment ¬/writ retry¬, with a word to the builder behind it if you like.
`},
		"revised": {completed(), Around{Change: link, Lines: &Lines{1, 0, 0}, Revision: true}, `**Writ: task 7 completed (` + link + `).**

- 2 files changed by the revision, +1 −0: ¬calc/a.go¬, ¬calc/b.go¬
- Checks: ¬test¬ passed
- **Now:** Review the change and merge it, or close it. Writ merges nothing.
`},
		"nothing checked, and no sandbox": {loud, Around{Lines: &Lines{1, 0, 0}}, `**Writ: task 7 completed.**

**` + LineNothingChecked + `**

**` + LineNoSandbox + `**

- 2 files changed, +1 −0: ¬calc/a.go¬, ¬calc/b.go¬
`},
		"edited": {edited, Around{}, `**Writ: task 7 was not carried out.**

- ¬instruction.changed_after_approval¬: ¬Approved was sha256:2d711642b726…, the issue now has sha256:2d711642b726….¬
- **Now:** Read the issue as it is now, and comment ¬/writ run¬ to approve that.
`},
		"stopped": {stopped, Around{}, `**Writ: task 7 was not carried out.**

- ¬task.stopped¬: ¬Stopped by ana.¬
- **Now:** ` + kernel.CodeTaskStopped.IssueRemedy() + `
`},
		"refused": {refused, Around{}, `**Writ: task 7 was not carried out.**

- ¬execution.dispatch.malformed¬: ¬allowed_files: It is missing.¬, and 1 more of that
- ¬authority.insufficient¬: ¬ana: read is less than write.¬
- **Now:** ` + kernel.CodeDispatchMalformed.IssueRemedy() + " " + kernel.CodeAuthority.IssueRemedy() + `
`},
		"held": {held, Around{}, `**Writ: task 7 is held by another runner.**

- ¬lease.held¬: ` + kernel.CodeLeaseHeld.Info().Meaning + `
- **Now:** Nothing. It goes on when the run of ¬host-2¬ has ended, or its lease has.
`},
	} {
		got := c.report.Comment(c.around)
		if want := strings.ReplaceAll(c.want, "¬", "`"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		lines := 0
		for l := range strings.Lines(strings.ReplaceAll(got, link, "change 9")) {
			lines += 1 + len([]rune(l))/phoneWidth
		}
		if lines > phoneLines {
			t.Errorf("%s: %d lines on a phone", name, lines)
		}
	}
}

// TestComment_Hostile: names and causes of any length and with any marks take their place,
// and no more, and are Markdown nowhere.
func TestComment_Hostile(t *testing.T) {
	r := failed()
	r.ChangedFiles, r.Checks, r.Violations = nil, nil, nil
	for i := range 200 {
		name := fmt.Sprintf("%d\n/close `**x**`](http://evil) fixes #1 %s", i, strings.Repeat("語", 300))
		r.ChangedFiles = append(r.ChangedFiles, name)
		r.Checks = append(r.Checks, Check{Name: name})
		r.Violations = append(r.Violations, kernel.Violation{Code: kernel.CodeScopeOutside, Subject: name, Detail: name})
	}
	got := r.Comment(Around{})
	if n := len([]rune(got)); n > 1800 {
		t.Errorf("%d characters", n)
	}
	for l := range strings.Lines(got) {
		if strings.HasPrefix(strings.TrimSpace(l), "/") || strings.Count(l, "`")%2 != 0 || strings.Contains(l, "#1") {
			t.Errorf("a line %q", l)
		}
	}
	if !strings.Contains(got, "and 197 more") || !strings.Contains(got, "and 195 more") || !strings.Contains(got, "and 199 more of that") {
		t.Errorf("what is left out isn't counted:\n%s", got)
	}
}

// TestT25_TheDescriptionClosesNothing: it mentions the issue, and no keyword of a forge
// stands before that, nor before any other number.
func TestT25_TheDescriptionClosesNothing(t *testing.T) {
	merges := completed()
	merges.FinalState, merges.WaitingFor = kernel.TaskNone, kernel.WaitMerge
	for name, r := range map[string]Report{"close_on: verified": completed(), "close_on: merged": merges} {
		r.ChangedFiles = []string{"fixes #1", "closes gh-2"}
		got := r.Description(Around{Change: "[change 9](https://forge.example/9)", Lines: &Lines{1, 2, 0}}) + r.Evidence(MaxMarkdown, "")
		if !strings.HasPrefix(got, "**For #7. ") || strings.Contains(got, "change 9") {
			t.Errorf("%s: %s", name, got)
		}
		for l := range strings.Lines(got) {
			if defuse(l) != l {
				t.Errorf("%s: %q closes something", name, l)
			}
		}
	}
}

// TestEvidence_Folded: all of it is there, in one fold, within its room.
func TestEvidence_Folded(t *testing.T) {
	r := failed()
	got := r.Evidence(MaxMarkdown, "\nBelow.\n")
	for _, want := range []string{"- task_final_state: `retry_pending`", "#### What broke a rule", "--- FAIL: TestAdd", "- run: `run-1`", "\nBelow.\n\n</details>\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q isn't in\n%s", want, got)
		}
	}
	if !strings.HasPrefix(got, "\n<details>\n<summary>Evidence</summary>\n\n- ") || strings.Count(got, "details>") != 2 {
		t.Errorf("it isn't folded once:\n%s", got)
	}
	r.Outputs = []Output{{"check test", strings.Repeat("語", 1500)}}
	if got := r.Evidence(3000, "\nBelow.\n"); len(got) > 3000 || !strings.Contains(got, "is left out") || !strings.Contains(got, "Below.") {
		t.Errorf("%d bytes of 3000:\n%s", len(got), got)
	}
}

// TestComment_FileLikeAnAct: a file can't hide its name by looking like the id of an act.
func TestComment_FileLikeAnAct(t *testing.T) {
	const name = "1795751963300/comment:4"
	r := Report{TaskID: 7, Violations: []kernel.Violation{{Code: kernel.CodeScopeOutside, Subject: name, Detail: "It isn't in the allowed files."}}}
	if md := r.Comment(Around{}); !strings.Contains(md, name) {
		t.Errorf("the file isn't named:\n%s", md)
	}
}

// TestComment_LongNamesFitAPhone: paths and causes of any length leave the first lines on two
// screens. Of a path the end is shown, of a cause its beginning, and the evidence has more.
func TestComment_LongNamesFitAPhone(t *testing.T) {
	deep := func(n int) string {
		return strings.Repeat("some/very/deep/directory/", 9) + fmt.Sprintf("file_%d.go", n)
	}
	r := failed()
	r.FinalState, r.NotBefore, r.ChangedFiles, r.Violations = kernel.TaskBlocked, "", nil, nil
	for n := range 3 {
		r.ChangedFiles = append(r.ChangedFiles, deep(n))
		r.Violations = append(r.Violations, kernel.Violation{
			Code: []kernel.Code{kernel.CodeScopeOutside, kernel.CodeScopeSize, kernel.CodePathUnsafe}[n], Subject: deep(n), Detail: "It says: " + strings.Repeat("and so on, ", 40) + "that.",
		})
	}
	got, evidence := r.Comment(Around{MaxAttempts: 3}), r.Evidence(MaxMarkdown, "")
	lines := 0
	for l := range strings.Lines(got) {
		lines += 1 + len([]rune(l))/phoneWidth
	}
	if lines > 2*phoneLines {
		t.Errorf("%d lines on a phone:\n%s", lines, got)
	}
	for n := range 3 {
		if strings.Contains(got, deep(n)) || strings.Count(got, fmt.Sprintf("/file_%d.go", n)) != 2 || !strings.Contains(evidence, deep(n)) {
			t.Errorf("path %d isn't told by its end, or isn't whole in the evidence:\n%s", n, got)
		}
	}
	if strings.Count(got, ": It says: and so on") != 3 || strings.Contains(got, "that.") {
		t.Errorf("causes aren't cut:\n%s", got)
	}
}
