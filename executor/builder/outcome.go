package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"golang.org/x/sys/unix"
)

// takeIn makes the outcome once every process is dead: first what was said,
// then what was done.
func (b *build) takeIn(ctx context.Context, w *watch, end ending, started, ended int64) {
	var vs []kernel.Violation
	add := func(list ...kernel.Violation) { vs = append(vs, list...) }
	var result *kernel.Result
	var faults []kernel.Violation
	composed := false
	verdict, end, unjudged := b.judge(ctx, end)
	ran := end.ran()
	add(b.exitFaults(end)...)
	add(b.saidFaults(end)...)
	add(b.overBudget(end)...)
	if ran {
		add(b.late(end, ended-started)...)
		add(unjudged...)
		if len(unjudged) == 0 && end.exit.Cause == kernel.CauseExited {
			add(verdict.NoOutput()...)
		}
		result, faults = readResult(b.outDir())
		composed = result == nil && len(faults) == 0 && !b.cfg.RequireResult
	}
	switch {
	case !ran:
	case composed:
		result = b.compose(end, verdict, w, ended)
	case result != nil:
		faults = append(faults, scope.CheckReported(result.ChangedFiles, verdict)...)
		add(b.reported(result)...)
	case len(faults) == 0:
		add(kernel.Violation{Code: kernel.CodeNoOutput, Subject: resultSubject, Detail: "The builder left no result, and one is required."})
	}
	add(faults...)
	diff := verdict.Diff(b.job.Run, b.job.Base.Commit)
	if len(vs) > 0 && !slices.ContainsFunc(slices.Concat(vs, diff.Violations), ownFault) {
		add(b.egress.purse.lacksPrice()...)
		add(b.egress.contextFull()...)
		outage := b.egress.outage()
		if add(outage...); len(outage) > 0 {
			b.l.doubtPreflight(b.job.Builder)
		}
	}
	contents := b.l.withoutSecrets(&diff, verdict.Contents)
	diff.Discarded, diff.Violations = b.l.cleanAll(diff.Discarded, maxDetailBytes), b.l.plain(diff.Violations)
	b.out = executor.BuildOutcome{
		Result: kernel.BuilderResult{
			Kind: string(kernel.KindBuilderResult), Run: b.job.Run, Builder: b.job.Builder,
			Argv: b.l.cleanAll(b.cfg.Argv, keepBytes), Sandbox: end.level(b.l.cfg.Sandbox),
			Composed: composed, Result: b.l.kept(result), Exit: end.exit,
			Stdout: b.l.evidence(w.stdout), Stderr: b.l.evidence(w.stderr),
			Started: started, Ended: ended, Faults: b.l.plain(faults), Egress: b.egress.result(), Prepared: b.prep.result(), Agent: b.agent(),
		},
		Diff: diff, Contents: contents, Violations: b.l.plain(vs),
	}
}

// doubtPreflight has the next claim try again: a run has ended over its provider.
func (l *Local) doubtPreflight(name string) {
	if b, ok := l.builder(name); ok {
		l.preflights.entry(b).doubt()
	}
}

// ownFault reports whether a violation is the builder's whatever its provider did: it says
// more than that the builder ended, badly or with nothing.
func ownFault(v kernel.Violation) bool {
	return !slices.Contains([]kernel.Code{kernel.CodeExecutionExit, kernel.CodeExecutionReported, kernel.CodeTimeout, kernel.CodeNoOutput}, v.Code)
}

func (b *build) workspace() string { return b.tree.workspace() }

// exitFaults are what an ending alone is guilty of.
func (b *build) exitFaults(e ending) []kernel.Violation {
	if e.err != nil {
		return []kernel.Violation{faultOf(b.job.Builder, e.err)}
	}
	code := kernel.CodeExecutionExit
	switch e.exit.Cause {
	case kernel.CauseStart, kernel.CauseTimeout, kernel.CauseIdle:
		code = kernel.CodeTimeout
	case kernel.CauseResource:
		code = kernel.CodeExecutionResource
	case kernel.CauseBudget:
		code = kernel.CodeExecutionBudget
	case kernel.CauseStopped:
		code = kernel.CodeTaskInterrupted
	}
	if e.succeeded() {
		return nil
	}
	return []kernel.Violation{{Code: code, Subject: "builder", Detail: "The builder " + e.sentence()}}
}

// overBudget: a builder that reached its budget and ended by itself before it was ended has
// failed as well, however it ended.
func (b *build) overBudget(e ending) []kernel.Violation {
	over := b.egress.purse.reached()
	if over == nil || e.err != nil || e.exit.Cause == kernel.CauseBudget || e.exit.Cause == kernel.CauseStopped {
		return nil
	}
	return []kernel.Violation{{Code: kernel.CodeExecutionBudget, Subject: "builder", Detail: "The builder ended by itself: " + over.text + "."}}
}

