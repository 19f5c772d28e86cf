package supervisor

import (
	"context"
	"time"

	"github.com/writbot/writ/forge/git"
)

// silentAfter is how long the server may leave something unanswered before that is said
// of it. It is given longer to answer.
const silentAfter = 15 * time.Second

// exchange is what a request asks of the server at the moment.
type exchange struct {
	since time.Time // that the server sent or took something last; zero for nothing
	push  bool
	noted bool // it was left unanswered for long
}

// unanswered is how long the server has left it without a word; 0 where nothing is asked.
func (x exchange) unanswered() time.Duration {
	if x.since.IsZero() {
		return 0
	}
	return time.Since(x.since)
}

// askingNow is what is asked of the server at the moment.
func (t *Task) askingNow() exchange {
	t.guard.Lock()
	defer t.guard.Unlock()
	return t.asking
}

type taskKey struct{}

// on returns a context whose exchanges with the server are the task's, or with nil nobody's.
func (t *Task) on(ctx context.Context) context.Context {
	return git.WithProgress(context.WithValue(ctx, taskKey{}, t), t.goesOn)
}

// goesOn notes that the exchange makes progress: a large pack on a slow line is no silence.
// How long it may take at most is the repository's to say.
func (t *Task) goesOn() {
	if t == nil {
		return
	}
	t.guard.Lock()
	defer t.guard.Unlock()
	if !t.asking.since.IsZero() {
		t.asking.since = time.Now()
	}
}

// timed is a repository that notes on the task which exchange is under way.
type timed struct{ Repo }

func begin(ctx context.Context, push bool) (end func()) {
	t, _ := ctx.Value(taskKey{}).(*Task)
	if t == nil {
		return func() {}
	}
	t.guard.Lock()
	defer t.guard.Unlock()
	t.asking = exchange{since: time.Now(), push: push}
	return t.ends
}

// ends ends the exchange that is under way.
func (t *Task) ends() {
	t.guard.Lock()
	t.asking.since = time.Time{}
	t.guard.Unlock()
}

func (r timed) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	defer begin(ctx, false)()
	return r.Repo.Refs(ctx, names...)
}

func (r timed) Commit(ctx context.Context, oid git.OID) (git.Commit, error) {
	defer begin(ctx, false)()
	return r.Repo.Commit(ctx, oid)
}

func (r timed) Commits(ctx context.Context, oids []git.OID, f func(git.Commit)) error {
	defer begin(ctx, false)()
	return r.Repo.Commits(ctx, oids, f)
}

func (r timed) Log(ctx context.Context, from, not []git.OID, most int) ([]git.Commit, []git.OID, error) {
	defer begin(ctx, false)()
	return r.Repo.Log(ctx, from, not, most)
}

func (r timed) Tree(ctx context.Context, oid git.OID) (git.Tree, error) {
	defer begin(ctx, false)()
	return r.Repo.Tree(ctx, oid)
}

func (r timed) Blobs(ctx context.Context, oids []git.OID, f func(git.OID, []byte) error) error {
	defer begin(ctx, false)()
	return r.Repo.Blobs(ctx, oids, f)
}

func (r timed) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	defer begin(ctx, true)()
	return r.Repo.CompareAndSwap(ctx, cmds, pack)
}

func (r timed) Reassert(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	defer begin(ctx, true)()
	return r.Repo.Reassert(ctx, cmds, pack)
}

// noteSilence notes, once, that the server leaves an exchange unanswered: it is known to
// be unable before the exchange is given up.
func (t *Task) noteSilence() {
	t.guard.Lock()
	e := t.asking
	late := !e.noted && e.unanswered() >= silentAfter
	t.asking.noted = e.noted || late
	t.guard.Unlock()
	if late {
		t.s.outage.silence(t.number, t.s.now(), e.push)
		t.warnUnable("it leaves what is asked of it unanswered for " + silentAfter.String() + " already")
	}
}

// leftSilent reports whether that was so of the last exchange.
func (t *Task) leftSilent() bool {
	t.guard.Lock()
	defer t.guard.Unlock()
	return t.asking.noted
}
