package builder

import (
	"testing"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

func TestX5_EndsInTime(t *testing.T) {
	t.Parallel()
	run(t, "X5", func(t *testing.T, _ *bed, o executor.BuildOutcome) {
		// The budgets are 300 ms; what is above that is start and death.
		if took := o.Result.Ended - o.Result.Started; took > 10_000 {
			t.Errorf("it took %d ms", took)
		}
	})
}

// TestX5_CausesAreNamed tells the record apart: which of the times it was.
func TestX5_CausesAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, cause string
		with              func(*executor.BuildJob, *Builder)
	}{
		{"build", "sleep 1000", kernel.CauseTimeout, quick(long, 300, long)},
		{"idle", "echo a; sleep 1000", kernel.CauseIdle, quick(long, long, 300)},
		{"output keeps it alive", "while :; do echo a; sleep 0.02; done", kernel.CauseTimeout, quick(long, 9000, 8000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			job := b.job(script(c.text))
			c.with(&job, nil)
			o := b.build(job)
			want := kernel.Exit{Code: -1, Cause: c.cause}
			if o.Result.Exit != want || codes(o) != "execution.timeout" {
				t.Errorf("exit = %+v, want %+v; %v", o.Result.Exit, want, o.Violations)
			}
			if r := o.Result.Result; r == nil || !o.Result.Composed || r.Status != kernel.ResultFailure {
				t.Errorf("the composed result is %+v", r)
			}
		})
	}
}

func TestX6_NeverStarts(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *Config) {
		c.Sandbox = sandbox.NewBubblewrap(sandbox.Config{Bubblewrap: wrapper(t, "exec sleep 1000")})
	})
	job := b.job(script("echo ran"))
	job.Budgets.StartTimeoutMs = 200
	o := b.build(job)
	if codes(o) != "execution.timeout" || o.Result.Exit.Cause != kernel.CauseStart {
		t.Errorf("codes %q, exit %+v", codes(o), o.Result.Exit)
	}
}

func TestX6_NoOutput(t *testing.T) {
	t.Parallel()
	run(t, "X6", func(t *testing.T, b *bed, o executor.BuildOutcome) {
		if owed := b.local.cfg.Builders["default"].RequireResult; owed == (o.Result.Result != nil) {
			t.Errorf("a result is owed: %v; the record has %+v", owed, o.Result.Result)
		}
	})
	// With a result where one is owed, all is well.
	b := newBed(t)
	s := script(`echo '// changed' >> calc/add.go; result '["calc/add.go"]'`)
	s.RequireResult = true
	if o := b.build(b.job(s)); codes(o) != "" {
		t.Errorf("codes = %s", codes(o))
	}
	// What the base ignores is no output either.
	if o := newBed(t).sh("mkdir build && echo x > build/x"); codes(o) != "execution.no_output" || len(o.Diff.Discarded) != 1 {
		t.Errorf("codes = %s, discarded %v", codes(o), o.Diff.Discarded)
	}
}

func TestX8_Limits(t *testing.T) {
	t.Parallel()
	run(t, "X8", func(t *testing.T, b *bed, _ executor.BuildOutcome) {
		// The supervisor is healthy: the next builder runs as if nothing had been.
		b.local.cfg.Limits = sandbox.Limits{}
		job := b.job(script("echo '// changed' >> calc/add.go"))
		job.Run = "run-2"
		if o := b.build(job); codes(o) != "" {
			t.Errorf("the next one: %s: %v", codes(o), o.Violations)
		}
	})
}

// TestD39_LateResult has a clock that was ahead when the builder ended, as after
// a suspended machine: what it brought is refused though it is good.
func TestD39_LateResult(t *testing.T) {
	t.Parallel()
	now := int64(1_000_000)
	b := newBed(t, func(c *Config) {
		c.Now = func() int64 { now += 2 * waitLimit.Milliseconds(); return now }
	})
	o := b.sh(`echo '// changed' >> calc/add.go; result '["calc/add.go"]'`)
	if codes(o) != "execution.timeout" || o.Result.Exit != (kernel.Exit{Cause: kernel.CauseExited}) || len(o.Diff.Changes) != 1 {
		t.Errorf("codes %q, exit %+v, changes %s", codes(o), o.Result.Exit, paths(o.Diff))
	}
}

func TestD32_ExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		end   string
		want  kernel.Exit
		codes string
	}{
		{"exit 0", kernel.Exit{Cause: kernel.CauseExited}, ""},
		{"exit 1", kernel.Exit{Code: 1, Cause: kernel.CauseExited}, "execution.exit_status"},
		{"exit 124", kernel.Exit{Code: 124, Cause: kernel.CauseExited}, "execution.exit_status"},
		{"exit 255", kernel.Exit{Code: 255, Cause: kernel.CauseExited}, "execution.exit_status"},
		{"kill -KILL $$", kernel.Exit{Code: -1, Signal: "SIGKILL", Cause: kernel.CauseExited}, "execution.exit_status"},
		{"kill -TERM $$", kernel.Exit{Code: -1, Signal: "SIGTERM", Cause: kernel.CauseExited}, "execution.exit_status"},
	} {
		t.Run(c.end, func(t *testing.T) {
			t.Parallel()
			o := newBed(t).sh("echo '// changed' >> calc/add.go; " + c.end)
			if o.Result.Exit != c.want || codes(o) != c.codes {
				t.Errorf("exit %+v, codes %q", o.Result.Exit, codes(o))
			}
		})
	}
}
