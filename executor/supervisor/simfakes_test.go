package supervisor

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"sort"
	"strconv"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/kerneltest"
)

// lsRefs answers protocol version 2's ls-refs from a model server, so that the
// real client makes git.Refs of it. Nothing else is asked over HTTP.
type lsRefs struct{ server *kerneltest.Server }

func (l lsRefs) RoundTrip(r *http.Request) (*http.Response, error) {
	var b bytes.Buffer
	pkt := func(line string) { fmt.Fprintf(&b, "%04x%s", len(line)+4, line) }
	refs := l.server.Refs()
	if id := refs[l.server.Head]; id != "" {
		pkt(id + " HEAD symref-target:" + l.server.Head + "\n")
	}
	names := make([]string, 0, len(refs))
	for name := range refs {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		pkt(refs[name] + " " + name + "\n")
	}
	b.WriteString("0000")
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-git-upload-pack-result"}},
		Body: io.NopCloser(&b), Request: r,
	}, nil
}

// memLedger is a ledger in memory: a disk that survives its processes.
type memLedger struct {
	r       *simRunner
	chain   kernel.Chain
	records []kernel.Record
	fail    bool // the next write
	seen    witness
}

func (l *memLedger) Chain() kernel.Chain { return l.chain }

func (l *memLedger) Write(_ context.Context, now int64, drafts ...kernel.Draft) ([]kernel.SealedRecord, error) {
	if p := l.r.proc; len(l.records) > 0 && (p == nil || p.dead) {
		return nil, errDead
	}
	if l.fail {
		l.fail = false
		return nil, errors.New("sim: the disk is full")
	}
	if len(l.records)%8 == 0 { // looking at all of them is a fifth of a simulation's cost
		l.seen.see(drafts)
	}
	records, next, err := l.chain.Seal(now, drafts)
	if err != nil {
		return nil, err
	}
	for _, rec := range records {
		l.r.s.check.Stored(l.r.instance(), rec)
	}
	l.chain, l.records = next, append(l.records, kernel.Records(records)...)
	return records, nil
}

// Evidence stands for the real one: how much there is of it, and what a later run reads
// of it.
func (l *memLedger) Evidence(_ context.Context, task, from int64) (e replay.Evidence, err error) {
	for _, r := range l.records {
		if r.Task != task || r.Seq < from || r.Kind != kernel.KindBuilderResult && r.Kind != kernel.KindDiff {
			continue
		}
		line, err := canon.Marshal(r)
		if err != nil {
			return e, err
		}
		e.Records = append(append(e.Records, line...), '\n')
	}
	e.Proofs = fmt.Appendf(nil, "records %d to %d of task %d of %s\n", from, l.chain.Head.Seq, task, l.chain.Instance)
	e.Checkpoint = []byte(l.chain.Head.Hash)
	return e, nil
}

// RecordsOfTask implements Ledger.
func (l *memLedger) RecordsOfTask(_ context.Context, task int64) iter.Seq2[kernel.Record, error] {
	return func(yield func(kernel.Record, error) bool) {
		for _, r := range l.records {
			if r.Task == task && !yield(r, nil) {
				return
			}
		}
	}
}

