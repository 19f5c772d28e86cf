package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/plan"
)

// entry is what the fold sees of a record or draft: all but its place.
type entry struct {
	kind kernel.Kind
	task int64
	run  string
	body []byte // canonical JSON
	said any    // what it says, where the process itself made it; nil: not read yet
	sum  canon.Digest
}

// neutral kinds change nothing in the world, belong to no round and may stand
// anywhere after the genesis.
func neutral(k kernel.Kind) bool {
	return k == kernel.KindAudit || k == kernel.KindReport || k == kernel.KindAdoption || k == kernel.KindKeyRotation
}

// maxTask is the greatest task number: canonical JSON keeps it exact.
const maxTask = 1<<53 - 1

// take folds one entry of the round under way, receipts and the genesis
// excepted. It changes nothing if it returns an error.
func (f *fold) take(e *entry) error {
	if err := f.read(e); err != nil {
		return err
	}
	if neutral(e.kind) {
		return e.check()
	}
	if e.task < 0 || e.task == 0 && e.kind != kernel.KindOperatorAct || e.task > maxTask || !utf8.ValidString(e.run) {
		return refuse(ErrBody, nil, "a %s record concerns a task and a run id is text", e.kind)
	}
	rule := f.rule(e.kind)
	if rule == nil {
		return refuse(ErrOrder, nil, "a %s record can't stand inside a round", e.kind)
	}
	if err := rule(*e); err != nil {
		return err
	}
	f.now.records++
	return nil
}

// read reads what is folded beside the world, too, so that nobody reads it twice.
func (f *fold) read(e *entry) error {
	switch e.kind {
	case kernel.KindAudit:
		return said[machine.Entry](e)
	case kernel.KindAdoption:
		return said[kernel.Adoption](e)
	case kernel.KindObservation:
		return said[kernel.Facts](e)
	case kernel.KindSeedPack:
		return said[kernel.SeedPack](e)
	case kernel.KindIntent:
		return said[kernel.Intent](e)
	case kernel.KindOutcome:
		return said[kernel.Outcome](e)
	case kernel.KindBuilderResult:
		return said[kernel.BuilderResult](e)
	}
	return nil
}

func said[T any](e *entry) error {
	if _, made := e.said.(T); made {
		return nil
	}
	var v T
	if err := canon.UnmarshalCanonical(e.body, &v); err != nil {
		return refuse(ErrBody, err, "the body of a %s record", e.kind)
	}
	e.said = v
	return nil
}

func (f *fold) rule(k kernel.Kind) func(entry) error {
	switch k {
	case kernel.KindObservation:
		return f.observation
	case kernel.KindSeedPack:
		return f.seedPack
	case kernel.KindInterpretation:
		return f.interpretation
	case kernel.KindSpec:
		return f.spec
	case kernel.KindPlanProposal:
		return f.planProposal
	case kernel.KindPlan:
		return f.plan
	case kernel.KindDecision:
		return f.decision
	case kernel.KindRefusal:
		return f.refusal
	case kernel.KindDispatch:
		return f.dispatch
	case kernel.KindBuilderResult:
		return f.builderResult
	case kernel.KindDiff:
		return f.diff
	case kernel.KindRunResult:
		return f.runResult
	case kernel.KindIntent:
		return f.intent
	case kernel.KindOutcome:
		return f.outcome
	case kernel.KindOperatorAct:
		return f.operatorAct
	}
	return nil
}

// check is for bodies whose shape isn't the world's business.
func (e entry) check() error {
	var kind string
	var err error
	switch v := e.said.(type) {
	case machine.Entry:
		kind = strconv.Quote(v.Kind)
	case kernel.Adoption:
		kind = strconv.Quote(v.Kind)
	default:
		kind, err = e.kindOf()
	}
	if err != nil || kind != strconv.Quote(string(e.kind)) {
		return refuse(ErrBody, err, "the body of a %s record is not canonical JSON of that kind", e.kind)
	}
	return nil
}

// kindOf is what the body says that it is.
func (e entry) kindOf() (kind string, err error) {
	err = canon.Check(e.body, canon.Limits{MaxBytes: len(e.body)}, func(name, value []byte) error {
		if string(name) == "kind" {
			kind = string(value)
		}
		return nil
	})
	return kind, err
}

