package builder

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

func TestX4_NoSandbox(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *Config) {
		c.Sandbox = sandbox.NewBubblewrap(sandbox.Config{Bubblewrap: filepath.Join(c.WorkDir, "no-bwrap")})
	})
	job := b.job(script("echo ran"))
	env := b.local.Environment(t.Context(), "default")
	if words(env) != "sandbox.unavailable" || !strings.Contains(env[0].Detail, "apt-get install bubblewrap") {
		t.Errorf("environment = %v", env)
	}
	o := b.build(job)
	if codes(o) != "sandbox.unavailable" || b.lines.all() != "" || o.Result.Exit.Cause != kernel.CauseStartFailed {
		t.Errorf("build: %v, %+v, output %q", o.Violations, o.Result.Exit, b.lines.all())
	}
	if _, err := b.local.Check(t.Context(), b.checkJob(o, shCheck("c", "true"))); err == nil || err.(*executor.Error).Code != kernel.CodeSandboxUnavailable { //nolint:errorlint // its documented type
		t.Errorf("check: %v", err)
	}
}

// TestX4_SandboxThatBreaks has a bwrap that ends before the program runs.
func TestX4_SandboxThatBreaks(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *Config) {
		c.Sandbox = sandbox.NewBubblewrap(sandbox.Config{Bubblewrap: wrapper(t, "echo 'bwrap: no' >&2; exit 1")})
	})
	if o := b.sh("echo ran"); codes(o) != "sandbox.unavailable" {
		t.Errorf("codes = %s: %v", codes(o), o.Violations)
	}
}

// wrapper is a program in bwrap's place.
func wrapper(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bwrap")
	gittest.WriteProgram(t, path, "#!/bin/sh\n"+text+"\n")
	return path
}

func TestBuild_MissingProgram(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	job := b.job(Builder{Argv: []string{"no-such-program"}})
	if vs := b.local.Environment(t.Context(), "default"); words(vs) != "environment.builder.missing" {
		t.Errorf("environment = %v", vs)
	}
	if o := b.build(job); codes(o) != "environment.builder.failed" || o.Result.Exit.Cause != kernel.CauseStartFailed {
		t.Errorf("codes %q, exit %+v", codes(o), o.Result.Exit)
	}
	job.Builder = "another"
	if _, err := b.local.Build(t.Context(), job); err == nil {
		t.Error("a builder that isn't configured was started")
	}
}

func TestEnvironment_Whole(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "tool")
	gittest.WriteProgram(t, program, "#!/bin/sh\n")
	for _, c := range []struct {
		builder Builder
		want    string
	}{
		{Builder{Argv: []string{"sh"}}, ""},
		{Builder{Argv: []string{"/bin/sh"}}, ""},
		{Builder{Argv: []string{"./build.sh"}}, ""},
		{Builder{Argv: []string{program}}, "environment.builder.missing"},
		{Builder{Argv: []string{program}, ReadOnly: []sandbox.Mount{{Source: dir}}}, ""},
		{Builder{Argv: []string{"/opt/x/tool"}, ReadOnly: []sandbox.Mount{{Source: dir, Target: "/opt/x"}}}, ""},
		{Builder{Argv: []string{"tool"}, ReadOnly: []sandbox.Mount{{Source: dir, Target: "/opt/x"}}, Env: map[string]string{"PATH": "/opt/x"}}, ""},
		{Builder{Argv: []string{"sh"}, ReadOnly: []sandbox.Mount{{Source: filepath.Join(dir, "gone")}}}, "environment.builder.missing"},
		{Builder{}, "environment.builder.missing"},
	} {
		b.local.cfg.Builders["x"] = c.builder
		if got := words(b.local.Environment(t.Context(), "x")); got != c.want {
			t.Errorf("%v: %q, want %q", c.builder, got, c.want)
		}
	}
	if got := b.local.Environment(t.Context(), "y"); words(got) != "environment.builder.missing" || !strings.Contains(got[0].Detail, "there are: x") {
		t.Errorf("unknown: %v", got)
	}
}

// TestD30_SameInvocation runs the same dispatch twice: argv, environment,
// standard input and dispatch are the same bytes.
func TestD30_SameInvocation(t *testing.T) {
	t.Parallel()
	var runs []string
	for range 2 {
		b := newBed(t)
		s := script(`tr '\0' '\n' < "/proc/$$/environ"; tr '\0' '\n' < "/proc/$$/cmdline"; cat "$WRIT_DISPATCH" -; pwd; id; ls -a`)
		s.Env = map[string]string{"B": "2", "A": "1", "PATH": "/usr/bin:/bin", "C": "3"}
		job := b.job(s)
		s.Env["OUTSIDE"] = "the same"
		o := b.build(job)
		argv, err := json.Marshal(o.Result.Argv)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, string(argv)+"\n"+o.Result.Stdout.Tail)
	}
	if runs[0] != runs[1] {
		t.Errorf("the first:\n%s\nthe second:\n%s", runs[0], runs[1])
	}
	for _, want := range []string{"\nA=1\nB=2\nC=3\n", `{"kind":"dispatch"}do it`, "WRIT_RESULT=/run/writ/out/result.json", "PATH=/usr/bin:/bin\n"} {
		if !strings.Contains(runs[0], want) {
			t.Errorf("%q is missing in:\n%s", want, runs[0])
		}
	}
	if strings.Count(runs[0], "PATH=") != 1 {
		t.Errorf("two values of one name:\n%s", runs[0])
	}
}

