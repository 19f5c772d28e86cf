package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/world"
)

// underActs are those that the world's HEADs named when this process first went by
// somebody else's word.
type underActs struct {
	mu   sync.Mutex
	read bool
	list []underAct
}

// Supervisor holds what the tasks of one world share in one process. Any number
// of tasks may be driven at once, each by one goroutine.
type Supervisor struct {
	cfg  Config
	deps Deps

	// mu guards world and ledger, which are one place for all tasks of the world.
	// It is held from the last facts that tasks share to the durable decision, and
	// again for the outcome; never while anything outside is waited for, so that
	// one hanging push keeps no other task from renewing its lease. Rounds of
	// tasks may so interleave: one's receipt then closes what another has begun,
	// whose outcome falls into the next round (package world, "What a round
	// changes").
	mu    *sync.Mutex
	world *world.Kernel
	open  map[int64]*Task
	turns map[int64]*sync.Mutex // of the tasks: held for a whole request

	outage *outage
	parked map[int64]*parked // of the tasks that nobody drives at the moment
	denied map[int64]bool    // of those: a rule about writ's account refused them; under mu
	mended int64             // when each rule may have been mended last, Unix milliseconds; under mu
	// equipped is when this process began or took its configuration, Unix milliseconds; under mu.
	equipped int64

	surveys  *surveys                        // of the base's commits
	patience time.Duration                   // lookPatience
	named    *atomic.Pointer[string]         // the base branch that the contract named last
	parsed   *atomic.Pointer[parsed]         // the contract read last
	fault    *atomic.Pointer[worldref.Error] // of the world's acts, as it was told last
	under    *underActs                      // that state commits were signed under

	stopped   map[int64]*review    // of the tasks: what a person stopped last
	strangers map[int64]stranger   // by account
	answered  map[int64]lastAnswer // strangers, by account

	account  *forge.User      // that writ acts as, once it is known
	labelled map[string]bool  // of writ's labels: the repository offers it
	seenActs map[int64]string // of the tasks: the approval that a reaction was tried for

	seen func(t *Task, c *cycle, what string) // a test looks on; nil in the program
}

// New makes a supervisor over a world whose records are folded already.
func New(cfg Config, deps Deps, h *History) *Supervisor {
	if cfg.RefPrefix == "" {
		cfg.RefPrefix = DefaultRefPrefix
	}
	deps.Repo = timed{deps.Repo}
	if cfg.ChangePrefix == "" {
		cfg.ChangePrefix = DefaultChangePrefix
	}
	s := &Supervisor{
		mu: &sync.Mutex{}, cfg: cfg, deps: deps, world: h.World, open: map[int64]*Task{}, outage: newOutage(), parked: map[int64]*parked{}, denied: map[int64]bool{}, turns: map[int64]*sync.Mutex{},
		surveys: &surveys{}, named: &atomic.Pointer[string]{}, parsed: &atomic.Pointer[parsed]{}, fault: &atomic.Pointer[worldref.Error]{}, under: &underActs{},
		stopped: map[int64]*review{}, strangers: map[int64]stranger{}, answered: map[int64]lastAnswer{}, labelled: map[string]bool{}, seenActs: map[int64]string{}, patience: lookPatience,
	}
	s.mended = s.now().WallMs
	s.equipped = s.mended
	return s
}

// turn is the lock of a task's requests and of what a person does to it. It is
// taken before mu.
func (s *Supervisor) turn(number int64) *sync.Mutex {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.turns[number]
	if m == nil {
		m = &sync.Mutex{}
		s.turns[number] = m
	}
	return m
}

// locked calls f with the world to itself.
func (s *Supervisor) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Task is one task in this process: its kernel, and three rooms, each of which knows
// those before it and none after it. A request goes through them from the last to the
// first: what is so is seen, the kernel decides, and the one effect is the worker's or
// the tracker's. Its methods are called by one goroutine; Guard may be called by another.
type Task struct {
	*subject
	worker   *worker
	tracker  *tracker
	observer *observer

	machine *machine.Machine
	turn    *sync.Mutex
	wishes  []Act           // persons' stops that aren't carried out yet
	nudges  <-chan struct{} // of the drive; see impatient
	nudged  bool            // one came while a look hung
	hurried time.Time       // when a look was ended for it last
}