// decode reads the body strictly; kind is the field of v that must name it.
func decode[T any](e entry, v *T, kind *string) error {
	if said, ok := e.said.(T); ok {
		*v = said
	} else if err := canon.UnmarshalCanonical(e.body, v); err != nil {
		return refuse(ErrBody, err, "the body of a %s record", e.kind)
	}
	if *kind != string(e.kind) {
		return refuse(ErrBody, nil, "the body of a %s record says that it is a %s", e.kind, *kind)
	}
	return nil
}

// hash is the content hash of the body.
func (e entry) hash() canon.Digest {
	if e.sum != "" {
		return e.sum
	}
	return canon.Sum(e.body)
}

// with is list and x, in a list of its own.
func with[T any](list []T, x T) []T { return append(slices.Clip(list), x) }

// observation keeps the facts for the decision that follows; the world takes
// them in when the round is settled.
func (f *fold) observation(e entry) error {
	var facts kernel.Facts
	if err := decode(e, &facts, &facts.Kind); err != nil {
		return err
	}
	if facts.World != f.config.WorldID || facts.Task != e.task {
		return refuse(ErrForeign, nil, "the observation is of task %d in %s", facts.Task, facts.World)
	}
	if facts.View != f.view(e.task) {
		return refuse(ErrView, nil, "the facts say something else of task %d than the records", e.task)
	}
	f.now.observed = slices.DeleteFunc(f.now.observed, func(o observed) bool { return o.task == e.task })
	f.now.observed = append(f.now.observed, observed{task: e.task, hash: e.hash(), facts: facts})
	f.put(f.task(e.task))
	return nil
}

func (f *fold) seen(task int64) *observed {
	for i := range f.now.observed {
		if f.now.observed[i].task == task {
			return &f.now.observed[i]
		}
	}
	return nil
}

// decision keeps the ruling until its effect is tried, halts, and takes a
// builder's outcome in as an action.
func (f *fold) decision(e entry) error {
	var d kernel.Decision
	if err := decode(e, &d, &d.Kind); err != nil {
		return err
	}
	t, seen := f.task(e.task), f.seen(e.task)
	if seen == nil || seen.hash != d.Facts {
		return refuse(ErrUnknownProposal, nil, "the decision rests on facts that this round has no observation of")
	}
	r := Ruling{d.Verdict, d.Action, d.State, d.WaitingFor, d.Attempt, d.Interruptions, d.NotBefore, d.Resumes, d.Refreshes, d.Fixes, d.Fix}
	if err := f.admissible(t, r, seen.facts, e.run); err != nil {
		return err
	}
	if d.Verdict == kernel.Halt && !t.Halted {
		t.Halted, t.HaltReason = true, haltReason(d)
	}
	if r.Action == kernel.ActionJudge {
		f.judge(&t, r.accepts(), firstCode(d))
	}
	if seen.facts.Request == kernel.RequestStop {
		if t.Stop = ""; r.Action != kernel.ActionNone {
			t.Stop = seen.facts.Actor
		}
	}
	t.Ruling = &r
	f.put(t)
	return nil
}

// judge takes the outcome of a run in as an action, once. A verdict that is
// taken back later, because no server took the result, is no second action.
func (f *fold) judge(t *Task, accepted bool, code kernel.Code) {
	r := &t.Run
	switch {
	case !t.live() || !r.begun():
	case r.Judged:
		if r.Accepted && !accepted {
			r.Accepted = false
			f.now.charges = append(f.now.charges, charge{t.Builder, countInterrupted})
		}
	default:
		r.Judged, r.Accepted = true, accepted
		f.now.actions = append(f.now.actions, action{
			task: t.Number, agent: t.Builder, round: f.round + 1, key: r.ID, code: r.Diff, accepted: accepted, error: code,
		})
	}
}

