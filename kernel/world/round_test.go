package world_test

import (
	"errors"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/world"
)

func proposal(id string) world.MechanismProposal {
	return world.MechanismProposal{Kind: world.KindMechanismProposal, V: world.Version, WorldID: worldID, ProposalID: id, AgentID: "default", Code: "true", RoundID: 1}
}

// WK28: every call out of turn is refused and changes nothing.
func TestWK28_Order(t *testing.T) {
	k, err := world.New(config())
	if err != nil {
		t.Fatal(err)
	}
	early := k.Begin(start)
	wants(t, early.Observe(), world.ErrOrder)
	_, err = early.SettleRound(1)
	wants(t, err, world.ErrOrder)
	_, err = k.Receipt()
	wants(t, err, world.ErrOrder)

	b := open(t, config())
	j := b.job(1, "r1")
	observation := j.draft(kernel.KindObservation, j.facts("", ""))
	observe := func(r *world.Round) error { return r.Observe(observation) }
	actions := func(r *world.Round) error { _, err := r.AcceptActions(nil); return err }
	mechanisms := func(r *world.Round) error { _, err := r.AcceptMechanisms(nil); return err }
	settle := func(r *world.Round) error { _, err := r.SettleRound(1); return err }
	receipt := func(r *world.Round) error { _, err := r.Receipt(); return err }
	type calls = []func(*world.Round) error
	cases := []struct {
		name  string
		calls calls // the last one is out of turn
	}{
		{"receipt before the settlement", calls{observe, receipt}},
		{"observe after actions", calls{actions, observe}},
		{"observe after mechanisms", calls{mechanisms, observe}},
		{"observe after the settlement", calls{settle, observe}},
		{"actions twice", calls{actions, actions}},
		{"actions after mechanisms", calls{mechanisms, actions}},
		{"actions after the settlement", calls{settle, actions}},
		{"mechanisms twice", calls{mechanisms, mechanisms}},
		{"mechanisms after the settlement", calls{settle, mechanisms}},
		{"settle twice", calls{observe, actions, mechanisms, settle, settle}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := b.k.Begin(b.now)
			last := len(c.calls) - 1
			for _, call := range c.calls[:last] {
				if err := call(r); err != nil {
					t.Fatal(err)
				}
			}
			before, err := r.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			wants(t, c.calls[last](r), world.ErrOrder)
			after, err := r.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			same(t, "state", before, after)
		})
	}
}

// WK10, WK28: a round that judged something is settled with its action only.
func TestWK28_ActionsAreNotForgotten(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atBuilt)
	r := b.k.Begin(b.now)
	if err := r.Observe(j.judged(kernel.TaskCompleted)...); err != nil {
		t.Fatal(err)
	}
	_, err := r.SettleRound(1)
	wants(t, err, world.ErrOrder)
	b.settle(r)
}

// WK10, WK16, WK17: an answer for each action, in order; stats differ by what
// it did; a duplicate has the first answer and no effect.
func TestWK16_Actions(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atBuilt)
	r := b.k.Begin(b.now)
	if err := r.Observe(j.judged(kernel.TaskCompleted)...); err != nil {
		t.Fatal(err)
	}
	good := r.Actions()[0]
	if good.AgentID != "default" || good.IdempotencyKey != "r1" || good.Code == "" || good.RoundID != r.Number() {
		t.Fatalf("action %+v", good)
	}
	forged, stranger, early, elsewhere := good, good, good, good
	forged.Code = digest("f")
	stranger.AgentID = "nobody"
	early.RoundID, early.IdempotencyKey = 1, "r0"
	elsewhere.WorldID, elsewhere.IdempotencyKey = "elsewhere", "r5"
	results, err := r.AcceptActions([]world.ActionIntent{stranger, good, good, early, elsewhere})
	if err != nil || len(results) != 5 {
		t.Fatal(results, err)
	}
	for i, success := range []bool{false, true, true, false, false} {
		if results[i].Success != success || (results[i].Error == nil) != success {
			t.Errorf("result %d: %+v", i, results[i])
		}
	}
	same(t, "duplicate", results[1], results[2])
	same(t, "old stats", world.Stats{Dispatched: 1}, results[1].OldStats)
	same(t, "new stats", world.Stats{Dispatched: 1, Accepted: 1}, results[1].NewStats)
	same(t, "stats of an invalid action", results[0].OldStats, results[0].NewStats)
	if results[1].PerformanceChange != 1 {
		t.Errorf("performance change %d", results[1].PerformanceChange)
	}
	receipt := b.settle2(r)
	same(t, "accepted", []string{"default:r1"}, receipt.AcceptedActionIDs)
	same(t, "rejected", []string{"default:r0", "default:r5", "nobody:r1"}, receipt.RejectedActionIDs)
	if receipt.RoundMetrics[world.MetricAccepted] != 1 || receipt.RoundMetrics[world.MetricRejected] != 3 {
		t.Errorf("metrics %v", receipt.RoundMetrics)
	}

	later := b.k.Begin(b.now)
	again, err := later.AcceptActions([]world.ActionIntent{good, forged})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "duplicate in a later round", results[1], again[0])
	same(t, "same key, other code", results[1], again[1])
	receipt = b.settle2(later)
	if len(receipt.AcceptedActionIDs)+len(receipt.RejectedActionIDs) > 0 {
		t.Errorf("a duplicate had an effect: %+v", receipt)
	}
	same(t, "counters", world.Stats{Dispatched: 1, Accepted: 1}, b.stats("default"))
	if _, err := world.Open(b.records); err != nil {
		t.Errorf("the ledger doesn't fold: %v", err)
	}
}

