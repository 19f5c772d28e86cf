package supervisor

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// stateCommit is what the next commit of a state ref is made of.
type stateCommit struct {
	tree, parent git.OID
	date         int64 // committer date, Unix seconds
	seq          int64
	trailers     *trailers // nil for those of the commit below, which message has
	// message writes the message around the trailers, of which the stamp is first.
	message func([]lease.Trailer) ([]byte, error)
}

// madeCommit is a state commit that was made.
type madeCommit struct {
	oid     git.OID
	message []byte
	seq     int64
}

// stateCommit makes a signed commit of the state ref. It is the only place that
// does, so that each of them says under its signature where it belongs.
func (w *worker) stateCommit(c *observation, o *git.Objects, s stateCommit) (madeCommit, error) {
	stamp := w.place(c.facts.Head).At(s.seq)
	if err := stamp.Check(); err != nil {
		return madeCommit{}, err
	}
	all := stamp.Trailers()
	if act := c.acts.Last(); act != "" {
		all = append(all, lease.Trailer{Key: kernel.TrailerWorldAct, Value: act})
	}
	if s.trailers != nil {
		all = s.trailers.list(all)
		if branch := cmp.Or(s.trailers.branch, c.stray); branch != "" {
			all = append(all, lease.Trailer{Key: kernel.TrailerBranch, Value: string(branch)})
		}
	}
	msg, err := s.message(all)
	if err != nil {
		return madeCommit{}, err
	}
	spec := git.CommitSpec{Tree: s.tree, Author: w.person(s.date), Committer: w.person(s.date), Message: msg}
	if !s.parent.IsZero() {
		spec.Parents = []git.OID{s.parent}
	}
	oid, err := o.Commit(spec, w.s.deps.Signer)
	return madeCommit{oid: oid, message: msg, seq: s.seq}, err
}

// place is where the task's state belongs. An issue that is gone can't be asked for
// its name: then it is what the state says that it was.
func (sj *subject) place(head kernel.HeadFacts) kernel.Stamp {
	return kernel.Stamp{World: sj.s.cfg.World, Ref: sj.StateRef(), Task: sj.number, Issue: sj.issueAt(head.Issue)}
}

// trailers are Writ's own but for the stamp; empty ones are left
// out.
type trailers struct {
	base, approval, governance, dispatch, plan, ledger, waiting, change, run, act, resumes, accepts string

	refreshes, fixes, fix, refreshAct                       string
	attempt, interruptions, notBefore, refreshInterruptions int64
	codes                                                   []kernel.Code
	refreshOwed                                             bool    // the act that asked for it is to be done again
	refreshWaits                                            string  // what that waits for
	branch                                                  git.OID // what this task delivered, where the look didn't show it as that
}

// list puts them behind the stamp.
func (w trailers) list(stamp []lease.Trailer) []lease.Trailer {
	out := stamp
	add := func(key, value string) {
		if value != "" {
			out = append(out, lease.Trailer{Key: key, Value: value})
		}
	}
	add(kernel.TrailerBase, w.base)
	if w.attempt > 0 {
		add(kernel.TrailerAttempt, strconv.FormatInt(w.attempt, 10))
	}
	add(kernel.TrailerInterruptions, strconv.FormatInt(w.interruptions, 10))
	if w.notBefore > 0 {
		add(kernel.TrailerNotBefore, strconv.FormatInt((w.notBefore+999)/1000, 10))
	}
	add(kernel.TrailerApproval, w.approval)
	add(kernel.TrailerGovernance, w.governance)
	add(kernel.TrailerPlan, w.plan)
	add(kernel.TrailerDispatch, w.dispatch)
	add(kernel.TrailerLedgerHead, w.ledger)
	add(kernel.TrailerResumes, w.resumes)
	add(kernel.TrailerRefreshes, w.refreshes)
	add(kernel.TrailerFixes, w.fixes)
	add(kernel.TrailerFix, w.fix)
	add(kernel.TrailerRefreshAct, w.refreshAct)
	if w.refreshOwed || w.refreshInterruptions > 0 {
		add(kernel.TrailerRefreshInterruptions, strconv.FormatInt(w.refreshInterruptions, 10))
	}
	add(kernel.TrailerRefreshWaits, w.refreshWaits)
	add(kernel.TrailerRun, w.run)
	add(kernel.TrailerAct, w.act)
	add(kernel.TrailerAccepts, w.accepts)
	add(kernel.TrailerWaitingFor, w.waiting)
	add(kernel.TrailerChange, w.change)
	words := make([]string, len(w.codes))
	for i, c := range w.codes {
		words[i] = string(c)
	}
	add(kernel.TrailerCodes, strings.Join(words, " "))
	return out
}

// person is the author and committer of state commits.
func (w *worker) person(seconds int64) git.Person {
	return git.Person{Name: w.s.cfg.Name, Email: w.s.cfg.Email, Seconds: seconds, TZ: "+0000", OK: true}
}

// runTrailers are those of the live run.
func (w *worker) runTrailers(r *run) trailers {
	return trailers{
		base: r.pack.Pins.BaseCommit, attempt: r.attempt, approval: string(r.pack.Approval.Digest),
		governance: string(r.pack.Pins.Governance), dispatch: string(r.dispatchHash), plan: string(r.plan.hash),
		ledger: string(w.s.deps.Ledger.Chain().Head.Hash), act: r.act, resumes: r.resumes, refreshes: r.refreshes, fixes: r.fixes, fix: string(r.fix), refreshAct: r.refreshAct, refreshInterruptions: r.refreshInterruptions,
	}
}