// admissible refuses decisions that no kernel may take.
func (f *fold) admissible(t Task, r Ruling, facts kernel.Facts, run string) error {
	switch r.Verdict {
	case kernel.Allow, kernel.Deny, kernel.Halt:
	default:
		return refuse(ErrBody, nil, "the verdict %q is none of the three", r.Verdict)
	}
	if t.Halted && r.needsAllow() {
		return refuse(ErrHalted, nil, "task %d is halted: %s", t.Number, t.HaltReason)
	}
	if r.Refreshes != "" && (r.Action != kernel.ActionClaim || !facts.Refreshable() || r.Refreshes != facts.Refresh.Run || r.Resumes != facts.Refresh.Resumes) {
		return refuse(ErrUnproven, nil, "the facts know of no delivered result of run %q that could be applied on another base", r.Refreshes)
	}
	if r.Fixes+string(r.Fix) != "" && (r.Action != kernel.ActionClaim || r.Refreshes != "" || !facts.Fixable() || r.Fixes != facts.Fix.Run || r.Fix != facts.Fix.Digest) {
		return refuse(ErrUnproven, nil, "the facts know of no revision of the delivered result of run %q with this list", r.Fixes)
	}
	resumable := facts.Resumable
	if r.Fixes != "" {
		resumable = facts.ResumesFix
	}
	if r.Refreshes == "" && r.Resumes != "" && (r.Action != kernel.ActionClaim || !resumable() || r.Resumes != facts.Sealed.Run) {
		return refuse(ErrUnproven, nil, "the facts know of no sealed work of run %q that could be gone on with", r.Resumes)
	}
	if r.Action == kernel.ActionComplete && (r.State != kernel.TaskCompleted || !facts.Merged()) {
		return refuse(ErrUnproven, nil, "task %d is completed by the merge of its change, of which the facts say nothing", t.Number)
	}
	if r.Action == kernel.ActionRedeliver && facts.Missing == nil {
		return refuse(ErrUnproven, nil, "the facts know of no change branch of task %d that is missing", t.Number)
	}
	if r.accepts() {
		return f.acceptable(t, r, facts, run)
	}
	return nil
}

// acceptable holds an acceptance against the evidence and against the one
// before (invariant E1).
func (f *fold) acceptable(t Task, ruling Ruling, facts kernel.Facts, run string) error {
	r := t.Run
	switch {
	case !t.live() || r.ID != run || !r.begun():
		return refuse(ErrUnproven, nil, "run %q is no live, dispatched or resuming run of task %d", run, t.Number)
	case facts.Run == nil || facts.Run.RunID != run:
		return refuse(ErrUnproven, nil, "the facts of the decision are of another run")
	case r.Result == "" || r.Diff == "":
		return refuse(ErrUnproven, nil, "the run has no recorded result or diff")
	case facts.Checks > 0 && r.Checks == "":
		return refuse(ErrUnproven, nil, "the run's checks have no recorded result")
	case r.Judged && !r.Accepted:
		return refuse(ErrUnproven, nil, "the run was rejected before")
	case !r.Judged && ruling.Action == kernel.ActionResult:
		return refuse(ErrUnproven, nil, "the run was not judged")
	}
	if other := f.acceptedRun(t); other != "" && other != run && other != r.Refreshes {
		return refuse(ErrSecondAcceptance, nil, "run %q of this approval is accepted already", other)
	}
	return nil
}

// acceptedRun is the run whose result counts, or may come to count, for the
// task's approval: pushed and settled, pushed in this round, or under way. What a run is to
// replace was settled by whoever delivered it, which needn't be this
// instance: its claim rests on HEAD.
func (f *fold) acceptedRun(t Task) string {
	if t.AcceptedRun != "" && t.Run.Refreshes+t.Run.Fixes == "" {
		return t.AcceptedRun
	}
	for _, d := range f.now.done {
		if d.task == t.Number && d.Ruling.accepts() {
			return d.Run
		}
	}
	for _, o := range t.Intents {
		if o.Ruling.accepts() {
			return o.Run
		}
	}
	return ""
}

