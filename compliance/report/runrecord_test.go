package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// TestD52_Combinations: of all values of the three fields, those that can occur are
// admitted, and no other.
func TestD52_Combinations(t *testing.T) {
	type three struct {
		state                kernel.TaskState
		dispatched, verified bool
	}
	can := map[three]bool{
		{kernel.TaskNone, false, false}:        true, // refused, held, waiting
		{kernel.TaskNone, true, false}:         true, // a run that ended without a result
		{kernel.TaskNone, true, true}:          true, // verified, and the issue waits for the merge
		{kernel.TaskCompleted, true, true}:     true,
		{kernel.TaskRetryPending, true, false}: true,
		{kernel.TaskBlocked, true, false}:      true,
		// Blocked by interruptions: the last run may never have started.
		{kernel.TaskBlocked, false, false}:      true,
		{kernel.TaskRetryPending, false, false}: true,
	}
	states := []kernel.TaskState{kernel.TaskNone, kernel.TaskOpen, kernel.TaskClaimed, kernel.TaskWaiting, kernel.TaskCompleted, kernel.TaskRetryPending, kernel.TaskBlocked, "done"}
	for _, state := range states {
		for _, dispatched := range []bool{false, true} {
			for _, verified := range []bool{false, true} {
				r := completed()
				r.FinalState, r.Dispatched, r.Verified, r.Codes = state, dispatched, verified, nil
				if r.WaitingFor = ""; state == kernel.TaskNone && verified {
					r.WaitingFor = kernel.WaitMerge
				}
				switch state {
				case kernel.TaskBlocked:
					r.Codes = []kernel.Code{kernel.CodeEscalationBlocked}
				case kernel.TaskRetryPending:
					r.Codes = []kernel.Code{kernel.CodeTimeout}
				}
				data, err := r.JSON()
				if want := can[three{state, dispatched, verified}]; (err == nil) != want {
					t.Errorf("%q, dispatched %v, verified %v: %v", state, dispatched, verified, err)
				}
				var said map[string]any
				if err != nil || json.Unmarshal(data, &said) != nil {
					continue
				}
				_, has := said["task_final_state"]
				if said["execution_dispatched"] != dispatched || said["execution_verified"] != verified || has != (state != "") {
					t.Errorf("%q, dispatched %v, verified %v is written as %s", state, dispatched, verified, data)
				}
			}
		}
	}
}

// TestRunRecord_TellsWhatWasDenied: how many requests to which host, and which list
// would allow them, where one could.
func TestRunRecord_TellsWhatWasDenied(t *testing.T) {
	denied := func(list ...kernel.Denied) *kernel.Egress { return &kernel.Egress{Denied: list} }
	built, checked := kernel.BuilderResult{Builder: "agent", Egress: denied(
		kernel.Denied{Host: "example.org", Port: 443, Code: "egress.host_denied", Rule: "builder", Count: 12},
		kernel.Denied{Code: "egress.request_invalid", Count: 2},
		kernel.Denied{Host: "10.0.0.1", Port: 443, Code: "egress.ip_literal", Rule: "names", Count: 1},
	)}, kernel.RunResult{Checks: []kernel.CheckResult{{Name: "test", Passed: true, Egress: denied(
		kernel.Denied{Host: "a.example.org", Port: 80, Code: "egress.port_denied", Rule: "contract a.example.org", Count: 2},
		kernel.Denied{Host: "b.example.org", Port: 80, Code: "egress.host_denied", Rule: "world", Count: 2},
	)}, {Name: "lint"}}}
	built.Egress.DeniedMore = 3
	built.Egress.Denied = append(built.Egress.Denied, kernel.Denied{Host: "models.example.org", Port: 443, Code: "egress.body_denied", Rule: "contract models.example.org", Count: 2})
	built.Egress.Connections = []kernel.Connection{{Host: "example.org", Code: "egress.host_denied", Detail: "no"}, {Host: "models.example.org", Detail: "left out: x"},
		{Host: "models.example.org", Code: "egress.body_denied", Detail: "hints: it isn't known"}, {Host: "models.example.org", Code: "egress.body_denied", Detail: "plans: it isn't known"}}
	var rep Report
	RunRecord{ID: "r1", Dispatch: "sha256:x", Built: &built, Checked: &checked}.Tell(&rep, false)
	want := []string{
		"The builder: 12 requests to example.org:443 denied (egress.host_denied); a rule in builders.agent.egress of the server's configuration would allow it.",
		"The builder: 2 requests denied (egress.request_invalid).",
		"The builder: 1 request to 10.0.0.1:443 denied (egress.ip_literal).",
		"The builder: 2 requests to models.example.org:443 denied (egress.body_denied); the first one: hints: it isn't known.",
		"The builder: 3 more requests denied.",
		"Check test: 2 requests to a.example.org:80 denied (egress.port_denied); a rule in its hosts in the contract would allow it.",
		"Check test: 2 requests to b.example.org:80 denied (egress.host_denied); a rule in egress of this repository under worlds of the server's configuration would allow it.",
	}
	if !slices.Equal(rep.Notes, want) {
		t.Errorf("notes %q", rep.Notes)
	}
}

