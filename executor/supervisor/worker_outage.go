package supervisor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// lockedTries is how often a push may be lost to nobody before it is taken for what
// it is: a lock file that a dead process left, say.
const lockedTries = 3

// locked counts pushes that were lost though every ref stayed as expected.
type locked struct {
	from git.OID
	n    int
}

// denied looks at a push of which the server reports, ref by ref, that it came to
// nothing. Where every ref is at what it was to be moved to, it went through all the
// same: a server that failed after it had moved them, a proxy that sent the request
// twice, or a lie. Nobody else can have made these commits, so nothing is owed to the
// server's word. That somebody else was first is doubted of what is pushed onto our own
// lease only: of two who claim with the same bytes one must lose (case L2), and the look
// after it sees what became of a claim.
func (w *worker) denied(ctx context.Context, p *push, out git.Outcome) git.Outcome {
	switch {
	case len(out.PerRef) == 0:
		return out
	case out.Status == git.Lost && w.run != nil && p.action != kernel.ActionClaim:
	case out.Status != git.Refused && out.Status != git.Unable:
		return out
	}
	refs, err := w.refsOf(ctx, p)
	if err != nil {
		return out
	}
	for _, c := range p.cmds {
		if c.New.IsZero() || refs.OID(c.Ref) != c.New {
			return out
		}
	}
	w.log().Warn("the server said that a push came to nothing, and its refs show that it went through", "status", string(out.Status), "words", out.Reason)
	return git.Outcome{Status: git.Won, AlreadyApplied: true}
}

// refsOf reads the refs that a push moves.
func (w *worker) refsOf(ctx context.Context, p *push) (git.Refs, error) {
	names := make([]string, len(p.cmds))
	for i, c := range p.cmds {
		names[i] = c.Ref
	}
	return w.s.deps.Repo.Refs(ctx, names...)
}

// doubted looks at a push that was lost: where every ref still is as expected,
// several times over, nobody else was first, and the server is unable to move it.
func (w *worker) doubted(ctx context.Context, p *push, out git.Outcome) git.Outcome {
	if out.Status != git.Lost {
		return out
	}
	refs, err := w.refsOf(ctx, p)
	if err != nil {
		return out
	}
	for _, c := range p.cmds {
		if plain(refs.OID(c.Ref)) != plain(c.Old) {
			w.locked = locked{}
			return out
		}
	}
	if w.locked.from != p.from() {
		w.locked = locked{from: p.from()}
	}
	if w.locked.n++; w.locked.n < lockedTries {
		return out
	}
	out.Status = git.Unable
	out.Reason = "the server says that the ref has moved, or is being moved, and it stays where it is (a lock file that was left behind?): " + out.Reason
	return out
}

// unable notes that the server couldn't, for all tasks of the world.
func (w *worker) unable(words string, push, space bool) { w.met("", words, push, space) }

// unread is that of a look that came to nothing.
func (w *worker) unread(err error) int64 {
	noBase, lacks := errors.AsType[*noBaseError](err)
	acts, lacksAct := errors.AsType[*worldref.Error](err)
	switch {
	case lacksAct && (acts.Code == kernel.CodeWorldRollback || acts.Code == kernel.CodeKeyOver):
		return w.met(acts.Code, acts.Detail, false, false)
	case lacks:
		return w.met(noBase.err.Code, noBase.err.Detail, false, false)
	case git.CodeOf(err) == git.CodeBudget:
		return w.met(kernel.CodeGitBudget, words(err), false, false)
	}
	return w.met("", words(err), errors.Is(err, ErrUnsettled), false)
}

func (w *worker) met(cause kernel.Code, words string, push, space bool) int64 {
	now := w.s.now()
	if w.halted() { // it waits for a person, and is only told of
		w.s.outage.back(w.number, true)
		return now.WallMs + outageFar.Milliseconds()
	}
	next := w.s.outage.failed(w.number, now, words, push, space)
	w.s.outage.answered(w.number, !w.leftSilent())
	w.s.outage.caused(w.number, cause)
	wait := time.Duration(next-now.BootMs) * time.Millisecond
	w.warnUnable(words)
	if w.s.deps.Progress != nil {
		what := "the server can't do it now"
		if cause != "" {
			what = "nothing can be done in the repository now"
		}
		w.s.deps.Progress(what + ", next try in " + wait.Round(time.Second).String() + ": " + words)
	}
	return now.WallMs + wait.Milliseconds()
}

// leftSilent reports whether that was so of the last exchange.
func (w *worker) leftSilent() bool {
	w.guard.Lock()
	defer w.guard.Unlock()
	return w.asking.noted
}

// caused notes what a task met last.
func (o *outage) caused(task int64, cause kernel.Code) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.tasks[task]; t != nil {
		t.Cause = cause
	}
}

