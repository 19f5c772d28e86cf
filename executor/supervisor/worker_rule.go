package supervisor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

const (
	// ruleTries is how often the server must be unable to take the same content, while
	// it may be able to take another, before that is asked.
	ruleTries = 3
	// ruleSoon and ruleAgain are the least and the longest wait before what a rule
	// refused is pushed again: rules are mended. The longest leaves time before
	// [kernel.RuleLeft] to push the wait again.
	ruleSoon  = time.Minute
	ruleAgain = 50 * time.Minute
	// claimSoon is the least wait of a claim: the server may have been healed between it
	// and the wait, which then says that there is a rule.
	claimSoon = 5 * time.Second
	// ruleHolds is how long the push of the wait shows that the server takes pushes.
	ruleHolds = 25 * time.Minute
)

// ruling is what is known of a push that the server doesn't take, and that may be
// refused by a rule of its own.
type ruling struct {
	tries   int                // of a result; of all else [untaken] counts them
	refused []kernel.Violation // with the server's words, once the wait is to be pushed
	shownAt int64              // when the wait won, Clock.BootMs; 0 for never
	branch  string             // that the wait names; "" for a rule
	times   int                // that it came out as a rule
	since   int64              // when it did first, Unix milliseconds
	tried   int64              // when it came out so last, Unix milliseconds
	woken   bool               // once, when others got through
	denied  bool               // a rule about writ's account refused even the wait
}

// shown reports whether the server has taken a small push of late, so that a larger one
// that it doesn't take is refused by a rule. What waited for a branch waits for the rule
// first, so that HEAD says so.
func (r *ruling) shown(nowBoot int64) bool {
	return r.shownAt != 0 && r.branch == "" && nowBoot-r.shownAt < ruleHolds.Milliseconds()
}

// wait is how long to leave a rule before it is tried again.
func (r *ruling) wait() time.Duration {
	d := ruleSoon
	for n := r.times; n > 1 && d < ruleAgain; n-- {
		d *= 2
	}
	return min(d, ruleAgain)
}

// next is when to try again what was tried now, Unix milliseconds.
func (r *ruling) next(now int64) int64 {
	r.tried = now
	return now + r.wait().Milliseconds()
}

// judgedBy makes of a refusal what it is: no rule is against a push without any
// content, but one about the account. What the server said is kept for who tells a rule
// from an outage.
func (w *worker) judgedBy(p *push, out *git.Outcome) {
	if out.Status == git.Refused && p.bare && !out.Account {
		out.Status = git.Unable
	}
	w.said = *out
	if p.failed != nil && (out.Status == git.Refused || out.Status == git.Unable) {
		p.failed()
	}
}

// content reports whether the last push may have failed for what was in it: the server
// refused it, or was unable and has answered. Where its words are of space, a smaller
// push shows nothing.
func (w *worker) content(s kernel.OutcomeStatus) bool {
	return s == kernel.OutcomeRefused || s == kernel.OutcomeUnable && !w.said.Space && git.CodeOf(w.said.Err) == git.CodeUnable
}

// untaken counts how often in a row the server was unable to take the same content.
type untaken struct {
	of    string // of the push, see [push]
	tries int
	wins  int64 // pushes that the server had taken before the first
}

// againUntaken counts another try. It reports whether there were enough to ask for less
// than that, and whether the server took another push since the first of them.
func (w *worker) againUntaken(p *push) (enough, taken bool) {
	wins := w.s.outage.taken()
	if w.untaken.of != p.of {
		w.untaken = untaken{of: p.of, wins: wins}
	}
	w.untaken.tries++
	return w.untaken.tries >= ruleTries, wins > w.untaken.wins
}

