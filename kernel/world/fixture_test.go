package world_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/plan"
	"github.com/writbot/writ/kernel/world"
)

var update = flag.Bool("update", false, "rewrite the goldens; the commit says why")

const (
	worldID  = "forge.example/owner/calc"
	instance = "SHA256:instance-one"
	start    = int64(1_700_000_000_000) // Unix milliseconds
)

func digest(c string) canon.Digest { return canon.Digest("sha256:" + strings.Repeat(c, 64)) }

func config() world.WorldConfig {
	seed := int64(42)
	return world.WorldConfig{
		Kind: world.KindConfig, V: world.Version, WorldID: worldID, InitMemberNumber: 2,
		LandShape: [2]int64{8, 4}, RandomSeed: &seed, Members: []string{"default", "other"},
		Instance: instance, InstanceKey: "ssh-ed25519 AAAA", GovernanceHash: digest("b"), KernelVersion: "0.1.0",
	}
}

// book is an instance: its kernel and its ledger.
type book struct {
	t       testing.TB
	k       *world.Kernel
	records []kernel.Record
	now     int64
	seed    int64
}

func open(t testing.TB, c world.WorldConfig) *book {
	t.Helper()
	k, err := world.New(c)
	if err != nil {
		t.Fatal(err)
	}
	b := &book{t: t, k: k, now: start, seed: 7}
	records, _, err := k.Chain().Seal(b.now, []kernel.Draft{k.Genesis()})
	if err != nil {
		t.Fatal(err)
	}
	b.records = kernel.Records(records)
	if err := k.Apply(b.records[0]); err != nil {
		t.Fatal(err)
	}
	return b
}

// store makes the round's drafts durable and commits them.
func (b *book) store(r *world.Round) {
	b.t.Helper()
	b.now += 1000
	records, _, err := b.k.Chain().Seal(b.now, r.Drafts())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.k.Commit(r, records); err != nil {
		b.t.Fatal(err)
	}
	b.records = append(b.records, kernel.Records(records)...)
}

// round is one settled round of drafts.
func (b *book) round(drafts ...kernel.Draft) world.RoundReceipt {
	b.t.Helper()
	r := b.k.Begin(b.now)
	if err := r.Observe(drafts...); err != nil {
		b.t.Fatal(err)
	}
	return b.settle(r)
}

func (b *book) settle(r *world.Round) world.RoundReceipt {
	b.t.Helper()
	if acts := r.Actions(); len(acts) > 0 {
		if _, err := r.AcceptActions(acts); err != nil {
			b.t.Fatal(err)
		}
	}
	receipt, err := r.SettleRound(b.seed)
	if err != nil {
		b.t.Fatal(err)
	}
	b.store(r)
	return receipt
}

// try is what a round says to drafts that aren't kept.
func (b *book) try(drafts ...kernel.Draft) error {
	before := b.k.StateHash()
	r := b.k.Begin(b.now)
	err := r.Observe(drafts...)
	if b.k.StateHash() != before {
		b.t.Error("a round that wasn't committed changed the kernel")
	}
	return err
}

// job is one task of a test.
type job struct {
	b     *book
	task  int64
	run   string
	title string
	files []string
}

func (b *book) job(task int64, run string) job {
	return job{b: b, task: task, run: run, title: "Add handles negative numbers", files: []string{"calc/**", "go.mod"}}
}

func (j job) draft(kind kernel.Kind, body any) kernel.Draft {
	return kernel.Draft{Kind: kind, Task: j.task, Run: j.run, Body: body}
}

func (j job) pack() kernel.SeedPack {
	approval, err := kernel.ApprovalDigest(j.title, "")
	if err != nil {
		j.b.t.Fatal(err)
	}
	return kernel.SeedPack{
		Kind: string(kernel.KindSeedPack), V: kernel.SeedPackVersion, World: worldID, Task: j.task, Title: j.title,
		Approval: kernel.Approval{Digest: approval, Actor: "u1", Time: start},
		Spec:     kernel.TaskSpec{AllowedFiles: j.files, ExpectedOutcome: "tests pass", Checks: []string{"test"}, Builder: "default"},
		Checks:   []kernel.Check{{Name: "test", Argv: []string{"true"}, TimeoutMs: 1000, Repeat: 1}},
		Budgets:  kernel.Budgets{Attempts: 3, BuildTimeoutMs: 60_000, Interpretations: 1, Nodes: 4, Steps: 1, Depth: 1},
		Pins:     kernel.Pins{BaseCommit: strings.Repeat("1", 40), Governance: digest("b"), Kernel: "0.1.0", Policy: "1"},
	}
}