// subject is which task it is, and whom to tell of it.
type subject struct {
	s         *Supervisor
	number    int64
	issues    Issues
	remote    bool   // the issue is on a forge
	issueName string // of all that have or had its number: [kernel.IssueName], "" until it was read

	onRun   func(id string, held bool)
	lastRun string // that this process knows of
}

// worker is the run: its lease, what runs of it, its result, and what became of each push.
type worker struct {
	*subject
	run *run
	carried
	bare    bool        // the next push goes without report or stored work, which was refused
	said    git.Outcome // of the last push
	refused []kernel.Violation
	resting bool // the server can't, and another try comes first

	guard    sync.Mutex // run's handles, for Guard
	stopping bool       // a person's act is on its way; under guard
	telling  bool       // the issue is moved; written under guard
	// delivering: a result was pushed, and nobody knows what became of it; under guard.
	delivering  bool
	undelivered bool           // work is judged that the server couldn't take yet; under guard
	again       *review        // of what was pushed to the change branch; under guard
	cut         git.OID        // what was under review when it was cut off; under guard
	admission   admission      // under guard
	asking      exchange       // under guard
	killed      []kernel.Draft // see [worker.takeKilled]; under guard
}

// tracker is the task where people see it: its issue, with status and answers, and its
// change, with what others pushed to that.
type tracker struct {
	*subject
	worker *worker

	kept     *kept // of the issue, while it is moved
	noted    refusals
	asked    int64               // comment of the newest command that was seen
	looked   int64               // when the issue was read last, Clock.BootMs
	quiet    bool                // whoever drives would know if there were anything to see
	parted   bool                // its run was given back, for the process ends
	ancestry map[[2]git.OID]bool // see tracker.holds
	merge    compared
	counted  counted
	rebased  rebased
	brought  struct{ merged, by git.OID } // see tracker.broughtBy
	reverts  reverts
}

// observer reads what a decision depends on: HEAD, the contract, the issue by way of the
// tracker, and the work that there is.
type observer struct {
	*subject
	worker  *worker
	tracker *tracker

	first     *string // HEAD when this process first looked, "" for none
	baseWake  int64   // when to look again at a base that can't be used, Unix milliseconds
	contracts *contractReader
	intake    *Intake // of the pair (base commit, text) last assessed
	stray     stray
	fresh     *freshWork // delivered work, as it was made again last
	left      *leftWork  // that an interrupted run has sealed, as it was read last
	over      *deliveredWork
	seed      struct { // as it was read last
		tree git.OID
		pack kernel.SeedPack
	}
}

// task makes a task with its rooms, which no kernel drives yet.
func (s *Supervisor) task(number int64, issues Issues) *Task {
	t := &Task{subject: &subject{s: s, number: number, issues: issues}}
	if issues == nil {
		t.issues, t.remote = &forgeIssues{s: s, number: number}, true
	}
	t.worker = &worker{subject: t.subject}
	t.tracker = &tracker{subject: t.subject, worker: t.worker}
	t.observer = &observer{subject: t.subject, worker: t.worker, tracker: t.tracker, contracts: &contractReader{s: s, remote: t.remote}}
	return t
}

