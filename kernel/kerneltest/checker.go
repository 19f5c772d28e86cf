package kerneltest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Checker holds what happens against the invariants E1 to E7 and against the
// oracle. A run that goes on with sealed work has no dispatch: for it, E4 says that the
// run which it names was dispatched on a decision that allowed it, with the very bytes
// that its claim names, and E5 that its effects count only while HEAD is the last commit
// that it pushed itself, not the run which it goes on with. What is wrong is kept in Wrong; the caller looks after every step. E8
// (everything ends) is the caller's, who knows when faults stop.
type Checker struct {
	Server    *Server
	Rules     Rules
	StateRef  string
	ChangeRef string
	Canary    []byte // must never leave the kernel
	// Trusts says whether a pusher acts on what a state commit says; nil for always.
	Trusts func(pusher, id string) bool
	// Foreign says whether a state commit was made for another place; nil for never.
	Foreign func(id string) bool
	Outage  bool // the server is or was unable
	// Stale says that an instance may have been shown the issue as it was before: it then
	// can't know of what people did since.
	Stale bool

	Wrong     []string
	Claims    int // leases taken
	Resumed   int // ... that go on with sealed work
	Refreshed int // ... that apply accepted work on another base
	Fixed     int // revisions of accepted work
	Accepted  int // completed tasks

	ledgers  map[string]*ledgerView
	intents  map[string]intent        // by key, of all ledgers ever
	started  map[string]bool          // runs that a builder was started for
	accepted map[string]string        // approval and base to the commit that completed it
	stands   map[string]Head          // of an approval: the accepted result that counts
	runs     map[string]tenure        // of the runs that hold or held a lease
	earlier  map[string]string        // of a run: the dispatched one whose sealed work it goes on with
	lists    map[string]string        // of a revision: whose result it revises, for which list and act
	resumed  map[string]bool          // commits that a person moved on from
	moving   map[string]kernel.Intent // by instance: the effect on the issue that is announced
	acts     map[string]string        // of a run: the act on the forge that it was claimed on
	delivers map[string]bool          // commits that accepted results name
	taken    int64                    // when a person last took the approval back, by the forge's clock
}

// ledgerView is what is remembered of an instance's ledger.
type ledgerView struct {
	head      kernel.Head
	decisions map[string]kernel.Decision // last one of each run
	dispatch  map[string][]byte          // by run
}

type intent struct {
	instance, run string
	effect        kernel.Action
	digest        canon.Digest
	to            string
}

// tenure is who holds a run, and the last commit it pushed.
type tenure struct {
	instance, last string
	before         string // HEAD that the last one came onto: a server that forgets shows it again
}

// NewChecker watches a server.
func NewChecker(s *Server, stateRef, changeRef string, rules Rules) *Checker {
	c := &Checker{
		Server: s, Rules: rules, StateRef: stateRef, ChangeRef: changeRef,
		ledgers: map[string]*ledgerView{}, intents: map[string]intent{}, started: map[string]bool{},
		accepted: map[string]string{}, stands: map[string]Head{}, runs: map[string]tenure{}, resumed: map[string]bool{}, earlier: map[string]string{}, lists: map[string]string{},
		moving: map[string]kernel.Intent{}, acts: map[string]string{}, delivers: map[string]bool{},
	}
	s.Moved = c.moved
	s.Received = func(o Object) { c.canary("a pushed "+o.Kind, o.Data) }
	return c
}

func (c *Checker) wrong(format string, args ...any) {
	c.Wrong = append(c.Wrong, fmt.Sprintf(format, args...))
}

func (c *Checker) ledger(instance string) *ledgerView {
	l := c.ledgers[instance]
	if l == nil {
		l = &ledgerView{head: kernel.NoHead(), decisions: map[string]kernel.Decision{}, dispatch: map[string][]byte{}}
		c.ledgers[instance] = l
	}
	return l
}