// noteRefusal remembers a push that the server didn't take, or nil for what was none.
// What a rule of its own refused isn't repeated unchanged but after a while.
func (w *worker) noteRefusal(o *kernel.Outcome, p *push) {
	if o == nil || p == nil || o.Effect.OnForge() || o.Status != kernel.OutcomeRefused && (o.Status != kernel.OutcomeUnable || p.bare) {
		return
	}
	refused, r := o.Status == kernel.OutcomeRefused, w.run
	if o.Effect == kernel.ActionSeal && r != nil {
		w.sealUntaken(p, o)
		return
	}
	if !w.content(o.Status) {
		return
	}
	if o.Effect == kernel.ActionRedeliver {
		w.branchRefused(p, refused, o)
		return
	}
	said := []kernel.Violation{{Code: kernel.CodePushRefused, Subject: w.StateRef(), Detail: o.Detail}}
	if o.Effect == kernel.ActionResult && r != nil {
		said[0].Subject = w.ChangeRef()
		w.resultRefused(r, refused, said)
		return
	}
	enough, _ := w.againUntaken(p)
	switch {
	case w.said.Account && refused && p.keeps && r != nil:
		r.ruling.denied = true
		w.ruled(r, said)
	case w.said.Account && refused:
		if o.Effect == kernel.ActionRelease || o.Effect == kernel.ActionWait {
			w.setRun(nil) // its processes are dead; the lease ends by itself
		}
		if w.run == nil {
			w.refused = said
			w.s.locked(func() { w.s.denied[w.number] = true })
		}
	case !refused && !enough:
		// It is an outage as any other, until it lasts.
	case o.Effect == kernel.ActionClaim && !(p.stored && (refused || w.ruling.shown(w.s.now().BootMs))):
		w.ruling.refused = said
	default:
		// It is tried once without report or stored work, which stays in the store.
		w.untaken = untaken{}
		w.bare = true
	}
}

// branchRefused: a rule is against the change branch of the result at HEAD, or something in
// it that the server was unable to take while it took other pushes.
func (w *worker) branchRefused(p *push, refused bool, o *kernel.Outcome) {
	if enough, taken := w.againUntaken(p); w.missing != nil && (refused || enough && taken) {
		w.missing.rest(w.s.now().WallMs, []kernel.Violation{{Code: kernel.CodePushRefused, Subject: w.ChangeRef(), Detail: o.Detail}})
	}
}

// sealUntaken: sealing is an insurance, and the checks go on without where the content may
// be why the server doesn't take it. The store keeps the work.
func (w *worker) sealUntaken(p *push, o *kernel.Outcome) {
	refused := o.Status == kernel.OutcomeRefused
	if !refused && !w.said.Space {
		if enough, taken := w.againUntaken(p); !enough || !taken || !w.content(o.Status) {
			return // it is an outage as any other
		}
	}
	w.run.phase = kernel.PhaseSealed
	w.say("the server doesn't take the sealed work, so an interruption may cost the build: %s", o.Detail)
}

// resultRefused: the wait is pushed, which shows whether it is a rule or an outage. What
// is refused all the same falls back to hashes once, for an outage must not cost the
// evidence; after that it is kept, with the server's words, until it is tried again
// (cases G6, G7).
func (w *worker) resultRefused(r *run, refused bool, said []kernel.Violation) {
	now := w.s.now()
	r.ruling.tries++
	shown := r.ruling.shown(now.BootMs)
	switch {
	case w.said.Account && refused:
		w.ruled(r, said)
	case !refused && !shown && r.ruling.tries < ruleTries:
		// It is an outage as any other, until it lasts.
	case !shown:
		r.ruling.refused, r.again = said, 0
	case !r.slim:
		r.slim = true
	default:
		w.ruled(r, said)
	}
}

// ruled: a rule is against the result.
func (w *worker) ruled(r *run, said []kernel.Violation) {
	if r.ruling.times++; r.ruling.times == 1 {
		r.ruling.since = w.s.now().WallMs
	}
	r.ruling.refused, r.again = said, r.ruling.next(w.s.now().WallMs)
}

