package builder

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// changed is what an honest builder gave.
func changed(b *bed) executor.BuildOutcome {
	b.t.Helper()
	o := b.sh(`echo '// changed' >> calc/add.go; rm calc/sub.go; mkdir calc/new; echo new > calc/new/file; chmod 755 calc/new/file
mkdir -p build; echo leftover > build/input; echo leftover > calc.log`)
	if codes(o) != "" {
		b.t.Fatalf("the honest builder: %s: %v %v", codes(o), o.Violations, o.Diff.Violations)
	}
	return o
}

func TestCheck_RunsOnTheChange(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := b.check(changed(b),
		shCheck("script of the base", "./check.sh"),
		shCheck("changes", `test -x calc/new/file && test ! -e calc/sub.go && test "$(cat docs/link)" = guide && test -d vendor/lib`),
		shCheck("nothing of the builder's", `test -z "$WRIT_RESULT$WRIT_DISPATCH" && test ! -e /run/writ/out && test ! -e /run/writ/dispatch.json`),
	)
	if len(c.Violations) != 0 || c.Tail != "" || len(c.Run.Checks) != 3 || c.Run.Tree == "" || c.Run.Sandbox != "bubblewrap" {
		t.Errorf("outcome = %+v", c)
	}
}

// TestX10_RefusedCallIsNamed: at each level, a call that was refused during a failing
// run is named, for the check as for the builder.
func TestX10_RefusedCallIsNamed(t *testing.T) {
	t.Parallel()
	const text = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/1' 2>/dev/null; exit 3`
	const named = "system calls that the sandbox refused: socket (there is no network; a loopback interface is to be had with sandbox: bubblewrap"
	b := newBed(t)
	c := b.check(changed(b), shCheck("asks", text), shCheck("asks nothing", "exit 3"))
	if len(c.Violations) != 2 || !strings.Contains(c.Violations[0].Detail, named) || strings.Contains(c.Violations[1].Detail, "refused") {
		t.Errorf("checks: %+v", c.Violations)
	}
	o := b.build(b.job(script(text)))
	if !slices.ContainsFunc(o.Violations, func(v kernel.Violation) bool { return strings.Contains(v.Detail, named) }) {
		t.Errorf("builder: %+v", o.Violations)
	}
	if !strings.HasPrefix(o.Result.Sandbox, b.cfg.Sandbox.Name()) {
		t.Errorf("sandbox = %q", o.Result.Sandbox)
	}
}

// TestT59_IgnoredFileIsAbsent has a check that would pass with what the builder
// left in an ignored place.
func TestT59_IgnoredFileIsAbsent(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := changed(b)
	if want := []string{"build/", "calc.log"}; !slices.Equal(o.Diff.Discarded, want) {
		t.Errorf("discarded = %v, want %v", o.Diff.Discarded, want)
	}
	c := b.check(o, shCheck("reads it", "cat build/input calc.log"))
	if words(c.Violations) != "execution.check.failed" {
		t.Errorf("the check read what was discarded: %+v", c)
	}
}

// TestCheck_FreshTreeEachRun has checks that would see each other's traces, above layers and
// in workspaces that are laid out whole, and ahead.
func TestCheck_FreshTreeEachRun(t *testing.T) {
	t.Parallel()
	t.Run("above layers, where the host shows them", func(t *testing.T) { checkTraces(t, newBed(t)) })
	t.Run("laid out", func(t *testing.T) { checkTraces(t, newBed(t, func(c *Config) { c.Layers = Layers{} })) })
}

func checkTraces(t *testing.T, b *bed) {
	t.Helper()
	trace := shCheck("trace", "test ! -e trace && test ! -e /tmp/trace && test ! -e ~/trace && echo x > trace && echo x > /tmp/trace && echo x > ~/trace && echo x > calc/add.go")
	trace.Repeat = 3
	c := b.check(changed(b), trace, shCheck("another", "test ! -e trace && ./check.sh"))
	if len(c.Violations) != 0 || c.Run.Checks[0].Runs != 3 {
		t.Errorf("outcome = %+v", c)
	}
}

// TestS17_OtherBytesAreRefused hands the runner bytes that were not hashed.
func TestS17_OtherBytesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := changed(b)
	job := b.checkJob(o, shCheck("c", "true"))
	for id := range o.Contents {
		for _, change := range []func(map[string][]byte){
			func(c map[string][]byte) { c[id] = []byte("other bytes") },
			func(c map[string][]byte) { delete(c, id) },
		} {
			job.Contents = maps.Clone(o.Contents)
			change(job.Contents)
			if r, err := b.local.Check(t.Context(), job); err == nil {
				b.await(r)
				t.Errorf("other bytes than the hashed ones were checked: %+v", r.Outcome())
			}
		}
	}
	i := slices.IndexFunc(o.Diff.Changes, func(c kernel.Change) bool { return c.Op == kernel.OpAdd })
	for _, mode := range []string{scope.ModeSymlink, scope.ModeGitlink, ""} {
		o.Diff.Changes[i].AfterMode = mode
		if _, err := b.local.Check(t.Context(), b.checkJob(o, shCheck("c", "true"))); err == nil {
			t.Errorf("mode %q was checked", mode)
		}
	}
}