// late looks at the recorded times: a machine that was suspended let a builder
// end by itself after its deadline, and what it brings is refused however good
// it is (conformance D39).
func (b *build) late(e ending, tookMs int64) []kernel.Violation {
	over := tookMs - b.job.Budgets.BuildTimeoutMs
	if over <= 0 || e.exit.Cause != kernel.CauseExited {
		return nil
	}
	return []kernel.Violation{{Code: kernel.CodeTimeout, Subject: "builder", Detail: fmt.Sprintf("The builder ended %d ms after its deadline.", over)}}
}

// reported is what the builder says about itself.
func (b *build) reported(r *kernel.Result) []kernel.Violation {
	if r.Status != kernel.ResultFailure {
		return nil
	}
	return []kernel.Violation{{Code: kernel.CodeExecutionReported, Subject: b.job.Builder, Detail: "The builder's result says failure."}}
}

const (
	// maxResultBytes bounds a builder's result: 1 MiB holds ten thousand long
	// paths and a log; larger logs belong on standard output.
	maxResultBytes = 1 << 20
	// maxResultDepth is more than the format needs.
	maxResultDepth = 4
	// maxCommitHash holds an id of git with either hash. The value is recorded
	// and never used.
	maxCommitHash = 64
	// maxNameBytes bounds a reported path that is kept: Linux has no longer ones.
	maxNameBytes = 4 << 10
)

// resultSubject names the result in violations.
const resultSubject = "WRIT_RESULT"

// readResult reads a builder's result, strictly: one JSON document with exactly
// the seed's fields (seed 001, "Required Executor Output"; case X7). No file is
// no fault here; whether one is owed is the caller's rule.
func readResult(dir string) (*kernel.Result, []kernel.Violation) {
	bad := func(format string, args ...any) (*kernel.Result, []kernel.Violation) {
		return nil, []kernel.Violation{{Code: kernel.CodeResultInvalid, Subject: resultSubject, Detail: fmt.Sprintf(format, args...)}}
	}
	data, err := readRegular(filepath.Join(dir, resultName), maxResultBytes)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return bad("The result can't be read: %v.", err)
	}
	var r kernel.Result
	if err := canon.Unmarshal(data, &r, canon.Limits{MaxBytes: maxResultBytes, MaxDepth: maxResultDepth}); err != nil {
		return bad("The result isn't of the required form: %v.", err)
	}
	switch {
	case r.Status != kernel.ResultSuccess && r.Status != kernel.ResultFailure:
		return bad("The status is neither success nor failure.")
	case !isTimestamp(r.Timestamp):
		return bad("The timestamp isn't UTC in ISO 8601, such as 2026-01-31T08:00:00Z.")
	case r.CommitHash != nil && len(*r.CommitHash) > maxCommitHash:
		return bad("The commit hash is longer than %d characters.", maxCommitHash)
	}
	return &r, nil
}

// isTimestamp accepts UTC with seconds, and a fraction of them. time.Parse alone
// is too lenient: it takes one-digit hours and a comma.
func isTimestamp(s string) bool {
	whole, ok := strings.CutSuffix(s, "Z")
	if !ok {
		return false
	}
	whole, fraction, dotted := strings.Cut(whole, ".")
	if dotted && (fraction == "" || len(fraction) > 9 || strings.Trim(fraction, "0123456789") != "") {
		return false
	}
	const layout = "2006-01-02T15:04:05"
	t, err := time.Parse(layout, whole)
	return err == nil && t.Format(layout) == whole
}

// kept is a result as it is recorded: claims of a stranger, redacted and cut.
func (l *Local) kept(r *kernel.Result) *kernel.Result {
	if r == nil {
		return nil
	}
	out := *r
	out.ChangedFiles = l.cleanAll(r.ChangedFiles[:min(len(r.ChangedFiles), scope.MaxListed)], maxNameBytes)
	out.Logs = l.clean(r.Logs, tailBytes)
	if r.CommitHash != nil {
		hash := l.clean(*r.CommitHash, maxCommitHash)
		out.CommitHash = &hash
	}
	return &out
}

// readRegular reads a file that a builder may have made: no link is followed,
// nothing but a regular file is read, and it never blocks.
func readRegular(path string, limit int64) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("it is no regular file")
	case st.Nlink != 1:
		return nil, errors.New("it has more than one name")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, nil
}

// compose makes the result of a program that knows nothing of Writ, from its
// exit and output. It claims no tests.
func (b *build) compose(end ending, v scope.Verdict, w *watch, endedMs int64) *kernel.Result {
	r := &kernel.Result{
		Status: kernel.ResultFailure, ChangedFiles: []string{}, Logs: b.l.tailOf(&w.stdout.Capture),
		Timestamp: kernel.Timestamp(endedMs / 1000),
	}
	if b.said != nil {
		r.Logs = b.l.clean(b.said.logs(), tailBytes)
	}
	if end.succeeded() && len(b.saidFaults(end)) == 0 {
		r.Status = kernel.ResultSuccess
	}
	for _, c := range v.Changes {
		r.ChangedFiles = append(r.ChangedFiles, c.Path)
	}
	sort.Strings(r.ChangedFiles)
	return r
}