// mended has a refused result pushed once more, whole, when its time has come.
func (r *run) mended(nowMs int64) {
	if r.again > 0 && nowMs >= r.again {
		r.slim, r.again, r.ruling.refused, r.ruling.tries, r.ruling.denied = false, 0, nil, 0, false
	}
}

// RulesMayBeMended has what waits for a rule of the server's tried again when the task is
// looked at next: a contract is another, say. Work is left alone until the least wait
// after its last try is over, however often it is said; a claim is tried at once.
func (s *Supervisor) RulesMayBeMended() { s.locked(s.mayBeMended) }

// mayBeMended is that with s.mu held.
func (s *Supervisor) mayBeMended() {
	s.mended = s.now().WallMs
	s.hasten(false)
}

// hasten brings forward when results are pushed again that nobody drives at the moment.
// s.mu is held.
func (s *Supervisor) hasten(once bool) (tasks []int64) {
	now := s.now().WallMs
	for n, p := range s.parked {
		if p.run != nil && p.run.ruling.hasten(&p.run.again, now, once) {
			tasks = append(tasks, n)
		}
	}
	return tasks
}

func (r *ruling) hasten(again *int64, now int64, once bool) bool {
	if *again == 0 || once && r.woken {
		return false
	}
	*again = min(*again, max(now, r.tried+ruleSoon.Milliseconds()))
	r.woken = once
	return true
}

// mendedSince reports whether the rule that refused the claim may have been mended since
// HEAD waits for it. Dates of commits are whole seconds; where the clock was set back,
// they tell nothing until it has caught up.
func (w *worker) mendedSince(c *observation) (is bool) {
	h := c.facts.Head
	w.s.locked(func() {
		is = h.AwaitsRule() && !h.Kept && h.Trust == kernel.TrustOwn && w.s.mended <= c.clock.WallMs && c.headAt() < w.s.mended/1000*1000
	})
	return is
}

// equippedSince reports whether what the checks lacked may be there since HEAD waits for
// it: the contract is another, or of this installation the process or its configuration.
func (w *worker) equippedSince(c *observation) (is bool) {
	h := c.facts.Head
	if !h.AwaitsEnvironment() || trailer(c.event, kernel.TrailerGovernance) != string(c.facts.Governance) {
		return h.AwaitsEnvironment()
	}
	w.s.locked(func() {
		is = h.Trust == kernel.TrustOwn && w.s.equipped <= c.clock.WallMs && c.headAt() < w.s.equipped/1000*1000
	})
	return is
}

// Rule reports whether a rule of the server's own refuses the task's push, with the
// server's words, which may be none.
func (st Status) Rule() (words string, is bool) {
	at := slices.IndexFunc(st.Decision.Violations, func(v kernel.Violation) bool { return v.Code == kernel.CodePushRefused })
	switch {
	case at < 0:
		return "", false
	case st.Facts.Run != nil || !st.Facts.Head.AwaitsRule():
		return strings.TrimSpace(st.Decision.Violations[at].Detail), true
	}
	return ruleSaid(st.Head), true
}