// TestRunRecord_TellsWhatWasUsed: in one line, and how much of it nobody measured.
func TestRunRecord_TellsWhatWasUsed(t *testing.T) {
	usage := []kernel.Usage{
		{Model: "large", Requests: 3, Input: 1, CacheRead: 20, CacheWrite: 300, Output: 4000},
		{Model: "small", Requests: 2, Input: 1, Output: 1, Reserved: 1, Unknown: 1},
	}
	const unpriced = " There is no price for "
	const measured = "The builder used 4321 tokens in 3 requests: 1 in, 20 read from the cache, 300 written to it, 4000 out (`large`)." + unpriced + "`large`, whose cost isn't known."
	const both = "The builder used 4323 tokens in 5 requests: 2 in, 20 read from the cache, 300 written to it, 4001 out (`large`, `small`). Of 2 requests that is what was reserved for them: 1 broke off, and of 1 the provider didn't say it." + unpriced + "`large`, `small`, whose cost isn't known."
	for n, want := range [][]string{nil, {measured}, {both}} {
		var rep Report
		RunRecord{ID: "r1", Dispatch: "sha256:x", Built: &kernel.BuilderResult{Egress: &kernel.Egress{Usage: usage[:n]}}}.Tell(&rep, false)
		if !slices.Equal(rep.Notes, want) {
			t.Errorf("notes %q, want %q", rep.Notes, want)
		}
	}
}

// TestRunRecord_TellsWhatItCost: of what has a price the sum, of each currency, and what has
// none by name.
func TestRunRecord_TellsWhatItCost(t *testing.T) {
	usd, credits := &kernel.Price{Currency: "USD"}, &kernel.Price{Currency: "credits"}
	for _, c := range []struct {
		usage []kernel.Usage
		want  string
	}{
		{[]kernel.Usage{{Model: "m", Price: usd, Cost: 1_234_567}}, " It cost 1.234567 `USD` by the prices of the server's configuration."},
		{[]kernel.Usage{{Model: "m", Price: usd}}, " It cost 0.00 `USD` by the prices of the server's configuration."},
		{
			[]kernel.Usage{{Model: "m", Price: usd, Cost: 500_000}, {Model: "n", Price: credits, Cost: 1}, {Model: "o", Price: usd, Cost: 10_500_000}, {Model: "p"}},
			" It cost 11.00 `USD` by the prices of the server's configuration. It cost 0.000001 `credits` by the prices of the server's configuration. There is no price for `p`, whose cost isn't known.",
		},
	} {
		var rep Report
		RunRecord{ID: "r1", Dispatch: "sha256:x", Built: &kernel.BuilderResult{Egress: &kernel.Egress{Usage: c.usage}}}.Tell(&rep, false)
		if len(rep.Notes) != 1 || !strings.HasSuffix(rep.Notes[0], c.want) {
			t.Errorf("notes %q, want %q", rep.Notes, c.want)
		}
	}
}