// planned are the drafts from seed pack to plan.
func (j job) planned() (kernel.SeedPack, plan.Plan, []kernel.Draft) {
	j.b.t.Helper()
	pack := j.pack()
	i := plan.Derive(pack)
	spec, err := plan.Commit(i, pack)
	if err != nil {
		j.b.t.Fatal(err)
	}
	p, err := plan.DerivePlan(spec, pack)
	if err != nil {
		j.b.t.Fatal(err)
	}
	return pack, p, []kernel.Draft{
		j.draft(kernel.KindSeedPack, pack), j.draft(kernel.KindInterpretation, i),
		j.draft(kernel.KindSpec, spec), j.draft(kernel.KindPlan, p),
	}
}

func (j job) dispatch() kernel.Dispatch {
	j.b.t.Helper()
	pack, p, _ := j.planned()
	hash, err := p.Hash()
	if err != nil {
		j.b.t.Fatal(err)
	}
	return kernel.BuildDispatch(pack, kernel.Claim{RunID: j.run, Attempt: 1, PlanHash: hash, CommitterSeconds: start / 1000})
}

// facts are those of a trusted HEAD in the state; a live run's if phase isn't "".
func (j job) facts(head string, phase kernel.Phase) kernel.Facts {
	f := kernel.Facts{
		Kind: string(kernel.KindObservation), Now: j.b.now, View: j.b.k.TaskView(j.task), Request: kernel.RequestTick,
		Actor: "u1", World: worldID, Task: j.task, Approved: j.pack().Approval.Digest, Governance: digest("b"), Checks: 1,
	}
	f.Current = f.Approved
	if head != "" {
		f.Head = kernel.HeadFacts{OID: "c-" + head, State: head, Trust: kernel.TrustOwn, Format: kernel.StateFormat, Seq: f.View.SeenSeq + 2, Binding: kernel.BindHere, RunID: j.run, Approval: f.Approved, Attempt: 1}
	}
	if phase != "" {
		f.Run = &kernel.RunFacts{RunID: j.run, LeaseOID: f.Head.OID, Attempt: 1, Phase: phase}
	}
	return f
}

// decided are an observation and the decision on it.
func (j job) decided(f kernel.Facts, a kernel.Action, s kernel.TaskState, change ...func(*kernel.Decision)) []kernel.Draft {
	j.b.t.Helper()
	hash, err := canon.Hash(f)
	if err != nil {
		j.b.t.Fatal(err)
	}
	d := kernel.Decision{Kind: string(kernel.KindDecision), Verdict: kernel.Allow, Standing: kernel.StandActing, Action: a, State: s, Attempt: 1, Facts: hash}
	for _, c := range change {
		c(&d)
	}
	return []kernel.Draft{j.draft(kernel.KindObservation, f), j.draft(kernel.KindDecision, d)}
}

func denied(d *kernel.Decision) { d.Verdict = kernel.Deny }

func coded(codes ...kernel.Code) func(*kernel.Decision) {
	return func(d *kernel.Decision) { d.Codes = codes }
}

func (j job) key(a kernel.Action) string { return string(a) + ":" + j.run }

func (j job) intent(a kernel.Action, digest canon.Digest) kernel.Draft {
	return j.draft(kernel.KindIntent, kernel.Intent{
		Kind: string(kernel.KindIntent), Key: j.key(a), Effect: a, Digest: digest, New: "c-" + j.run + "-" + string(a),
	})
}

func (j job) outcome(a kernel.Action, s kernel.OutcomeStatus) kernel.Draft {
	return j.draft(kernel.KindOutcome, kernel.Outcome{Kind: string(kernel.KindOutcome), Key: j.key(a), Effect: a, Status: s})
}

// claims are the drafts of a claim before its effect.
func (j job) claims() []kernel.Draft {
	_, _, planned := j.planned()
	drafts := append(j.decided(j.facts("", ""), kernel.ActionClaim, kernel.TaskClaimed), planned...)
	return append(drafts, j.intent(kernel.ActionClaim, ""))
}

// dispatches are the drafts of a dispatch before its effect.
func (j job) dispatches() []kernel.Draft {
	d := j.dispatch()
	hash, err := canon.Hash(d)
	if err != nil {
		j.b.t.Fatal(err)
	}
	drafts := append(j.decided(j.facts("working", kernel.PhaseClaimed), kernel.ActionDispatch, kernel.TaskClaimed), j.draft(kernel.KindDispatch, d))
	return append(drafts, j.intent(kernel.ActionDispatch, hash))
}