// logs is what is kept of an agent's words as a result's: the last message, and what it
// says that it used.
func (s *claims) logs() string {
	return strings.TrimSpace(s.message + "\n" + s.usage)
}

// judgeLimit bounds how long a workspace is walked and hashed: the walk's own
// bounds, 8 GiB and 100,000 new entries, take a minute on a slow disk.
const judgeLimit = 5 * time.Minute

// ran reports whether there is something to judge: the program ran, nobody
// stopped it, and its workspace is still there.
func (e ending) ran() bool {
	return e.exit.Cause != kernel.CauseStartFailed && e.exit.Cause != kernel.CauseStopped && !e.diskLow
}

// judge verifies the workspace. A stop meanwhile makes the build a stopped one.
// What the builder did to keep its workspace from being judged is a broken rule;
// the rest is the system's, and in unjudged.
func (b *build) judge(ctx context.Context, end ending) (v scope.Verdict, _ ending, unjudged []kernel.Violation) {
	if !end.ran() {
		return v, end, nil
	}
	limited, cancel := context.WithTimeout(ctx, b.l.judgeLimit)
	defer cancel()
	verify, dir := b.scope.Verify, b.workspace()
	if b.tree.layered {
		verify, dir = b.scope.VerifyAbove, sandbox.Upper(dir)
	}
	v, err := verify(limited, dir)
	switch {
	case ctx.Err() != nil:
		return scope.Verdict{}, stoppedEarly(), nil
	case err == nil:
		return v, end, nil
	case errors.Is(err, context.DeadlineExceeded):
		return refused(kernel.CodeScopeSize, "The workspace could not be read within "+b.l.judgeLimit.String()+"."), end, nil
	case errors.Is(err, fs.ErrPermission):
		return refused(kernel.CodeScopeMode, "The mode of the workspace does not let it be read."), end, nil
	}
	// The error names a path of the host.
	b.l.cfg.Log.Error("a workspace can't be judged", "run", b.job.Run, "error", err)
	detail := "The workspace can't be read."
	var no syscall.Errno
	if errors.As(err, &no) {
		detail = "The workspace can't be read: " + no.Error() + "."
	}
	return scope.Verdict{}, end, []kernel.Violation{{Code: kernel.CodeEnvWorkspace, Subject: "workspace", Detail: detail}}
}

// refused is the verdict on a workspace as a whole.
func refused(code kernel.Code, detail string) scope.Verdict {
	return scope.Verdict{Violations: []kernel.Violation{
		{Code: kernel.CodeScopeViolation, Detail: "Broken rules of scope: 1."},
		{Code: code, Subject: "workspace", Detail: detail},
	}}
}

// withoutSecrets refuses changes whose paths or contents hold a secret: both are
// published as they are. Of paths the diff keeps a redacted form, each once, and the
// bytes are dropped, so that nothing of it can be delivered (cases F3, S18).
func (l *Local) withoutSecrets(d *kernel.Diff, contents map[string][]byte) map[string][]byte {
	refused, kept := false, map[string]bool{}
	bad := func(code kernel.Code, path, detail string) {
		refused = true
		d.Violations = append(d.Violations, kernel.Violation{Code: code, Subject: path, Detail: detail})
	}
	for i := range d.Changes {
		c := &d.Changes[i]
		switch {
		case l.cfg.Redact(c.Path) != c.Path:
			c.Path = l.clean(c.Path, maxNameBytes)
			bad(kernel.CodePathUnsafe, c.Path, "The path holds a secret.")
		case l.cfg.Holds(contents[c.AfterID]):
			bad(kernel.CodeSecretDetected, c.Path, "The file holds a secret.")
		default:
			kept[c.AfterID] = true
		}
	}
	if !refused {
		return contents
	}
	if !slices.ContainsFunc(d.Violations, func(v kernel.Violation) bool { return v.Code == kernel.CodeScopeViolation }) {
		d.Violations = append(d.Violations, kernel.Violation{Code: kernel.CodeScopeViolation, Detail: "Paths or files hold a secret."})
	}
	contents = maps.Clone(contents)
	maps.DeleteFunc(contents, func(id string, _ []byte) bool { return !kept[id] })
	byPath := func(x, y kernel.Change) int { return strings.Compare(x.Path, y.Path) }
	slices.SortStableFunc(d.Changes, byPath)
	d.Changes = slices.CompactFunc(d.Changes, func(x, y kernel.Change) bool { return x.Path == y.Path })
	return contents
}