// run is what this process knows of the lease it holds.
type run struct {
	id      string
	attempt int64
	claim   git.OID // first commit of the lease
	act     string  // on the forge, that it was claimed on
	phase   kernel.Phase
	intake  *Intake
	pack    kernel.SeedPack
	plan    claimPlan
	event   lease.Event // at HEAD
	head    git.OID     // the last commit this run pushed
	date    int64       // its committer date
	claimed int64       // Unix milliseconds
	due     lease.Deadlines
	tree    git.OID // of the claim
	entries []git.Entry
	objects *claimObjects
	from    int64 // first ledger record of this run
	spend   kernel.Spend

	dispatch      kernel.Dispatch
	dispatchBytes []byte
	dispatchHash  canon.Digest

	build                 executor.Build
	checks                executor.Checks
	built                 executor.BuildOutcome
	checked               executor.CheckOutcome
	base                  git.Tree
	treeID                git.OID
	resumes               string             // run whose sealed work it goes on with
	refreshes, refreshAct string             // run whose delivered result it is to replace, and the act that asked for it
	fixes                 string             // run whose delivered result it is a revision of
	fix                   canon.Digest       // of that revision's list
	over                  *deliveredWork     // that work, of a revision
	whole                 []kernel.Violation // of the two together, once judged
	was                   *replacedResult    // that result
	refreshInterruptions  int64              // of runs for that act
	sealed                []byte             // manifest of what lies sealed in its leases
	vetted                bool               // what lies sealed comes with the word of its checks
	shelved               bool               // only the store has what its builder left
	fails                 []kernel.Violation // of phases that never got a handle

	judgement  *kernel.Judgement
	violations []kernel.Violation // that the judgement rests on
	report     []byte
	markdown   string
	change     git.OID
	accepted   string  // id of the act that accepted its guarded paths, "" for none
	stray      git.OID // see observation
	slim       bool    // evidence without streams, after a refusal
	ruling     ruling  // of its result
	again      int64   // when what a rule refused is pushed again, Unix milliseconds
	late       bool    // its lease was over when the server's answer came; under guard
	hidden     bool    // a look didn't show what was pushed for it last
	heeded     Issue   // what people did that it was stopped for while git could not be read
}

// Open boots the kernel of one task (BOOTING to IDLE): what a dead process had
// begun is closed as unknown, and its unfinished request as crashed. A task
// that was halted durably can't be booted in its epoch: the error is
// [machine.ErrHalted], until a person resumes the task. Without issues the text
// is that of the forge's issue with the task's number. Two kernels of one task
// would each count on being the only one: a task that is open already is
// [ErrOpen].
func (s *Supervisor) Open(ctx context.Context, number int64, issues Issues) (*Task, error) {
	if number < 1 {
		return nil, fmt.Errorf("supervisor: task numbers start at 1, not %d", number)
	}
	if issues == nil && s.deps.Forge == nil {
		return nil, errors.New("supervisor: there is neither a forge nor another place for the task's text")
	}
	t := s.task(number, issues)
	t.turn = s.turn(number)
	t.turn.Lock()
	defer t.turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[number] != nil {
		return nil, ErrOpen
	}
	if err := t.boot(ctx); err != nil {
		return nil, err
	}
	s.open[number] = t
	t.worker.unpark()
	return t, nil
}

// ErrOpen says that this process works on the task already.
var ErrOpen = errors.New("supervisor: the task is open already")

// Close gives the task up in this process: it may be opened again. What still
// runs of it is killed; its lease is not given back, which is Drive's part.
func (t *Task) Close() {
	t.worker.kill()
	t.turn.Lock()
	defer t.turn.Unlock()
	t.s.locked(func() {
		if t.s.open[t.number] == t {
			delete(t.s.open, t.number)
			if err := t.s.recordResults(context.Background(), append(t.worker.takeKilled(), t.worker.run.untaken(t.number)...)); err != nil {
				t.log().Warn("what the killed builder used is not recorded", "error", err)
			}
			t.worker.park()
		}
	})
}

// kernelEnded reports whether the kernel of the task's epoch is at its end. A resume makes
// another while the task is driven.
func (t *Task) kernelEnded() (is bool) {
	t.s.locked(func() { is = t.machine.State() == machine.Halted })
	return is
}