func TestCheck_AllAreRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := b.check(changed(b), shCheck("a", "echo out; echo err >&2; exit 3"), shCheck("b", "true"), shCheck("c", "kill -SEGV $$"))
	want := []kernel.Exit{{Code: 3, Cause: kernel.CauseExited}, {Cause: kernel.CauseExited}, {Code: -1, Signal: "SIGSEGV", Cause: kernel.CauseExited}}
	for i, r := range c.Run.Checks {
		if r.Exit != want[i] || r.Passed != (i == 1) || r.Runs != 1 || !r.Stable {
			t.Errorf("check %s = %+v", r.Name, r)
		}
	}
	if len(c.Violations) != 2 || words(c.Violations) != "execution.check.failed" || c.Violations[0].Detail != "The check ended with exit status 3." {
		t.Errorf("violations = %v", c.Violations)
	}
	if c.Tail != "a:\nout\nerr\n\nc:\n" {
		t.Errorf("tail = %q", c.Tail)
	}
}

// TestCheck_CantBeRun: what is the contract's own is a failed check, not an
// interruption for ever.
func TestCheck_CantBeRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, argv := range map[string][]string{
		"not there":      {"no-such-program", "x"},
		"not in it":      {"./no/such.sh"},
		"no program":     {"./docs/guide.md"},
		"a directory":    {"./docs"},
		"too many words": {"true", strings.Repeat("x", 3<<20)},
		"a zero byte":    {"true", "a\x00b"},
	} {
		c := b.check(executor.BuildOutcome{}, kernel.Check{Name: "c", Argv: argv, TimeoutMs: long, Repeat: 2}, shCheck("next", "true"))
		want := kernel.CodeCheckFailed
		if name == "not there" { // nor is it for the base
			want = kernel.CodeLacksProgram
		}
		if words(c.Violations) != string(want) || len(c.Violations) != 1 || c.Run.Checks[0].Runs != 1 || c.Run.Checks[0].Passed || !c.Run.Checks[1].Passed {
			t.Errorf("%s: %+v", name, c)
		}
		if begins := "The check could not be started: "; want == kernel.CodeCheckFailed && !strings.HasPrefix(c.Violations[0].Detail, begins) || len(c.Violations[0].Detail) > maxDetailBytes+len(cutMark) {
			t.Errorf("%s: %s", name, c.Violations[0].Detail)
		}
		if _, err := canon.Marshal(c.Run); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestX5_CheckThatHangs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	hang := shCheck("hang", "setsid sleep 1000 & echo waiting; sleep 1000")
	hang.TimeoutMs, hang.Repeat = 8_000, 5
	c := b.check(executor.BuildOutcome{}, hang, shCheck("next", "true"))
	r := c.Run.Checks[0]
	if words(c.Violations) != "execution.timeout execution.check.failed" || r.Exit != (kernel.Exit{Code: -1, Cause: kernel.CauseTimeout}) || r.Runs != 1 || r.Output.Tail != "waiting\n" {
		t.Errorf("outcome = %+v", c)
	}
	if !c.Run.Checks[1].Passed {
		t.Error("the next check did not run")
	}
}

func TestX8_CheckOverALimit(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *Config) { c.Limits = sandbox.Limits{OutputBytes: 1 << 20} })
	c := b.check(executor.BuildOutcome{}, shCheck("loud", "exec yes"))
	if words(c.Violations) != "execution.resource execution.check.failed" || c.Run.Checks[0].Exit.Cause != kernel.CauseResource {
		t.Errorf("outcome = %+v", c)
	}
	if !strings.Contains(c.Violations[0].Detail, `"output"`) {
		t.Errorf("the limit is not named: %s", c.Violations[0].Detail)
	}
}