// warnUnable says in the log that the server can't, once in an outage of the world.
func (w *worker) warnUnable(words string) {
	if !w.s.outage.news(w.number) {
		return
	}
	o, _ := w.s.outage.of(w.number)
	what := "the server can't do what is asked of it"
	if o.Cause != "" {
		what = "the repository can't be worked on"
	}
	w.log().Warn(what+": it is tried again, and nothing is counted", "code", string(o.Code()), "words", words)
}

// news reports whether what a task meets is to be told to the log: once in an outage.
func (o *outage) news(task int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.tasks[task]
	if t == nil || t.noted || !t.shows() {
		return false
	}
	t.noted = true
	first := !o.told
	o.told = true
	return first
}

// wake tells whoever schedules the tasks that the server works again.
func (s *Supervisor) wake(tasks []int64) {
	if len(tasks) == 0 {
		return
	}
	if s.deps.Log != nil {
		s.deps.Log.Info("the server works again", "waiting", len(tasks))
	}
	if s.deps.Healed != nil {
		s.deps.Healed(tasks)
	}
}

// outageWords say on the issue that the server can't, where that lasts. They stay the same
// while it does, and go with it.
func (w *worker) outageWords() string {
	words, since, _ := w.s.outage.lasts(w.number, w.s.now())
	if since == 0 {
		return ""
	}
	switch o, _ := w.s.outage.of(w.number); o.Cause {
	case kernel.CodeGitBudget:
		return "\nSince `" + kernel.Timestamp(since/1000) + "` a limit of writ's own, and not the server, keeps the repository from being read:\n\n" +
			report.Quoted(o.Words) + "\n" + o.Code().Info().Remedy + "\n"
	case kernel.CodeEnvRepository, kernel.CodeWorldRollback:
		return "\nSince `" + kernel.Timestamp(since/1000) + "` nothing can be done in the repository:\n\n" + report.Quoted(o.Words) +
			"\nIt is looked for again by itself; nothing is counted, and what is done is kept.\n"
	}
	return "\nSince `" + kernel.Timestamp(since/1000) + "` the repository's server can't do what is asked of it. What it said:\n\n" +
		report.Quoted(cmp.Or(words[:min(len(words), maxWords)], NoWords)) +
		"\nIt is tried again by itself; nothing is counted, and what is done is kept. Who looks after the server must mend it.\n"
}

// Outage is what the world's server can't do at the moment, if anything.
func (s *Supervisor) Outage() (Outage, bool) { return s.outage.shown() }

// Rest is how long no task of the world need be begun, for the server can't serve
// it and another try comes first.
func (s *Supervisor) Rest() time.Duration { return s.outage.rest(s.now()) }

// Unable reports whether an error of Drive is the server's: see [Supervisor.Outage].
func Unable(err error) bool { return unreadable(err) }

// unreadable says whether an error of a look is the server's: what it can't do now
// may be possible later. That a forge asks for patience is no outage.
func unreadable(err error) bool {
	var fe *forge.Error
	return Passing(err) && (!errors.As(err, &fe) || fe.Reason != forge.Limited)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return words(err)
}

// parked is what a task leaves in the process while nobody drives it: work that is
// judged and could not be delivered, and what it carries from one drive to the next.
type parked struct {
	run *run
	carried
}

// carried is what a task knows only in this process, also while nobody drives it.
type carried struct {
	pending *push // an own push whose answer was lost
	unseen  *push // the last one that won, until a look shows it
	locked  locked
	lapsed  git.OID // our own lease, which the server was unable to renew or showed too late
	ruling  ruling  // of a claim
	untaken untaken // the last push with content that the server was unable to take
	missing *missing
	teller  teller
	lagged  lagCount
}

// empty reports whether there is nothing to carry.
func (c carried) empty() bool {
	return c.pending == nil && c.unseen == nil && c.lapsed == "" && c.locked.n == 0 && c.untaken.tries == 0 && c.ruling.shownAt == 0 &&
		c.missing == nil && c.teller.wait == 0 && c.lagged.n == 0
}

// park leaves it there; s.mu is held. A run that isn't judged has nothing to leave:
// its processes are dead.
func (w *worker) park() {
	p := &parked{carried: w.carried}
	if w.judged() {
		p.run = w.run
	}
	if p.run != nil || !p.empty() {
		w.s.parked[w.number] = p
	}
}

// unpark takes it up again; s.mu is held.
func (w *worker) unpark() {
	delete(w.s.denied, w.number) // it is tried anew
	p := w.s.parked[w.number]
	if p == nil {
		return
	}
	delete(w.s.parked, w.number)
	w.run, w.carried = p.run, p.carried
	w.guard.Lock()
	defer w.guard.Unlock()
	w.delivering, w.undelivered = unsettledResult(w.pending, w.unseen), w.judged()
}

// judged reports whether there is work that only has to be delivered: nothing of it
// runs, and it needs no lease.
func (w *worker) judged() bool {
	return w.run != nil && w.run.phase == kernel.PhaseJudged && w.run.judgement != nil
}

// unrenewable reports whether the lease is left as it is in this look: another try
// at the server comes first.
func (w *worker) unrenewable() bool { return w.resting }