// settle2 settles a round whose actions were accepted.
func (b *book) settle2(r *world.Round) world.RoundReceipt {
	b.t.Helper()
	receipt, err := r.SettleRound(b.seed)
	if err != nil {
		b.t.Fatal(err)
	}
	b.store(r)
	return receipt
}

// WK10, WK12: nothing is settled that wasn't handed to AcceptActions: neither by calling it
// with nothing, nor with another's action.
func TestWK10_NothingIsSettledUnanswered(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atBuilt)
	for name, list := range map[string][]world.ActionIntent{
		"nothing": nil,
		"another": {{Kind: world.KindActionIntent, V: world.Version, AgentID: "default", RoundID: 1, IdempotencyKey: "r2"}},
	} {
		r := b.k.Begin(b.now)
		if err := r.Observe(j.judged(kernel.TaskRetryPending, coded(kernel.CodeVerificationFailed, kernel.CodeCheckFailed))...); err != nil {
			t.Fatal(err)
		}
		if _, err := r.AcceptActions(list); err != nil {
			t.Fatal(err)
		}
		if _, err := r.SettleRound(b.seed); !errors.Is(err, world.ErrOrder) {
			t.Errorf("%s: the round is settled: %v", name, err)
		}
	}
}

// answers are those to the actions of drafts that aren't kept.
func (b *book) answers(drafts ...kernel.Draft) []world.ActionResult {
	b.t.Helper()
	r := b.k.Begin(b.now)
	if err := r.Observe(drafts...); err != nil {
		b.t.Fatal(err)
	}
	results, err := r.AcceptActions(r.Actions())
	if err != nil {
		b.t.Fatal(err)
	}
	return results
}

