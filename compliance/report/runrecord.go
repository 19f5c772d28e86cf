package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	// Refreshes is the run whose delivered result this one applied on another base, "" for
	// none: Resumes is then the one that was dispatched.
	Refreshes string
	Built     *kernel.BuilderResult // null while it is unknown how the builder ended
	Diff      *kernel.Diff
	Checked   *kernel.RunResult

	// Accepted are the guarded paths of its work, once somebody has accepted them.
	Accepted *kernel.PathsFacts
	waited   bool // what it goes on with waited for that
	lacked   bool // what it goes on with waited for what its checks lacked

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
		if f.Run == nil && f.Refreshable() { // its claim
			r.Resumes, r.Dispatch, r.Attempt, r.Refreshes = f.Refresh.Resumes, f.Refresh.Dispatch, f.Refresh.Attempt, f.Refresh.Run
		}
		if f.Run == nil && f.Resumable() { // its claim
			r.Resumes, r.Dispatch, r.Attempt = f.Sealed.Run, f.Sealed.Dispatch, f.Sealed.Attempt
			r.waited, r.lacked = f.Head.AwaitsPaths(), f.Head.AwaitsEnvironment()
		}
		if f.Run == nil && f.ResumesFix() { // its claim
			r.Resumes, r.Dispatch, r.Attempt = f.Sealed.Run, f.Sealed.Dispatch, f.Sealed.Attempt
		}
		if f.Run != nil && f.Paths != nil && !f.Paths.Held() {
			r.Accepted = f.Paths
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
	switch {
	case r.Resumes == "":
	case r.lacked:
		rep.Notes = append(slices.Clone(rep.Notes), "The work of run "+r.Resumes+" waited for what its checks lacked. This run went on with it, and no builder ran again.")
	case r.Refreshes != "":
		rep.Notes = append(slices.Clone(rep.Notes), "The verified change of run "+r.Refreshes+" was applied on the base as it was then, and judged and checked again there. No builder ran again.")
	case r.waited:
		rep.Notes = append(slices.Clone(rep.Notes), "The work of run "+r.Resumes+" waited for somebody to accept its guarded paths. This run delivers it: neither builder nor checks ran again.")
	default:
		rep.Notes = append(slices.Clone(rep.Notes), "Run "+r.Resumes+" was interrupted after its builder had ended. This run went on with its sealed work, and no builder ran again.")
	}
	if p := r.Accepted; p != nil {
		rep.Notes = append(slices.Clone(rep.Notes), fmt.Sprintf("The guarded paths were accepted by %s (%s), act %s, digest %s.", p.Accepted.Actor, p.Accepted.Permission, p.Accepted.Act, p.Digest))
		for _, g := range p.Paths {
			rep.Notes = append(rep.Notes, "Guarded and accepted: "+unreferring(g.Path))
		}
	}
	rep.RunID, rep.Attempts = r.ID, max(rep.Attempts, r.Attempt)
	rep.Dispatched, rep.Verified, rep.DispatchHash = true, verified, r.Dispatch
	if r.Diff != nil {
		for _, ch := range r.Diff.Changes {
			rep.ChangedFiles = append(rep.ChangedFiles, ch.Path)
		}
		rep.Discarded, rep.Locks = r.Diff.Discarded, r.Diff.Locks
	}
	r.tellChecks(rep)
	r.tellUsage(rep)
	r.tellDenied(rep)
	r.tellPrepared(rep)
	if b := r.Built; b != nil {
		rep.Sandbox, rep.Agent = b.Sandbox, b.Agent
		rep.BuilderMs = max(b.Ended-b.Started, 0)
		if r.faulty {
			rep.Outputs = append(rep.Outputs, Output{Name: "builder stdout", Tail: b.Stdout.Tail}, Output{Name: "builder stderr", Tail: b.Stderr.Tail})
		}
	}
}

