package world

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Round is one request under way. It works on a copy: the kernel learns of it by
// [Kernel.Commit] alone, and a round that is dropped before never was. Its calls
// come in the order Observe, as often as needed, AcceptActions,
// AcceptMechanisms, SettleRound (seed 002, data flow); the middle two may be
// left out where they would be empty. A call out of turn is [ErrOrder]. A call
// that fails changes nothing.
//
// A request that has an effect is recorded in two appends: what leads to the
// effect before it, its outcome and the receipt after it. So a round may be
// committed in parts. If the process dies in between, the ledger ends inside
// the round, and the next one that begins goes on with it.
type Round struct {
	fold    *fold
	base    int64 // the kernel's version that it works on
	started bool  // the kernel has its genesis
	now     int64
	phase   phase
	drafts  []kernel.Draft // not committed yet, sealed
	invalid []string       // ids of actions that are none of this round's
	receipt *RoundReceipt
}

type phase int

const (
	observing phase = iota
	acted
	governed
	settled
)

// Begin opens the next round, or goes on with the one that the ledger ends in,
// at a time in Unix milliseconds, which counts only if it doesn't go back. The
// kernel is unchanged. Before the genesis a round takes nothing ([ErrOrder]).
func (k *Kernel) Begin(now int64) *Round {
	return &Round{fold: k.fold, base: k.version, started: k.head.Seq >= 0, now: max(now, k.time)}
}

// Number is the round's number.
func (r *Round) Number() int64 {
	if r.phase == settled {
		return r.fold.round
	}
	return r.fold.round + 1
}

// Now is the round's time in Unix milliseconds.
func (r *Round) Now() int64 { return r.now }

// Observe takes the records of the request in their order: observation,
// proposals, decision, dispatch, intent, outcome, a person's act; audit entries
// and reports may stand among them. All of them are taken or none. Besides
// [ErrOrder] it fails with the fault of the rule that a draft breaks.
func (r *Round) Observe(drafts ...kernel.Draft) error {
	if r.phase != observing || !r.started {
		return refuse(ErrOrder, nil, "the round takes no records now")
	}
	next := r.fold.fork()
	sealed := slices.Clone(drafts)
	for i, d := range drafts {
		body, err := canon.Seal(d.Body)
		if err != nil {
			return refuse(ErrBody, err, "the body of a %s record", d.Kind)
		}
		if err := next.take(&entry{kind: d.Kind, task: d.Task, run: d.Run, body: body.Bytes(), said: body.Value(), sum: body.Hash()}); err != nil {
			return err
		}
		sealed[i].Body = body
	}
	r.fold, r.drafts = next, append(r.drafts, sealed...)
	return nil
}

// Actions are what is to be accepted or rejected in this round, as the intents to hand to
// AcceptActions: the outcomes that a decision took in, and persons' acts.
func (r *Round) Actions() []ActionIntent {
	out := make([]ActionIntent, 0, len(r.fold.now.actions))
	for _, a := range r.fold.now.actions {
		out = append(out, r.intent(a))
	}
	return out
}

func (r *Round) intent(a action) ActionIntent {
	return ActionIntent{
		Kind: KindActionIntent, V: Version, WorldID: r.fold.config.WorldID,
		AgentID: a.agent, RoundID: a.round, Code: a.code, IdempotencyKey: a.key,
	}
}

