package e2e

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/executor/scheduler/schedulertest"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// bubble is an installation in memory, in a synctest bubble: its hours take
// seconds. Its supervisor, scheduler, adapter and transport are writ's own; its
// repository, ledger and builders are models, and what is on branches goes to the
// forge's own repository, too.
type bubble struct {
	t        *testing.T
	forge    *supervisor.Forge
	gitDir   string                                // of the forge
	tell     func(ref, old, oid string)            // the forge of a branch that was moved
	password func(context.Context) (string, error) // git's; nil: none
	build    time.Duration                         // how long each builder takes
	sup      *supervisor.Supervisor
	schedule *schedulertest.Memory
	sched    *scheduler.Scheduler
	repo     *modelRepo
	ledger   *modelLedger

	mu     sync.Mutex
	builds map[int64]int // builders started
}

const bubbleWorld = "forge.example/acme/shop"

// open starts the installation. Builds are how many builders may run at once.
func (b *bubble) open(builds int) {
	b.t.Helper()
	b.builds = map[int64]int{}
	b.repo = newModelRepo(b)
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	b.must(err)
	signer := git.NewSigner(key)
	b.ledger = &modelLedger{chain: kernel.Chain{World: bubbleWorld, Instance: git.Fingerprint(signer.PublicKey()), Head: kernel.NoHead()}}
	_, err = b.ledger.Write(b.t.Context(), time.Now().UnixMilli(), kernel.Draft{Kind: kernel.KindGenesis, Body: kernel.Genesis{
		Kind: string(kernel.KindGenesis), World: bubbleWorld, InstanceKey: string(ssh.MarshalAuthorizedKey(key.PublicKey())),
		Contract: canon.Sum(nil), Kernel: kernel.Version(), Builders: []string{"default"}, Seed: 1, MaxPaths: 100_000, MaxDepth: 64,
	}})
	b.must(err)
	history, err := supervisor.Replay(b.ledger.all)
	b.must(err)
	b.sup = supervisor.New(supervisor.Config{
		World: bubbleWorld, RunnerID: "host/state", Lease: lease.DefaultPolicy(), LeaseSeconds: lease.DefaultLeaseSeconds,
		MarginSeconds: lease.DefaultMarginSeconds, Name: "writ", Email: "writ@localhost",
	}, supervisor.Deps{
		Repo: b.repo, Ledger: b.ledger, Executor: b, Clock: bubbleClock{}, Sightings: noSightings{}, NewRunID: uuid.NewString,
		Signer: signer, Log: slog.New(slog.DiscardHandler), Forge: b.forge,
	}, history)
	b.schedule = schedulertest.NewMemory()
	b.sched, err = scheduler.New(b.schedule, b.schedule, b, scheduler.Options{
		NewID: uuid.NewString, BuildSlots: builds, WorldBuildSlots: builds,
	})
	b.must(err)
}

func (b *bubble) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// Drive implements scheduler.Driver as `writ serve` does.
func (b *bubble) Drive(ctx context.Context, j *scheduler.Job) (scheduler.Result, error) {
	task, err := b.sup.Open(ctx, j.Key().Task, nil)
	if err != nil {
		return scheduler.Result{}, err
	}
	defer task.Close()
	j.OnKill(task.Kill)
	var release func()
	defer func() {
		if release != nil {
			release()
		}
	}()
	st, err := task.Drive(ctx, supervisor.DriveOptions{
		Actor: "writ", Yield: true, Nudges: j.Nudges(),
		Admit: func(scope []string) (ok bool) {
			if release == nil {
				release, _ = j.Build(scope)
			}
			return release != nil
		},
	})
	r := scheduler.Result{Outcome: string(st.Decision.Standing), Next: st.Wake}
	r.Ended = err == nil && st.Decision.Standing == kernel.StandFinal && st.Wake == 0
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return r, err
}

// Environment implements executor.Executor.
func (b *bubble) Environment(context.Context, string) []kernel.Violation { return nil }