// TestRunRecord_TellsWhatWasPrepared: the layers of builder and checks, what a failed step
// wrote, and which hosts a step was denied.
func TestRunRecord_TellsWhatWasPrepared(t *testing.T) {
	layer := canon.Sum([]byte("layer"))
	r := RunRecord{
		ID: "r", Dispatch: canon.Sum([]byte("d")),
		Built: &kernel.BuilderResult{Prepared: &kernel.Prepared{Layer: layer, Steps: []kernel.StepResult{{Name: "deps", Exit: kernel.Exit{Cause: kernel.CauseExited}, Output: kernel.Stream{Tail: "fine"}}}}},
		Checked: &kernel.RunResult{Prepared: &kernel.Prepared{OfChange: true, Steps: []kernel.StepResult{{
			Name: "deps", Exit: kernel.Exit{Code: 1, Cause: kernel.CauseExited}, Output: kernel.Stream{Tail: "no such version\n"},
			Egress: &kernel.Egress{Denied: []kernel.Denied{{Host: "elsewhere.example.org", Port: 443, Code: "egress.host_denied", Rule: "contract", Count: 1}}},
		}}}},
	}
	var rep Report
	r.Tell(&rep, false)
	want := []string{
		"The builder was prepared for on the base: " + string(layer) + ".",
		"Step deps of the preparation: 1 request to elsewhere.example.org:443 denied (egress.host_denied); a rule in its hosts in the contract would allow it.",
	}
	if !slices.Equal(rep.Notes, want) || !slices.Equal(rep.Outputs, []Output{{Name: "prepare deps", Tail: "no such version\n"}}) {
		t.Errorf("notes %q, outputs %q", rep.Notes, rep.Outputs)
	}
	r.Checked.Prepared.Steps, r.Checked.Prepared.Layer = nil, layer
	rep = Report{}
	r.Tell(&rep, true)
	if len(rep.Notes) != 2 || rep.Notes[1] != "The checks were prepared for by the key files of the change itself, thrown away since: "+string(layer)+"." {
		t.Errorf("notes %q", rep.Notes)
	}
}

