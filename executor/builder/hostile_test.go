package builder

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

const umbrella = "execution.scope.violation "

// hostile is one hostile builder and what must come of it. Its script is
// testdata/hostile/NAME.sh; its codes are all of them, umbrella and finer ones.
type hostile struct {
	name  string
	codes string
	with  func(*executor.BuildJob, *Builder)
	limit func(*sandbox.Limits)
}

func quick(start, build, idle int64) func(*executor.BuildJob, *Builder) {
	return func(j *executor.BuildJob, _ *Builder) {
		j.Budgets.StartTimeoutMs, j.Budgets.BuildTimeoutMs, j.Budgets.IdleTimeoutMs = start, build, idle
	}
}

const long = int64(30 * time.Second / time.Millisecond)

func allow(globs ...string) func(*executor.BuildJob, *Builder) {
	return func(j *executor.BuildJob, _ *Builder) { j.Scope.Allowed = globs }
}

func owed(_ *executor.BuildJob, b *Builder) { b.RequireResult = true }

var hostiles = []hostile{
	{name: "S1-link-to-a-directory", codes: umbrella + "scope.outside scope.file_type"},
	{name: "S1-link-for-a-file", codes: umbrella + "scope.file_type"},
	{name: "S2-parent-swapped", codes: umbrella + "scope.outside scope.file_type"},
	{name: "S2-parent-leads-outside", codes: umbrella + "scope.outside scope.file_type"},
	{name: "S3-hard-link", codes: umbrella + "scope.outside scope.hard_link"},
	{name: "S4-mode-only", codes: umbrella + "scope.outside"},
	{name: "S4-setuid", codes: umbrella + "scope.mode"},
	{name: "S5-gitmodules", codes: umbrella + "scope.outside policy.protected_path"},
	{name: "S5-submodule-filled", codes: umbrella + "scope.outside scope.file_type"},
	{name: "S5-repository-below", codes: umbrella + "path.unsafe"},
	{name: "S6-rename-into-scope", codes: umbrella + "scope.outside"},
	{name: "S7-delete-only", codes: umbrella + "scope.outside"},
	{name: "S7-file-becomes-directory", codes: umbrella + "scope.outside"},
	{name: "S7-directory-emptied", codes: umbrella + "scope.outside"},
	{name: "S8-hidden-from-status", codes: umbrella + "scope.outside"},
	{name: "S8-own-ignore-file", codes: umbrella + "scope.outside policy.protected_path"},
	{name: "S9-replaced-history", codes: umbrella + "scope.outside"},
	{name: "S10-git-runs-programs", codes: ""},
	{name: "S10-git-elsewhere", codes: ""},
	{name: "S11-filter-attributes", codes: umbrella + "scope.outside policy.protected_path"},
	{name: "S12-case-twin", codes: umbrella + "path.unsafe"},
	{name: "S12-composed-twin", codes: umbrella + "path.unsafe"},
	{name: "S12-git-in-disguise", codes: umbrella + "scope.outside path.unsafe"},
	{name: "S12-names-that-travel-badly", codes: umbrella + "path.unsafe"},
	{name: "S14-steering-files", codes: umbrella + "policy.protected_path",
		with: allow("calc/**", ".github/**", "CODEOWNERS", "*.md", ".claude/**", ".writ/**")},
	{name: "S15-reports-less", codes: "execution.result.invalid"},
	{name: "S15-reports-more", codes: "execution.result.invalid"},
	{name: "S15-reports-twice", codes: "execution.result.invalid"},
	{name: "S15-reports-other-forms", codes: "execution.result.invalid"},
	{name: "S16-pipe", codes: umbrella + "scope.file_type"},
	{name: "S16-sparse-file", codes: umbrella + "scope.size", limit: func(l *sandbox.Limits) { l.FileSizeBytes = -1 }},
	{name: "S16-many-files", codes: umbrella + "scope.size"},
	{name: "S16-deep-path", codes: umbrella + "path.unsafe"},
	{name: "S16-closed-directory", codes: umbrella + "scope.mode"},
	{name: "S17-works-on-after-success", codes: ""},
	{name: "S18-more-than-its-budget", codes: umbrella + "scope.size"},
	{name: "X1-looks-for-secrets", codes: ""},
	{name: "X2-network", codes: ""},
	{name: "X3-writes-elsewhere", codes: umbrella + "scope.outside policy.protected_path"},
	{name: "X5-hangs", codes: "execution.timeout", with: quick(long, 300, long)},
	{name: "X5-ignores-signals", codes: "execution.timeout", with: quick(long, 300, long)},
	{name: "X5-grandchild-holds-the-pipe", codes: "execution.timeout", with: quick(long, 300, long)},
	{name: "X5-leaves-a-grandchild", codes: ""},
	{name: "X5-silent", codes: "execution.timeout", with: quick(long, long, 300)},
	{name: "X6-nothing-at-all", codes: "execution.no_output"},
	{name: "X6-owes-a-result", codes: "execution.no_output", with: owed},
	{name: "X7-result-is-a-link", codes: "execution.result.invalid"},
	{name: "X7-result-is-a-pipe", codes: "execution.result.invalid"},
	{name: "X7-result-is-a-directory", codes: "execution.result.invalid"},
	{name: "X7-result-is-huge", codes: "execution.result.invalid", limit: func(l *sandbox.Limits) { l.FileSizeBytes = -1 }},
	{name: "X7-result-has-two-names", codes: "execution.result.invalid"},
	{name: "X8-processes", codes: "execution.resource", limit: func(l *sandbox.Limits) { l.Processes = 40 }},
	{name: "X8-memory", codes: "execution.resource", limit: func(l *sandbox.Limits) { l.MemoryBytes = 64 << 20 }},
	{name: "X8-file-size", codes: "execution.resource", limit: func(l *sandbox.Limits) { l.FileSizeBytes = 1 << 20 }},
	{name: "X8-files-in-memory", codes: "execution.resource", limit: func(l *sandbox.Limits) { l.TmpFiles = 500 }},
	{name: "X8-output", codes: "execution.resource", limit: func(l *sandbox.Limits) { l.OutputBytes = 1 << 20 }},
	{name: "X8-descriptors", codes: "execution.no_output execution.exit_status", limit: func(l *sandbox.Limits) { l.OpenFiles = 64 }},
	{name: "X8-time", codes: "execution.resource", limit: func(l *sandbox.Limits) { l.CPU = 300 * time.Millisecond }},
}

