package report

import (
	"encoding/json"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// RunRecord is what the records of one run say of it. A report tells of a run by this
// alone, never by what a process remembers: whoever looks later, after a halt, a
// takeover or a restart, reports the same.
type RunRecord struct {
	ID      string
	Pack    *kernel.SeedPack // null where nothing was claimed here
	Attempt int64
	// Dispatch is the hash of what was handed out, "" for nothing. An intent whose
	// outcome isn't known counts: a builder may have been started.
	Dispatch canon.Digest
	// Resumes is the run whose sealed work this one went on with, "" for none. What was
	// handed out was handed out for that one.
	Resumes string
	Built   *kernel.BuilderResult // null while it is unknown how the builder ended
	Diff    *kernel.Diff
	Checked *kernel.RunResult

	faulty bool // the kernel found fault with how the builder ended
}

// Take takes in a record of the ledger, or a draft of one, in their order. What
// belongs to another run is passed over. body is canonical JSON.
func (r *RunRecord) Take(kind kernel.Kind, run string, body []byte) error {
	if run != r.ID || r.ID == "" {
		return nil
	}
	switch kind {
	case kernel.KindSeedPack:
		return take(&r.Pack, body)
	case kernel.KindBuilderResult:
		return take(&r.Built, body)
	case kernel.KindDiff:
		return take(&r.Diff, body)
	case kernel.KindRunResult:
		return take(&r.Checked, body)
	case kernel.KindDispatch:
		var d kernel.Dispatch
		if err := json.Unmarshal(body, &d); err != nil {
			return err
		}
		r.Dispatch, r.Attempt = canon.Sum(body), d.Attempt
	case kernel.KindObservation:
		var f kernel.Facts
		if err := json.Unmarshal(body, &f); err != nil {
			return err
		}
		if f.Run == nil && f.Resumable() { // its claim
			r.Resumes, r.Dispatch, r.Attempt = f.Sealed.Run, f.Sealed.Dispatch, f.Sealed.Attempt
		}
		r.faulty = r.faulty || f.Run != nil && len(f.Run.Build) > 0
	case kernel.KindOutcome:
		var o kernel.Outcome
		if err := json.Unmarshal(body, &o); err != nil {
			return err
		}
		if o.Effect == kernel.ActionDispatch && o.Status == kernel.OutcomeFailed {
			r.Dispatch = "" // it never started
		}
	}
	return nil
}

// take keeps a record's body. The ledger holds canonical JSON of the kernel's own
// types, and verifies it.
func take[T any](to **T, body []byte) error {
	v := new(T)
	if err := json.Unmarshal(body, v); err != nil {
		return err
	}
	*to = v
	return nil
}

// Tell adds to a report what the run came to. verified says that its work was
// accepted.
func (r RunRecord) Tell(rep *Report, verified bool) {
	if p := r.Pack; p != nil {
		rep.RunID, rep.BaseCommit, rep.Builder = r.ID, p.Pins.BaseCommit, p.Spec.Builder
		rep.GovernanceHash, rep.ContractSource = p.Pins.Governance, p.ContractSource
		rep.Warnings, rep.Notes = p.Warnings, p.Notes
	}
	if r.Dispatch == "" {
		return
	}
	if r.Resumes != "" {
		rep.Notes = append(slices.Clone(rep.Notes), "Run "+r.Resumes+" was interrupted after its builder had ended. This run went on with its sealed work, and no builder ran again.")
	}
	rep.RunID, rep.Attempts = r.ID, max(rep.Attempts, r.Attempt)
	rep.Dispatched, rep.Verified, rep.DispatchHash = true, verified, r.Dispatch
	if r.Diff != nil {
		for _, ch := range r.Diff.Changes {
			rep.ChangedFiles = append(rep.ChangedFiles, ch.Path)
		}
		rep.Discarded = r.Diff.Discarded
	}
	r.tellChecks(rep)
	if b := r.Built; b != nil {
		rep.Sandbox = b.Sandbox
		if r.faulty {
			rep.Outputs = append(rep.Outputs, Output{Name: "builder stdout", Tail: b.Stdout.Tail}, Output{Name: "builder stderr", Tail: b.Stderr.Tail})
		}
	}
}

func (r RunRecord) tellChecks(rep *Report) {
	if r.Checked == nil {
		return
	}
	for _, k := range r.Checked.Checks {
		rep.Checks = append(rep.Checks, Check{Name: k.Name, Passed: k.Passed, Runs: k.Runs, Stable: k.Stable, Exit: k.Exit.Code})
		if !k.Passed {
			rep.Outputs = append(rep.Outputs, Output{Name: "check " + k.Name, Tail: k.Output.Tail})
		}
	}
}

// Agrees reports whether a report says of the run what its records say: dispatch,
// changed files and checks.
func (r RunRecord) Agrees(rep Report) bool {
	var again Report
	r.Tell(&again, rep.Verified)
	again = again.Finish()
	return rep.Dispatched == again.Dispatched && rep.DispatchHash == again.DispatchHash && rep.RunID == again.RunID &&
		rep.Sandbox == again.Sandbox && slices.Equal(rep.ChangedFiles, again.ChangedFiles) &&
		slices.Equal(rep.Discarded, again.Discarded) && slices.Equal(rep.Checks, again.Checks) && slices.Equal(rep.Outputs, again.Outputs)
}