// view is what a decision needs of a task beside HEAD.
func (f *fold) view(task int64) kernel.TaskView {
	t := f.task(task)
	return kernel.TaskView{Task: task, Halted: t.Halted, HaltReason: t.HaltReason, Epoch: t.Epoch, ResumedHead: t.ResumedHead,
		AcceptedRun: t.AcceptedRun, AcceptedApproval: acceptedApproval(t), Act: t.Act, Stop: t.Stop, Stopped: t.Stopped, Answered: t.Answered, TurnedDown: t.TurnedDown, Checked: t.Checked, Seen: t.Seen, SeenSeq: t.SeenSeq, Told: t.Told, Shown: t.Shown, Unshown: t.Unshown.New}
}

func acceptedApproval(t Task) canon.Digest {
	if t.AcceptedRun == "" {
		return ""
	}
	return t.Approval
}

func haltReason(d kernel.Decision) string {
	if len(d.Violations) > 0 {
		return string(d.Violations[0].Code) + ": " + d.Violations[0].Detail
	}
	return string(firstCode(d))
}

func firstCode(d kernel.Decision) kernel.Code {
	if len(d.Codes) > 0 {
		return d.Codes[0]
	}
	return kernel.CodeVerificationFailed
}

// begun reports whether work of the run can exist: it was dispatched, or goes on with
// what a dispatched run left.
func (r Run) begun() bool { return r.Started || r.Resumes != "" }

// accepts reports whether the ruling makes a builder's work the task's result:
// first by judging it, then by pushing it.
func (r Ruling) accepts() bool {
	return r.Verdict == kernel.Allow && r.verified()
}

// verified reports whether verdict or result say that the work is good, be it
// delivered or waiting for its merge.
func (r Ruling) verified() bool {
	delivered := r.State == kernel.TaskCompleted || r.State == kernel.TaskWaiting && r.WaitingFor == kernel.WaitMerge
	return (r.Action == kernel.ActionJudge || r.Action == kernel.ActionResult) && delivered
}

// needsAllow reports whether the effect starts or accepts work.
func (r Ruling) needsAllow() bool {
	switch r.Action {
	case kernel.ActionClaim, kernel.ActionDispatch, kernel.ActionChecks, kernel.ActionComplete:
		return true
	}
	return r.verified()
}

// refusal needs the decision that it explains.
func (f *fold) refusal(e entry) error {
	var r kernel.Refusal
	if err := decode(e, &r, &r.Kind); err != nil {
		return err
	}
	t := f.task(e.task)
	if r.World != f.config.WorldID || r.Task != e.task {
		return refuse(ErrForeign, nil, "the refusal is of task %d in %s", r.Task, r.World)
	}
	if t.Ruling == nil || t.Ruling.Verdict == kernel.Allow {
		return refuse(ErrNoDecision, nil, "a refusal follows the decision that denies")
	}
	return nil
}

// operatorAct takes a person's act in as an action: it changes nothing until it is accepted.
func (f *fold) operatorAct(e entry) error {
	var a kernel.OperatorAct
	if err := decode(e, &a, &a.Kind); err != nil {
		return err
	}
	if a.Actor == "" || a.Key == "" || a.Round < 1 {
		return refuse(ErrBody, nil, "an act says whose it is, its key and its round")
	}
	switch a.Act {
	case kernel.ActHalt, kernel.ActResume, kernel.ActStop, kernel.ActPutBack, kernel.ActPause, kernel.ActUnpause:
	default:
		return refuse(ErrBody, nil, "the act %q is unknown", a.Act)
	}
	if a.Global() != (e.task == 0) || a.Global() && !pauseOf(a).named() {
		return refuse(ErrBody, nil, "the act %q is of a task, and a pause of none; that says what is paused since when", a.Act)
	}
	f.now.actions = append(f.now.actions, action{task: e.task, agent: agentOf(a.Actor), round: a.Round, key: a.Key, code: e.hash(), act: &a})
	if !a.Global() {
		f.put(f.task(e.task))
	}
	return nil
}

func pauseOf(a kernel.OperatorAct) Pause { return Pause{Of: a.Pause, Since: a.Since, Actor: a.Actor} }

// named reports whether it says what is paused and since when.
func (p Pause) named() bool {
	return p.Since > 0 && (p.Of == kernel.PauseAll || p.Of == kernel.PauseWorld || p.Of == kernel.PauseFile)
}