// Stored takes a record that an instance's ledger made durable. Its hash is taken of its
// bytes: that these are the record's is a test of package kernel.
func (c *Checker) Stored(instance string, sealed kernel.SealedRecord) {
	l, r := c.ledger(instance), sealed.Record()
	if r.Seq != l.head.Seq+1 || r.Prev != l.head.Hash {
		c.wrong("E6: record %d of %s doesn't follow record %d", r.Seq, instance, l.head.Seq)
	}
	l.head = kernel.Head{Seq: r.Seq, Hash: canon.Sum(sealed.Bytes())}
	c.canary("a record", r.Body)
	switch r.Kind {
	case kernel.KindIntent:
		var i kernel.Intent
		c.decode(r, &i)
		c.intents[i.Key] = intent{instance, r.Run, i.Effect, i.Digest, i.New}
		if i.Effect.OnForge() {
			c.moving[instance] = i
		}
	case kernel.KindOutcome:
		var o kernel.Outcome
		c.decode(r, &o)
		if c.moving[instance].Key == o.Key {
			delete(c.moving, instance)
		}
	case kernel.KindDecision:
		var d kernel.Decision
		c.decode(r, &d)
		l.decisions[r.Run] = d
	case kernel.KindDispatch:
		l.dispatch[r.Run] = r.Body
	case kernel.KindOperatorAct:
		var a kernel.OperatorAct
		c.decode(r, &a)
		if a.Act == kernel.ActResume {
			c.resumed[a.Head] = true
		}
	}
}

func (c *Checker) decode(r kernel.Record, v any) {
	if err := json.Unmarshal(r.Body, v); err != nil {
		c.wrong("record %d can't be read: %v", r.Seq, err)
	}
}

// Reopened is a ledger that a process starts from: its head must be the last
// one seen.
func (c *Checker) Reopened(instance string, head kernel.Head) {
	if want := c.ledger(instance).head; head != want {
		c.wrong("E6: the ledger of %s was at %d and is at %d", instance, want.Seq, head.Seq)
	}
}

// Restored is a ledger that was put back from an earlier copy of its disk: what it
// had since is gone, and it grows from there.
func (c *Checker) Restored(instance string, head kernel.Head) { c.ledger(instance).head = head }

// Started is a builder that is being started.
func (c *Checker) Started(instance, run string, dispatch []byte) {
	if c.started[run] {
		c.wrong("P5: run %s is dispatched a second time", run)
	}
	if c.earlier[run] != "" {
		c.wrong("E4: run %s goes on with sealed work and starts a builder", run)
	}
	c.started[run] = true
	c.approved("dispatched", run, c.acts[run])
	l := c.ledger(instance)
	i, ok := c.intents["dispatch:"+run]
	if !ok || i.instance != instance {
		c.wrong("E3: run %s is dispatched without an intent", run)
	}
	d := l.decisions[run]
	if d.Verdict != kernel.Allow || d.Action != kernel.ActionDispatch {
		c.wrong("E4: run %s is dispatched on the decision %s %s", run, d.Verdict, d.Action)
	}
	if sum := canon.Sum(dispatch); sum != i.digest || sum != canon.Sum(l.dispatch[run]) {
		c.wrong("E4: run %s gets other bytes than were recorded", run)
	}
	c.canary("a dispatch", dispatch)
}

// Dispatched is how many builders were started.
func (c *Checker) Dispatched() int { return len(c.started) }

func (c *Checker) canary(where string, data []byte) {
	if len(c.Canary) > 0 && bytes.Contains(data, c.Canary) {
		c.wrong("E7: %s holds the canary", where)
	}
}

// moved takes a change of refs.
func (c *Checker) moved(pusher string, moves []Move) {
	var state, change *Move
	for i := range moves {
		switch moves[i].Ref {
		case c.StateRef:
			state = &moves[i]
		case c.ChangeRef:
			change = &moves[i]
		}
	}
	if pusher == "" {
		return // a person may do anything
	}
	if state == nil {
		ours := change != nil && (change.Old == "" || c.delivers[change.Old] || c.Server.strays[change.Old])
		if ours && c.Server.strays[change.New] {
			return // of a result whose state didn't move with it
		}
		if head, _ := c.Server.At(c.StateRef); !ours || change.New != head.Change {
			c.wrong("E2: %s moves %s alone", pusher, moves[0].Ref)
		} else if i := c.intents[string(kernel.ActionRedeliver)+":"+change.New]; i.to != change.New {
			c.wrong("E3: %s pushes %s without an intent", pusher, change.New)
		}
		return // what a server left out of an accepted result
	}
	step := Step{Old: c.counted(pusher, state.Old), New: c.read(state.New), Resumed: c.resumed[state.Old], Outage: c.Outage}
	if c.Foreign != nil && c.Foreign(state.Old) {
		step.Old, step.Foreign = Head{OID: state.Old}, true
	}
	if step.New.Parent != state.Old {
		between := c.read(step.New.Parent)
		step.Between = &between
		if between.Parent != state.Old {
			c.wrong("HEAD %s isn't built on %s", state.New, state.Old)
		}
	}
	in := c.intended(pusher, state.New, step)
	step.Effect = in.effect
	if wrong := c.Rules.Judge(step); wrong != "" {
		c.wrong("oracle: %s of %s: %s", in.effect, pusher, wrong)
	}
	c.fence(pusher, in, step)
	c.result(step, in.run, change)
}