// virtualNow is the time decisions are taken at: the wall clock, but never
// earlier than what is recorded already (case R9).
func (sj *subject) virtualNow(c lease.Clock) int64 {
	return max(c.WallMs, sj.s.deps.Ledger.Chain().Time)
}

// Number returns the task's number.
func (sj *subject) Number() int64 { return sj.number }

// StateRef is the task's state ref.
func (sj *subject) StateRef() string { return sj.s.cfg.RefPrefix + strconv.FormatInt(sj.number, 10) }

// ChangeRef is the branch that delivers the task's work.
func (sj *subject) ChangeRef() string {
	return sj.s.cfg.ChangePrefix + strconv.FormatInt(sj.number, 10)
}

// Status is how the task stands after a tick.
type Status struct {
	Decision kernel.Decision
	Facts    kernel.Facts
	Intake   *Intake
	Outcome  *kernel.Outcome // of the effect, nil without one
	Head     git.Commit      // at the state ref when the facts were read
	// Wake is when to come back at the latest after a drive that yields, Unix
	// milliseconds; 0 where nothing is due by itself.
	Wake int64

	// Unable says that the drive ended because the server can't do what is asked of it,
	// and that the task is to be driven again at Wake: nothing failed.
	Unable bool

	forgeErr error // of an effect on the issue
	crowded  bool  // there is no room for what is due
	queued   queued
	noBase   bool      // the issue was told only that the base branch isn't there
	refs     *readRefs // that it rests on
}

// Ended reports whether a task rests until something is done to it. One that is final may
// have something due later, or have no room for a refresh or a revision of its work.
func (st Status) Ended() bool {
	return st.Decision.Standing == kernel.StandFinal && st.Wake == 0 && !st.queued.is
}

// Tick is one request: observe, decide, record, act, take the outcome. An error
// means that no request came about (something outside can't be read; the tick
// stays due) or that the kernel halted.
//
// Other tasks of the world wait only while records are written, never for what
// this one reads or does outside.
func (t *Task) Tick(ctx context.Context, req kernel.Request, actor string) (Status, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	ctx, tick := span(ctx, "tick", attribute.String("writ.request", string(req)))
	defer tick.End()
	ctx = t.worker.on(git.LookBudget().On(ctx)) // one, however often it fetches
	defer t.worker.settled()
	looking, look := span(ctx, "observe")
	req, actor = t.stopFirst(req, actor)
	looking, looked := t.impatient(looking)
	o, err := t.observer.observe(looking, req, actor)
	err = looked(err)
	endSpan(look, err)
	if err == nil {
		err = t.recordKilled(ctx)
	}
	if err != nil {
		return Status{}, t.untrusted(ctx, req, actor, err)
	}
	c := &cycle{observation: *o}
	if id := c.runID(); id != "" {
		t.tellRun(id, t.worker.run != nil)
	}
	tick.SetAttributes(t.ofRun(c)...)
	st, crowded := t.unadmitted(&c.observation)
	if !crowded {
		if err := t.observer.surveyBase(ctx, &c.observation); err != nil {
			return Status{}, err
		}
	}
	if req != kernel.RequestTell { // for which less is read
		t.s.wake(t.s.outage.read(t.number))
	}
	if crowded {
		return st, nil
	}
	t.worker.shelve(ctx, &c.observation)
	receipt, err := t.submit(ctx, c)
	if err != nil {
		t.worker.kill()
		return Status{}, err
	}
	if receipt.To == machine.Halted {
		t.worker.kill()
	}
	switch {
	case c.broken != nil:
		return Status{}, &BrokenError{c.broken}
	case c.decision.Kind == "": // the machine itself denied the request
		return Status{}, &BrokenError{fmt.Errorf("supervisor: the request was denied: %v", receipt.Faults)}
	}
	if c.effect != nil {
		t.worker.noteRefusal(c.outcome, c.effect.push)
	}
	if c.judged != nil && t.worker.run != nil {
		t.worker.run.judgement, t.worker.run.phase = c.judged, kernel.PhaseJudged
	}
	tick.SetAttributes(attribute.String("writ.standing", string(c.decision.Standing)), attribute.String("writ.action", string(c.decision.Action)))
	t.narrate(c)
	return Status{Decision: c.decision, Facts: c.facts, Intake: c.intake, Outcome: c.outcome, Head: c.head, forgeErr: c.forgeErr, noBase: c.noBase != nil, refs: c.refs}, nil
}

