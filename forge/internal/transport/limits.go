package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/writbot/writ/forge"
)

// The defaults of Limits. GitHub asks for a second between writes and allows 80
// of them a minute and 500 creations an hour; GitLab's own limits are wider.
const (
	DefaultInterval   = time.Second
	DefaultMaxWait    = 20 * time.Second
	DefaultCreates    = 450 // an hour
	DefaultEdits      = 1500
	DefaultConcurrent = 10
	DefaultReserve    = 20 // percent
)

// Limits are what a Transport asks of a forge at most, for each account. A zero
// is the default.
type Limits struct {
	Interval time.Duration // from one write to the next; negative: none
	// MaxWait is how long a write waits for its turn; one that would have to wait
	// longer is refused as Limited, and nothing was sent.
	MaxWait    time.Duration
	Creates    int // Create an hour; negative: no end
	Edits      int // Edit an hour; negative: no end
	Concurrent int // requests at one time
	// Reserve is the part of the forge's allowance, in percent, that Sweep leaves
	// to the others.
	Reserve int
}

func (l Limits) orDefaults() Limits {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if l.Interval == 0 {
		l.Interval = DefaultInterval
	}
	if l.MaxWait <= 0 {
		l.MaxWait = DefaultMaxWait
	}
	set(&l.Creates, DefaultCreates)
	set(&l.Edits, DefaultEdits)
	set(&l.Reserve, DefaultReserve)
	if l.Concurrent <= 0 {
		l.Concurrent = DefaultConcurrent
	}
	return l
}

// limiter holds requests back.
type limiter struct {
	limits Limits
	now    func() time.Time

	mu       sync.Mutex
	accounts map[string]*account
	buckets  map[string]*bucket
}

// account is a pace, and a pause after a limit that isn't an allowance's.
type account struct {
	slots  chan struct{}
	next   time.Time // of the next write
	writes map[Lane][]time.Time
	pause  time.Time // nothing before
	unsaid int       // refusals in a row that didn't say for how long
	wrote  bool      // the last of them was of a write: reads don't show that it is over
}

// bucket is an allowance: so many requests until it is filled again.
type bucket struct {
	until time.Time // nothing before
	low   time.Time // no Sweep before
}

func newLimiter(l Limits, now func() time.Time) *limiter {
	return &limiter{limits: l.orDefaults(), now: now, accounts: map[string]*account{}, buckets: map[string]*bucket{}}
}

// of finds the account and bucket of a call. The lock is held.
func (l *limiter) of(c Call) (*account, *bucket) {
	a, b := l.accounts[c.Account], l.buckets[c.Bucket]
	if a == nil {
		a = &account{slots: make(chan struct{}, l.limits.Concurrent), writes: map[Lane][]time.Time{}}
		l.accounts[c.Account] = a
	}
	if b == nil {
		b = &bucket{}
		l.buckets[c.Bucket] = b
	}
	return a, b
}

var (
	errPaused = errors.New("the forge wants to be left alone; nothing was sent")
	errBudget = errors.New("this hour's budget is spent; nothing was sent")
	errQueue  = errors.New("too many writes wait for their turn; nothing was sent")
)

func limited(wait time.Duration, why error) error {
	return &forge.Error{Reason: forge.Limited, RetryAfter: wait, Err: why}
}

// enter waits for a call's turn, or refuses. release is to be called after.
func (l *limiter) enter(ctx context.Context, c Call) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	turn, a, err := l.reserve(c)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, turn.Sub(l.now())); err != nil {
		return nil, err
	}
	select {
	case a.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release = func() { <-a.slots }
	// A limit may have come while this waited.
	if err := l.paused(c); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *limiter) paused(c Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pausedNow(c)
}

// pausedNow refuses while the forge wants to be left alone. The lock is held.
func (l *limiter) pausedNow(c Call) error {
	a, b := l.of(c)
	until := later(a.pause, b.until)
	if c.Lane == Sweep {
		until = later(until, b.low)
	}
	if wait := until.Sub(l.now()); wait > 0 {
		return limited(wait, errPaused)
	}
	return nil
}

// reserve gives a call its time.
func (l *limiter) reserve(c Call) (time.Time, *account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, _ := l.of(c)
	now := l.now()
	if err := l.pausedNow(c); err != nil {
		return now, a, err
	}
	if !c.writes() {
		return now, a, nil
	}
	turn := now
	if l.limits.Interval > 0 && a.next.After(now) {
		turn = a.next
	}
	if wait := turn.Sub(now); wait > l.limits.MaxWait {
		return now, a, limited(wait, errQueue)
	}
	if wait := a.spend(c.Lane, turn, l.budget(c.Lane)); wait > 0 {
		return now, a, limited(wait, errBudget)
	}
	a.next = turn.Add(l.limits.Interval)
	return turn, a, nil
}

func (l *limiter) budget(lane Lane) int {
	if lane == Create {
		return l.limits.Creates
	}
	return l.limits.Edits
}

// spend counts a write at a time, or says how long until the hour has room.
func (a *account) spend(lane Lane, at time.Time, budget int) time.Duration {
	if budget < 0 {
		return 0
	}
	kept := a.writes[lane]
	for len(kept) > 0 && at.Sub(kept[0]) >= time.Hour {
		kept = kept[1:]
	}
	if len(kept) >= budget {
		a.writes[lane] = kept
		return kept[len(kept)-budget].Add(time.Hour).Sub(at)
	}
	a.writes[lane] = append(kept, at)
	return 0
}