// keptActs is how many of a task's last acts are known by their ids. One that is older is of
// an earlier round, too.
const keptActs = 16

// accept accepts or rejects an action of the round. A person's act takes effect by it.
func (f *fold) accept(at int) {
	a := &f.now.actions[at]
	a.answered = true
	if a.act == nil {
		return // the decision's word
	}
	if a.act.Global() {
		f.acceptGlobal(a)
		return
	}
	t := f.task(a.task)
	if a.error = f.rejected(t, *a); a.error != "" {
		return
	}
	a.accepted = true
	t.obey(*a.act)
	t.Acted = lastActs(with(t.Acted, a.id()))
	f.put(t)
}

func lastActs(ids []string) []string { return ids[max(0, len(ids)-keptActs):] }

// acceptGlobal accepts or rejects an act on the whole world: a pause that isn't there yet, or
// the end of one that is.
func (f *fold) acceptGlobal(a *action) {
	p := pauseOf(*a.act)
	at := slices.IndexFunc(f.pauses, func(q Pause) bool { return q.Of == p.Of && q.Since == p.Since })
	ends := a.act.Act == kernel.ActUnpause
	switch {
	case slices.Contains(f.acted, a.id()):
		a.error = kernel.CodeActionDuplicate
		return
	case a.round != f.round+1 || ends != (at >= 0):
		a.error = kernel.CodeActionStale
		return
	case ends:
		f.pauses = slices.Delete(slices.Clone(f.pauses), at, at+1)
	default:
		f.pauses = with(f.pauses, p)
	}
	a.accepted, f.acted = true, lastActs(with(f.acted, a.id()))
}

// rejected is why a person's act doesn't count, "" if it does: it was said before, or it was
// made for the world as it doesn't stand.
func (f *fold) rejected(t Task, a action) kernel.Code {
	stale := a.round != f.round+1
	switch a.act.Act {
	case kernel.ActResume:
		stale = stale || a.act.Epoch != t.Epoch+1 || a.act.Unshown != "" && a.act.Unshown != t.Unshown.New
	case kernel.ActPutBack:
		stale = stale || a.act.Head == "" || a.act.Head != t.Seen || a.act.Unshown != ""
	default:
		stale = stale || a.act.Unshown != ""
	}
	switch {
	case slices.Contains(t.Acted, a.id()):
		return kernel.CodeActionDuplicate
	case stale:
		return kernel.CodeActionStale
	}
	return ""
}

// obey does what a person's act says: it halts, resumes, stops or puts back.
func (t *Task) obey(a kernel.OperatorAct) {
	switch a.Act {
	case kernel.ActHalt:
		t.Halted, t.HaltReason = true, a.Reason
	case kernel.ActResume:
		t.Halted, t.HaltReason, t.Epoch, t.ResumedHead, t.Stop = false, "", a.Epoch, a.Head, ""
		if a.Unshown == "" {
			t.Unshown, t.AcceptedRun = Unshown{}, "" // from HEAD as it is, whatever was pushed
		}
		t.act(a.ActID)
	case kernel.ActStop: // ends a run by the decision that follows
		t.Stop = a.Actor
	case kernel.ActPutBack: // the state is what it was
	}
}

// seedPack begins a task's work anew: what was proposed and planned for an
// earlier pack no longer counts.
func (f *fold) seedPack(e entry) error {
	var p kernel.SeedPack
	if err := decode(e, &p, &p.Kind); err != nil {
		return err
	}
	if p.World != f.config.WorldID || p.Task != e.task {
		return refuse(ErrForeign, nil, "the seed pack is of task %d in %s", p.Task, p.World)
	}
	if list := f.admit(e.task, p.Spec.AllowedFiles); len(list) > 0 {
		return refuse(ErrLand, nil, "%s", list[0].Detail)
	}
	t := f.task(e.task)
	t.Builder, t.AllowedFiles, t.Pins, t.SeedPack = p.Spec.Builder, p.Spec.AllowedFiles, p.Pins, e.hash()
	t.Interpretations, t.Spec, t.PlanProposals, t.Plan = nil, "", nil, ""
	f.now.packs = slices.DeleteFunc(f.now.packs, func(old kernel.SeedPack) bool { return old.Task == e.task })
	f.now.packs = append(f.now.packs, p)
	f.put(t)
	return nil
}