// WK10, WK16: a person's act is an action. It changes nothing until it is accepted, and
// no round is settled without that; one that was said before, or for the world as it
// doesn't stand, is rejected. The fold of the records says the same.
func TestWK10_ActsAreActions(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atClaimed)
	halt := j.act(kernel.ActHalt, 0)
	for _, handed := range []bool{false, true} {
		r := b.k.Begin(b.now)
		if err := r.Observe(halt); err != nil {
			t.Fatal(err)
		}
		if s, err := r.Snapshot(); err != nil || s.Tasks[0].Halted {
			t.Errorf("an act that nobody accepted halts: %v", err)
		}
		if handed {
			if _, err := r.AcceptActions(nil); err != nil {
				t.Fatal(err)
			}
		}
		_, err := r.SettleRound(b.seed)
		wants(t, err, world.ErrOrder)
	}
	said := halt.Body.(kernel.OperatorAct)
	id := "person:u2:" + said.Key
	same(t, "accepted", []string{id}, b.round(halt).AcceptedActionIDs)
	if !b.k.TaskView(1).Halted {
		t.Error("an act that was accepted doesn't halt")
	}
	again := said
	again.Round++
	receipt := b.round(j.draft(kernel.KindOperatorAct, again))
	if len(receipt.AcceptedActionIDs) > 0 {
		t.Error("an act counts twice")
	}
	same(t, "rejected", []string{id}, receipt.RejectedActionIDs)
	b.round(j.act(kernel.ActResume, 1))
	again.Round += 2
	if results := b.answers(j.draft(kernel.KindOperatorAct, again)); *results[0].Error != kernel.CodeActionDuplicate {
		t.Errorf("an act is answered by %+v", results[0])
	}
	for name, a := range map[string]kernel.OperatorAct{
		"of an earlier round":      {Act: kernel.ActHalt, Round: said.Round},
		"of a later round":         {Act: kernel.ActHalt, Round: said.Round + 9},
		"of a HEAD that isn't":     {Act: kernel.ActPutBack, Head: "c-elsewhere"},
		"of no HEAD":               {Act: kernel.ActPutBack},
		"of a push that isn't":     {Act: kernel.ActResume, Epoch: 2, Unshown: "c-elsewhere"},
		"of an epoch that is over": {Act: kernel.ActResume, Epoch: 1},
		"with what it needs not":   {Act: kernel.ActStop, Unshown: "c-r1-claim"},
	} {
		a.Kind, a.Actor, a.Key = string(kernel.KindOperatorAct), "u2", "another"
		if a.Round == 0 {
			a.Round = b.k.Begin(b.now).Number()
		}
		results := b.answers(j.draft(kernel.KindOperatorAct, a))
		if results[0].Success || *results[0].Error != kernel.CodeActionStale || results[0].NewStats != results[0].OldStats {
			t.Errorf("%s: %+v", name, results[0])
		}
	}
	r := b.k.Begin(b.now)
	results, err := r.AcceptActions([]world.ActionIntent{{Kind: world.KindActionIntent, V: world.Version, WorldID: worldID, AgentID: "person:u2", RoundID: 1, IdempotencyKey: said.Key}})
	if err != nil || !results[0].Success {
		t.Errorf("what was answered before hasn't its first answer: %+v, %v", results, err)
	}
	k, err := world.Open(b.records)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "state", b.k.StateHash(), k.StateHash())
}

// WK54, WK16: a pause is an act on the whole world. It is there until its end is accepted, and
// each is once. The fold of the records, and a saved world, say the same.
func TestWK54_PausesAreActions(t *testing.T) {
	b := open(t, config())
	plain := b.k.StateHash()
	act := func(act, key, of string, since int64, round int64) kernel.Draft {
		return kernel.Draft{Kind: kernel.KindOperatorAct, Body: kernel.OperatorAct{
			Kind: string(kernel.KindOperatorAct), Act: act, Actor: "u2", Key: key, Pause: of, Since: since, Round: b.k.Begin(b.now).Number() + round,
		}}
	}
	fits := func(d kernel.Draft, code kernel.Code) {
		t.Helper()
		r := b.answers(d)[0]
		if r.Success != (code == "") || !r.Success && *r.Error != code || len(r.MessagesSent) > 0 {
			t.Errorf("%+v: %+v", d.Body, r)
		}
	}
	fits(act(kernel.ActUnpause, "0", kernel.PauseAll, 7, 0), kernel.CodeActionStale)
	b.round(act(kernel.ActPause, "1", kernel.PauseAll, 7, 0))
	fits(act(kernel.ActPause, "1", kernel.PauseAll, 7, 0), kernel.CodeActionDuplicate)
	fits(act(kernel.ActPause, "2", kernel.PauseAll, 7, 0), kernel.CodeActionStale)
	fits(act(kernel.ActPause, "2", kernel.PauseAll, 8, 1), kernel.CodeActionStale)
	fits(act(kernel.ActUnpause, "2", kernel.PauseWorld, 7, 0), kernel.CodeActionStale)
	b.round(act(kernel.ActPause, "2", kernel.PauseFile, 7, 0))
	same(t, "pauses", []world.Pause{{Of: kernel.PauseAll, Since: 7, Actor: "u2"}, {Of: kernel.PauseFile, Since: 7, Actor: "u2"}}, b.k.Pauses())
	if b.k.StateHash() == plain || len(b.k.Tasks()) > 0 {
		t.Error("a pause is no state, or a task")
	}
	saved, err := b.k.Save()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := world.Restore(saved)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "saved", b.k.Pauses(), restored.Pauses())
	fits(act(kernel.ActUnpause, "3", kernel.PauseAll, 7, 0), "")
	b.round(act(kernel.ActUnpause, "3", kernel.PauseAll, 7, 0))
	same(t, "one is left", []world.Pause{{Of: kernel.PauseFile, Since: 7, Actor: "u2"}}, b.k.Pauses())
	r := b.k.Begin(b.now)
	results, err := r.AcceptActions([]world.ActionIntent{{Kind: world.KindActionIntent, V: world.Version, WorldID: worldID, AgentID: "person:u2", RoundID: 1, IdempotencyKey: "1"}})
	if err != nil || !results[0].Success {
		t.Errorf("what was answered before hasn't its first answer: %+v, %v", results, err)
	}
	again, err := world.Open(b.records)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "state", b.k.StateHash(), again.StateHash())
	for name, d := range map[string]kernel.Draft{
		"of a task":   {Kind: kernel.KindOperatorAct, Task: 1, Body: act(kernel.ActPause, "9", kernel.PauseAll, 9, 0).Body},
		"of nothing":  act(kernel.ActPause, "9", "", 9, 0),
		"since never": act(kernel.ActPause, "9", kernel.PauseAll, 0, 0),
		"a halt":      act(kernel.ActHalt, "9", "", 0, 0),
	} {
		if err := b.try(d); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// Key and round are required.
func TestWK16_ActsHaveTheirKey(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atClaimed)
	for _, spoil := range []func(*kernel.OperatorAct){
		func(a *kernel.OperatorAct) { a.Actor = "" }, func(a *kernel.OperatorAct) { a.Key = "" }, func(a *kernel.OperatorAct) { a.Round = 0 },
	} {
		a := j.act(kernel.ActHalt, 0).Body.(kernel.OperatorAct)
		spoil(&a)
		wants(t, b.try(j.draft(kernel.KindOperatorAct, a)), world.ErrBody)
	}
}