// untrusted has the kernel halt where a look shows that the ledger can't be trusted: the
// decision is HALT, for good, and recorded. Of a ledger that is older than its key nothing
// is: the record would begin a second history. It returns the error of the look, and what
// kept it from halting.
func (t *Task) untrusted(ctx context.Context, asked kernel.Request, actor string, found error) error {
	code, of := codeOf(found)
	if !of || !code.Halts() {
		return found
	}
	t.s.locked(func() {
		now := t.s.now().WallMs
		req := machine.Request{ID: t.s.deps.NewRunID(), Actor: actor, Intent: string(asked), Now: now}
		next, err := t.machine.Submit(req)
		if err == nil && next.Entries == nil {
			next, err = t.machine.Validated(req, nil)
		}
		if err == nil && next.Entries == nil {
			fault := machine.Fault{Code: string(code), Subject: t.StateRef(), Detail: found.Error()}
			next, err = t.machine.Decided(req, machine.Verdict{Decision: machine.Halt, Faults: []machine.Fault{fault}, Summary: "the ledger can't be trusted"})
		}
		_, err = recorded(t.machine, next, err, func(out machine.Ready) error {
			if code == kernel.CodeLedgerRollback {
				return found
			}
			return t.s.write(ctx, now, audited(t.number, "", out), false)
		})
		if err != nil {
			t.log().Error("the kernel could not be halted", "error", err)
		}
	})
	t.worker.kill()
	return found
}

// narrate tells the person who watches what a request did.
func (t *Task) narrate(c *cycle) {
	d := c.decision
	if c.outcome != nil && c.outcome.Status != kernel.OutcomeDone {
		return // afterEffect tells it
	}
	switch d.Action {
	case kernel.ActionClaim:
		t.say("claimed: attempt %d, run %s, base %.12s", d.Attempt, t.worker.run.id, t.worker.run.pack.Pins.BaseCommit)
		for _, note := range scopeNotes(t.worker.run.pack) {
			t.say("%s", note)
		}
	case kernel.ActionTakeOver:
		t.say("lease of %s broken (%s), interruption %d", c.facts.Head.RunnerID, c.facts.Head.LeaseReason, d.Interruptions)
	case kernel.ActionDispatch:
		t.say("builder %s started", t.worker.run.pack.Spec.Builder)
	case kernel.ActionChecks:
		t.mention("checks started: %s", checkNames(t.worker.run.pack.Checks))
	case kernel.ActionJudge:
		t.mention("judged: %s%s", d.State, codeWords(d.Codes))
	case kernel.ActionResult:
		t.say("pushed: %s%s%s", d.State, codeWords(d.Codes), t.dueWords(d))
	case kernel.ActionRestore:
		t.say("the delivered change stays as it was%s", codeWords(d.Codes))
	case kernel.ActionRelease:
		t.say("lease given back%s", codeWords(d.Codes))
	case kernel.ActionWait:
		t.say("waiting for %s%s", d.WaitingFor, codeWords(d.Codes))
	case kernel.ActionAbandon:
		t.say("run given up%s", codeWords(d.Codes))
	default:
		if !d.Action.OnForge() {
			break
		}
		tell := t.mention
		if d.Action == kernel.ActionClose || d.Action == kernel.ActionReopen {
			tell = t.say // the rest is how the issue comes to show what the log has already
		}
		tell("issue: %s", strings.TrimSpace(string(d.Action)+" "+d.Issue.Label))
	}
}

func checkNames(list []kernel.Check) string {
	names := make([]string, len(list))
	for i, k := range list {
		names[i] = k.Name
	}
	return strings.Join(names, ", ")
}