// pack is the task's seed pack of this round.
func (f *fold) pack(e entry) (kernel.SeedPack, error) {
	for _, p := range f.now.packs {
		if p.Task == e.task {
			return p, nil
		}
	}
	return kernel.SeedPack{}, refuse(ErrOrder, nil, "a %s is committed in the round of its seed pack", e.kind)
}

// admit lists what keeps paths from being reserved for a task.
func (f *fold) admit(task int64, paths []string) []kernel.Violation {
	var out []kernel.Violation
	fault := func(subject, format string, args ...any) {
		out = append(out, kernel.Violation{Code: kernel.CodeBudgetExceeded, Subject: subject, Detail: fmt.Sprintf(format, args...)})
	}
	_, taken := f.reserved(task)
	if n, most := taken+int64(len(paths)), f.config.LandShape[0]; n > most {
		fault("max_paths", "The live tasks would reserve %d path patterns, the world has room for %d.", n, most)
	}
	for _, p := range paths {
		if n, most := int64(strings.Count(p, "/")+1), f.config.LandShape[1]; n > most {
			fault(p, "The path is %d segments deep, the world is %d.", n, most)
		}
	}
	return kernel.SortViolations(out)
}

func (f *fold) interpretation(e entry) error {
	var i plan.Interpretation
	if err := decode(e, &i, &i.Kind); err != nil {
		return err
	}
	t := f.task(e.task)
	if t.SeedPack == "" {
		return refuse(ErrOrder, nil, "an interpretation follows the seed pack")
	}
	t.Interpretations = with(t.Interpretations, e.hash())
	f.put(t)
	return nil
}

// spec must be the commitment of a recorded interpretation under this round's
// seed pack.
func (f *fold) spec(e entry) error {
	var s plan.Spec
	if err := decode(e, &s, &s.Kind); err != nil {
		return err
	}
	p, err := f.pack(e)
	if err != nil {
		return err
	}
	t := f.task(e.task)
	switch {
	case !slices.Contains(t.Interpretations, s.Interpretation):
		return refuse(ErrUnknownProposal, nil, "the spec commits an interpretation that isn't recorded")
	case s.World != p.World || s.Task != p.Task || s.Approval != p.Approval.Digest || s.Pins != p.Pins:
		return refuse(ErrPlan, nil, "the spec is not of this seed pack")
	}
	t.Spec, t.PlanProposals, t.Plan = e.hash(), nil, ""
	f.put(t)
	return nil
}

func (f *fold) planProposal(e entry) error {
	var p plan.Proposal
	if err := decode(e, &p, &p.Kind); err != nil {
		return err
	}
	t := f.task(e.task)
	if t.Spec == "" {
		return refuse(ErrOrder, nil, "a plan is proposed for a spec")
	}
	hash, err := p.Plan.Hash()
	if err != nil {
		return refuse(ErrBody, err, "the proposed plan")
	}
	t.PlanProposals = with(t.PlanProposals, hash)
	f.put(t)
	return nil
}

// plan is committed only if it verifies, and was proposed unless derived.
func (f *fold) plan(e entry) error {
	var p plan.Plan
	if err := decode(e, &p, &p.Kind); err != nil {
		return err
	}
	pack, err := f.pack(e)
	if err != nil {
		return err
	}
	t := f.task(e.task)
	if t.Spec == "" || p.Spec != t.Spec {
		return refuse(ErrPlan, nil, "the plan is not of the committed spec")
	}
	if p.Source != plan.SourceDerived && !slices.Contains(t.PlanProposals, e.hash()) {
		return refuse(ErrUnknownProposal, nil, "the plan was never proposed")
	}
	if list := plan.Verify(p, pack); len(list) > 0 {
		return refuse(ErrPlan, nil, "%s: %s", list[0].Subject, list[0].Detail)
	}
	t.Plan = e.hash()
	f.put(t)
	return nil
}