func TestNone_WorksAndIsLoud(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *Config) {
		c.Sandbox = sandbox.NewNone(sandbox.Config{Log: c.Log})
	})
	program := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho '// changed' >> calc/add.go; cat \"$WRIT_DISPATCH\"\n"+
		`printf '`+goodResult(`["calc/add.go"]`)+`' > "$WRIT_RESULT"`+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	job := b.job(Builder{Argv: []string{program}})
	if vs := b.local.Environment(t.Context(), "default"); len(vs) != 0 {
		t.Errorf("environment = %v", vs)
	}
	o := b.build(job)
	if codes(o) != "" || o.Result.Sandbox != "none" || o.Result.Stdout.Tail != `{"kind":"dispatch"}` || o.Result.Composed {
		t.Errorf("codes %q, %+v", codes(o), o.Result)
	}
	if c := b.check(o, shCheck("changed", "./check.sh"), kernel.Check{Name: "missing", Argv: []string{"no-such-program"}, TimeoutMs: long}); words(c.Violations) != string(kernel.CodeLacksProgram) || !c.Run.Checks[0].Passed {
		t.Errorf("checks = %+v", c)
	}
	if n := strings.Count(b.log.String(), "WITHOUT"); n == 0 && strings.Count(b.log.String(), "without isolation") < 2 {
		t.Errorf("it was quiet: %s", b.log)
	}
}

// losing is a sandbox whose workspaces become a file once the program runs.
type losing struct {
	sandbox.Sandbox
	lose func() error
}

func (s *losing) Start(ctx context.Context, spec sandbox.Spec) (*sandbox.Process, error) {
	p, err := s.Sandbox.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	<-p.Started()
	return p, s.lose()
}

// becomesFile puts a file where a directory was, and back gives that its place again.
func becomesFile(dir string) error {
	return errors.Join(os.Rename(dir, dir+"-aside"), os.WriteFile(dir, nil, 0o600))
}

func back(dir string) error {
	return errors.Join(os.Remove(dir), os.Rename(dir+"-aside", dir))
}

// TestK2_NoWorkspaceCanBeWritten: where no workspace can be made, nor a layer of a base,
// that is said before a claim. A builder or check that fails meanwhile may have failed
// over that, which is no attempt. What somebody removed is made again.
func TestK2_NoWorkspaceCanBeWritten(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.local.cfg.Builders["script"] = script("exit 0")
	says := func(want string) {
		t.Helper()
		if got := words(b.local.Environment(t.Context(), "script")); got != want {
			t.Errorf("before a claim %q is said, want %q", got, want)
		}
	}
	says("")
	dirs := map[string]string{b.work: "environment.workspace.unavailable"}
	if b.local.stock.layers.usable() {
		dirs[b.cfg.Layers.Dir] = "environment.layers.unavailable"
	}
	for dir, code := range dirs {
		if err := becomesFile(dir); err != nil {
			t.Fatal(err)
		}
		says(code)
		if err := back(dir); err != nil {
			t.Fatal(err)
		}
		says("")
	}
	work := b.local.cfg.WorkDir
	b.local.cfg.WorkDir = "/sys" // where nobody can make a directory
	once, again := b.local.Environment(t.Context(), "script"), b.local.Environment(t.Context(), "script")
	if words(once) != "environment.workspace.unavailable" || !slices.Equal(once, again) {
		t.Errorf("what is so each time is said as %v and %v", once, again)
	}
	b.local.cfg.WorkDir = work
	o := b.sh("echo '// changed' >> calc/add.go")
	if err := os.RemoveAll(b.cfg.Layers.Dir); err != nil {
		t.Fatal(err)
	}
	if got := b.check(o, shCheck("c", "grep -q changed calc/add.go")); len(got.Violations) > 0 {
		t.Errorf("the layers were removed: %v", got.Violations)
	}
}

// TestK2_WorkspacesLostInTheMiddle of a builder or check that then fails.
func TestK2_WorkspacesLostInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"builder", "check"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			sb := &losing{lose: func() error { return nil }}
			b := newBed(t, func(c *Config) { sb.Sandbox, c.Sandbox = c.Sandbox, sb })
			b.local.probed = true
			lose := func() error {
				if err := becomesFile(b.work); err != nil {
					return err
				}
				trees, err := filepath.Glob(b.work + "-aside/run-*/workspace")
				for _, tree := range trees {
					if bad := os.WriteFile(filepath.Join(tree, "go"), nil, 0o644); !errors.Is(bad, fs.ErrNotExist) { // another tree is being removed
						err = errors.Join(err, bad)
					}
				}
				return err
			}
			fails := "while ! test -e go; do :; done; exit 1"
			var got string
			if what == "builder" {
				sb.lose = lose
				got = codes(b.sh(fails))
			} else {
				o := b.sh("echo '// changed' >> calc/add.go")
				sb.lose = lose
				got = words(b.check(o, shCheck("c", fails)).Violations)
			}
			if got != "environment.workspace.unavailable" {
				t.Errorf("a %s that failed over it comes to %q", what, got)
			}
			if err := errors.Join(back(b.work), b.local.Sweep()); err != nil { // a tree that couldn't be removed
				t.Fatal(err)
			}
		})
	}
}
