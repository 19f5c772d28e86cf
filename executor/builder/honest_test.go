package builder

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
)

// TestHonest_Gofmt is a real formatter, which knows nothing of Writ.
func TestHonest_Gofmt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := b.build(b.job(Builder{Argv: []string{"gofmt", "-l", "-w", "calc"}}))
	if codes(o) != "" || paths(o.Diff) != "modify calc/add.go" {
		t.Fatalf("codes %q, changes %s, %s", codes(o), paths(o.Diff), o.Result.Stderr.Tail)
	}
	want := kernel.Result{
		Status: kernel.ResultSuccess, ChangedFiles: []string{"calc/add.go"}, Logs: "calc/add.go\n",
		Timestamp: kernel.Timestamp(o.Result.Ended / 1000),
	}
	if d := cmp.Diff(&want, o.Result.Result); d != "" || !o.Result.Composed {
		t.Errorf("the composed result:\n%s", d)
	}
	c := o.Diff.Changes[0]
	if text := "package calc\n\nfunc Add(a, b int) int { return a + b }\n"; string(o.Contents[c.AfterID]) != text || c.AfterID != scope.BlobID([]byte(text)) {
		t.Errorf("content = %q", o.Contents[c.AfterID])
	}
	if k := b.check(o, kernel.Check{Name: "formatted", Argv: []string{"gofmt", "-d", "calc"}, TimeoutMs: long}); len(k.Violations) != 0 {
		t.Errorf("check: %v", k.Violations)
	}
}

// TestHonest_FullResult is a builder that knows Writ.
func TestHonest_FullResult(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := b.sh(`read -r line; test "$line" = "do it" || exit 9
test "$(cat "$WRIT_DISPATCH")" = '{"kind":"dispatch"}' || exit 8
test "$PWD" = /workspace || exit 7
echo working; echo '// changed' >> calc/add.go; mkdir build; echo x > build/x
result '["calc/add.go","build/x"]'`)
	if codes(o) != "" || o.Result.Composed || o.Result.Result == nil || !o.Result.Result.TestsPassed || o.Result.Result.Logs != "all is well" {
		t.Errorf("codes %q, %+v, %v", codes(o), o.Result, o.Violations)
	}
	if !slices.Equal(o.Diff.Discarded, []string{"build/"}) || b.lines.all() != "working" {
		t.Errorf("discarded %v, shown %q", o.Diff.Discarded, b.lines.all())
	}
}

// TestHonest_Failure: an honest failure is one, though the diff is clean.
func TestHonest_Failure(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := b.sh(`echo '// changed' >> calc/add.go
printf '{"status":"failure","changed_files":["calc/add.go"],"tests_passed":false,"logs":"no","timestamp":"2026-01-31T08:00:00Z"}' > "$WRIT_RESULT"`)
	if codes(o) != "execution.reported_failure" || len(o.Diff.Changes) != 1 {
		t.Errorf("codes %q, changes %s", codes(o), paths(o.Diff))
	}
}

// TestS9_CommitsAreDiscarded has a builder that works as with a repository of
// its own: commits, branches, a merge. Its history is nowhere in the change.
func TestS9_CommitsAreDiscarded(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := b.sh(`set -e
git config user.name x; git config user.email x@x
test -z "$(git status --porcelain)"; test "$(git log --format=%s)" = "base of the task"; git fsck --strict
git checkout -q -b topic; echo '// changed' >> calc/add.go; git commit -q -a -m 'my work'
git checkout -q main; git merge -q --no-ff -m merged topic; git gc -q
printf '{"status":"success","changed_files":["calc/add.go"],"commit_hash":"%s","tests_passed":true,"logs":"","timestamp":"2026-01-31T08:00:00Z"}' "$(git rev-parse HEAD)" > "$WRIT_RESULT"`)
	if codes(o) != "" || paths(o.Diff) != "modify calc/add.go" {
		t.Fatalf("codes %q, changes %s, %s", codes(o), paths(o.Diff), o.Result.Stderr.Tail)
	}
	if h := o.Result.Result.CommitHash; h == nil || len(*h) != 40 {
		t.Errorf("the given hash is not recorded: %v", h)
	}
	if k := b.check(o, shCheck("no history", "test ! -e .git")); len(k.Violations) != 0 {
		t.Errorf("check: %v", k.Violations)
	}
}

// TestS8_LeftoversOfTests: what every agent leaves that runs tests is no fault.
func TestS8_LeftoversOfTests(t *testing.T) {
	t.Parallel()
	text := `echo '// changed' >> calc/add.go; mkdir -p build/deep; echo x > build/deep/x; echo x > calc/run.log`
	o := newBed(t).sh(text)
	// An allowed pattern covers calc/run.log, so that it is part of the change.
	if codes(o) != "" || paths(o.Diff) != "modify calc/add.go, add calc/run.log" || !slices.Equal(o.Diff.Discarded, []string{"build/"}) {
		t.Errorf("codes %q, changes %s, discarded %v", codes(o), paths(o.Diff), o.Diff.Discarded)
	}
	b := newBed(t)
	job := b.job(script(text))
	job.Scope.KeepIgnored = true
	if o := b.build(job); codes(o) != strings.TrimSpace(umbrella+"scope.outside") {
		t.Errorf("with ignored: refuse: codes %q", codes(o))
	}
}

// TestHonest_WithoutGit is a builder that wants no .git.
func TestHonest_WithoutGit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := script("test ! -e .git && echo '// changed' >> calc/add.go")
	s.WithoutGit = true
	if o := b.build(b.job(s)); codes(o) != "" {
		t.Errorf("codes %q", codes(o))
	}
}

// TestHonest_TwoAtOnce: runs of other tasks don't disturb each other.
func TestHonest_TwoAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	job := b.job(script(`read -r line; echo "// $line" >> calc/add.go`))
	var all []executor.Build
	for _, run := range []string{"run-1", "run-2", "run-3"} {
		job.Run, job.Instruction = run, run+"\n"
		job.Base.Commit = strings.Repeat(run[4:], 40)
		r, err := b.local.Build(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	for i, r := range all {
		b.await(r)
		o := r.Outcome()
		if want := "// run-" + string(rune('1'+i)); codes(o) != "" || !strings.Contains(string(o.Contents[o.Diff.Changes[0].AfterID]), want) {
			t.Errorf("%s: codes %q", want, codes(o))
		}
	}
}
