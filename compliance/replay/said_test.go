package replay

import (
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// TestR7_RecordsContradictEachOther: an instance lies from the start, in records, sealed work
// and report alike, so that only another of its own records says otherwise.
func TestR7_RecordsContradictEachOther(t *testing.T) {
	text := func(a *attempt) *kernel.Stream { return &a.checks.Checks[0].Output }
	claims := func(f func(*kernel.Facts)) func(*attempt) { return func(a *attempt) { a.claims = f } }
	lies := func(f func(*attempt)) func(*attempt) { return func(a *attempt) { a.lies = f } }
	allows := func(tokens int64, b *kernel.BudgetFacts) func(*attempt) {
		return func(a *attempt) {
			a.lies = func(a *attempt) {
				a.seed.Budgets.Tokens = tokens
				a.spec, a.plan, _ = planOf(a.seed)
			}
			a.claims = func(f *kernel.Facts) { f.Budget = b }
		}
	}
	for name, c := range map[string]struct {
		lie  func(*attempt)
		says string // "" where it is no lie
	}{
		"the truth":                   {func(*attempt) {}, ""},
		"tests touched":               {func(a *attempt) { a.says = func(r *report.Report) { r.TestsTouched = true } }, "the tests were touched"},
		"an agent":                    {lies(func(a *attempt) { a.result.Agent = &kernel.Agent{Kind: "codex", Version: "1.0"} }), ""},
		"another agent":               {func(a *attempt) { a.says = func(r *report.Report) { r.Agent = &kernel.Agent{Kind: "codex"} } }, "what its records don't"},
		"another contract":            {claims(func(f *kernel.Facts) { f.Governance = canon.Sum([]byte("x")) }), "The run was claimed on another"},
		"another budget":              {claims(func(f *kernel.Facts) { f.Budgets.Files = 100_000 }), "The run was claimed on another"},
		"what a builder may use":      {allows(7, &kernel.BudgetFacts{Attempt: kernel.Spend{Tokens: 7}, Pots: []kernel.Pot{}}), ""},
		"more than it may use":        {allows(7, &kernel.BudgetFacts{Attempt: kernel.Spend{Tokens: 8}, Pots: []kernel.Pot{}}), "The run was claimed on another"},
		"no limit of what it may use": {allows(7, nil), "The run was claimed on another"},
		"no checks":                   {claims(func(f *kernel.Facts) { f.Checks = 0 }), "The run was claimed on another"},
		"another builder":             {lies(func(a *attempt) { a.result.Builder = "other" }), `approved was "default"`},
		"a file more":                 {lies(func(a *attempt) { a.result.Result.ChangedFiles = append(a.result.Result.ChangedFiles, "calc/x") }), "it did not change"},
		"a file of elsewhere":         {lies(func(a *attempt) { a.result.Result.ChangedFiles[0] = "/etc/passwd" }), "no path from the repository's root"},
		"a file less":                 {lies(func(a *attempt) { a.result.Result.ChangedFiles = a.result.Result.ChangedFiles[1:] }), "the result does not list it"},
		"a discarded file more": {lies(func(a *attempt) {
			a.diff.Discarded = []string{"build/"}
			a.result.Result.ChangedFiles = append(a.result.Result.ChangedFiles, "build/x")
		}), ""},
		"what it cost":         {lies(func(a *attempt) { a.result.Egress = costing(2) }), ""},
		"a higher cost":        {lies(func(a *attempt) { a.result.Egress = costing(3) }), "cost 3 millionths, and by its price they cost 2"},
		"a cost without price": {lies(func(a *attempt) { a.result.Egress = costing(1); a.result.Egress.Usage[0].Price = nil }), "cost 1 millionths, and by its price they cost 0"},
		"no such operation":    {lies(func(a *attempt) { a.diff.Changes[0].Op = "rename" }), `is no "rename"`},
		"a mode that is new":   {lies(func(a *attempt) { a.op(kernel.OpModify, kernel.OpMode) }), `is no "mode"`},
		"a file that is new":   {lies(func(a *attempt) { a.op(kernel.OpMode, kernel.OpModify) }), `is no "modify"`},
		"words of nothing":     {lies(func(a *attempt) { text(a).Tail = "FAILED" }), `which end with "FAILED"`},
		"bytes of nothing":     {lies(func(a *attempt) { text(a).Bytes = 7 }), "7 bytes"},
		"no bytes of words":    {lies(func(a *attempt) { text(a).Digest = canon.Sum([]byte("x")) }), "0 bytes"},
		"words of a builder":   {lies(func(a *attempt) { a.result.Stderr.Tail = "x" }), `which end with "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, testWorld, 1)
			got := s.sample(s.play(1, true, nil, c.lie).from).verify()
			if got.OK != (c.says == "") || !strings.Contains(got.Plain(), c.says) {
				t.Errorf("want %q in\n%s", c.says, got.Plain())
			}
		})
	}
}

// TestP1_DeliveredWithoutAcceptance: an instance that delivers a guarded path has to show on
// whose act it did so, and that this was about exactly that work.
func TestP1_DeliveredWithoutAcceptance(t *testing.T) {
	other := canon.Sum([]byte("other"))
	for name, c := range map[string]struct {
		lie  func(*attempt, *kernel.Facts)
		says string // "" where it is no lie
	}{
		"the truth":      {func(*attempt, *kernel.Facts) {}, ""},
		"nothing of it":  {func(a *attempt, f *kernel.Facts) { f.Paths, a.accepts = nil, "" }, "does not rest on the guarded paths"},
		"another digest": {func(_ *attempt, f *kernel.Facts) { f.Paths.Digest, f.Paths.Accepted.Digest = other, other }, "does not rest on the guarded paths"},
		"a permission that the contract doesn't name": {func(_ *attempt, f *kernel.Facts) { f.Paths.Needs, f.Paths.Accepted.Permission = "write", "write" }, "does not rest on the guarded paths"},
		"other paths":                       {func(_ *attempt, f *kernel.Facts) { f.Paths.Paths = nil }, "does not rest on the guarded paths"},
		"HEAD names no act":                 {func(a *attempt, _ *kernel.Facts) { a.accepts = "" }, "HEAD names"},
		"HEAD names another act":            {func(a *attempt, _ *kernel.Facts) { a.accepts = "1/comment:1" }, "HEAD names"},
		"not among the guarded by the diff": {func(a *attempt, f *kernel.Facts) { f.Paths, a.accepts = nil, "" }, "Matched again, paths: Guarded are"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, testWorld, 1)
			got := s.sample(s.play(1, true, nil, func(a *attempt) {
				a.guards = c.lie
				if name == "not among the guarded by the diff" {
					a.lies = func(a *attempt) { a.diff.Guarded = nil }
				}
			}).from).verify()
			if got.OK != (c.says == "") || !strings.Contains(got.Plain(), c.says) {
				t.Errorf("want %q in\n%s", c.says, got.Plain())
			}
			if c.says == "" && !strings.Contains(got.Plain(), "accepted by 7:ann (admin), who named sha256:") {
				t.Errorf("it doesn't say who accepted:\n%s", got.Plain())
			}
		})
	}
}

// op says of the first change of a kind that it is of another.
func (a *attempt) op(was, is kernel.ChangeOp) {
	for i := range a.diff.Changes {
		if a.diff.Changes[i].Op == was {
			a.diff.Changes[i].Op = is
			return
		}
	}
	a.t.Fatalf("nothing is of the kind %s", was)
}

// TestR7_EffectOnTheIssueIsTheDecided: an effect on the issue is announced as it was
// decided, and with nothing that such an effect hasn't.
func TestR7_EffectOnTheIssueIsTheDecided(t *testing.T) {
	e := kernel.IssueEffect{Target: 7, Label: "writ:claimed", Digest: canon.Sum([]byte("x"))}
	for name, lie := range map[string]func(*kernel.Intent){
		"": func(*kernel.Intent) {}, "digest": func(i *kernel.Intent) { i.Digest = canon.Sum(nil) }, "ref": func(i *kernel.Intent) { i.Ref += "x" },
		"new": func(i *kernel.Intent) { i.New = "8" }, "old": func(i *kernel.Intent) { i.Old = "8" }, "seq": func(i *kernel.Intent) { i.Seq = 1 },
	} {
		i := kernel.Intent{Kind: string(kernel.KindIntent), Key: "k", Effect: kernel.ActionLabel, Digest: e.Digest, Ref: e.Label, New: "7"}
		lie(&i)
		body, err := canon.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		f := &findings{}
		j := &journal{v: &verifier{}, f: f, byKey: map[string]*announced{}, allowed: &kernel.Decision{Action: kernel.ActionLabel, Issue: &e}}
		j.intent(record{Record: kernel.Record{Kind: kernel.KindIntent, Body: body}})
		if found := strings.Contains(f.text(), "another effect on the issue"); found != (name != "") {
			t.Errorf("another %q: %q", name, f.text())
		}
	}
}

// costing are the connections of a builder that used two tokens at one millionth each.
func costing(micro int64) *kernel.Egress {
	price := kernel.Price{Currency: "USD", Input: 1_000_000}
	return &kernel.Egress{Total: 1, Connections: []kernel.Connection{}, Denied: []kernel.Denied{}, Usage: []kernel.Usage{{Model: "m", Requests: 1, Input: 2, Price: &price, Cost: micro}}}
}
