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
func (w *worker) askingNow() exchange {
	w.guard.Lock()
	defer w.guard.Unlock()
	return w.asking
}

type taskKey struct{}

// on returns a context whose exchanges with the server are the task's, or with nil nobody's.
func (w *worker) on(ctx context.Context) context.Context {
	return git.WithProgress(context.WithValue(ctx, taskKey{}, w), w.goesOn)
}

// goesOn notes that the exchange makes progress: a large pack on a slow line is no silence.
// How long it may take at most is the repository's to say.
func (w *worker) goesOn() {
	if w == nil {
		return
	}
	w.guard.Lock()
	defer w.guard.Unlock()
	if !w.asking.since.IsZero() {
		w.asking.since = time.Now()
	}
}

// timed is a repository that notes on the task which exchange is under way.
type timed struct{ Repo }

func begin(ctx context.Context, push bool) (end func()) {
	w, _ := ctx.Value(taskKey{}).(*worker)
	if w == nil {
		return func() {}
	}
	w.guard.Lock()
	defer w.guard.Unlock()
	w.asking = exchange{since: time.Now(), push: push}
	return w.ends
}

// ends ends the exchange that is under way.
func (w *worker) ends() {
	w.guard.Lock()
	w.asking.since = time.Time{}
	w.guard.Unlock()
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
func (w *worker) noteSilence() {
	w.guard.Lock()
	e := w.asking
	late := !e.noted && e.unanswered() >= silentAfter
	w.asking.noted = e.noted || late
	w.guard.Unlock()
	if late {
		w.s.outage.silence(w.number, w.s.now(), e.push)
		w.warnUnable("it leaves what is asked of it unanswered for " + silentAfter.String() + " already")
	}
}

// leftSilent reports whether that was so of the last exchange.
func (w *worker) leftSilent() bool {
	w.guard.Lock()
	defer w.guard.Unlock()
	return w.asking.noted
}
