package forgetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/writbot/writ/forge"
)

// Always, as the number of times, keeps a rule until it is cleared.
const Always = -1

// Fault is a failure to be answered instead of, or after, the call.
type Fault struct {
	Reason     forge.Reason
	RetryAfter time.Duration // with forge.Limited
	// Applied has the wrapped client do the call first: the answer is what got lost.
	Applied bool
	// Err is the cause; nil for a sentence that says the failure was scripted.
	Err error
}

// errScripted is the cause of a Fault that names none.
var errScripted = errors.New("scripted by the test")

// Faults is a forge.Client around another one. Without rules it changes
// nothing and keeps a log of all calls. It is safe for concurrent use.
type Faults struct {
	inner forge.Client

	mu     sync.Mutex
	calls  []Call
	faults []*rule[Fault]
	before []*rule[func(Call)]
	after  []*rule[func(Call)]
	stale  map[issueKey]*snapshot
}

// rule is something that applies to the next so many calls of a kind.
type rule[T any] struct {
	match Match
	left  int // below 0: for ever
	then  T
}

type issueKey struct{ repo, number int64 }

// Wrap puts Faults around a client.
func Wrap(inner forge.Client) *Faults {
	return &Faults{inner: inner, stale: map[issueKey]*snapshot{}}
}

var _ forge.Client = (*Faults)(nil)

// Fail answers the next times calls that match with a failure. Of several rules
// the oldest that still applies decides.
func (f *Faults) Fail(m Match, times int, with Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &rule[Fault]{m, times, with})
}

// Before runs act in front of the next times calls that match, in the caller's
// goroutine and without a lock, so that act may use the forge itself.
func (f *Faults) Before(m Match, times int, act func(Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = append(f.before, &rule[func(Call)]{m, times, act})
}

// After is Before, behind the call and in front of its answer.
func (f *Faults) After(m Match, times int, act func(Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = append(f.after, &rule[func(Call)]{m, times, act})
}

// Clear takes all rules and stale answers back. The log stays.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults, f.before, f.after = nil, nil, nil
	clear(f.stale)
}

// Calls returns the calls so far that match, in the order in which they ended.
func (f *Faults) Calls(m Match) []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Call
	for _, c := range f.calls {
		if m(c) {
			out = append(out, c)
		}
	}
	return out
}

// Sent returns the calls that carried a text which holds part: what to look for
// is a canary that must not leave.
func (f *Faults) Sent(part string) []Call {
	return f.Calls(func(c Call) bool { return c.Sends(part) })
}

// due takes the actions of all rules that match, and forgets those used up.
func due[T any](rules *[]*rule[T], c Call, only bool) []T {
	var out []T
	for _, r := range *rules {
		if r.left == 0 || !r.match(c) {
			continue
		}
		r.left--
		out = append(out, r.then)
		if only {
			break
		}
	}
	*rules = slices.DeleteFunc(*rules, func(r *rule[T]) bool { return r.left == 0 })
	return out
}

func (f *Faults) actions(rules *[]*rule[func(Call)], c Call) {
	f.mu.Lock()
	acts := due(rules, c, false)
	f.mu.Unlock()
	for _, act := range acts {
		act(c)
	}
}

// do makes one call through the rules.
func do[T any](ctx context.Context, f *Faults, c Call, call func() (T, error)) (T, error) {
	f.actions(&f.before, c)
	f.mu.Lock()
	faults := due(&f.faults, c, true)
	f.mu.Unlock()
	var out T
	switch {
	case ctx.Err() != nil:
		c.Err = &forge.Error{Reason: forge.Unavailable, Op: string(c.Op), Err: ctx.Err()}
	case len(faults) == 0:
		out, c.Err = call()
		c.Applied = c.Err == nil
	default:
		if faults[0].Applied {
			_, err := call()
			c.Applied = err == nil
		}
		c.Err = faults[0].error(c)
	}
	f.actions(&f.after, c)
	f.mu.Lock()
	defer f.mu.Unlock()
	c.N = len(f.calls) + 1
	f.calls = append(f.calls, c)
	return out, c.Err
}

// error is what the caller is told: of a write that broke off nobody knows
// whether it was done, whatever was.
func (x Fault) error(c Call) error {
	e := &forge.Error{
		Reason: x.Reason, Op: string(c.Op), RetryAfter: x.RetryAfter, Err: x.Err,
		Applied: c.Op.Writes() && (x.Applied || x.Reason == forge.Unavailable),
	}
	if e.Err == nil {
		e.Err = errScripted
	}
	return e
}