func (r RunRecord) tellChecks(rep *Report) {
	if r.Checked == nil {
		return
	}
	if len(r.Checked.Checks) > 0 {
		rep.ChecksSandbox = r.Checked.Sandbox
	}
	for _, k := range r.Checked.Checks {
		rep.Checks = append(rep.Checks, Check{Name: k.Name, Passed: k.Passed, Runs: k.Runs, Stable: k.Stable, Exit: k.Exit.Code, OnBase: onBase(k)})
		if !k.Passed {
			rep.Outputs = append(rep.Outputs, Output{Name: "check " + k.Name, Tail: k.Output.Tail})
		}
	}
}

// tellUsage says in one line what the builder used of models.
func (r RunRecord) tellUsage(rep *Report) {
	if r.Built == nil || r.Built.Egress == nil || len(r.Built.Egress.Usage) == 0 {
		return
	}
	var all kernel.Usage
	var models []string
	for _, u := range r.Built.Egress.Usage {
		all.Requests += u.Requests
		all.Input += u.Input
		all.CacheRead += u.CacheRead
		all.CacheWrite += u.CacheWrite
		all.Output += u.Output
		all.Reserved += u.Reserved
		all.Unknown += u.Unknown
		models = append(models, span(u.Model))
	}
	line := fmt.Sprintf("The builder used %d tokens in %d requests: %d in, %d read from the cache, %d written to it, %d out (%s).",
		all.Tokens(), all.Requests, all.Input, all.CacheRead, all.CacheWrite, all.Output, strings.Join(models, ", "))
	if all.Reserved+all.Unknown > 0 {
		line += fmt.Sprintf(" Of %d requests that is what was reserved for them: %d broke off, and of %d the provider didn't say it.", all.Reserved+all.Unknown, all.Reserved, all.Unknown)
	}
	rep.Notes = append(slices.Clone(rep.Notes), line+costOf(r.Built.Egress.Usage))
}

// costOf says what was used comes to, by each currency, and of which models nobody said it.
func costOf(list []kernel.Usage) (line string) {
	sums := map[string]int64{}
	var unpriced []string
	for _, u := range list {
		if u.Price == nil {
			unpriced = append(unpriced, span(u.Model))
			continue
		}
		sums[u.Price.Currency] = min(sums[u.Price.Currency]+u.Cost, kernel.MaxCost)
	}
	for _, currency := range slices.Sorted(maps.Keys(sums)) {
		line += " It cost " + kernel.Money(sums[currency]) + " " + span(currency) + " by the prices of the server's configuration."
	}
	if len(unpriced) > 0 {
		line += " There is no price for " + strings.Join(unpriced, ", ") + ", whose cost isn't known."
	}
	return line
}

// tellDenied says what the gateway denied, and which list would allow it.
func (r RunRecord) tellDenied(rep *Report) {
	notes := slices.Clone(rep.Notes)
	if b := r.Built; b != nil && b.Egress != nil {
		notes = append(notes, deniedNotes(*b.Egress, "The builder", "builders."+b.Builder+".egress of the server's configuration", "")...)
	}
	if r.Checked != nil {
		for _, k := range r.Checked.Checks {
			if k.Egress != nil {
				notes = append(notes, deniedNotes(*k.Egress, "Check "+k.Name, "checks.egress of the server's configuration", "its hosts in the contract")...)
			}
		}
	}
	if len(notes) > 0 {
		rep.Notes = notes
	}
}

// tellPrepared says what builder and checks were prepared with, and what a step that failed
// wrote.
func (r RunRecord) tellPrepared(rep *Report) {
	notes := slices.Clone(rep.Notes)
	tell := func(who string, p *kernel.Prepared) {
		if p == nil {
			return
		}
		for _, s := range p.Steps {
			if s.Egress != nil {
				notes = append(notes, deniedNotes(*s.Egress, "Step "+s.Name+" of the preparation", "checks.egress of the server's configuration", "its hosts in the contract")...)
			}
			if s.Exit != (kernel.Exit{Cause: kernel.CauseExited}) {
				rep.Outputs = append(rep.Outputs, Output{Name: "prepare " + s.Name, Tail: s.Output.Tail})
			}
		}
		switch {
		case p.Layer == "": // it failed
		case p.OfChange:
			notes = append(notes, fmt.Sprintf("%s prepared for by the key files of the change itself, thrown away since: %s.", who, p.Layer))
		default:
			notes = append(notes, fmt.Sprintf("%s prepared for on the base: %s.", who, p.Layer))
		}
	}
	if r.Built != nil {
		tell("The builder was", r.Built.Prepared)
	}
	if r.Checked != nil {
		tell("The checks were", r.Checked.Prepared)
	}
	if len(notes) > 0 {
		rep.Notes = notes
	}
}

