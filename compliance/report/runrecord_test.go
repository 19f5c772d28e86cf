package report

import (
	"encoding/json"
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
