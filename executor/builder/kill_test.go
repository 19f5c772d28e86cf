package builder

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// blocking has a base whose blobs don't come until they may.
func blocking(b *bed) (asked chan struct{}) {
	asked = make(chan struct{})
	b.base.Blobs = func(ctx context.Context, _ []string, _ func(string, []byte) error) error {
		close(asked)
		<-ctx.Done()
		return ctx.Err()
	}
	return asked
}

func TestKill_WhileItIsLaidOut(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	asked := blocking(b)
	job := b.job(script("echo ran"))
	job.Scope.KeepIgnored = true // no .gitignore is read before
	r, err := b.local.Build(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	if _, err := b.local.Build(t.Context(), job); err == nil || err.(*executor.Error).Code != kernel.CodeLockViolation { //nolint:errorlint // its documented type
		t.Errorf("a second start of the same run: %v", err)
	}
	r.Kill()
	if o := r.Outcome(); codes(o) != "task.interrupted" || o.Result.Exit.Cause != kernel.CauseStopped || b.lines.all() != "" {
		t.Errorf("codes %q, exit %+v", codes(o), o.Result.Exit)
	}
	r.Kill() // again is harmless
}

func TestKill_WhileItRuns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	begun := make(chan struct{})
	job := b.job(script(`trap '' TERM; echo '// changed' >> calc/add.go; result '["calc/add.go"]'; echo begun; sleep 1000`))
	job.OnLine = func(line string) {
		if line == "begun" {
			close(begun)
		}
	}
	r, err := b.local.Build(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	r.Kill()
	o := r.Outcome()
	if codes(o) != "task.interrupted" || o.Result.Exit != (kernel.Exit{Code: -1, Cause: kernel.CauseStopped}) || len(o.Diff.Changes) != 0 || o.Result.Result != nil {
		t.Errorf("codes %q, %+v, changes %s", codes(o), o.Result, paths(o.Diff))
	}
	if _, err := canon.Marshal(o.Result); err != nil {
		t.Error(err)
	}
	if _, err := canon.Marshal(o.Diff); err != nil {
		t.Error(err)
	}
}

func TestKill_WhileItChecks(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	begun := make(chan struct{})
	job := b.checkJob(executor.BuildOutcome{}, shCheck("one", "echo begun; sleep 1000"), shCheck("two", "echo two"))
	job.OnLine = func(line string) {
		if line == "begun" {
			close(begun)
		}
	}
	r, err := b.local.Check(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	r.Kill()
	o := r.Outcome()
	if words(o.Violations) != "task.interrupted" || len(o.Run.Checks) != 1 || o.Run.Checks[0].Passed {
		t.Errorf("outcome = %+v", o)
	}
	if _, err := canon.Marshal(o.Run); err != nil {
		t.Error(err)
	}
}

// TestBase_ThatCantBeRead is nobody's attempt.
func TestBase_ThatCantBeRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.base.Blobs = func(context.Context, []string, func(string, []byte) error) error { return os.ErrPermission }
	o := b.sh("echo ran")
	if codes(o) != "environment.repository.unavailable" || b.lines.all() != "" {
		t.Errorf("codes %q: %v", codes(o), o.Violations)
	}
	c := b.check(executor.BuildOutcome{}, shCheck("c", "true"))
	if words(c.Violations) != "environment.repository.unavailable" {
		t.Errorf("check: %v", c.Violations)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	leftover := filepath.Join(b.work, "run-of-a-dead-process")
	if err := os.MkdirAll(filepath.Join(leftover, "workspace", "closed", "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(leftover, "workspace", "closed"), 0); err != nil {
		t.Fatal(err)
	}
	begun, swept := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.base.Blobs = func(blobs func(context.Context, []string, func(string, []byte) error) error) func(context.Context, []string, func(string, []byte) error) error {
		return func(ctx context.Context, ids []string, f func(string, []byte) error) error {
			once.Do(func() { close(begun) })
			<-swept
			return blobs(ctx, ids, f)
		}
	}(b.base.Blobs)
	job := b.job(script("echo '// changed' >> calc/add.go"))
	job.Scope.KeepIgnored = true // no .gitignore is read before
	r, err := b.local.Build(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := b.local.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(leftover); !os.IsNotExist(err) {
		t.Errorf("the leftover is still there: %v", err)
	}
	close(swept)
	b.await(r)
	if o := r.Outcome(); codes(o) != "" {
		t.Errorf("the live run: %s: %v", codes(o), o.Violations)
	}
	if err := New(Config{WorkDir: filepath.Join(b.work, "none")}).Sweep(); err != nil {
		t.Errorf("without a directory: %v", err)
	}
}

// A process that a writ killed at the wrong moment left of a sandbox is ended.
func TestSweep_Strays(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cmd := exec.Command("bash", "-c", `exec -a bwrap sh -c 'echo up; read line' sh --bind "$0" /workspace`, filepath.Join(b.work, "run-1", "workspace"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("it said %q, %v", line, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = in.Close() })
	if err := b.local.Sweep(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ended by itself")
		}
	case <-time.After(waitLimit):
		_ = cmd.Process.Kill()
		t.Error("it is still there")
	}
}