// counted is HEAD as its pusher counts it: what an unlisted writer's lease says of
// the task is what the trusted commit below it says.
func (c *Checker) counted(pusher, id string) Head {
	h := c.read(id)
	if c.Trusts == nil || h.State != kernel.HeadWorking && h.State != kernel.HeadStalled {
		return h
	}
	below := h
	for below.OID != "" && !c.Trusts(pusher, below.OID) {
		below = c.read(below.Parent)
	}
	h.Attempt, h.Interruptions, h.Approval = below.Attempt, below.Interruptions, below.Approval
	return h
}

func (c *Checker) read(id string) Head {
	o, ok := c.Server.Object(id)
	if id == "" || !ok {
		return Head{OID: id}
	}
	return ReadHead(id, o)
}

// intended finds the intent of a push (E3).
func (c *Checker) intended(pusher, to string, s Step) intent {
	for _, a := range []kernel.Action{kernel.ActionClaim, kernel.ActionTakeOver, kernel.ActionHeartbeat, kernel.ActionSeal, kernel.ActionResult, kernel.ActionRelease, kernel.ActionWait, kernel.ActionComplete, kernel.ActionRestore} {
		if i, ok := c.intents[string(a)+":"+to]; ok {
			if i.instance != pusher || i.to != to || i.effect != a {
				c.wrong("E3: %s pushes what %s intended", pusher, i.instance)
			}
			return i
		}
	}
	c.wrong("E3: %s pushes %s (%s) without an intent", pusher, to, s.New.State)
	return intent{}
}

// fence is E5: what a run does is accepted only while HEAD is the last commit
// that it pushed.
func (c *Checker) fence(pusher string, in intent, s Step) {
	switch {
	case in.effect == kernel.ActionClaim:
		if last := c.runs[s.New.Run].last; last != "" && last != s.New.OID { // the very same is pushed again where no look showed it
			c.wrong("L2: run %s takes a second lease", s.New.Run)
		}
		c.Claims++
		c.resumes(s.New)
		c.fixes(s.New)
		c.acts[s.New.Run] = s.New.Act
		c.runs[s.New.Run] = tenure{pusher, s.New.OID, s.Old.OID}
	case s.Old.Waiting == kernel.WaitRule && (in.effect == kernel.ActionResult || in.effect == kernel.ActionWait && s.New.Waiting == kernel.WaitRule) && in.run != "":
		if held := c.runs[in.run]; held.instance != pusher || held.last != s.Old.OID {
			c.wrong("E5: %s of run %s by %s onto the wait %s, which %s left there", in.effect, in.run, pusher, s.Old.OID, held.instance)
		}
		c.runs[in.run] = tenure{pusher, s.New.OID, s.Old.OID}
	case in.effect == kernel.ActionRestore && c.runs[s.Old.Run].instance != pusher:
		// whoever breaks a lease that was to replace a result puts that back
	case in.effect == kernel.ActionTakeOver || s.Old.State != "working":
	case in.effect == kernel.ActionWait && s.New.Waiting == kernel.WaitApproval && c.runs[s.Old.Run].instance != pusher:
		// whoever sees that a person took the approval back says so over a dead lease, too
	default:
		held := c.runs[s.Old.Run]
		if held.instance != pusher || held.last != s.Old.OID && held.before != s.Old.OID || in.run != s.Old.Run {
			c.wrong("E5: %s of run %s by %s onto %s, which %s left there", in.effect, in.run, pusher, s.Old.OID, held.instance)
		}
		c.runs[s.Old.Run] = tenure{pusher, s.New.OID, s.Old.OID}
	}
}