// TestRunRecord_Take: a report tells of the one run, and a builder that is known
// never to have started wasn't dispatched.
func TestRunRecord_Take(t *testing.T) {
	dispatch := kernel.Dispatch{Kind: string(kernel.KindDispatch), RunID: "r1", Attempt: 2}
	diff := kernel.Diff{Kind: string(kernel.KindDiff), Run: "r1", Changes: []kernel.Change{{Path: "b"}, {Path: "a"}}}
	outcome := func(s kernel.OutcomeStatus) kernel.Outcome {
		return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: "dispatch:r1", Effect: kernel.ActionDispatch, Status: s}
	}
	for name, c := range map[string]struct {
		outcome    any
		run        string
		dispatched bool
	}{
		"started":           {outcome(kernel.OutcomeDone), "r1", true},
		"unknown":           {outcome(kernel.OutcomeUnknown), "r1", true},
		"it never started":  {outcome(kernel.OutcomeFailed), "r1", false},
		"another run's end": {outcome(kernel.OutcomeFailed), "r2", true},
	} {
		run := RunRecord{ID: "r1"}
		for _, r := range []struct {
			kind kernel.Kind
			run  string
			body any
		}{
			{kernel.KindDispatch, "r1", dispatch}, {kernel.KindDispatch, "r2", kernel.Dispatch{RunID: "r2"}},
			{kernel.KindOutcome, c.run, c.outcome}, {kernel.KindDiff, "r1", diff},
		} {
			data, err := canon.Marshal(r.body)
			if err == nil {
				err = run.Take(r.kind, r.run, data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var rep Report
		run.Tell(&rep, false)
		if rep = rep.Finish(); rep.Dispatched != c.dispatched || c.dispatched != (len(rep.ChangedFiles) == 2) || c.dispatched != (rep.Attempts == 2) {
			t.Errorf("%s: %+v", name, rep)
		}
	}
	if err := (&RunRecord{ID: "r1"}).Take(kernel.KindDiff, "r1", []byte("{")); err == nil {
		t.Error("a body that isn't JSON passes")
	}
}

// TestRunRecord_TellsOfTheAgent: which one it was is in the report, in its text and on a
// terminal, and a report that says another one doesn't agree with the records.
func TestRunRecord_TellsOfTheAgent(t *testing.T) {
	agent := kernel.Agent{Kind: "codex", Version: "1.2 `@ana` #7\x1b[31m", Model: "large", Instructions: true}
	run := RunRecord{ID: "r1", Dispatch: "sha256:x", Built: &kernel.BuilderResult{Agent: &agent}}
	var told Report
	run.Tell(&told, false)
	told = told.Finish()
	for text, want := range map[string]string{
		told.Recorded(): "- agent: `codex`\n- version, as the agent says: " + span(agent.Version) + "\n- model: `large`\n- instructions: `the repository's, of the base`\n",
		Plain(told):     "  agent: codex\n  version, as the agent says: " + cleanLine(agent.Version) + "\n  model: large\n  instructions: the repository's, of the base\n",
	} {
		if !strings.Contains(text, want) || strings.Contains(text, "\x1b") {
			t.Errorf("%q isn't in %q", want, text)
		}
	}
	data, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	var read Report
	if err := json.Unmarshal(data, &read); err != nil || !run.Agrees(read) {
		t.Errorf("the report doesn't agree with its own records: %v, %s", err, data)
	}
	for name, other := range map[string]*kernel.Agent{
		"none": nil, "another kind": {Kind: "acp", Version: agent.Version, Model: agent.Model, Instructions: true},
		"another version": {Kind: agent.Kind, Model: agent.Model, Instructions: true}, "another model": {Kind: agent.Kind, Version: agent.Version, Instructions: true},
		"no instructions": {Kind: agent.Kind, Version: agent.Version, Model: agent.Model},
	} {
		if read.Agent = other; run.Agrees(read) {
			t.Errorf("%s: it agrees", name)
		}
	}
	if run.Built = nil; run.Agrees(told) {
		t.Error("of no run: it agrees")
	}
}

// TestRunRecord_TellsHowLongAndLastMessage: how long the builder ran is a fact of the report,
// and the last message of an agent is folded and quoted. Both follow from the records, and a
// report of before the time was said agrees still.
func TestRunRecord_TellsHowLongAndLastMessage(t *testing.T) {
	built := kernel.BuilderResult{Started: 1_000, Ended: 1_000 + 754_321, Agent: &kernel.Agent{Kind: "codex", Message: "Done.\n/close\n</details> @ana a\u200bb"}}
	run := RunRecord{ID: "r1", Dispatch: "sha256:x", Built: &built}
	var told Report
	run.Tell(&told, false)
	told = told.Finish()
	for text, want := range map[string]string{
		told.Recorded():           "- the builder ran for: `12m34.3s`\n",
		told.Evidence(60_000, ""): "\n<details>\n<summary>" + lastMessage + "</summary>\n\n```text\n| Done.\n| /close\n| </details> @ana a\\u200bb\n```\n\n</details>\n",
		Plain(told):               lastMessage + "\n  Done.\n  /close\n  </details> @ana a\\u200bb\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q isn't in %q", want, text)
		}
	}
	if first := told.Comment(Around{}); strings.Contains(first, "Done.") {
		t.Errorf("it stands where everybody reads: %q", first)
	}
	for name, c := range map[string]struct {
		change func(*Report)
		want   bool
	}{
		"as it was told":  {func(*Report) {}, true},
		"no time":         {func(r *Report) { r.BuilderMs = 0 }, true},
		"another time":    {func(r *Report) { r.BuilderMs++ }, false},
		"another message": {func(r *Report) { r.Agent = &kernel.Agent{Kind: "codex", Message: "Failed."} }, false},
	} {
		r := told
		if c.change(&r); run.Agrees(r) != c.want {
			t.Errorf("%s: it agrees: %t", name, !c.want)
		}
	}
}

// TestD52_OnBaseReadAgain: what a report says of a check on the base is compared by its
// values, for it was read again, and another word is noticed.
func TestD52_OnBaseReadAgain(t *testing.T) {
	exit := kernel.Exit{Code: 1, Cause: kernel.CauseExited}
	run := RunRecord{ID: "r1", Dispatch: "sha256:x", Checked: &kernel.RunResult{
		Run: "r1", Checks: []kernel.CheckResult{{Name: "test", Runs: 1, Stable: true, Exit: exit, OnBase: &exit}},
	}}
	var told Report
	run.Tell(&told, false)
	data, err := json.Marshal(told.Finish())
	if err != nil {
		t.Fatal(err)
	}
	read := func() (r Report) {
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if !run.Agrees(read()) {
		t.Error("the report doesn't agree with its own records")
	}
	for name, change := range map[string]func(*Check){
		"another exit":  func(c *Check) { c.OnBase.Exit = 2 },
		"not the same":  func(c *Check) { c.OnBase.Same = false },
		"nothing of it": func(c *Check) { c.OnBase = nil },
		"it passed":     func(c *Check) { c.Passed = true },
	} {
		r := read()
		if change(&r.Checks[0]); run.Agrees(r) {
			t.Errorf("%s: it agrees", name)
		}
	}
}