func (t *Task) dueWords(d kernel.Decision) string {
	if d.NotBefore == 0 {
		return ""
	}
	wait := time.Duration(d.NotBefore-t.s.now().WallMs) * time.Millisecond
	return fmt.Sprintf(", next attempt in %s", wait.Round(time.Second))
}

// unadmitted is how a task stands of which something would be claimed or started now if
// there were room for it. Nothing was decided, so nothing is recorded. Of a claim whoever
// drives the task comes back when there is room; a lease is kept meanwhile.
func (t *Task) unadmitted(c *observation) (Status, bool) {
	if t.worker.admission.admit == nil || c.facts.Request != kernel.RequestTick && c.facts.Request != kernel.RequestTell {
		return Status{}, false
	}
	d := kernel.DecideOn(c.facts, "")
	starts := d.Action == kernel.ActionReview || d.Action == kernel.ActionDispatch || d.Action == kernel.ActionChecks
	if !starts && d.Action != kernel.ActionClaim {
		return Status{}, false
	}
	var scope []string // what was pushed to a change is in nobody's way
	if c.intake != nil && c.intake.TakeTurns && d.Action != kernel.ActionReview {
		scope = c.intake.Spec.AllowedFiles
	}
	if t.worker.mayRun(scope, starts) {
		return Status{}, false
	}
	st := Status{Decision: d, Facts: c.facts, Intake: c.intake, Head: c.head, crowded: starts}
	if !starts {
		st.Facts.Request = kernel.RequestLook
		st.Decision = kernel.DecideOn(st.Facts, "")
		st.queued = t.worker.queuedOf(c)
	}
	return st, true
}

// stopFirst has a look carry out the stop that isn't obeyed yet, if there is one.
func (t *Task) stopFirst(req kernel.Request, actor string) (kernel.Request, string) {
	var stop string
	t.s.locked(func() { stop = t.view().Stop })
	if stop == "" || req != kernel.RequestTick {
		return req, actor
	}
	return kernel.RequestStop, stop
}

// BrokenError ends a drive: an effect that the kernel decided can't be composed,
// and would not be the next time either.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *BrokenError) Unwrap() error { return e.Err }

// view is what the fold of the ledger knows of this task.
func (sj *subject) view() kernel.TaskView { return sj.s.world.TaskView(sj.number) }

// recordKilled records what killed builders used whose runs were given up beside an effect:
// before the request that follows, of which the records belong to another run.
func (t *Task) recordKilled(ctx context.Context) (err error) {
	t.s.locked(func() { err = t.s.recordResults(ctx, t.worker.takeKilled()) })
	return err
}

// Report is the report to show for a status: the one at HEAD where the task has
// ended, which any instance reads alike, or the notice of why it goes no
// further.
func (t *Task) Report(ctx context.Context, st Status) (report.Report, error) {
	d := st.Decision
	if d.Verdict == kernel.Allow && st.Facts.HeadCounts() && st.Facts.Missing == nil &&
		(d.Standing == kernel.StandFinal || d.Standing == kernel.StandDue || d.Standing == kernel.StandWaiting) {
		r, ok, err := t.worker.reportAt(ctx, st.Head)
		if ok || err != nil {
			return r, err
		}
	}
	var ledger canon.Digest
	t.s.locked(func() { ledger = t.s.deps.Ledger.Chain().Head.Hash })
	r, err := t.worker.noticeOf(ctx, d, st.Facts, st.Head, st.Intake, ledger)
	if err != nil {
		return r, err
	}
	switch d.Standing {
	case kernel.StandFinal:
		return r, &executor.Error{Code: kernel.CodeEvidenceInvalid, Detail: "the report at HEAD, " + st.Facts.Head.OID + ", can't be read"}
	case kernel.StandActing, kernel.StandRunning, kernel.StandAbandoned:
		r.Codes, r.Violations = nil, nil // the drive ended before anything was concluded
	}
	return r.Finish(), nil
}