func (l *memLedger) all() iter.Seq2[kernel.Record, error] {
	return func(yield func(kernel.Record, error) bool) {
		for _, r := range l.records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// simExecutor starts jobs that end when the simulation says so.
type simExecutor struct{ p *simProc }

// simJob is a builder. What it does: "good", "bad" (exit status 1), "leaks" (it writes
// a secret outside its scope), or "fails" (good to look at, and the checks fail).
type simJob struct {
	fakeJob[executor.BuildOutcome]
	run string
}

func (e *simExecutor) Environment(context.Context, string) []kernel.Violation { return nil }

func (e *simExecutor) Build(_ context.Context, job executor.BuildJob) (executor.Build, error) {
	if e.p.dead {
		return nil, &executor.Error{Code: kernel.CodeEnvBuilderFailed, Detail: "dead"}
	}
	r := e.p.r
	r.s.check.Started(r.instance(), job.Run, job.Dispatch)
	build := writes(map[string]string{"out.txt": "hello\n"})
	switch r.build {
	case "bad":
		build = failing
	case "leaks":
		build = writes(map[string]string{"out.txt": "hello\n", "secret": canary})
	}
	out, err := build(job)
	goesOn(job, &out)
	if r.build == "leaks" {
		out.Diff.Violations = []kernel.Violation{{Code: kernel.CodeScopeOutside, Subject: "secret", Detail: "not allowed"}}
	}
	r.s.logf("%s: builder of run %.8s is %q", r.name, job.Run, r.build)
	j := &simJob{run: job.Run, fakeJob: fakeJob[executor.BuildOutcome]{done: make(chan struct{}), out: out, onKill: stopped}}
	e.p.jobs = append(e.p.jobs, j)
	return j, err
}

// goesOn makes what a builder left of a base that has out.txt already another text of it.
func goesOn(job executor.BuildJob, out *executor.BuildOutcome) {
	at := slices.IndexFunc(job.Base.Files, func(f executor.File) bool { return f.Path == "out.txt" })
	if at < 0 || len(out.Diff.Changes) != 1 {
		return
	}
	text := []byte("hello, hello\n")
	id := string(git.HashBlob(text))
	was := job.Base.Files[at]
	out.Diff.Changes = []kernel.Change{{
		Path: "out.txt", Op: kernel.OpModify, BeforeID: was.ID, BeforeMode: was.Mode, AfterID: id, AfterMode: "100644", AfterHash: canon.Sum(text), Size: int64(len(text)),
	}}
	out.Contents = map[string][]byte{id: text}
}

func (e *simExecutor) Check(_ context.Context, job executor.CheckJob) (executor.Checks, error) {
	if e.p.dead {
		return nil, &executor.Error{Code: kernel.CodeEnvBuilderFailed, Detail: "dead"}
	}
	out := passed(job)
	if e.p.r.build == "fails" {
		out.Run.Checks[0].Passed, out.Run.Checks[0].Exit.Code = false, 1
		out.Violations = []kernel.Violation{{Code: kernel.CodeCheckFailed, Subject: "test", Detail: "exit status 1"}}
	}
	j := &fakeJob[executor.CheckOutcome]{done: make(chan struct{}), out: out}
	j.finish()
	return j, nil
}

// passed is the outcome of checks that all pass.
func passed(job executor.CheckJob) executor.CheckOutcome {
	run := kernel.RunResult{Kind: string(kernel.KindRunResult), Run: job.Run, Tree: job.TreeID, Sandbox: "fake", Checks: []kernel.CheckResult{}}
	for _, c := range job.Checks {
		run.Checks = append(run.Checks, kernel.CheckResult{Name: c.Name, Passed: true, Runs: 1, Stable: true,
			Exit: kernel.Exit{Cause: kernel.CauseExited}, Output: kernel.Stream{Digest: canon.Sum(nil)}})
	}
	return executor.CheckOutcome{Run: run}
}

// simRepo is the repository as one process reaches it.
type simRepo struct{ p *simProc }

var errNoNetwork = &git.Error{Code: git.CodeUnreachable, Msg: "sim: no network"}

// reachable fails where a read can't come through.
func (s *simRepo) reachable() error {
	if s.p.dead {
		return errDead
	}
	if s.p.r.s.blind {
		s.p.r.s.check.Outage = true
		return errNoNetwork
	}
	if s.p.r.noReads > 0 {
		s.p.r.noReads--
		s.p.r.s.check.Outage = true
		return errNoNetwork
	}
	return nil
}

func (s *simRepo) Refs(ctx context.Context, _ ...string) (git.Refs, error) {
	if err := s.reachable(); err != nil {
		return git.Refs{}, err
	}
	w := s.p.r.s
	if w.version != w.server.Version {
		refs, err := w.reader.Refs(ctx)
		must(w.t, err)
		w.refs, w.version = refs, w.server.Version
	}
	return w.refs, nil
}

func (s *simRepo) object(id, kind string) ([]byte, error) {
	o, ok := s.p.r.s.server.Object(id)
	if !ok || o.Kind != kind {
		return nil, &git.Error{Code: git.CodeObjectMissing, Msg: "no " + kind + " " + id}
	}
	return o.Data, nil
}

func (s *simRepo) Commit(_ context.Context, oid git.OID) (git.Commit, error) {
	if err := s.reachable(); err != nil {
		return git.Commit{}, err
	}
	raw, err := s.object(string(oid), "commit")
	if err != nil {
		return git.Commit{}, err
	}
	return git.ParseCommit(raw)
}

func (s *simRepo) Commits(ctx context.Context, oids []git.OID, f func(git.Commit)) error {
	for _, oid := range oids {
		c, err := s.Commit(ctx, oid)
		if err != nil && s.reachable() != nil {
			return err
		}
		if err == nil {
			f(c)
		}
	}
	return nil
}

func (s *simRepo) Log(ctx context.Context, from, not []git.OID, most int) ([]git.Commit, []git.OID, error) {
	return logOf(ctx, s, from, not, most)
}

// logOf is git.Repo.Log over single commits.
func logOf(ctx context.Context, r interface {
	Commit(context.Context, git.OID) (git.Commit, error)
}, from, not []git.OID, most int,
) (out []git.Commit, rest []git.OID, err error) {
	seen := map[git.OID]bool{}
	for _, oid := range not {
		seen[oid] = true
	}
	for rest = slices.Clone(from); len(rest) > 0 && len(out) < most; {
		oid := rest[0]
		if rest = rest[1:]; seen[oid] {
			continue
		}
		seen[oid] = true
		c, err := r.Commit(ctx, oid)
		if err != nil {
			return nil, nil, err
		}
		out, rest = append(out, c), append(rest, c.Parents...)
	}
	return out, slices.DeleteFunc(rest, func(oid git.OID) bool { return seen[oid] }), nil
}

func (s *simRepo) Tree(_ context.Context, oid git.OID) (git.Tree, error) {
	if raw, err := s.object(string(oid), "commit"); err == nil {
		c, err := git.ParseCommit(raw)
		if err != nil {
			return git.Tree{}, err
		}
		oid = c.Tree
	}
	t := git.Tree{OID: oid}
	if err := s.walk(string(oid), "", &t); err != nil {
		return git.Tree{}, err
	}
	sortEntries(t.Entries)
	return t, nil
}

func (s *simRepo) walk(oid, prefix string, t *git.Tree) error {
	data, err := s.object(oid, "tree")
	for err == nil && len(data) > 0 {
		space, nul := bytes.IndexByte(data, ' '), bytes.IndexByte(data, 0)
		mode, _ := strconv.ParseUint(string(data[:space]), 8, 32) // written by us
		name, id := prefix+string(data[space+1:nul]), hex.EncodeToString(data[nul+1:nul+21])
		data = data[nul+21:]
		if git.Mode(mode) == git.ModeTree {
			err = s.walk(id, name+"/", t)
			continue
		}
		t.Entries = append(t.Entries, git.Entry{Path: name, Mode: git.Mode(mode), OID: git.OID(id)})
	}
	return err
}

func (s *simRepo) Blobs(_ context.Context, oids []git.OID, f func(git.OID, []byte) error) error {
	for _, oid := range oids {
		data, err := s.object(string(oid), "blob")
		if err == nil {
			err = f(oid, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *simRepo) CompareAndSwap(_ context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	r := s.p.r
	if f := r.beforePush; f != nil {
		r.beforePush = nil
		f()
	}
	if s.p.dead {
		return git.Outcome{Status: git.Unknown, Err: errDead}
	}
	r.pushes++
	objects, err := kerneltest.ReadPack(pack.Data)
	must(r.s.t, err)
	fault := r.push
	r.push = kerneltest.NoFault
	if fault == kerneltest.NoFault {
		fault = r.s.broken
	}
	vague := false
	if rule := r.s.rule; rule != nil && slices.ContainsFunc(objects, rule) {
		if fault = kerneltest.Refuse; r.s.vague {
			fault, vague = kerneltest.Down, true
		}
	}
	answer := r.s.server.Swap(r.instance(), movesOf(cmds), objects, fault)
	if fault != kerneltest.NoFault {
		r.s.logf("%s: push meets %q: %s", r.name, fault, answer)
	}
	out := git.Outcome{Status: git.Status(answer)}
	if fault == kerneltest.Forgotten || fault == kerneltest.Half {
		r.s.check.Outage = true // what it says it took isn't shown
	}
	switch out.Status {
	case git.Refused:
		out.Reason, out.Account = "pre-receive hook declined", r.s.account
	case git.Unable:
		r.s.check.Outage = true
		out.Err = errNoNetwork
		if vague {
			out.Err = &git.Error{Code: git.CodeUnable, Msg: "internal server error"}
		}
		if fault == kerneltest.Disk {
			out.Reason, out.Space = "unpack unable to write loose object: No space left on device", true
		}
	}
	return out
}

func movesOf(cmds []git.Command) []kerneltest.Move {
	moves := make([]kerneltest.Move, len(cmds))
	for i, c := range cmds {
		moves[i] = kerneltest.Move{Ref: c.Ref, Old: plain(c.Old), New: plain(c.New)}
	}
	return moves
}

// Reassert is forge/git's: own objects that are there already were ours.
func (s *simRepo) Reassert(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	if err := s.reachable(); err != nil {
		return git.Outcome{Status: git.Unknown, Err: err}
	}
	applied := func() bool {
		for _, m := range movesOf(cmds) {
			if s.p.r.s.server.Ref(m.Ref) != m.New {
				return false
			}
		}
		return true
	}
	if applied() {
		return git.Outcome{Status: git.Won, AlreadyApplied: true}
	}
	out := s.CompareAndSwap(ctx, cmds, pack)
	if out.Status == git.Lost && applied() {
		return git.Outcome{Status: git.Won, AlreadyApplied: true}
	}
	return out
}