// run runs the hostile builders whose names begin with a case's number.
func run(t *testing.T, number string, more ...func(*testing.T, *bed, executor.BuildOutcome)) {
	t.Helper()
	n := 0
	for _, h := range hostiles {
		if !strings.HasPrefix(h.name, number+"-") {
			continue
		}
		n++
		t.Run(strings.TrimPrefix(h.name, number+"-"), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, func(c *Config) {
				if h.limit != nil {
					h.limit(&c.Limits)
				}
			})
			o := b.build(hostileJob(b, h))
			if got := codes(o); got != strings.TrimSpace(h.codes) {
				t.Errorf("codes = %q, want %q\n%v\n%v\n%s", got, h.codes, o.Violations, o.Diff.Violations, o.Result.Stdout.Tail+o.Result.Stderr.Tail)
			}
			for _, f := range more {
				f(t, b, o)
			}
		})
	}
	if n == 0 {
		t.Fatalf("no hostile builder has the number %s", number)
	}
}

func hostileJob(b *bed, h hostile) executor.BuildJob {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "hostile", h.name+".sh"))
	if err != nil {
		b.t.Fatal(err)
	}
	builder := script(string(text))
	job := executor.BuildJob{Scope: executor.ScopeRules{Allowed: []string{"calc/**"}}, Budgets: budgets()}
	if h.with != nil {
		h.with(&job, &builder)
	}
	full := b.job(builder)
	full.Budgets, full.Scope = job.Budgets, job.Scope
	return full
}