// A round's seed is recorded, and never 0.
func TestWK12_SeedIsNeverZero(t *testing.T) {
	_, err := open(t, config()).k.Begin(0).SettleRound(0)
	wants(t, err, world.ErrOrder)
}

// WK17: a rejected action has the failure's code and a note.
func TestWK17_Rejected(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1").to(atBuilt)
	r := b.k.Begin(b.now)
	if err := r.Observe(j.judged(kernel.TaskRetryPending, coded(kernel.CodeVerificationFailed, kernel.CodeCheckFailed))...); err != nil {
		t.Fatal(err)
	}
	results, err := r.AcceptActions(r.Actions())
	if err != nil {
		t.Fatal(err)
	}
	got := results[0]
	if got.Success || *got.Error != kernel.CodeVerificationFailed || got.PerformanceChange != -1 || len(got.MessagesSent) != 1 {
		t.Errorf("result %+v", got)
	}
	same(t, "new stats", world.Stats{Dispatched: 1, Rejected: 1}, got.NewStats)
	same(t, "rejected", []string{"default:r1"}, b.settle2(r).RejectedActionIDs)
	same(t, "counters", got.NewStats, b.stats("default"))
}

// WK11, WK29: what nobody outside has approved isn't executed.
func TestWK29_MechanismWithoutJudge(t *testing.T) {
	b := open(t, config())
	r := b.k.Begin(b.now)
	results, err := r.AcceptMechanisms([]world.MechanismProposal{proposal("p1"), proposal("p2")})
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	for i, id := range []string{"p1", "p2"} {
		if results[i].ProposalID != id || results[i].Executed || results[i].Error == nil {
			t.Errorf("result %+v", results[i])
		}
	}
	if b.settle2(r); len(snapshot(t, b.k).ActiveMechanisms) > 0 {
		t.Error("a mechanism is active")
	}
}

// WK9, WK13: answers are copies, and a receipt stays until the next.
func TestWK9_Copies(t *testing.T) {
	b := journey(t, 7)
	before := b.k.StateHash()
	s := snapshot(t, b.k)
	s.Members[0].Name, s.Tasks[0].Run.ID, s.Tasks[1].AllowedFiles[0] = "x", "x", "x"
	r, err := b.k.Receipt()
	if err != nil {
		t.Fatal(err)
	}
	r.RoundMetrics["tasks"] = 99
	if len(r.RejectedActionIDs) > 0 {
		r.RejectedActionIDs[0] = "x"
	}
	again := snapshot(t, b.k)
	if got, err := again.Hash(); err != nil || got != before {
		t.Errorf("the state changed: %s, %v", got, err)
	}
	second, err := b.k.Receipt()
	if err != nil {
		t.Fatal(err)
	}
	third, err := b.k.Receipt()
	if err != nil || string(marshal(t, second)) != string(marshal(t, third)) || second.RoundMetrics["tasks"] == 99 {
		t.Error("the receipt changed")
	}
}