// dispatch must be whole, of the committed plan, under the pinned contract, and
// follow a decision that allows a claim or a dispatch (invariant E4). A run
// has one: the same bytes may be recorded again, others may not.
func (f *fold) dispatch(e entry) error {
	var d kernel.Dispatch
	if err := decode(e, &d, &d.Kind); err != nil {
		return err
	}
	t, hash := f.task(e.task), e.hash()
	if list := kernel.ValidateDispatch(d); len(list) > 0 {
		return refuse(ErrDispatch, nil, "%s: %s", list[0].Subject, list[0].Detail)
	}
	switch {
	case d.WorldID != f.config.WorldID || d.TaskID != e.task || d.RunID != e.run:
		return refuse(ErrForeign, nil, "the dispatch is of task %d, run %q in %s", d.TaskID, d.RunID, d.WorldID)
	case !t.mayDispatch(e.run):
		return refuse(ErrNoDecision, nil, "no decision allows a dispatch of run %q", e.run)
	case t.Plan == "" || d.PlanHash != t.Plan:
		return refuse(ErrDispatch, nil, "the dispatch is not of the committed plan")
	case d.GovernanceHash != t.Pins.Governance || d.BaseCommit != t.Pins.BaseCommit:
		return refuse(ErrDispatch, nil, "the dispatch has other pins than its seed pack")
	case t.Dispatch.Run == e.run && t.Dispatch.Hash != hash:
		return refuse(ErrSecondDispatch, nil, "run %q has another dispatch already", e.run)
	}
	t.Dispatch = Dispatched{Run: e.run, Hash: hash}
	f.put(t)
	return nil
}

// mayDispatch reports whether a decision whose effect is not tried yet, or the
// claim under way, allows a dispatch of the run.
func (t *Task) mayDispatch(run string) bool {
	allows := func(r Ruling) bool {
		return r.Verdict == kernel.Allow && (r.Action == kernel.ActionClaim && r.Resumes == "" || r.Action == kernel.ActionDispatch)
	}
	if t.Ruling != nil && allows(*t.Ruling) {
		return true
	}
	return slices.ContainsFunc(t.Intents, func(o OpenIntent) bool { return o.Run == run && allows(o.Ruling) })
}

// builderResult, diff and runResult are evidence of the live run. What comes
// from a run that is over is recorded like any proposal and changes nothing.
func (f *fold) builderResult(e entry) error {
	var r kernel.BuilderResult
	if err := decode(e, &r, &r.Kind); err != nil {
		return err
	}
	return f.evidence(e, r.Run, func(run *Run) *canon.Digest { return &run.Result })
}

func (f *fold) diff(e entry) error {
	var d kernel.Diff
	if err := decode(e, &d, &d.Kind); err != nil {
		return err
	}
	return f.evidence(e, d.Run, func(run *Run) *canon.Digest { return &run.Diff })
}

func (f *fold) runResult(e entry) error {
	var r kernel.RunResult
	if err := decode(e, &r, &r.Kind); err != nil {
		return err
	}
	if r.Run != e.run {
		return refuse(ErrForeign, nil, "the checks are of run %q, their record of %q", r.Run, e.run)
	}
	if t := f.task(e.task); t.live() && t.Run.ID == r.Run && t.Run.Diff == "" {
		return refuse(ErrOrder, nil, "checks are run on a recorded diff")
	}
	return f.evidence(e, r.Run, func(run *Run) *canon.Digest { return &run.Checks })
}

// evidence keeps a hash of the live run, once.
func (f *fold) evidence(e entry, run string, field func(*Run) *canon.Digest) error {
	t := f.task(e.task)
	earlier := t.live() && t.Run.ID == e.run && t.Run.Resumes == run // what the run that it goes on with left
	if run == "" || run != e.run && !earlier {
		return refuse(ErrForeign, nil, "the %s is of run %q, its record of %q", e.kind, run, e.run)
	}
	if !t.live() || t.Run.ID != e.run || t.Run.Judged {
		return nil
	}
	kept, hash := field(&t.Run), e.hash()
	if *kept != "" && *kept != hash {
		return refuse(ErrOrder, nil, "run %q has another %s already", run, e.kind)
	}
	*kept = hash
	f.put(t)
	return nil
}