// lookPatience is how long git may leave a look unanswered before somebody who tells that
// there is something to see ends that look. It is five times as long after one that was
// ended so: whoever comments all the time doesn't keep a lease from being renewed.
const lookPatience = 2 * time.Second

// impatient returns the context of a look while something runs. A look that git leaves
// unanswered ends once somebody tells that there is something to see on the issue: he
// may want ended what runs, see [Task.heed]. looked ends the watching, and says so in the
// look's error.
func (t *Task) impatient(ctx context.Context) (_ context.Context, looked func(error) error) {
	if t.nudges == nil || t.worker.run == nil || t.worker.run.phase != kernel.PhaseBuilding && t.worker.run.phase != kernel.PhaseChecking {
		return ctx, func(err error) error { return err }
	}
	heard := !t.tracker.quiet // it looks since somebody told
	always := make(chan struct{}, 1)
	always <- struct{}{}
	ctx, cancel := context.WithCancel(ctx)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(t.s.patience / 4)
		defer every.Stop()
		for {
			var nudges <-chan struct{}
			if t.worker.askingNow().unanswered() > t.s.patience && time.Since(t.hurried) > 5*t.s.patience {
				if nudges = t.nudges; heard {
					nudges = always
				}
			}
			select {
			case <-done:
				return
			case <-every.C:
			case _, t.nudged = <-nudges:
				if t.nudged { // and not that nobody nudges any more
					t.hurried = time.Now()
					cancel()
				}
				return
			}
		}
	}()
	return ctx, func(err error) error {
		close(done)
		<-ended
		cancel()
		if err != nil && t.nudged {
			err = &git.Error{Code: git.CodeUnreachable, Msg: "the server leaves a look unanswered, which was ended since a person has something to say"}
		}
		return err
	}
}

// heed looks at the issue of a run whose repository can't be read: whoever takes the
// approval back while git is away has what runs killed all the same. What he did is
// kept with the run, and recorded and pushed once git can be read. It reports whether
// the issue was read.
func (t *Task) heed(ctx context.Context, quiet bool) bool {
	t.turn.Lock()
	defer t.turn.Unlock()
	r := t.worker.run
	if !t.remote || r == nil || r.phase != kernel.PhaseBuilding && r.phase != kernel.PhaseChecking || len(r.heeded.Human) > 0 {
		return true // there is nothing to be killed
	}
	now := t.s.now()
	if quiet && now.BootMs-t.tracker.looked < lookEvery {
		return false // nobody says that there is anything to see
	}
	ctx, cancel := context.WithTimeout(ctx, tellRunning)
	defer cancel()
	issue, err := t.issues.Issue(ctx, Terms{Trigger: r.intake.trigger, Prior: r.act, Live: r.act, Brief: true})
	if err != nil {
		t.say("the issue can't be read at the moment: %v", err)
		return false
	}
	t.tracker.looked = now.BootMs
	if len(issue.Human) == 0 {
		return true
	}
	r.heeded = Issue{Act: issue.Act, Human: issue.Human}
	t.say("git can't be read, and the run is stopped: %s", issue.Human[0].Detail)
	t.worker.kill()
	return true
}

// With is a supervisor of the same world that works by another configuration and
// with other parts; records, ledger and open tasks are shared. Tasks that are open
// go on by what they were opened with, and tasks that are opened from the new one
// work by the new. World, prefixes of refs, Ledger and Clock must stay the same,
// and Repo and Forge must lead to the same repository. The account at the forge may
// be another one: it is asked for again.
func (s *Supervisor) With(cfg Config, deps Deps) *Supervisor {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := *s
	cfg.RefPrefix, cfg.ChangePrefix = s.cfg.RefPrefix, s.cfg.ChangePrefix
	out.cfg, out.deps, out.account = cfg, deps, nil
	out.mayBeMended()
	out.equipped = out.mended
	return &out
}