func deniedNotes(e kernel.Egress, who, operators, contracts string) (out []string) {
	for _, d := range e.Denied {
		requests := fmt.Sprintf("%d requests", d.Count)
		if d.Count == 1 {
			requests = "1 request"
		}
		where := " to " + d.Host
		if d.Port > 0 {
			where += fmt.Sprintf(":%d", d.Port)
		}
		if d.Host == "" {
			where = "" // nobody can tell
		}
		out = append(out, fmt.Sprintf("%s: %s%s denied (%s)%s.", who, requests, where, d.Code, cmp.Or(allowedBy(d, operators, contracts), refusedFor(e, d))))
	}
	if e.DeniedMore > 0 {
		out = append(out, fmt.Sprintf("%s: %d more requests denied.", who, e.DeniedMore))
	}
	return out
}

// refusedFor says what a provider's table lacks, of the first request of a kind: the operator
// may add it.
func refusedFor(e kernel.Egress, d kernel.Denied) string {
	for _, c := range e.Connections {
		if c.Detail != "" && c.Code == d.Code && c.Host == d.Host && slices.Contains([]string{"egress.body_denied", "egress.endpoint_denied"}, c.Code) {
			return "; the first one: " + c.Detail
		}
	}
	return ""
}

// allowedBy names the list that would allow it. What isn't about a rule for the host no
// list allows.
func allowedBy(d kernel.Denied, operators, contracts string) string {
	list, _, _ := strings.Cut(d.Rule, " ")
	switch {
	case !slices.Contains([]string{"egress.host_denied", "egress.port_denied", "egress.method_denied"}, d.Code):
		return ""
	case list == "world":
		operators = "egress of this repository under worlds of the server's configuration"
	case list == "contract" && contracts != "":
		operators = contracts
	}
	return "; a rule in " + operators + " would allow it"
}

// Agrees reports whether a report says of the run what its records say: dispatch, agent,
// time, changed files and checks. A report of before the time was said needn't say it.
func (r RunRecord) Agrees(rep Report) bool {
	var again Report
	r.Tell(&again, rep.Verified)
	again = again.Finish()
	return rep.Dispatched == again.Dispatched && rep.DispatchHash == again.DispatchHash && rep.RunID == again.RunID &&
		(rep.BuilderMs == 0 || rep.BuilderMs == again.BuilderMs) &&
		(rep.Agent == nil) == (again.Agent == nil) && (rep.Agent == nil || *rep.Agent == *again.Agent) &&
		rep.Sandbox == again.Sandbox && rep.ChecksSandbox == again.ChecksSandbox && slices.Equal(rep.ChangedFiles, again.ChangedFiles) &&
		slices.Equal(rep.Discarded, again.Discarded) && slices.Equal(rep.Locks, again.Locks) && slices.EqualFunc(rep.Checks, again.Checks, Check.equal) && slices.Equal(rep.Outputs, again.Outputs)
}

// equal compares what is told of a check.
func (c Check) equal(o Check) bool {
	a, b := c.OnBase, o.OnBase
	if c.OnBase, o.OnBase = nil, nil; c != o || (a == nil) != (b == nil) {
		return false
	}
	return a == nil || *a == *b
}

func onBase(k kernel.CheckResult) *OnBase {
	if k.OnBase == nil {
		return nil
	}
	return &OnBase{Exit: k.OnBase.Code, Same: *k.OnBase == k.Exit}
}
