package supervisor

import (
	"context"
	"sync"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// fakeJob is a build or checks that end when the test says so.
type fakeJob[O any] struct {
	done   chan struct{}
	once   sync.Once
	out    O
	killed bool
	onKill func(*O)
}

func (j *fakeJob[O]) Done() <-chan struct{} { return j.done }
func (j *fakeJob[O]) finish()               { j.once.Do(func() { close(j.done) }) }
func (j *fakeJob[O]) Outcome() O            { return j.out }
func (j *fakeJob[O]) Kill() {
	j.once.Do(func() {
		j.killed = true
		if j.onKill != nil {
			j.onKill(&j.out)
		}
		close(j.done)
	})
}

// fakeExecutor runs nothing: build answers what the test wants, at once unless
// held. Checks pass.
type fakeExecutor struct {
	env     []kernel.Violation
	unheld  func(contracts kernel.Budgets) []kernel.Violation
	build   func(executor.BuildJob) (executor.BuildOutcome, error)
	started func(executor.BuildJob)
	hold    bool
	check   func(executor.CheckJob) executor.CheckOutcome // nil: all pass
	held    func()                                        // called for checks that don't end by themselves, nil: they end
	broken  error                                         // checks can't be started
	hosts   map[string][]string                           // that a builder may reach
	cut     []*fakeJob[executor.CheckOutcome]             // checks that were held
	mu      sync.Mutex                                    // of builds, where tasks are driven at once
	builds  []*fakeJob[executor.BuildOutcome]
}

// stopped is what a killed builder leaves.
func stopped(o *executor.BuildOutcome) {
	o.Result.Exit = kernel.Exit{Code: -1, Cause: kernel.CauseStopped}
	o.Violations = []kernel.Violation{{Code: kernel.CodeTaskInterrupted, Subject: "builder"}}
}

func (f *fakeExecutor) Environment(context.Context, string) []kernel.Violation { return f.env }

func (f *fakeExecutor) Reach(string, []kernel.Check, []kernel.Step) []kernel.Violation { return nil }

func (f *fakeExecutor) Unheld(_, _ string, contracts kernel.Budgets) []kernel.Violation {
	if f.unheld == nil {
		return nil
	}
	return f.unheld(contracts)
}

func (f *fakeExecutor) Hosts(world, builder string) []string { return f.hosts[world+" "+builder] }

func (f *fakeExecutor) Build(_ context.Context, job executor.BuildJob) (executor.Build, error) {
	out, err := f.build(job)
	if err != nil {
		return nil, err
	}
	j := &fakeJob[executor.BuildOutcome]{done: make(chan struct{}), out: out, onKill: stopped}
	if !f.hold {
		j.finish()
	}
	f.mu.Lock()
	f.builds = append(f.builds, j)
	f.mu.Unlock()
	if f.started != nil {
		f.started(job)
	}
	return j, nil
}

func (f *fakeExecutor) Check(_ context.Context, job executor.CheckJob) (executor.Checks, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	out := passed(job)
	if f.check != nil {
		out = f.check(job)
	}
	j := &fakeJob[executor.CheckOutcome]{done: make(chan struct{}), out: out}
	if f.held != nil {
		f.cut = append(f.cut, j)
		f.held()
		return j, nil
	}
	j.finish()
	return j, nil
}

// running are the builds that haven't ended.
func (f *fakeExecutor) running() (out []*fakeJob[executor.BuildOutcome]) {
	for _, j := range f.builds {
		if !closed(j.Done()) {
			out = append(out, j)
		}
	}
	return out
}

// finish ends all builds.
func (f *fakeExecutor) finish() {
	for _, j := range f.running() {
		j.finish()
	}
}

// writes is a builder that writes these files.
func writes(files map[string]string) func(executor.BuildJob) (executor.BuildOutcome, error) {
	return func(job executor.BuildJob) (executor.BuildOutcome, error) {
		o := executor.BuildOutcome{Contents: map[string][]byte{}}
		var names []string
		for path, text := range files {
			id := string(git.HashBlob([]byte(text)))
			o.Contents[id] = []byte(text)
			names = append(names, path)
			o.Diff.Changes = append(o.Diff.Changes, kernel.Change{
				Path: path, Op: kernel.OpAdd, AfterID: id, AfterMode: "100644",
				AfterHash: canon.Sum([]byte(text)), Size: int64(len(text)),
			})
		}
		o.Diff.Kind, o.Diff.Run, o.Diff.Base = string(kernel.KindDiff), job.Run, job.Base.Commit
		empty := kernel.Stream{Digest: canon.Sum(nil)}
		o.Result = kernel.BuilderResult{
			Kind: string(kernel.KindBuilderResult), Run: job.Run, Builder: job.Builder, Argv: []string{"fake"}, Sandbox: "fake",
			Composed: true, Stdout: empty, Stderr: empty, Exit: kernel.Exit{Cause: kernel.CauseExited},
			Result: &kernel.Result{Status: kernel.ResultSuccess, ChangedFiles: names, Timestamp: "2027-01-15T08:00:00Z"},
		}
		return o, nil
	}
}

// takes has builders take a time by their result.
func takes(build func(executor.BuildJob) (executor.BuildOutcome, error), ms int64) func(executor.BuildJob) (executor.BuildOutcome, error) {
	return func(job executor.BuildJob) (executor.BuildOutcome, error) {
		o, err := build(job)
		o.Result.Started, o.Result.Ended = fixtureTime, fixtureTime+ms
		return o, err
	}
}

// failing is a builder that ends with exit status 1.
func failing(job executor.BuildJob) (executor.BuildOutcome, error) {
	o, err := writes(nil)(job)
	o.Result.Exit.Code = 1
	o.Result.Result.Status = kernel.ResultFailure
	o.Violations = []kernel.Violation{{Code: kernel.CodeExecutionExit, Subject: "builder", Detail: "exit status 1"}}
	return o, err
}