// TestHostile_AllAreRun keeps the folder and the table the same.
func TestHostile_AllAreRun(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/hostile/*.sh")
	if err != nil || len(files) < 24 {
		t.Fatalf("%d hostile builders: %v", len(files), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".sh")
		if !slices.ContainsFunc(hostiles, func(h hostile) bool { return h.name == name }) {
			t.Errorf("%s is not in the table", f)
		}
	}
}

func TestS1_LinksOut(t *testing.T)         { run(t, "S1", sameTree) }
func TestS2_ParentSwapped(t *testing.T)    { run(t, "S2", sameTree) }
func TestS3_HardLink(t *testing.T)         { run(t, "S3", sameTree) }
func TestS4_ModeOnly(t *testing.T)         { run(t, "S4", sameTree) }
func TestS5_Submodules(t *testing.T)       { run(t, "S5", sameTree) }
func TestS6_RenameIntoScope(t *testing.T)  { run(t, "S6", sameTree) }
func TestS7_Deletions(t *testing.T)        { run(t, "S7", sameTree) }
func TestS8_HiddenFromGit(t *testing.T)    { run(t, "S8", sameTree) }
func TestS9_ReplacedHistory(t *testing.T)  { run(t, "S9", sameTree) }
func TestS11_Attributes(t *testing.T)      { run(t, "S11", sameTree) }
func TestS12_UnsafeNames(t *testing.T)     { run(t, "S12", sameTree) }
func TestS15_FalseReports(t *testing.T)    { run(t, "S15", recordsTheFault) }
func TestS16_ThingsThatBlock(t *testing.T) { run(t, "S16") }
func TestS18_Size(t *testing.T)            { run(t, "S18") }

// sameTree holds whatever was refused against the rule that the bytes of a
// diff are the hashed ones.
func sameTree(t *testing.T, _ *bed, o executor.BuildOutcome) {
	t.Helper()
	for id, data := range o.Contents {
		if scope.BlobID(data) != id {
			t.Errorf("the bytes of %s are others", id)
		}
	}
	if o.Result.Exit != (kernel.Exit{Cause: kernel.CauseExited}) {
		t.Errorf("the hostile builder itself failed: %+v, %s", o.Result.Exit, o.Result.Stderr.Tail)
	}
}

// recordsTheFault wants the claim and its fault in the record.
func recordsTheFault(t *testing.T, _ *bed, o executor.BuildOutcome) {
	t.Helper()
	if o.Result.Result == nil || o.Result.Composed || words(o.Result.Faults) != "execution.result.invalid" {
		t.Errorf("record = %+v", o.Result)
	}
	if len(o.Diff.Changes) == 0 {
		t.Error("the actual changes are not in the diff")
	}
}

func TestS10_NothingExecutes(t *testing.T) {
	t.Parallel()
	run(t, "S10", sameTree, func(t *testing.T, b *bed, o executor.BuildOutcome) {
		if got := paths(o.Diff); got != "modify calc/add.go" {
			t.Errorf("changes = %s", got)
		}
		// The runner's tree has nothing of the builder's .git.
		c := b.check(o, shCheck("no git", "test ! -e .git && ./check.sh"))
		if !c.Run.Checks[0].Passed {
			t.Errorf("check = %+v", c)
		}
	})
}

func TestS14_SteeringFiles(t *testing.T) {
	t.Parallel()
	run(t, "S14", sameTree, func(t *testing.T, _ *bed, o executor.BuildOutcome) {
		for _, path := range []string{".github/workflows/ci.yml", "CODEOWNERS", "CLAUDE.md", "AGENTS.md", ".claude/settings.json", ".writ/contract.yaml"} {
			if !slices.ContainsFunc(o.Diff.Violations, func(v kernel.Violation) bool { return v.Subject == path }) {
				t.Errorf("%s is not named", path)
			}
		}
	})
	b := newBed(t)
	job := b.job(script("echo obey > CLAUDE.md"))
	job.Scope = executor.ScopeRules{Allowed: []string{"CLAUDE.md"}, Unprotect: []string{"CLAUDE.md"}}
	if o := b.build(job); codes(o) != "" {
		t.Errorf("with paths.unprotect: %v", o.Diff.Violations)
	}
}

// TestS14_OperatorsLockSources: what the operator lists is no new source of a lock file.
func TestS14_OperatorsLockSources(t *testing.T) {
	t.Parallel()
	for _, known := range [][]string{nil, {"private.example"}} {
		b := newBed(t)
		job := b.job(script("mkdir new && echo module x > new/go.mod && echo private.example/a v1.0.0 h1:x= > new/go.sum"))
		job.Scope = executor.ScopeRules{Allowed: []string{"new/go.mod"}, LockSources: known}
		if o := b.build(job); (codes(o) == "") != (known != nil) {
			t.Errorf("with %v: %v", known, o.Diff.Violations)
		}
	}
}

func TestS17_HashedBytesAreTheTree(t *testing.T) {
	t.Parallel()
	run(t, "S17", sameTree, func(t *testing.T, b *bed, o executor.BuildOutcome) {
		var want strings.Builder
		for _, c := range o.Diff.Changes {
			data := o.Contents[c.AfterID]
			if scope.BlobID(data) != c.AfterID || int64(len(data)) != c.Size {
				t.Errorf("the bytes of %s are not the hashed ones", c.Path)
			}
			want.WriteString(c.AfterID + "\n")
		}
		c := b.check(o, shCheck("hash", "git hash-object --no-filters calc/add.go calc/late.go"))
		if got := c.Run.Checks[0].Output.Tail; got != want.String() {
			t.Errorf("the runner's tree has\n%swant\n%s", got, want.String())
		}
	})
}

func TestX1_NoSecretIsFound(t *testing.T) {
	t.Setenv("WRIT_TEST_CANARY", canary)
	b := newBed(t)
	o := b.build(hostileJob(b, hostiles[slices.IndexFunc(hostiles, func(h hostile) bool { return h.name == "X1-looks-for-secrets" })]))
	if codes(o) != "" {
		t.Fatalf("codes = %s: %v", codes(o), o.Violations)
	}
	if !strings.Contains(b.lines.all(), "/run/writ/dispatch.json") {
		t.Fatalf("it found nothing at all:\n%s", b.lines.all())
	}
	for _, kept := range []string{b.lines.all(), o.Result.Stdout.Tail, o.Result.Stderr.Tail} {
		if strings.Contains(kept, canary) {
			t.Errorf("the canary was found:\n%s", kept)
		}
	}
}

func TestX2_NobodyIsReached(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	abstract, err := net.Listen("unix", "@writ-test-"+filepath.Base(t.TempDir())+t.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []net.Listener{tcp, abstract} {
		t.Cleanup(func() { _ = l.Close() })
	}
	b := newBed(t)
	job := hostileJob(b, hostiles[slices.IndexFunc(hostiles, func(h hostile) bool { return h.name == "X2-network" })])
	env := b.local.cfg.Builders["default"].Env
	env["LISTENER"], env["ABSTRACT"] = tcp.Addr().String(), abstract.Addr().String()
	o := b.build(job)
	if codes(o) != "" || o.Result.Stdout.Tail != "tried everything\n" {
		t.Errorf("codes %q, output:\n%s%s", codes(o), o.Result.Stdout.Tail, o.Result.Stderr.Tail)
	}
}

func TestX3_NothingElseIsWritten(t *testing.T) {
	t.Parallel()
	run(t, "X3", func(t *testing.T, _ *bed, o executor.BuildOutcome) {
		if o.Result.Stdout.Tail != "" || paths(o.Diff) != "add .github/workflows/new.yml" {
			t.Errorf("changes %s, output:\n%s", paths(o.Diff), o.Result.Stdout.Tail)
		}
	})
}
