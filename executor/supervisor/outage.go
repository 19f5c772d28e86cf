package supervisor

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

const (
	// outageNext and outageFar are the least and the longest wait between two tries
	// at a server that can't: an outage of a second costs about a second, and after
	// one of an hour everything goes on within two minutes (case E8).
	outageNext = time.Second
	outageFar  = time.Minute
	// outageTry is how long one try may keep the others from theirs. A push that
	// hangs longer isn't waited for.
	outageTry = 2 * time.Minute
	// spaceSoon is how long a push is tried as any other whose refusal speaks of space,
	// and spaceFar the wait between two tries after that: it may be too large for good,
	// and what others push shows nothing.
	spaceSoon = time.Hour
	spaceFar  = 10 * time.Minute
	// outageTold is how long it must last before the issue says so.
	outageTold = 5 * time.Minute
	// outageShown is how often something must fail in a row before people are told.
	outageShown = 2
)

// Outage is what keeps the server from doing what is asked of it.
type Outage struct {
	Words string // the server's
	Since int64  // Unix milliseconds
	Tries int    // in a row
	Tasks int    // that wait for its end
	// Cause is what it is where the server can do what it is asked: a limit of writ's own,
	// or a base branch that isn't there; "" for an outage of the server's.
	Cause kernel.Code
	// Silent says that the server leaves what is asked of it unanswered.
	Silent bool
}

// Code says what it is.
func (o Outage) Code() kernel.Code { return cmp.Or(o.Cause, kernel.CodeForgeUnable) }

// outage knows whether the world's server works, by what all tasks of the world
// met. While it doesn't, one task tries for all of them, and the first that
// succeeds wakes the others.
type outage struct {
	mu    sync.Mutex
	down  bool
	push  bool  // a push failed: only a push shows that it is over
	tries int   // of all tasks, in a row
	next  int64 // when the next may try, Clock.BootMs
	busy  int64 // until when somebody tries, Clock.BootMs; 0 for nobody
	wins  int64 // pushes that the server took
	told  bool  // the log says so
	tasks map[int64]*trouble
	seen  map[int64]git.OID // the push that a look showed last, of tasks whose looks come to nothing
}

// trouble is what one task met. It has a pace of its own: what fails for one task
// only (an issue that can't be read, a lock file of one ref) keeps nobody else
// waiting, and isn't tried all the time because others succeed.
type trouble struct {
	Outage
	push  bool
	woken bool   // once, when others got through
	next  int64  // Clock.BootMs
	tried int64  // when leave to try was given last, Clock.BootMs; 0 for never
	began int64  // Clock.BootMs
	first string // the server's words when it began
	told  bool   // the issue says so
	noted bool   // it was told to the log
}

func newOutage() *outage {
	return &outage{tasks: map[int64]*trouble{}, seen: map[int64]git.OID{}}
}

func outageWait(tries int) time.Duration {
	d := outageNext
	for ; tries > 1 && d < outageFar; tries-- {
		d *= 2
	}
	return min(d, outageFar)
}

// take asks for leave to try. Not ok: until then, Clock.BootMs, another tries, or
// nobody does. Whoever has leave says what became of it: failed, won, read or back.
func (o *outage) take(task int64, now lease.Clock) (until int64, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.tasks[task]
	if t != nil && now.BootMs < t.next {
		return t.next, false
	}
	switch {
	case o.down && now.BootMs < o.busy:
		return max(o.next, now.BootMs+outageNext.Milliseconds()), false
	case o.down && now.BootMs < o.next:
		return o.next, false
	case o.down:
		o.busy = now.BootMs + outageTry.Milliseconds()
	}
	if t != nil {
		t.tried = now.BootMs
	}
	return 0, true
}

// rest is how long nobody need begin, without taking leave.
func (o *outage) rest(now lease.Clock) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.down {
		return 0
	}
	return time.Duration(max(o.next, min(o.busy, now.BootMs+outageNext.Milliseconds()))-now.BootMs) * time.Millisecond
}

// failed notes that the server couldn't; space says that its words are about space. It
// returns when to try again, Clock.BootMs. What fails while nobody may try began before the
// last failure did, and says nothing new of the server.
func (o *outage) failed(task int64, now lease.Clock, words string, push, space bool) (next int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.met(task, now, words, push)
	t.Tries++
	if o.busy = 0; now.BootMs >= o.next {
		o.tries++
		o.next = t.after(now, o.tries)
	}
	if t.next = max(t.after(now, t.Tries), o.next); space && now.BootMs-t.began > spaceSoon.Milliseconds() {
		t.next = now.BootMs + spaceFar.Milliseconds()
	}
	return t.next
}