// AcceptActions accepts or rejects actions, one result each, in order. An action
// counts only if the records of this round bear it out. Of a builder's outcome these are
// its agent, its run as the key and the hash of its diff as the code, and the decision's
// word is the answer. A person's act takes effect here, unless one of the same actor and
// key was accepted before (action.duplicate), or it was made for another round, epoch or
// HEAD (action.stale). Any other action is answered with an error and noted as rejected.
// What was answered before, and isn't recorded again, has the first answer and no effect.
func (r *Round) AcceptActions(list []ActionIntent) ([]ActionResult, error) {
	if r.phase != observing {
		return nil, refuse(ErrOrder, nil, "actions are accepted once, before mechanisms")
	}
	next := r.fold.fork()
	r.fold, r.phase = next, acted
	first := map[string]ActionResult{}
	out := make([]ActionResult, 0, len(list))
	for _, a := range list {
		id := actionID(a.AgentID, a.IdempotencyKey)
		answer, known := first[id]
		if at := r.pending(a); at >= 0 {
			next.accept(at)
			answer, known = next.results()[at], true
		}
		if !known {
			answer, known = next.answered(a)
		}
		if !known {
			answer = r.invalidate(a)
		}
		first[id] = answer
		out = append(out, copyResult(answer))
	}
	return out, nil
}

// pending is the place of the action of this round that nobody has answered yet.
func (r *Round) pending(a ActionIntent) int {
	return slices.IndexFunc(r.fold.now.actions, func(known action) bool { return !known.answered && r.intent(known) == a })
}

// invalidate rejects what no record bears out.
func (r *Round) invalidate(a ActionIntent) ActionResult {
	id := actionID(a.AgentID, a.IdempotencyKey)
	if !slices.ContainsFunc(r.fold.now.actions, func(known action) bool { return known.id() == id }) {
		r.invalid = append(r.invalid, id)
	}
	code, stats := kernel.CodeResultInvalid, r.fold.stats(a.AgentID)
	if a.RoundID != r.Number() {
		code = kernel.CodeActionStale
	}
	return r.fold.result(Answer{a.AgentID, a.IdempotencyKey, &code, stats, stats}, 0)
}

// answered finds the answer of an earlier round.
func (f *fold) answered(i ActionIntent) (r ActionResult, is bool) {
	id := actionID(i.AgentID, i.IdempotencyKey)
	if slices.Contains(f.acted, id) {
		return f.result(Answer{Agent: i.AgentID, Key: i.IdempotencyKey}, 0), true
	}
	f.tasks.all(func(t *known) {
		if slices.Contains(t.Acted, id) {
			r, is = f.result(Answer{Agent: i.AgentID, Key: i.IdempotencyKey}, t.Number), true
		}
		for _, a := range t.Answers {
			if !is && actionID(a.Agent, a.Key) == id {
				r, is = f.result(a, t.Number), true
			}
		}
	})
	return r, is
}

// AcceptMechanisms answers proposals of rules, one result each, in order. None
// is executed yet: nothing outside the kernel has judged one (conformance
// WK29), and what isn't approved is not taken.
func (r *Round) AcceptMechanisms(list []MechanismProposal) ([]MechanismResult, error) {
	if r.phase > acted {
		return nil, refuse(ErrOrder, nil, "mechanisms are accepted once, before the round is settled")
	}
	r.phase = governed
	out := make([]MechanismResult, 0, len(list))
	for _, p := range list {
		code := kernel.CodeAuthority
		out = append(out, MechanismResult{
			Kind: KindMechanismResult, V: Version, WorldID: r.fold.config.WorldID, ProposalID: p.ProposalID, Error: &code,
		})
	}
	return out, nil
}

// SettleRound produces, consumes and lets the environment change, in this
// order, and gives the receipt, which becomes the last of the round's drafts.
// The seed is recorded, and never 0; nothing draws from it yet. Each of the round's
// [Round.Actions] must have been handed to AcceptActions: nothing is settled that wasn't
// accepted or rejected there.
func (r *Round) SettleRound(seed int64) (RoundReceipt, error) {
	if r.phase == settled || !r.started {
		return RoundReceipt{}, refuse(ErrOrder, nil, "the round can't be settled now")
	}
	next := r.fold.fork()
	receipt, err := next.settle(seed, r.now, r.invalid)
	if err != nil {
		return RoundReceipt{}, err
	}
	d := kernel.Draft{Kind: kernel.KindReceipt, Body: receipt}
	if d.Body, err = canon.Seal(receipt); err != nil {
		return RoundReceipt{}, refuse(ErrBody, err, "the receipt")
	}
	r.fold, r.receipt, r.phase = next, &receipt, settled
	r.drafts = append(r.drafts, d)
	return copyReceipt(r.receipt)
}

