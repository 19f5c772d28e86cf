package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/writbot/writ/cmd/internal/treetest"
)

const (
	// testTimeout is the most that a test may take, with a mutant or without.
	testTimeout = 3 * time.Minute
	// A test with a mutant may take hangTime, and hangFactor times what it takes without
	// one. Taking out a deadline or a kill makes it hang, so that running into this bound
	// counts as failing.
	hangTime, hangFactor = 30 * time.Second, 5
	// waitDelay is how long a killed go command may keep its pipes open.
	waitDelay = 5 * time.Second
)

// verdict is what became of one mutant.
type verdict struct {
	mutant mutant
	killed bool
	detail string // why not, or how the run ended
}

// bench is where mutants are tried.
type bench struct {
	top, dir string // the repository and a directory for what is built
	together *together
	stderr   io.Writer
	mu       sync.Mutex
	once     map[any]func() (string, error)
}

// do does something once for a key, however many ask for it at the same time.
func (b *bench) do(key any, f func() (string, error)) (string, error) {
	b.mu.Lock()
	g, ok := b.once[key]
	if !ok {
		g = sync.OnceValues(f)
		b.once[key] = g
	}
	b.mu.Unlock()
	return g()
}

// say tells the user what is no verdict, one worker after the other.
func (b *bench) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.stderr, "mutants: "+format+"\n", args...)
}

// try runs a mutant's test without the mutant, and then with it. That the test passes
// with the mutant is believed only of a program that is the mutant's own.
func (b *bench) try(ctx context.Context, m mutant) verdict {
	if b.together.has[m.name] {
		if why := b.tryTogether(ctx, m.test, m.name); why != "" {
			return verdict{mutant: m, killed: true, detail: why}
		}
	}
	v := b.tryAlone(ctx, m)
	if v.killed {
		v.detail += ", built by itself"
	}
	return v
}

// tryTogether says how the test noticed the mutant, or nothing.
func (b *bench) tryTogether(ctx context.Context, t testRun, name string) string {
	binary, err := b.binary(ctx, t, b.together.overlay)
	if err != nil {
		return ""
	}
	test := func(mutant, limit string) (string, error) {
		own, err := tellAtEnd(binary, mutant)
		if err != nil {
			return "", err
		}
		defer func() { _ = os.Remove(own) }()
		cmd := b.command(ctx, t, own, limit)
		cmd.Env = append(withOverlay(b.together.overlay), variable+"="+mutant)
		return run(cmd)
	}
	limit, err := b.do([2]any{t, b.together}, func() (string, error) {
		begin := time.Now()
		out, err := test("", testTimeout.String())
		if err != nil && ctx.Err() == nil && !strings.Contains(out, untold) {
			b.say("built by itself is each of %s, for together it fails without any: %v", t, err)
		}
		return limitAfter(begin), err
	})
	if err != nil {
		return ""
	}
	out, err := test(name, limit)
	if err == nil || ctx.Err() != nil || strings.Contains(out, untold) {
		return ""
	}
	return noticed(out)
}

// tellAtEnd copies a program, which has the mutant in whatever process runs the copy. No
// other process may begin meanwhile: it would have the copy open, and who writes to a
// program keeps it from being run.
func tellAtEnd(binary, mutant string) (own string, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	from, err := os.Open(binary)
	if err != nil {
		return "", err
	}
	to, err := os.CreateTemp(filepath.Dir(binary), "*.test")
	if err != nil {
		return "", errors.Join(err, from.Close())
	}
	_, err = io.Copy(to, from)
	_, err2 := to.WriteString("\x00" + variable + "=" + mutant)
	return to.Name(), errors.Join(err, err2, to.Chmod(0o755), to.Close(), from.Close())
}

// limitAfter is how long a mutant may take whose test took the time since begin.
func limitAfter(begin time.Time) string {
	return min(testTimeout, hangTime+hangFactor*time.Since(begin)).String()
}

// noticed says how a test that ended with this output failed.
func noticed(out string) string {
	switch {
	case strings.Contains(out, "--- FAIL: "):
		return "test failed"
	case strings.Contains(out, "panic: test timed out"):
		return timedOut
	}
	return ""
}

const timedOut = "test timed out"

// notBuilt is how the go command ends where there is nothing to run.
var notBuilt = regexp.MustCompile(`(?m)^FAIL\t.* \[(build|setup) failed\]$`)