// WK8, WK15: same configuration, same genesis; an absent seed is recorded.
func TestWK15_Genesis(t *testing.T) {
	c := config()
	c.RandomSeed = nil
	one, two := c.Genesis(), c.Genesis()
	same(t, "genesis", one, two)
	if one.Seed == 0 {
		t.Error("no seed is recorded")
	}
	b := open(t, c)
	if got := b.k.Config(); got.RandomSeed == nil || *got.RandomSeed != one.Seed || snapshot(t, b.k).Seed != one.Seed {
		t.Errorf("config %+v", got)
	}
	for name, change := range map[string]func(*world.WorldConfig){
		"no world":            func(c *world.WorldConfig) { c.WorldID = "" },
		"no instance":         func(c *world.WorldConfig) { c.Instance = "" },
		"other kind":          func(c *world.WorldConfig) { c.Kind = "config" },
		"seed 0":              func(c *world.WorldConfig) { c.RandomSeed = new(int64) },
		"no land":             func(c *world.WorldConfig) { c.LandShape[0] = 0 },
		"no depth":            func(c *world.WorldConfig) { c.LandShape[1] = 0 },
		"wrong number":        func(c *world.WorldConfig) { c.InitMemberNumber = 3 },
		"member twice":        func(c *world.WorldConfig) { c.Members = []string{"a", "a"} },
		"member without name": func(c *world.WorldConfig) { c.Members = []string{"", "a"} },
	} {
		t.Run(name, func(t *testing.T) {
			c := config()
			change(&c)
			_, err := world.New(c)
			wants(t, err, world.ErrConfig)
		})
	}
}

// A builder that was configured after genesis becomes a member by its work.
func TestLateMember(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	drafts := j.claims()
	pack := j.pack()
	pack.Spec.Builder = "brand-new"
	drafts = replace(drafts, kernel.KindSeedPack, j.draft(kernel.KindSeedPack, pack))
	b.round(drafts...)
	b.round(j.outcome(kernel.ActionClaim, kernel.OutcomeDone))
	j.step(kernel.ActionDispatch, j.dispatches())
	same(t, "counters", world.Stats{Dispatched: 1}, b.stats("brand-new"))
	if members := snapshot(t, b.k).Members; members[0].Name != "brand-new" || len(members) != 3 {
		t.Errorf("members %v", members)
	}
}

// The whole path with the kernel's own decisions: what Decide says, the world
// takes.
func TestDecideAgrees(t *testing.T) {
	b := open(t, config())
	j := b.job(1, "r1")
	decide := func(f kernel.Facts, want kernel.Action) []kernel.Draft {
		t.Helper()
		f.Budgets = j.pack().Budgets
		d, err := kernel.Decide(f)
		if err != nil || d.Action != want {
			t.Fatalf("decided %s: %v %v, want %s", d.Action, d.Violations, err, want)
		}
		return []kernel.Draft{j.draft(kernel.KindObservation, f), j.draft(kernel.KindDecision, d)}
	}
	b.round(append(decide(j.facts("", ""), kernel.ActionClaim), j.claims()[2:]...)...)
	b.round(j.outcome(kernel.ActionClaim, kernel.OutcomeDone))
	b.round(append(decide(j.facts("working", kernel.PhaseClaimed), kernel.ActionDispatch), j.dispatches()[2:]...)...)
	b.round(j.outcome(kernel.ActionDispatch, kernel.OutcomeDone))
	b.round(append(append(j.proposed(), decide(j.facts("working", kernel.PhaseBuilt), kernel.ActionSeal)...), j.intent(kernel.ActionSeal, ""))...)
	b.round(j.outcome(kernel.ActionSeal, kernel.OutcomeDone))
	b.round(append(decide(j.facts("working", kernel.PhaseSealed), kernel.ActionChecks), j.intent(kernel.ActionChecks, ""))...)
	b.round(j.outcome(kernel.ActionChecks, kernel.OutcomeDone))
	b.round(append([]kernel.Draft{j.checked()}, decide(j.facts("working", kernel.PhaseChecked), kernel.ActionJudge)...)...)
	pushed := j.facts("working", kernel.PhaseJudged)
	pushed.Run.Judgement = &kernel.Judgement{State: kernel.TaskCompleted}
	b.round(append(decide(pushed, kernel.ActionResult), j.intent(kernel.ActionResult, ""))...)
	b.round(j.outcome(kernel.ActionResult, kernel.OutcomeDone))
	if task := b.task(1); task.State != kernel.TaskCompleted || task.AcceptedRun != "r1" {
		t.Errorf("task %+v", task)
	}
}