// prepareRuleWait composes the wait for a rule. There is no new blob in it, and its tree
// is HEAD's: a server that doesn't take it is unable to take anything.
func (w *worker) prepareRuleWait(c *cycle) (*effect, error) {
	objs := git.NewObjects()
	tree, err := c.stateTree(objs)
	if err != nil {
		return nil, err
	}
	r, h := w.run, c.facts.Head
	tr := trailers{run: h.Run(), act: h.Act, ledger: string(w.s.deps.Ledger.Chain().Head.Hash)}
	if r != nil {
		tr = w.runTrailers(r)
		tr.run, tr.interruptions = r.id, h.Interruptions
	} else if !w.needsEvent(&c.observation) {
		tr.attempt, tr.interruptions, tr.approval = c.decision.Attempt, c.decision.Interruptions, string(h.Approval)
	}
	if kernel.NewerAct(c.facts.Act, tr.act) {
		tr.act = c.facts.Act // it is taken in: only what comes after it moves on
	}
	tr.notBefore, tr.codes = c.decision.NotBefore, c.decision.Codes
	made, err := w.output(objs, tree, git.OID(h.OID), c, tr, ruleBody(c.decision.Violations))
	if err != nil {
		return nil, err
	}
	date := c.nextDate()
	p := &push{cmds: []git.Command{{Ref: w.StateRef(), Old: git.OID(h.OID), New: made.oid}}, pack: objs.Pack(), seq: made.seq, bare: true}
	if r == nil {
		p.won = func() { w.ruling = ruling{shownAt: w.s.now().BootMs} }
		p.failed = func() { w.ruling.refused = nil } // the claim is tried again
		return w.pushEffect(c, h.Run(), p), nil
	}
	p.keeps = true
	p.won = func() {
		w.guard.Lock()
		defer w.guard.Unlock()
		r.head, r.date = made.oid, date
		r.ruling.shownAt, r.ruling.refused, r.ruling.branch = w.s.now().BootMs, nil, ""
		if inTheWay(c.decision.Violations) {
			r.ruling.branch = c.decision.Violations[0].Subject
		}
	}
	p.failed = func() { r.ruling.refused = nil } // it isn't known to be a rule
	return w.pushEffect(c, r.id, p), nil
}

// ruleBody is what the commit says to people.
func ruleBody(vs []kernel.Violation) string {
	text := "The server doesn't take what is to be pushed, and takes this. What it said:\n"
	if inTheWay(vs) {
		text = "The work is done, and can't be delivered:\n"
	}
	for _, v := range vs {
		for line := range strings.Lines(v.Detail[:min(len(v.Detail), maxWords)]) {
			text += "\n> " + plainWord(strings.TrimSpace(line))
		}
	}
	return text + "\n"
}

// ruleSaid are the server's words in a commit that waits for a rule: see ruleBody.
func ruleSaid(c git.Commit) string {
	var said []string
	for line := range strings.Lines(string(c.Message)) {
		if words, quoted := strings.CutPrefix(line, "> "); quoted {
			said = append(said, strings.TrimSpace(words))
		}
	}
	return strings.TrimSpace(strings.Join(said, "\n"))
}

// ruleSince is when the wait for a rule at HEAD began: each try that is refused again puts
// another wait on it.
func (w *worker) ruleSince(ctx context.Context, c *observation) (int64, error) {
	since, below := c.headAt(), c.head
	for range maxRuleWaits {
		if len(below.Parents) != 1 {
			break
		}
		var err error
		if below, err = w.s.deps.Repo.Commit(ctx, below.Parents[0]); err != nil {
			return since, gitTrouble(err)
		}
		at, is := ruleWaitAt(below)
		if !is {
			break
		}
		since = min(since, at)
	}
	return since, nil
}

// ruleWaitAt reports whether a commit says that its task waits for a rule, and since when,
// Unix milliseconds.
func ruleWaitAt(c git.Commit) (since int64, is bool) {
	ev, err := eventOf(c, false)
	is = err == nil && ev.State == string(kernel.TaskWaiting) && trailer(ev, kernel.TrailerWaitingFor) == kernel.WaitRule
	return max(ev.CommitterSeconds, 0) * 1000, is
}

// waitsAtHead reports whether HEAD is the run's wait for a rule: it holds no lease.
func (r *run) waitsAtHead() bool { return r.ruling.shownAt != 0 }

// beganAnew reports whether a person began the task anew while its work waits for a
// rule. Who only says again that this text is to be done wants the work that there is,
// now.
func (w *worker) beganAnew(r *run, issue Issue) bool {
	if issue.ByBot || len(issue.Human) > 0 || issue.Act == "" || !kernel.NewerAct(issue.Act, r.act) {
		return false
	}
	if issue.Said != "" || digestOf(issue) != r.intake.Approval.Digest {
		return true
	}
	if r.act = issue.Act; r.again > 0 {
		r.again = w.s.now().WallMs
	}
	return false
}