func (b *bench) tryAlone(ctx context.Context, m mutant) verdict {
	dir, err := os.MkdirTemp(b.dir, "")
	if err != nil {
		return verdict{mutant: m, detail: err.Error()}
	}
	texts, err := m.apply(b.top)
	if err != nil {
		return verdict{mutant: m, detail: "doesn't apply: " + err.Error()}
	}
	overlay, err := writeOverlay(b.top, dir, texts)
	if err != nil {
		return verdict{mutant: m, detail: err.Error()}
	}
	limit, err := b.do(m.test, func() (string, error) { return b.baseline(ctx, m.test) })
	if err != nil {
		return verdict{mutant: m, detail: err.Error()}
	}
	out, err := b.goTest(ctx, m.test, m.test.pattern, limit, overlay)
	if err != nil && noticed(out) == timedOut { // what the test builds may have taken the time, and is there now
		out, err = b.goTest(ctx, m.test, m.test.pattern, limit, overlay)
	}
	switch {
	case ctx.Err() != nil:
		return verdict{mutant: m, detail: "interrupted"}
	case err == nil:
		return verdict{mutant: m, detail: "SURVIVED: its test passes without the defence"}
	case notBuilt.MatchString(out):
		return verdict{mutant: m, detail: "doesn't compile: " + err.Error()}
	case noticed(out) != "":
		return verdict{mutant: m, killed: true, detail: noticed(out)}
	}
	// TestMain may build a program; that it can't proves nothing either.
	if _, err := b.goTest(ctx, m.test, "^$", limit, overlay); err != nil {
		return verdict{mutant: m, detail: "doesn't run even without a test: " + err.Error()}
	}
	return verdict{mutant: m, killed: true, detail: "test process died"}
}

// goTest runs go test over an overlay. Its output comes back whether it passed or not.
func (b *bench) goTest(ctx context.Context, t testRun, pattern, limit, overlay string) (string, error) {
	args := []string{"test", "-count=1", "-vet=off", "-timeout", limit, "-v", "-run", pattern}
	cmd := exec.CommandContext(ctx, "go", append(t.raceFlag(args), "./"+t.pkg)...)
	cmd.Dir = b.top
	cmd.Env = append(withOverlay(overlay), treetest.Variable+"="+overlay, "CGO_ENABLED="+t.cgo(), "GOTMPDIR="+b.dir) // for killFrom
	return run(cmd)
}

// withOverlay is the environment of a go command that has an overlay, and of a test that
// calls one.
func withOverlay(overlay string) []string {
	return append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" '-overlay="+overlay+"'")
}

// baseline runs a test without any mutant: one that fails anyway, and a pattern
// that names none, would kill every mutant. It gives how long these may take.
func (b *bench) baseline(ctx context.Context, t testRun) (limit string, err error) {
	binary, err := b.binary(ctx, t, "")
	if err != nil {
		return "", fmt.Errorf("%s doesn't compile without any mutant: %w", t, err)
	}
	begin := time.Now()
	out, err := run(b.command(ctx, t, binary, testTimeout.String()))
	if err != nil {
		return "", fmt.Errorf("%s fails without any mutant: %w", t, err)
	}
	if !strings.Contains(out, "--- PASS: ") {
		return "", fmt.Errorf("%s names no test that passes", t)
	}
	return limitAfter(begin), nil
}

// command runs a test in a package's built tests.
func (b *bench) command(ctx context.Context, t testRun, binary, limit string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.timeout", limit, "-test.run", t.pattern)
	cmd.Dir = filepath.Join(b.top, filepath.FromSlash(t.pkg))
	return cmd
}

// binary builds a package's tests once, for all of its patterns.
func (b *bench) binary(ctx context.Context, t testRun, overlay string) (string, error) {
	type built struct {
		pkg, overlay string
		race         bool
	}
	return b.do(built{t.pkg, overlay, t.race}, func() (string, error) {
		dir, err := os.MkdirTemp(b.dir, "")
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, path.Base(t.pkg)+".test")
		// Without tables for debuggers it is linked and copied in half the time.
		args := t.raceFlag([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", to})
		if overlay != "" {
			args = append(args, "-overlay", overlay)
		}
		cmd := exec.CommandContext(ctx, "go", append(args, "./"+t.pkg)...)
		cmd.Dir, cmd.Env = b.top, append(os.Environ(), "CGO_ENABLED="+t.cgo())
		_, err = run(cmd)
		if err != nil && overlay != "" && ctx.Err() == nil {
			b.say("built by itself is each of ./%s, for together they don't compile: %v", t.pkg, err)
		}
		return to, err
	})
}

func (t testRun) raceFlag(args []string) []string {
	if t.race {
		args = append(args, "-race")
	}
	return args
}

// cgo says whether C is linked, which the race detector needs and nothing else does.
func (t testRun) cgo() string {
	if t.race {
		return "1"
	}
	return "0"
}

// gitOutput runs git in dir and returns what it printed.
func gitOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	return run(cmd)
}

// run returns what a program printed; an error carries the same, for a reader
// who sees only the error. When the time is up, what the program started ends
// with it.
func run(cmd *exec.Cmd) (string, error) {
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:min(2, len(cmd.Args))], " "), err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}