// Receipt is the round's receipt; [ErrOrder] before it is settled.
func (r *Round) Receipt() (RoundReceipt, error) { return copyReceipt(r.receipt) }

// Snapshot is a copy of the state as the round has it so far.
func (r *Round) Snapshot() (WorldSnapshot, error) { return r.fold.copySnapshot() }

// Drafts are the records of the round that aren't committed yet, in order; of a
// settled round the last is the receipt. They are appended durably, all or
// none, and then committed.
func (r *Round) Drafts() []kernel.Draft { return slices.Clone(r.drafts) }

// Commit takes the round's drafts in once their records are durable. The round has
// folded these very bytes, by the rules of [Kernel.Apply], so they are not folded
// again. The records must follow the kernel's last one and be exactly
// [Round.Drafts]; audit entries and reports may be more or fewer. On an error
// the kernel is unchanged: a round of another state is [ErrOrder], records
// that aren't the round's are [ErrReceipt].
func (k *Kernel) Commit(r *Round, records []kernel.SealedRecord) error {
	if r.base != k.version {
		return refuse(ErrOrder, nil, "the round began with another state")
	}
	if !r.recorded(records) {
		return refuse(ErrReceipt, nil, "the records are not the round's")
	}
	next, said := *k, make([]any, len(records))
	for i, sealed := range records {
		rec := sealed.Record()
		e := entry{kind: rec.Kind, body: rec.Body, said: sealed.Said()}
		if err := next.passed(rec, sealed.Hash()); err != nil {
			return err
		}
		if err := r.fold.read(&e); err != nil {
			return atSeq(err, rec.Seq)
		}
		said[i] = e.said
	}
	for i, sealed := range records {
		k.beside.note(sealed.Record(), said[i])
	}
	r.fold.tasks.settle()
	if next.fold = r.fold; r.phase == settled {
		next.receipt = r.receipt
	}
	*k = next
	r.base, r.drafts = k.version, nil
	return nil
}

// recorded compares the records with the drafts, neutral ones left out.
func (r *Round) recorded(records []kernel.SealedRecord) bool {
	i := 0
	for _, sealed := range records {
		rec := sealed.Record()
		if neutral(rec.Kind) {
			continue
		}
		for i < len(r.drafts) && neutral(r.drafts[i].Kind) {
			i++
		}
		if i == len(r.drafts) {
			return false
		}
		d := r.drafts[i]
		if rec.Kind != d.Kind || rec.Task != d.Task || rec.Run != d.Run || !bytes.Equal(rec.Body, d.Body.(canon.Sealed).Bytes()) {
			return false
		}
		i++
	}
	return !slices.ContainsFunc(r.drafts[i:], func(d kernel.Draft) bool { return !neutral(d.Kind) })
}

// atSeq makes any fault in a ledger corruption at a record.
func atSeq(err error, seq int64) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	at := *e
	at.Code, at.Seq = kernel.CodeLedgerCorrupt, seq
	return &at
}

func copyResult(r ActionResult) ActionResult {
	r.MessagesSent = slices.Clone(r.MessagesSent)
	if r.Error != nil {
		code := *r.Error
		r.Error = &code
	}
	return r
}

func copyReceipt(r *RoundReceipt) (RoundReceipt, error) {
	if r == nil {
		return RoundReceipt{}, refuse(ErrOrder, nil, "no round is settled yet")
	}
	c := *r
	c.AcceptedActionIDs = slices.Clone(r.AcceptedActionIDs)
	c.RejectedActionIDs = slices.Clone(r.RejectedActionIDs)
	c.ActivatedMechanismIDs = slices.Clone(r.ActivatedMechanismIDs)
	c.JudgeResults = slices.Clone(r.JudgeResults)
	c.RoundMetrics = maps.Clone(r.RoundMetrics)
	return c, nil
}