// resumes is E4 of a run that goes on with sealed work: it has no dispatch of its own,
// and names one that was handed out, by whichever instance, on a decision that allowed it.
func (c *Checker) resumes(h Head) {
	if h.Resumes == "" {
		return
	}
	c.Resumed++
	if i, ok := c.intents["dispatch:"+h.Resumes]; !ok || !c.started[h.Resumes] || string(i.digest) != h.Dispatch {
		c.wrong("E4: run %s goes on with run %s, and names the dispatch %s", h.Run, h.Resumes, h.Dispatch)
	}
	c.earlier[h.Run] = h.Resumes
	if h.Refreshes == "" {
		return
	}
	c.Refreshed++
	c.Resumed--
	if was := c.stands[h.Approval]; was.Change == "" || was.Of != h.Refreshes {
		c.wrong("E1: run %s is to replace the result of run %s, and accepted is that of %s", h.Run, h.Refreshes, was.Of)
	}
}

// fixes is E1 of a revision: it is over the accepted result, on the commit of that.
func (c *Checker) fixes(h Head) {
	if h.Fixes == "" {
		return
	}
	c.Fixed++
	if was := c.stands[h.Approval]; was.Change == "" || was.Of != h.Fixes || h.Base != was.Change {
		c.wrong("E1: run %s is a revision of run %s on %s, and accepted is run %s with %s", h.Run, h.Fixes, h.Base, was.Of, was.Change)
	}
	list := h.Fixes + " " + h.Fix + " " + h.RefreshAct
	if was := c.lists[h.Resumes]; h.Resumes != "" && was != list {
		c.wrong("E1: run %s goes on with run %s for the list %s, and that was built for %s", h.Run, h.Resumes, list, was)
	}
	c.lists[h.Run] = list
}

// result is E1 and E2: one accepted result, for each list over it and each base, and the
// change only with it.
func (c *Checker) result(s Step, run string, change *Move) {
	was := c.stands[s.New.Approval]
	switch s.Effect {
	case kernel.ActionComplete:
		if was.OID != s.Old.OID || change != nil {
			c.wrong("E2: %s completes %s, which isn't the accepted result", s.New.OID, s.Old.OID)
		}
		c.stands[s.New.Approval] = s.New
		return
	case kernel.ActionRestore:
		if s.New.Change != was.Change || s.New.Of != was.Of || s.New.Base != was.Base || s.New.State != was.State || change != nil {
			c.wrong("E1: %s puts another result back than the accepted one, of run %s", s.New.OID, was.Of)
		}
		c.stands[s.New.Approval] = s.New
		return
	}
	completed := s.New.State == string(kernel.TaskCompleted) || s.New.State == string(kernel.TaskWaiting) && s.New.Waiting == kernel.WaitMerge
	switch {
	case completed && change == nil && c.Server.Ref(c.ChangeRef) == s.New.Change && c.Server.strays[s.New.Change]:
	case completed && (change == nil || change.New != s.New.Change):
		c.wrong("E2: accepted without the change it names")
	case !completed && change != nil:
		c.wrong("E2: the change moves with %q", s.New.State)
	case change != nil && change.Old != "" && !c.Server.strays[change.Old] && !(s.New.Refreshes+s.New.Fixes != "" && change.Old == was.Change):
		c.wrong("E2: somebody's commit on the change branch is forced over")
	}
	if !completed {
		return
	}
	if !c.started[run] && !c.started[c.earlier[run]] {
		c.wrong("E1: run %s completes and was never dispatched", run)
	}
	c.Accepted++
	c.delivers[s.New.Change] = true
	if !c.Server.behind {
		c.approved("accepted", run, s.New.Act)
	}
	// What is approved is the text, in a revision the list too.
	key := s.New.Approval + " " + s.New.Fix + " " + s.New.Base
	if first := c.accepted[key]; first != "" {
		c.wrong("E1: %s and %s both complete the approval %s with the list %q on the base %s", first, s.New.OID, s.New.Approval, s.New.Fix, s.New.Base)
	}
	if was.OID != "" && s.New.Refreshes != was.Of && s.New.Fixes != was.Of {
		c.wrong("E1: %s and %s both complete the approval %s", was.OID, s.New.OID, s.New.Approval)
	}
	c.accepted[key], c.stands[s.New.Approval] = s.New.OID, s.New
}
