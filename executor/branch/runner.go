package branch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/executor/command"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/clone"
	"github.com/writbot/writ/kernel/lease"
	"github.com/writbot/writ/kernel/tick"
)

// FromEvent is the Config.From that takes commands from the event's own commit.
const FromEvent = "event"

// What is done with the branch that somebody has checked out.
const (
	CurrentSkip    = "skip"
	CurrentInclude = "include"
	CurrentOnly    = "only"
)

// heads is where branches are.
const heads = "refs/heads/"

// Config is what the caller of a tick decides.
type Config struct {
	Remote       string   // the remote that has the truth; "" for the clone itself
	Globs        []string // which branches, as path.Match has it; none: all
	Current      string   // CurrentSkip, …
	Worktrees    string   // the directory that working trees are made in
	Role         string
	LogLevel     string // of --log-level; "" leaves it to the event, then to Env
	From         string // the branch whose commit has the commands; "": the default branch
	LeaseSeconds int64
	GraceSeconds int64
	Jobs         int // commands, and so working trees, at once
	RunnerID     string
	Env          []string // the caller's environment
}

// Deps is what a runner works with.
type Deps struct {
	Clone    *clone.Clone
	Remote   *git.Repo // of Config.Remote; nil without one
	Now      func() lease.Clock
	NewRunID func() string
	Log      *slog.Logger
	// Told is told of each branch as its evaluation ends, and of each run as its
	// command begins, with StatusRunning. Several call it at once. nil: nobody.
	Told func(Result)
	// Launched is called once each branch has come to an end or to a running
	// command. nil: nobody.
	Launched func()
}

// Status says what became of a branch.
type Status string

// The statuses.
const (
	StatusNone        Status = "none"        // no event at HEAD
	StatusIdle        Status = "idle"        // the state is a word for an end, and has no command
	StatusHeld        Status = "held"        // somebody's lease is live
	StatusMissing     Status = "missing"     // the state has no command
	StatusUnrunnable  Status = "unrunnable"  // it has one that can't be run
	StatusMalformed   Status = "malformed"   // HEAD can't be read as an event
	StatusLost        Status = "lost"        // another runner was first, or took over
	StatusRefused     Status = "refused"     // the server has a rule against it
	StatusUnable      Status = "unable"      // a server or this machine can't, now
	StatusUnknown     Status = "unknown"     // whether the lease was taken can't be found out
	StatusTakenOver   Status = "taken_over"  // an ended lease was replaced; its state has no command
	StatusRunning     Status = "running"     // the command has begun
	StatusDone        Status = "done"        // the command left a valid completion
	StatusInvalid     Status = "invalid"     // it left none
	StatusFailed      Status = "failed"      // it left none and says itself that it failed
	StatusInterrupted Status = "interrupted" // this runner was told to end
)

