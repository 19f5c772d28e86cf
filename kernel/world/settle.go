package world

import (
	"slices"
	"strconv"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// stages are the settlement of a round in its order (seed 002, data flow;
// conformance WK30).
func stages() []func(*fold) { return []func(*fold){produce, consume, environment} }

// produce lets work enter the world: what came to be of effects, the accepted
// run of an approval, and the answers to actions. What a look showed of earlier pushes
// comes before.
func produce(f *fold) {
	for _, o := range f.now.observed {
		t := f.task(o.task)
		t.lookedAfter(o.facts.Head)
		f.put(t)
	}
	for _, d := range f.now.done {
		t := f.task(d.task)
		t.State, t.WaitingFor = d.Ruling.State, d.Ruling.WaitingFor
		if d.Intent.New != "" && d.Intent.Effect != kernel.ActionRedeliver {
			t.Head = d.Intent.New
			t.Unshown = Unshown{Old: d.Intent.Old, New: d.Intent.New, Seq: d.Intent.Seq, Run: d.Run}
		}
		if d.Ruling.accepts() {
			t.AcceptedRun = d.Run
		}
		f.put(t)
	}
	for i, result := range f.results() {
		a := f.now.actions[i]
		if a.act != nil {
			continue // it took effect as it was accepted
		}
		t := f.task(a.task)
		t.Answers = with(t.Answers, Answer{a.agent, a.key, result.Error, result.OldStats, result.NewStats})
		f.put(t)
		if a.accepted {
			f.now.charges = append(f.now.charges, charge{a.agent, countAccepted})
		} else {
			f.now.charges = append(f.now.charges, charge{a.agent, countRejected})
		}
	}
}

// consume charges what the round has cost: attempts, interruptions, counters,
// reservations. A completed task gives up what it was worked on with.
func consume(f *fold) {
	for _, d := range f.now.done {
		t := f.task(d.task)
		t.Attempts, t.Interruptions, t.NotBefore = d.Ruling.Attempt, d.Ruling.Interruptions, d.Ruling.NotBefore
		if t.State == kernel.TaskCompleted {
			t.AllowedFiles, t.Interpretations, t.PlanProposals = nil, nil, nil
			t.SeedPack, t.Spec, t.Plan, t.Dispatch = "", "", "", Dispatched{}
		}
		f.put(t)
	}
	if len(f.now.charges) > 0 {
		f.members = slices.Clone(f.members)
	}
	for _, c := range f.now.charges {
		m := f.member(c.member)
		f.members[m].Stats = f.members[m].Stats.plus(c.counter)
	}
	f.land, _ = f.reserved(0)
}

// environment takes in what changed outside: HEAD, the approval, the contract.
func environment(f *fold) {
	for _, o := range f.now.observed {
		t := f.task(o.task)
		if a := o.facts.Approved; a != "" && a != t.Approval {
			t.Approval, t.AcceptedRun, t.Answers = a, "", nil
		}
		t.see(o.facts.Head, o.stale)
		t.stop(o.facts.StopSeen())
		f.put(t)
		f.govern(o.facts.Governance)
	}
}

// see copies HEAD. The state and counters of a commit that isn't trusted, or that
// the ref was set back to, are not acted on, but a lease is honoured, so its state
// may be claimed. Of a ref that is gone nothing is known but what was seen before. Where
// an effect of ours came to be after it, it only was seen.
func (t *Task) see(h kernel.HeadFacts, stale bool) {
	v := kernel.TaskView{Seen: t.Seen, SeenSeq: t.SeenSeq, Unshown: t.Unshown.New}
	counts := h.Trusted() && v.Follows(h)
	if counts {
		t.follow(h.OID, h.Seq)
	}
	if counts && h.Shown != "" {
		t.Shown = h.Shown
	}
	if stale {
		return
	}
	t.Head, t.Told = h.OID, h.Told
	t.lookedAfter(h)
	state, known := kernel.TaskStateOf(h.State)
	switch {
	case h.OID == "" && t.Seen == "":
		t.State, t.WaitingFor = kernel.TaskNone, ""
	case known && (counts || !h.Trusted() && state == kernel.TaskClaimed):
		t.State, t.WaitingFor = state, h.WaitingFor
	}
	if counts {
		t.Attempts, t.Interruptions, t.NotBefore = h.Attempt, h.Interruptions, h.NotBefore
		t.act(h.Act)
	}
}

// lookedAfter takes in what the first look after a push says of it. One that didn't last
// accepted nothing. A stranger's commit says nothing of what is below it, unless that was
// looked for.
func (t *Task) lookedAfter(h kernel.HeadFacts) {
	u := t.Unshown
	switch {
	case u.New == "", h.Owed != nil:
		return
	case h.Lost:
		if t.AcceptedRun == u.Run {
			t.AcceptedRun = ""
		}
	case !h.Trusted() && h.Parent == u.New:
		t.follow(u.New, u.Seq)
	case !h.Trusted():
		return
	}
	t.Unshown = Unshown{}
}

// follow takes in a legitimate HEAD. What a person moved on from is behind it: if
// the ref is set back there, somebody has to look again.
func (t *Task) follow(oid string, seq int64) {
	if oid == t.Seen || seq <= t.SeenSeq {
		return
	}
	t.Seen, t.SeenSeq = oid, seq
	if t.ResumedHead != oid {
		t.ResumedHead = ""
	}
}

// act takes in an act on the forge.
func (t *Task) act(id string) {
	if kernel.NewerAct(id, t.Act) {
		t.Act = id
	}
}

// stop takes in a stop on the forge.
func (t *Task) stop(id string) {
	if kernel.NewerAct(id, t.Stopped) {
		t.Stopped = id
	}
}

// govern puts another contract in force.
func (f *fold) govern(hash canon.Digest) {
	if hash == "" || len(f.contracts) > 0 && f.contracts[0].GovernanceHash == hash {
		return
	}
	f.contracts = []Contract{{GovernanceHash: hash, SinceRound: f.round + 1}}
}

// results answers the actions of the round, in order.
func (f *fold) results() []ActionResult {
	out := make([]ActionResult, 0, len(f.now.actions))
	stats := map[string]Stats{}
	for _, a := range f.now.actions {
		before, known := stats[a.agent]
		if !known {
			before = f.stats(a.agent)
		}
		after, code := before.plus(countAccepted), (*kernel.Code)(nil)
		if !a.accepted {
			failure := a.error
			after, code = before.plus(countRejected), &failure
		}
		if a.act != nil { // a person has no counters
			after = before
		}
		stats[a.agent] = after
		out = append(out, f.result(Answer{a.agent, a.key, code, before, after}, a.task))
	}
	return out
}

// result is an answer in full; task is 0 where there is nobody to tell.
func (f *fold) result(a Answer, task int64) ActionResult {
	r := ActionResult{
		Kind: KindActionResult, V: Version, WorldID: f.config.WorldID, AgentID: a.Agent, Success: a.Error == nil,
		OldStats: a.Old, NewStats: a.New, MessagesSent: []Message{},
		PerformanceChange: a.New.Accepted - a.Old.Accepted - (a.New.Rejected - a.Old.Rejected),
	}
	if a.Error == nil {
		return r
	}
	code := *a.Error
	r.Error = &code
	if task > 0 {
		r.MessagesSent = []Message{{To: taskName(task), Text: string(code)}}
	}
	return r
}

func taskName(number int64) string { return "task/" + strconv.FormatInt(number, 10) }

// settle ends the round: the three stages, then the receipt. Rejected are ids
// of actions that were handed in and are none of this round's.
func (f *fold) settle(seed, now int64, rejected []string) (RoundReceipt, error) {
	switch {
	case seed == 0:
		return RoundReceipt{}, refuse(ErrOrder, nil, "a round is settled by a seed, which is never 0")
	case slices.ContainsFunc(f.now.actions, func(a action) bool { return !a.answered }):
		return RoundReceipt{}, refuse(ErrOrder, nil, "the round's actions are accepted or rejected before it is settled")
	}
	r := RoundReceipt{
		Kind: string(kernel.KindReceipt), V: Version, WorldID: f.config.WorldID, Instance: f.config.Instance,
		RoundID: f.round + 1, Seed: seed, SnapshotHashBefore: f.hash, Timestamp: now,
		AcceptedActionIDs: f.ids(true), RejectedActionIDs: append(f.ids(false), rejected...),
		ActivatedMechanismIDs: []string{}, JudgeResults: []JudgeResult{},
	}
	slices.Sort(r.AcceptedActionIDs)
	slices.Sort(r.RejectedActionIDs)
	r.RejectedActionIDs = slices.Compact(r.RejectedActionIDs)
	for _, stage := range stages() {
		stage(f)
	}
	f.round, f.seed, f.time = r.RoundID, seed, now
	err := f.putAway()
	if err == nil {
		f.hash, err = f.stateHash()
	}
	if err != nil {
		return RoundReceipt{}, refuse(ErrBody, err, "the state can't be hashed")
	}
	r.SnapshotHashAfter = f.hash
	r.RoundMetrics = f.metrics(r)
	f.now = current{}
	return r, nil
}

// putAway archives the tasks that need nothing more.
func (f *fold) putAway() error {
	var done []*known
	f.tasks.each(func(k *known) {
		if k.State == kernel.TaskCompleted && !k.live() && !k.Halted && len(k.Intents) == 0 {
			done = append(done, k)
		}
	})
	for _, k := range done {
		hash, err := canon.Hash(Archived{Kind: KindArchived, Prev: f.archive.Hash, Task: k.Task})
		if err != nil {
			return err
		}
		f.archive = Archive{Count: f.archive.Count + 1, Hash: hash}
		f.tasks.put(&known{Task: k.Task, archived: true})
	}
	return nil
}

// ids of the actions with one verdict.
func (f *fold) ids(accepted bool) []string {
	out := []string{}
	for _, a := range f.now.actions {
		if a.accepted == accepted {
			out = append(out, a.id())
		}
	}
	return out
}

func (f *fold) metrics(r RoundReceipt) map[string]int64 {
	var intents, paths int64
	f.tasks.each(func(k *known) { intents += int64(len(k.Intents)) })
	for _, l := range f.land {
		paths += int64(len(l.Paths))
	}
	return map[string]int64{
		MetricRecords: f.now.records, MetricTasks: f.tasks.count(), MetricLiveTasks: int64(len(f.land)),
		MetricAccepted: int64(len(r.AcceptedActionIDs)), MetricRejected: int64(len(r.RejectedActionIDs)),
		MetricReservedPaths: paths, MetricOpenIntents: intents,
	}
}