// built are a builder's end, and the start of the checks.
func (j job) built() []kernel.Draft {
	drafts := append(j.proposed(), j.decided(j.facts("working", kernel.PhaseBuilt), kernel.ActionChecks, kernel.TaskClaimed)...)
	return append(drafts, j.intent(kernel.ActionChecks, ""))
}

func (j job) proposed() []kernel.Draft {
	return []kernel.Draft{
		j.draft(kernel.KindBuilderResult, kernel.BuilderResult{Kind: string(kernel.KindBuilderResult), Run: j.run, Builder: "default"}),
		j.draft(kernel.KindDiff, kernel.Diff{Kind: string(kernel.KindDiff), Run: j.run, Base: strings.Repeat("1", 40)}),
	}
}

func (j job) checked() kernel.Draft {
	return j.draft(kernel.KindRunResult, kernel.RunResult{Kind: string(kernel.KindRunResult), Run: j.run, Tree: "t"})
}

// judged are the end of the checks and the verdict.
func (j job) judged(s kernel.TaskState, change ...func(*kernel.Decision)) []kernel.Draft {
	return append([]kernel.Draft{j.checked()}, j.decided(j.facts("working", kernel.PhaseChecked), kernel.ActionJudge, s, change...)...)
}

// results are the drafts of a result before its push.
func (j job) results(s kernel.TaskState) []kernel.Draft {
	drafts := j.decided(j.facts("working", kernel.PhaseJudged), kernel.ActionResult, s)
	return append(drafts, j.intent(kernel.ActionResult, ""))
}

// step is a round with the effect's intent, and one with its outcome.
func (j job) step(a kernel.Action, drafts []kernel.Draft) {
	j.b.t.Helper()
	j.b.round(drafts...)
	j.b.round(j.outcome(a, kernel.OutcomeDone))
}

// Stages of a job, for tests that begin in the middle.
const (
	atClaimed = iota
	atDispatched
	atBuilt
	atJudged
	atPushed
)

// to takes the job from nothing to a stage, with a good end.
func (j job) to(stage int) job {
	j.b.t.Helper()
	j.step(kernel.ActionClaim, j.claims())
	if stage >= atDispatched {
		j.step(kernel.ActionDispatch, j.dispatches())
	}
	if stage >= atBuilt {
		j.step(kernel.ActionChecks, j.built())
	}
	if stage >= atJudged {
		j.b.round(j.judged(kernel.TaskCompleted)...)
	}
	if stage >= atPushed {
		j.step(kernel.ActionResult, j.results(kernel.TaskCompleted))
	}
	return j
}

// journey is a history with three tasks: one completed, one rejected and then
// interrupted, one halted.
func journey(t testing.TB, seed int64) *book {
	t.Helper()
	b := open(t, config())
	b.seed = seed
	b.job(1, "r1").to(atPushed)
	j := b.job(2, "r2").to(atBuilt)
	b.round(j.judged(kernel.TaskRetryPending, coded(kernel.CodeVerificationFailed, kernel.CodeCheckFailed))...)
	j.step(kernel.ActionResult, j.results(kernel.TaskRetryPending))
	j = b.job(2, "r3").to(atDispatched)
	b.round(append(j.decided(j.facts("working", kernel.PhaseBuilding), kernel.ActionRelease, kernel.TaskOpen), j.intent(kernel.ActionRelease, ""))...)
	b.round(j.outcome(kernel.ActionRelease, kernel.OutcomeDone))
	j = b.job(3, "r4").to(atClaimed)
	b.round(j.act(kernel.ActHalt, 0))
	return b
}

func (j job) act(act string, epoch int64) kernel.Draft {
	return kernel.Draft{Kind: kernel.KindOperatorAct, Task: j.task, Body: kernel.OperatorAct{
		Kind: string(kernel.KindOperatorAct), Act: act, Actor: "u2", Reason: "looks odd", Epoch: epoch, Head: "c-head",
		Key: act + strconv.Itoa(len(j.b.records)), Round: j.b.k.Begin(j.b.now).Number(),
	}}
}

func snapshot(t testing.TB, k *world.Kernel) world.WorldSnapshot {
	t.Helper()
	s, err := k.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *book) task(number int64) world.Task {
	b.t.Helper()
	task, _ := b.k.Task(number)
	return task
}

func (b *book) stats(name string) world.Stats {
	b.t.Helper()
	for _, m := range snapshot(b.t, b.k).Members {
		if m.Name == name {
			return m.Stats
		}
	}
	return world.Stats{}
}

// same compares with nil and empty lists alike.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed; this breaks every ledger that holds it.\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

func text(n int64) string { return strconv.FormatInt(n, 10) }