// Build implements executor.Executor: a builder that takes its time.
func (b *bubble) Build(_ context.Context, job executor.BuildJob) (executor.Build, error) {
	b.mu.Lock()
	b.builds[job.Task]++
	b.mu.Unlock()
	text := []byte(fmt.Sprintf("hello %d\n", job.Task))
	id := string(git.HashBlob(text))
	j := &modelJob[executor.BuildOutcome]{done: make(chan struct{})}
	j.out.Contents = map[string][]byte{id: text}
	j.out.Diff = kernel.Diff{Kind: string(kernel.KindDiff), Run: job.Run, Base: job.Base.Commit, Changes: []kernel.Change{{
		Path: "out.txt", Op: kernel.OpAdd, AfterID: id, AfterMode: "100644", AfterHash: canon.Sum(text), Size: int64(len(text)),
	}}}
	empty := kernel.Stream{Digest: canon.Sum(nil)}
	j.out.Result = kernel.BuilderResult{
		Kind: string(kernel.KindBuilderResult), Run: job.Run, Builder: job.Builder, Argv: []string{"model"}, Sandbox: "model",
		Composed: true, Stdout: empty, Stderr: empty, Exit: kernel.Exit{Cause: kernel.CauseExited},
		Result: &kernel.Result{Status: kernel.ResultSuccess, ChangedFiles: []string{"out.txt"}, Timestamp: "2027-01-15T08:00:00Z"},
	}
	j.timer = time.AfterFunc(b.build, j.finish)
	return j, nil
}

// started counts the builders of a task.
func (b *bubble) started(number int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.builds[number]
}

// Check implements executor.Executor: all pass.
func (b *bubble) Check(_ context.Context, job executor.CheckJob) (executor.Checks, error) {
	j := &modelJob[executor.CheckOutcome]{done: make(chan struct{})}
	j.out.Run = kernel.RunResult{Kind: string(kernel.KindRunResult), Run: job.Run, Tree: job.TreeID, Sandbox: "model", Checks: []kernel.CheckResult{}}
	j.finish()
	return j, nil
}

// modelJob ends when its timer does.
type modelJob[O any] struct {
	done  chan struct{}
	once  sync.Once
	timer *time.Timer
	out   O
}

func (j *modelJob[O]) Done() <-chan struct{} { return j.done }
func (j *modelJob[O]) Outcome() O            { return j.out }
func (j *modelJob[O]) finish()               { j.once.Do(func() { close(j.done) }) }
func (j *modelJob[O]) Kill() {
	if j.timer != nil {
		j.timer.Stop()
	}
	j.finish()
}

// bubbleClock is the bubble's time.
type bubbleClock struct{}

func (bubbleClock) Now() lease.Clock {
	now := time.Now().UnixMilli()
	return lease.Clock{WallMs: now, BootMs: now, BootID: "bubble"}
}

type noSightings struct{}

func (noSightings) Load(string) (lease.Sighting, bool) { return lease.Sighting{}, false }
func (noSightings) Save(lease.Sighting) error          { return nil }

// modelLedger is a ledger in memory.
type modelLedger struct {
	mu      sync.Mutex
	chain   kernel.Chain
	records []kernel.Record
}

func (l *modelLedger) Chain() kernel.Chain {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.chain
}

func (l *modelLedger) Write(_ context.Context, now int64, drafts ...kernel.Draft) ([]kernel.SealedRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	records, next, err := l.chain.Seal(now, drafts)
	if err == nil {
		l.chain, l.records = next, append(l.records, kernel.Records(records)...)
	}
	return records, err
}

func (l *modelLedger) Evidence(_ context.Context, task, from int64) (replay.Evidence, error) {
	return replay.Evidence{Records: fmt.Appendf(nil, "records of %d from %d\n", task, from), Proofs: []byte("{}"), Checkpoint: []byte("none\n")}, nil
}

// RecordsOfTask implements supervisor.Ledger.
func (l *modelLedger) RecordsOfTask(_ context.Context, task int64) iter.Seq2[kernel.Record, error] {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Clone(l.records)
	return func(yield func(kernel.Record, error) bool) {
		for _, r := range list {
			if r.Task == task && !yield(r, nil) {
				return
			}
		}
	}
}

func (l *modelLedger) all(yield func(kernel.Record, error) bool) {
	for _, r := range l.records {
		if !yield(r, nil) {
			return
		}
	}
}

// sweep looks for what changed, as `writ serve` does, now and then.
func (b *bubble) sweep(ctx context.Context, every time.Duration) {
	var since time.Time
	for {
		_ = b.forge.Client.ListIssues(ctx, b.forge.Repo, since, func(i forge.Issue) error { // an error: the next one
			since = i.UpdatedAt
			return b.schedule.Mark(ctx, scheduler.Key{World: bubbleWorld, Task: i.Number}, time.Now().UnixMilli())
		})
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}
