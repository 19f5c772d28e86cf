package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// verdict is what became of one mutant.
type verdict struct {
	mutant mutant
	killed bool
	detail string // why not, or how the run ended
	broken bool   // the copy can't be used any more
}

// try applies one mutant, runs its test and takes the mutant out again.
func try(ctx context.Context, s scratch, m mutant) verdict {
	if err := s.apply(ctx, m.file, false); err != nil {
		return verdict{mutant: m, detail: "doesn't apply: " + err.Error()}
	}
	v := run(ctx, s, m)
	if err := s.apply(ctx, m.file, true); err != nil {
		v.killed, v.broken, v.detail = false, true, "can't be taken out again: "+err.Error()
	}
	return v
}

// run tests a copy that holds the mutant. Building comes first and on its own:
// a mutant that doesn't compile proves nothing.
func run(ctx context.Context, s scratch, m mutant) verdict {
	if _, err := s.goTest(ctx, m.test, true); err != nil {
		return verdict{mutant: m, detail: "doesn't compile: " + err.Error()}
	}
	out, err := s.goTest(ctx, m.test, false)
	switch {
	case ctx.Err() != nil:
		return verdict{mutant: m, detail: "interrupted"}
	case err == nil:
		return verdict{mutant: m, detail: "SURVIVED: its test passes without the defence"}
	case strings.Contains(out, "--- FAIL: "):
		return verdict{mutant: m, killed: true, detail: "test failed"}
	case strings.Contains(out, "panic: test timed out"):
		return verdict{mutant: m, killed: true, detail: "test timed out"}
	}
	return verdict{mutant: m, killed: true, detail: "test process died"}
}

// baseline runs a mutant's test without the mutant: a test that fails anyway,
// or a pattern that names none, would kill every mutant.
func baseline(ctx context.Context, s scratch, t testRun) error {
	out, err := s.goTest(ctx, t, false)
	if err != nil {
		return fmt.Errorf("%s %s fails without any mutant: %w", t.pkg, t.pattern, err)
	}
	if !strings.Contains(out, "--- PASS: ") {
		return fmt.Errorf("%s %s names no test that passes", t.pkg, t.pattern)
	}
	return nil
}

// worker tries mutants in one copy of its own until there are none left.
type worker struct {
	top      string
	mutants  <-chan mutant
	verdicts chan<- verdict
	base     *baselines
}

func (w worker) work(ctx context.Context) (err error) {
	s, err := newScratch(ctx, w.top)
	defer func() { err = errors.Join(err, s.remove()) }()
	if err != nil {
		return err
	}
	for m := range w.mutants {
		v := w.one(ctx, s, m)
		w.verdicts <- v
		if v.broken {
			return errors.New("scratch copy spoiled by " + m.name)
		}
	}
	return nil
}

func (w worker) one(ctx context.Context, s scratch, m mutant) verdict {
	if err := w.base.check(ctx, s, m.test); err != nil {
		return verdict{mutant: m, detail: err.Error()}
	}
	return try(ctx, s, m)
}

// baselines runs each test once without a mutant, however many mutants it kills.
type baselines struct {
	mu   sync.Mutex
	once map[testRun]func() error
}

func (b *baselines) check(ctx context.Context, s scratch, t testRun) error {
	b.mu.Lock()
	f, ok := b.once[t]
	if !ok {
		f = sync.OnceValue(func() error { return baseline(ctx, s, t) })
		b.once[t] = f
	}
	b.mu.Unlock()
	return f()
}