// TestX9_Contradiction has checks that depend on what varies.
func TestX9_Contradiction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, codes string }{
		"time zone":      {`test "$(date +%z)" = +0000`, "execution.check.failed execution.nondeterministic"},
		"umask":          {`touch x; test "$(stat -c %a x)" = 644`, "execution.check.failed execution.nondeterministic"},
		"another code":   {`test "$TZ" = UTC && exit 1; exit 2`, "execution.check.failed execution.nondeterministic"},
		"fails at first": {`test "$TZ" != UTC`, "execution.check.failed execution.nondeterministic"},
		"sound":          {`true`, ""},
		"always fails":   {`exit 1`, "execution.check.failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			k := shCheck("c", c.text)
			k.Repeat, k.Vary = 3, true
			o := b.check(executor.BuildOutcome{}, k)
			r := o.Run.Checks[0]
			if words(o.Violations) != c.codes || r.Passed != (c.codes == "") || r.Stable == strings.Contains(c.codes, "nondeterministic") || r.Runs != 3 {
				t.Errorf("codes %q, %+v", words(o.Violations), r)
			}
		})
	}
}

// TestKC46_SameDiffSameHash evaluates one diff twice, in other directories and
// at another time.
func TestKC46_SameDiffSameHash(t *testing.T) {
	t.Parallel()
	var hashes []canon.Digest
	for range 2 {
		b := newBed(t)
		pass, fail := shCheck("pass", "ls -lR --time-style=+ . | grep -v ^total; env | sort; pwd"), shCheck("fail", "cat calc/add.go; exit 1")
		pass.Repeat, pass.Vary = 2, true
		c := b.check(changed(b), pass, fail, kernel.Check{Name: "missing", Argv: []string{"no-such-program"}, TimeoutMs: long})
		h, err := canon.Hash(c.Run)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Run.Checks) != 3 || !c.Run.Checks[0].Passed || c.Run.Checks[0].Output.Bytes == 0 {
			t.Fatalf("run = %+v", c.Run)
		}
		hashes = append(hashes, h)
	}
	if hashes[0] != hashes[1] {
		t.Errorf("the same diff gave %s and %s", hashes[0], hashes[1])
	}
}

// TestCheck_TreeIsReadOnce: a base that fits in memory is read once for the
// builder's workspace, its .git and the runner's tree.
//
// It runs alone: a check may get another user than its builder had where others run, and
// each has a layer of its own.
func TestCheck_TreeIsReadOnce(t *testing.T) {
	b := newBed(t)
	reads := countReads(b)
	c := b.check(changed(b), shCheck("c", "./check.sh"))
	if len(c.Violations) != 0 {
		t.Fatal(c.Violations)
	}
	for id, n := range reads() {
		most := 1
		if id == scope.BlobID([]byte(calc[".gitignore"])) {
			most = 2 // the scope wants it, too
		}
		if n > most {
			t.Errorf("blob %s was read %d times", id, n)
		}
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	reads := countReads(b)
	job := b.job(script("git status --porcelain; echo '// changed' >> calc/add.go"))
	b.local.Prefetch("no such builder", b.base)
	b.local.Prefetch("default", b.base)
	b.local.Prefetch("default", b.base)
	b.local.stock.busy.Wait()
	dirs, err := filepath.Glob(filepath.Join(b.work, "*", "workspace"))
	want := 2
	if b.local.stock.layers.usable() {
		want = 1 // a check's is made in no time
	}
	if err != nil || len(dirs) != want {
		t.Fatalf("laid out: %v, %v", dirs, err)
	}
	before := len(reads())
	o := b.build(job)
	c := b.check(o, shCheck("c", "./check.sh"))
	if codes(o) != "" || len(c.Violations) != 0 || o.Result.Stdout.Tail != "" {
		t.Errorf("codes %q, %v, git status: %s", codes(o), c.Violations, o.Result.Stdout.Tail)
	}
	if before == 0 || len(reads()) != before {
		t.Errorf("%d blobs were read ahead, then %d", before, len(reads()))
	}
	// Another base takes the place of what is ready.
	b.local.Prefetch("default", b.base)
	job.Base, job.Run = baseOf(map[string]string{"calc/add.go": "other\n"}), "run-2"
	job.Base.Commit = strings.Repeat("a", 40)
	if o := b.build(job); codes(o) != "" {
		t.Errorf("another base: %s %v", codes(o), o.Violations)
	}
}

// TestPrepare_FailureIsForgotten: what could not be laid out ahead is tried
// again when it is wanted.
func TestPrepare_FailureIsForgotten(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	good := b.base.Blobs
	down := true
	b.base.Blobs = func(ctx context.Context, ids []string, f func(string, []byte) error) error {
		if down {
			return errors.New("the server is away")
		}
		return good(ctx, ids, f)
	}
	job := b.job(script("echo '// changed' >> calc/add.go"))
	b.local.Prefetch("default", b.base)
	b.local.stock.busy.Wait()
	down = false
	if o := b.build(job); codes(o) != "" {
		t.Errorf("codes %q: %v", codes(o), o.Violations)
	}
}