// Result is what a tick did with one branch.
type Result struct {
	Branch    string `json:"branch"`
	Status    Status `json:"status"`
	Head      string `json:"head,omitempty"` // as this tick found it
	State     string `json:"state,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Code      string `json:"code,omitempty"` // of an error
	TakenOver string `json:"taken_over,omitempty"`
	Until     int64  `json:"until_ms,omitempty"` // of held: when it may be taken over, if its holder stays silent

	RunID   string `json:"run_id,omitempty"`
	Claim   string `json:"claim,omitempty"`
	Command string `json:"command,omitempty"`
	Exit    *int   `json:"exit,omitempty"`
	Output  string `json:"output,omitempty"` // the completing commit
	Left    string `json:"left,omitempty"`   // what the command left, where that is no completion
	Log     string `json:"log,omitempty"`    // the file with what it printed
}

// Runner evaluates branches.
type Runner struct {
	cfg  Config
	deps Deps

	policy   lease.Policy
	person   func() git.Person
	commands commands
}

// New makes a runner. The configuration's numbers are checked.
func New(cfg Config, deps Deps) (*Runner, error) {
	r := &Runner{cfg: cfg, deps: deps, policy: lease.DefaultPolicy()}
	r.policy.GraceSeconds = cfg.GraceSeconds
	if err := r.policy.Validate(); err != nil {
		return nil, err
	}
	r.person = sync.OnceValue(func() git.Person { return deps.Clone.Person(context.Background(), cfg.RunnerID) })
	r.commands = commands{clone: deps.Clone}
	return r, nil
}

// truth is where HEAD counts (A3).
func (r *Runner) truth() place { return place{clone: r.deps.Clone, remote: r.deps.Remote} }

// head is a branch as it was found.
type head struct {
	ref    string
	commit git.Commit
	err    error // why the commit can't be read
}

func (h head) lease() lease.Head { return leaseHead(h.commit) }

func leaseHead(c git.Commit) lease.Head {
	return lease.Head{OID: string(c.OID), Message: c.Message, CommitterSeconds: c.Committer.Seconds, CommitterOK: c.Committer.OK}
}

// Tick evaluates the selected branches once. Each is looked at on its own; the
// error is one that concerns them all.
func (r *Runner) Tick(ctx context.Context) ([]Result, error) {
	if err := r.deps.Clone.Sweep(); err != nil {
		r.deps.Log.Warn("a dead run's working tree stays", "error", err)
	}
	found, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := openSightings(r.deps.Clone, r.cfg.Remote)
	if err != nil {
		return nil, err
	}
	now := r.deps.Now()
	results := make([]Result, len(found))
	slots := make(chan struct{}, max(1, r.cfg.Jobs))
	var ended, launched sync.WaitGroup
	for i, h := range found {
		res := &results[i]
		*res = Result{Branch: strings.TrimPrefix(h.ref, heads), Head: string(h.commit.OID)}
		if h.err != nil {
			res.fail(StatusMalformed, h.err)
			r.told(*res)
			continue
		}
		d := tick.Decide(h.lease(), seen.observe(h, now), now, r.policy)
		if r.settled(res, d) {
			r.told(*res)
			continue
		}
		launched.Add(1)
		once := sync.OnceFunc(launched.Done)
		ended.Go(func() {
			defer once()
			select {
			case slots <- struct{}{}:
				r.evaluate(ctx, h, d, res, once)
				<-slots
			case <-ctx.Done():
				res.Status = StatusInterrupted
			}
			r.told(*res)
		})
	}
	err = seen.save()
	launched.Wait()
	if r.deps.Launched != nil {
		r.deps.Launched()
	}
	ended.Wait()
	return results, err
}

func (r *Runner) told(res Result) {
	if r.deps.Told != nil {
		r.deps.Told(res)
	}
}

// look reads the HEADs of the selected branches, all at once.
func (r *Runner) look(ctx context.Context) ([]head, error) {
	refs, err := r.truth().repo().Refs(ctx, heads)
	if err != nil {
		return nil, err
	}
	r.commands.begin(r, refs)
	current := r.deps.Clone.CheckedOut()
	var out []head
	var oids []git.OID
	for _, ref := range refs.Names() {
		_, checkedOut := current[ref]
		if r.cfg.Current == CurrentSkip && checkedOut || r.cfg.Current == CurrentOnly && current[ref] != r.deps.Clone.Top || !r.selected(ref) {
			continue
		}
		out = append(out, head{ref: ref})
		oids = append(oids, refs.OID(ref))
	}
	commits := r.truth().commits(ctx, oids)
	for i := range out {
		out[i].commit, out[i].err = commits(oids[i])
	}
	return out, nil
}

func (r *Runner) selected(ref string) bool {
	name := strings.TrimPrefix(ref, heads)
	return len(r.cfg.Globs) == 0 || slices.ContainsFunc(r.cfg.Globs, func(g string) bool {
		ok, _ := path.Match(g, name) // the caller has checked the patterns
		return ok
	})
}

// settled says what there is to say about a branch with which nothing is to be done.
func (r *Runner) settled(res *Result, d tick.Decision) bool {
	res.State = d.Event.State
	switch d.Step {
	case tick.StepNone:
		res.Status = StatusNone
	case tick.StepMalformed:
		res.fail(StatusMalformed, d.Err)
	case tick.StepHeld:
		res.Status, res.RunID, res.Until = StatusHeld, d.Event.RunID, d.Verdict.UntilWallMs
		res.Reason = "the lease of " + orUnknown(d.Event.RunnerID) + " is live (" + string(d.Verdict.Reason) + ")"
	default:
		return false
	}
	return true
}

func orUnknown(s string) string {
	if s == "" {
		return "somebody"
	}
	return s
}

// fail notes an error as the branch's own.
func (res *Result) fail(s Status, err error) {
	res.Status, res.Reason = s, git.Reason(err)
	if res.Code = git.CodeOf(err); res.Code == "" && lease.HasCode(err, lease.CodeMalformed) {
		res.Code = lease.CodeMalformed
	}
}

// evaluate does what was decided. After a takeover it goes on with the new HEAD
// (A40); it runs one command at most.
func (r *Runner) evaluate(ctx context.Context, h head, d tick.Decision, res *Result, started func()) {
	if d.Step == tick.StepTakeOver {
		message, err := tick.TakeOver(d.Event, r.cfg.Remote)
		if err != nil {
			res.fail(StatusUnable, err)
			return
		}
		next, out := r.move(ctx, h, message, "stalled")
		if out.Status != git.Won {
			res.answer(out)
			return
		}
		res.TakenOver = orUnknown(d.Event.RunID)
		r.deps.Log.Info("lease taken over", "branch", res.Branch, "run", res.TakenOver, "reason", string(d.Verdict.Reason))
		h.commit = next
		now := r.deps.Now()
		if d = tick.Decide(h.lease(), lease.Sighting{}, now, r.policy); r.settled(res, d) {
			return
		}
	}
	r.run(ctx, h, d.Event, res, started)
}

// answer says what a push that wasn't won means (T60).
func (res *Result) answer(out git.Outcome) {
	status := map[git.Status]Status{git.Lost: StatusLost, git.Refused: StatusRefused, git.Unable: StatusUnable, git.Unknown: StatusUnknown}[out.Status]
	res.fail(status, out.Err)
}

// move puts a commit of the runner's own on a HEAD: the same files, another message.
func (r *Runner) move(ctx context.Context, h head, message []byte, what string) (git.Commit, git.Outcome) {
	who := r.person()
	who.Seconds = r.deps.Now().WallMs / int64(time.Second/time.Millisecond)
	return r.truth().put(ctx, h.ref, h.commit, git.CommitSpec{Tree: h.commit.Tree, Parents: []git.OID{h.commit.OID}, Author: who, Committer: who, Message: message}, clone.Note(what))
}

// run claims a branch and runs the command of its state.
func (r *Runner) run(ctx context.Context, h head, ev lease.Event, res *Result, started func()) {
	res.State = ev.State
	found, err := r.commands.find(ctx, h.commit.OID, r.cfg.Role, ev.State)
	if err != nil {
		res.fail(StatusUnable, err)
		return
	}
	res.Command = path.Join(tick.Dir, found.Path)
	if found.Found != tick.FoundCommand {
		r.without(res, found.Found)
		return
	}
	given := tick.Given{RunID: r.deps.NewRunID(), RunnerID: r.cfg.RunnerID, Branch: h.ref, Remote: r.cfg.Remote, Role: r.cfg.Role,
		LogLevel: r.logLevel(ev), LeaseSeconds: r.cfg.LeaseSeconds, GraceSeconds: r.cfg.GraceSeconds}
	if _, err := tick.Environ(nil, ev, given); err != nil {
		res.fail(StatusUnrunnable, err)
		return
	}
	if err := r.fetch(ctx, h.commit.OID); err != nil {
		res.fail(StatusUnable, err)
		return
	}
	res.RunID = given.RunID
	message, err := tick.Claim(ev, tick.Lease{RunID: given.RunID, RunnerID: r.cfg.RunnerID, Seconds: r.cfg.LeaseSeconds, Remote: r.cfg.Remote})
	if err != nil {
		res.fail(StatusUnrunnable, err)
		return
	}
	claim, out := r.move(ctx, h, message, "lease")
	if out.Status != git.Won {
		res.answer(out)
		return
	}
	res.Claim = string(claim.OID)
	given.DeadlineSeconds = claim.Committer.Seconds + r.cfg.LeaseSeconds
	r.execute(ctx, execution{head: h, event: ev, claim: claim, given: given, file: found.File, started: started}, res)
}

// without says what it means that a state has no command to run.
func (r *Runner) without(res *Result, f tick.Found) {
	switch {
	case f == tick.FoundNothing && res.TakenOver != "":
		res.Status, res.Reason = StatusTakenOver, "the ended lease of run "+res.TakenOver+" was replaced; nothing to do for "+res.State
	case f == tick.FoundNothing && tick.IsEnd(res.State):
		res.Status, res.Reason = StatusIdle, "nothing to do: "+res.State
	case f == tick.FoundNothing:
		res.Status, res.Reason = StatusMissing, "there is no command "+res.Command
	case f == tick.FoundOutside:
		res.Status, res.Reason = StatusUnrunnable, res.Command+" leads out of its directory"
	default:
		res.Status, res.Reason = StatusUnrunnable, res.Command+" is no file that may be executed"
	}
}

// logLevel is the flag's, or the event's, or the caller's, or error.
func (r *Runner) logLevel(ev lease.Event) string {
	level := r.cfg.LogLevel
	for _, t := range ev.Trailers {
		if level == "" && strings.EqualFold(t.Key, "aynig-log-level") {
			level = t.Value
		}
	}
	for _, kv := range r.cfg.Env {
		if v, ok := strings.CutPrefix(kv, tick.Prefix+"LOG_LEVEL="); ok && level == "" {
			level = v
		}
	}
	if level == "warning" {
		level = "warn"
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, level) {
		return "error"
	}
	return level
}

// fetch brings what a working tree is made from into the clone, before any lease is
// taken for it.
func (r *Runner) fetch(ctx context.Context, oid git.OID) error {
	if r.deps.Remote == nil || r.deps.Clone.Has(ctx, oid) {
		return nil
	}
	return r.deps.Clone.Fetch(ctx, r.cfg.Remote, oid)
}

// execution is one run of a command.
type execution struct {
	head  head
	event lease.Event
	claim git.Commit
	given tick.Given
	file  string // the command, from .aynig

	started func() // to be called once it has
}

// execute runs the command of a branch that is ours, and judges what it left.
func (r *Runner) execute(ctx context.Context, x execution, res *Result) {
	w, err := r.worktree(ctx, x)
	if err != nil {
		res.fail(StatusUnable, err)
		return
	}
	exit, err := r.spawn(ctx, x, w, res)
	if err != nil {
		res.fail(StatusUnable, err)
	} else {
		res.Exit = &exit
		r.judge(context.WithoutCancel(ctx), x, w, res)
		if ctx.Err() != nil && res.Status != StatusDone && res.Status != StatusLost {
			res.Status = StatusInterrupted
		}
	}
	if w.Dir == r.deps.Clone.CheckedOut()[x.head.ref] {
		return
	}
	if err := w.Remove(); err != nil {
		r.deps.Log.Warn("a working tree stays", "directory", w.Dir, "error", err)
	}
}

// worktree is where a command runs: the one that has the branch checked out, or a
// new one. In remote mode HEAD is detached at the lease, for the clone's own
// branches say nothing there.
func (r *Runner) worktree(ctx context.Context, x execution) (*clone.Worktree, error) {
	branch := x.head.ref
	if r.deps.Remote != nil {
		branch = ""
	} else if dir := r.deps.Clone.CheckedOut()[branch]; dir != "" {
		in, err := clone.Open(ctx, dir)
		if err != nil {
			return nil, err
		}
		return in.Worktree(), nil
	}
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			return c
		}
		return '_'
	}, res64(strings.TrimPrefix(x.head.ref, heads)))
	return r.deps.Clone.Add(ctx, r.cfg.Worktrees, name, branch, x.claim.OID)
}

// res64 is the beginning of a name that may be too long for a directory's.
func res64(s string) string { return s[:min(len(s), 64)] }

// spawn runs the command to its end and returns its exit status, which is reported
// and decides nothing.
func (r *Runner) spawn(ctx context.Context, x execution, w *clone.Worktree, res *Result) (int, error) {
	dir, err := r.commands.materialise(ctx, x.head.commit.OID)
	if err != nil {
		return 0, err
	}
	env, err := tick.Environ(r.cfg.Env, x.event, x.given)
	if err != nil {
		return 0, err
	}
	if r.cfg.Remote != "" {
		// So that `git push` alone does what is meant, without configuring the clone.
		env = append(env, "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=remote.pushDefault", "GIT_CONFIG_VALUE_0="+r.cfg.Remote,
			"GIT_CONFIG_KEY_1=remote."+r.cfg.Remote+".push", "GIT_CONFIG_VALUE_1=HEAD:"+x.head.ref)
	}
	if self, err := os.Executable(); err == nil {
		env = append(env, "WRIT="+self)
	}
	log, err := r.openLog(x.given.RunID)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	res.Log = log.Name()
	p, err := command.Start(command.Spec{Argv: []string{filepath.Join(dir, filepath.FromSlash(x.file))}, Dir: w.Dir, Env: env, Stdout: log, Stderr: log})
	if err != nil {
		return 0, fmt.Errorf("the command can't be started: %w", err)
	}
	r.deps.Log.Info("command started", "branch", res.Branch, "state", res.State, "run", x.given.RunID, "command", res.Command)
	running := *res
	running.Status = StatusRunning
	r.told(running)
	x.started()
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(command.StopGrace)
	}
	return p.Wait(), nil
}

// maxLogs is how many outputs of commands are kept.
const maxLogs = 200

// openLog makes the file for a command's output, and removes the oldest of them.
func (r *Runner) openLog(run string) (*os.File, error) {
	state, err := r.deps.Clone.State()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(state, "logs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	trim(dir, maxLogs)
	return os.OpenFile(filepath.Join(dir, run+".log"), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
}

// trim removes the oldest entries of a directory. What can't be removed stays.
func trim(dir string, most int) {
	entries, _ := os.ReadDir(dir)
	if len(entries) < most {
		return
	}
	age := map[string]time.Time{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			age[e.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return age[a.Name()].Compare(age[b.Name()]) })
	for _, e := range entries[:len(entries)-most+1] {
		_ = os.RemoveAll(filepath.Join(dir, e.Name()))
	}
}

// judge reads HEAD again and says what it means, whatever the exit status.
func (r *Runner) judge(ctx context.Context, x execution, w *clone.Worktree, res *Result) {
	left, err := w.Left(ctx)
	if err != nil {
		res.fail(StatusUnable, err)
		return
	}
	at, err := r.truth().head(ctx, x.head.ref)
	if err != nil && git.CodeOf(err) != git.CodeCommitAmbiguous {
		res.fail(StatusUnable, err)
		return
	}
	completion, why := tick.Complete(tick.Run{ID: x.given.RunID, Event: string(x.head.commit.OID)}, leaseHead(at), string(left))
	res.Reason = why
	switch completion {
	case tick.CompletionDone:
		res.Status, res.Output = StatusDone, string(at.OID)
	case tick.CompletionLost:
		res.Status, res.Code = StatusLost, lease.CodeLost
	default:
		res.Status = StatusInvalid
		if *res.Exit != 0 {
			res.Status = StatusFailed
		}
	}
	if left != at.OID && left != x.claim.OID && left != "" {
		res.Left = string(left)
		if completion == tick.CompletionInvalid && r.cfg.Remote != "" {
			res.Reason += "; the command left " + string(left) + ", which wasn't pushed"
		}
	}
}

// Tail is the end of what a command printed.
func (res Result) Tail() string {
	const most = 2 << 10
	f, err := os.Open(res.Log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd) // else all of it is the end
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return string(text)
}

// Standing is how a branch stands, for whoever asks.
type Standing struct {
	Branch   string   `json:"branch"`
	Head     string   `json:"head"`
	State    string   `json:"state,omitempty"` // "" for no event
	Origin   string   `json:"origin_state,omitempty"`
	RunID    string   `json:"run_id,omitempty"`
	RunnerID string   `json:"runner_id,omitempty"`
	Lease    string   `json:"lease,omitempty"` // live or ended
	Until    int64    `json:"until_ms,omitempty"`
	Faults   []string `json:"faults,omitempty"`
	Command  string   `json:"command,omitempty"`
	Found    string   `json:"found,omitempty"` // what there is at Command
	Reason   string   `json:"reason,omitempty"`
}

// Show says how a branch stands. It writes nothing, not even that it looked.
func (r *Runner) Show(ctx context.Context, ref string) (Standing, error) {
	s := Standing{Branch: strings.TrimPrefix(ref, heads)}
	refs, err := r.truth().repo().Refs(ctx, heads)
	if err != nil {
		return s, err
	}
	oid := refs.OID(ref)
	if oid.IsZero() {
		return s, &git.Error{Code: git.CodeRefInvalid, Msg: "there is no branch " + s.Branch, Remedy: "push it, or give --branch"}
	}
	c, err := r.truth().commit(ctx, oid)
	if err != nil {
		return s, err
	}
	seen, err := openSightings(r.deps.Clone, r.cfg.Remote)
	if err != nil {
		return s, err
	}
	h, now := head{ref: ref, commit: c}, r.deps.Now()
	d := tick.Decide(h.lease(), seen.observe(h, now), now, r.policy)
	s.Head, s.State, s.Origin, s.RunID, s.RunnerID = string(oid), d.Event.State, d.Event.OriginState, d.Event.RunID, d.Event.RunnerID
	if d.Err != nil {
		s.Reason = d.Err.Error()
	}
	for _, f := range d.Verdict.Faults {
		s.Faults = append(s.Faults, f.String())
	}
	switch d.Step {
	case tick.StepHeld:
		s.Lease, s.Until, s.Reason = "live", d.Verdict.UntilWallMs, string(d.Verdict.Reason)
	case tick.StepTakeOver:
		s.Lease, s.Reason = "ended", string(d.Verdict.Reason)
	case tick.StepRun:
		r.commands.begin(r, refs)
		found, err := r.commands.find(ctx, oid, r.cfg.Role, s.State)
		if err != nil {
			return s, err
		}
		s.Command, s.Found = path.Join(tick.Dir, found.Path), string(found.Found)
	}
	return s, nil
}