// met notes what a task met.
func (o *outage) met(task int64, now lease.Clock, words string, push bool) *trouble {
	t := o.tasks[task]
	if t == nil {
		t = &trouble{Outage: Outage{Since: now.WallMs}, began: now.BootMs, first: strings.TrimSpace(words)}
		o.tasks[task] = t
	}
	if t.Words, t.push = words, t.push || push; push {
		delete(o.seen, task)
	}
	o.down, o.push = true, o.push || push
	return t
}

// after is when to try again after so many tries in a row. The time that the last one
// took counts: a server that answered nothing for a minute was left alone for it.
func (t *trouble) after(now lease.Clock, tries int) int64 {
	from := cmp.Or(t.tried, now.BootMs)
	return max(from+outageWait(tries).Milliseconds(), now.BootMs+outageNext.Milliseconds())
}

// answered notes whether the server answered what failed.
func (o *outage) answered(task int64, did bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.tasks[task]; t != nil {
		t.Silent = t.Silent && !did
	}
}

// shows reports whether people are to know of it.
func (t *trouble) shows() bool { return t.Silent || t.Tries >= outageShown }

// won notes that the server took a push, which a look shows now. The tasks that waited for
// that are woken. Until a look comes to its end each shows it anew, which is no news.
func (o *outage) won(task int64, commit git.OID) (woken []int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at, is := o.seen[task]; is && at == commit {
		return nil
	}
	o.seen[task] = commit
	o.wins++
	delete(o.tasks, task)
	return o.over()
}

// taken is how many pushes the server took.
func (o *outage) taken() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wins
}

// read notes that all of a look could be read, which ends an outage in which
// nothing could.
func (o *outage) read(task int64) (woken []int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.seen, task)
	if t := o.tasks[task]; t != nil && !t.push {
		delete(o.tasks, task)
	}
	if o.push {
		return nil
	}
	return o.over()
}

// over ends the outage of all; what a task met alone it goes on with at its pace.
func (o *outage) over() (woken []int64) {
	if !o.down {
		return nil
	}
	for n, t := range o.tasks {
		if !t.woken {
			t.woken, t.next = true, 0
			woken = append(woken, n)
		}
	}
	o.down, o.push, o.told, o.tries, o.next, o.busy = false, false, false, 0, 0, 0
	slices.Sort(woken)
	return woken
}

// back gives leave back that wasn't needed, and forgets what the task met, which it
// doesn't ask for any more.
func (o *outage) back(task int64, rid bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = 0
	o.forget(task, rid)
}

// leave forgets what a task met that doesn't ask for anything any more.
func (o *outage) leave(task int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(task, true)
}

func (o *outage) forget(task int64, rid bool) {
	if rid {
		delete(o.tasks, task)
		delete(o.seen, task)
	}
	if len(o.tasks) == 0 {
		o.over() // nobody is left who would find out
	}
}

// of is what one task met, ok if it met anything.
func (o *outage) of(task int64) (Outage, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.tasks[task]
	if t == nil {
		return Outage{}, false
	}
	return t.Outage, true
}

// lasts is what one task has met for so long that people are to know: the server's words
// when it began, so that what is said of it stays the same. New: nobody was told.
func (o *outage) lasts(task int64, now lease.Clock) (words string, since int64, fresh bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.tasks[task]
	if t == nil || t.Tries < outageShown || now.BootMs-t.began < outageTold.Milliseconds() {
		return "", 0, false
	}
	return t.first, t.Since, !t.told
}

// tell notes that people were told of it.
func (o *outage) tell(task int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.tasks[task]; t != nil {
		t.told = true
	}
}

// shown is what lasts longest, where something lasts.
func (o *outage) shown() (Outage, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var worst Outage
	for _, t := range o.tasks {
		if t.shows() && (worst.Since == 0 || t.Since < worst.Since) {
			worst = t.Outage
		}
	}
	worst.Words = strings.TrimSpace(worst.Words)
	worst.Tasks = len(o.tasks)
	return worst, worst.Since != 0
}
