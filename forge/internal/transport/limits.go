package transport

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/forge"
)

// The defaults of Limits. GitHub asks for a second between writes and allows 80
// of them a minute and 500 creations an hour; GitLab's own limits are wider.
const (
	DefaultInterval   = time.Second
	DefaultMaxWait    = 9 * time.Second
	DefaultCreates    = 450 // an hour
	DefaultEdits      = 1500
	DefaultConcurrent = 10
	DefaultReserve    = 20 // percent
	// DefaultPoints and DefaultBurst make 890 a minute at most: GitHub allows 900,
	// where a write counts five; gitlab.com 2000 requests.
	DefaultPoints = 720
	DefaultBurst  = 170
)

const (
	// writePoints is what a write counts, where a read counts one.
	writePoints = 5
	// readWait is how long a read waits. What a task shows is read again once it is
	// some seconds old, so that few who are served at once ask for less than many
	// who are served slowly.
	readWait = time.Second
	// urgentPoints of a burst are left to what is urgent.
	urgentPoints = 50
	// comeBack is how many writes, and passPoints how many points, somebody is given
	// who was sent away: what a task that has something to show mostly needs.
	comeBack   = 8
	passPoints = 30
	// mostPromised bounds how long after the turn that wasn't to be had somebody is
	// to come back.
	mostPromised = 30 * time.Minute
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
	// Points are what requests may count a minute, and Burst what may be asked on
	// top of that after a rest; a read counts one, a write five. Points zero with a
	// negative Interval, or negative: no end.
	Points, Burst int
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
	if l.Points == 0 && l.Interval > 0 {
		l.Points = DefaultPoints
	}
	set(&l.Burst, DefaultBurst)
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
	slots    chan struct{}
	next     time.Time // of the next write
	earned   time.Time // when all points that were spent are earned again
	writes   map[Lane][]time.Time
	promised map[Lane]time.Time // when the last who was sent away is to come back
	pause    time.Time          // nothing before
	unsaid   int                // refusals in a row that didn't say for how long
	wrote    bool               // the last of them was of a write: reads don't show that it is over
}

// bucket is an allowance: so many requests until it is filled again.
type bucket struct {
	low    time.Time // no Sweep before
	reset  time.Time // when it is filled again, as the forge said last
	left   int64     // requests until then
	flight int64     // requests under way
}

func newLimiter(l Limits, now func() time.Time) *limiter {
	return &limiter{limits: l.orDefaults(), now: now, accounts: map[string]*account{}, buckets: map[string]*bucket{}}
}

// of finds the account and bucket of a call. The lock is held.
func (l *limiter) of(c Call) (*account, *bucket) {
	a, b := l.accounts[c.Account], l.buckets[c.Bucket]
	if a == nil {
		a = &account{slots: make(chan struct{}, l.limits.Concurrent), writes: map[Lane][]time.Time{}, promised: map[Lane]time.Time{}}
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
	errQueue  = errors.New("too many requests wait for their turn; nothing was sent")
)

func limited(wait time.Duration, why error) error {
	return &forge.Error{Reason: forge.Limited, RetryAfter: wait, Err: why}
}

// enter waits for a call's turn, or refuses. release is to be called after.
func (l *limiter) enter(ctx context.Context, c Call) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	turn, a, err := l.reserve(ctx, c)
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
	// A limit may have come while this waited.
	if err := l.begin(c); err != nil {
		<-a.slots
		return nil, err
	}
	return func() {
		l.end(c)
		<-a.slots
	}, nil
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

// begin counts a request that is under way.
func (l *limiter) begin(c Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.pausedNow(c); err != nil {
		return err
	}
	_, b := l.of(c)
	b.flight++
	return nil
}

func (l *limiter) end(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, b := l.of(c)
	b.flight--
}

// pausedNow refuses while the forge wants to be left alone, and where those under
// way may use up what it allows. The lock is held.
func (l *limiter) pausedNow(c Call) error {
	a, b := l.of(c)
	now := l.now()
	until := a.pause
	if c.Lane == Sweep {
		until = later(until, b.low)
	}
	if now.Before(b.reset) && b.flight >= b.left {
		until = later(until, b.reset)
	}
	if wait := until.Sub(now); wait > 0 {
		return limited(wait, errPaused)
	}
	return nil
}

// reserve gives a call its time. One that couldn't wait for it is refused: a turn
// that nobody takes would be lost to the others.
func (l *limiter) reserve(ctx context.Context, c Call) (time.Time, *account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, _ := l.of(c)
	now := l.now()
	if err := l.pausedNow(c); err != nil {
		return now, a, err
	}
	turn := later(now, l.affordable(ctx, a, c))
	if c.writes() && l.limits.Interval > 0 {
		turn = later(turn, a.next)
	}
	if turn.Sub(now) > l.patience(ctx, c) {
		apart := l.points(passPoints)
		if c.writes() {
			apart = comeBack * max(l.limits.Interval, 0)
		}
		return now, a, limited(a.promise(c.Lane, turn, apart).Sub(now), errQueue)
	}
	if c.writes() {
		budget := l.budget(c.Lane)
		if wait := a.spend(c.Lane, turn, budget); wait > 0 {
			return now, a, limited(a.promise(c.Lane, turn.Add(wait), time.Hour/time.Duration(budget)).Sub(now), errBudget)
		}
		a.next = turn.Add(l.limits.Interval)
	}
	a.earned = later(a.earned, turn).Add(l.points(c.weight()))
	return turn, a, nil
}

// patience is how long a call waits for its turn.
func (l *limiter) patience(ctx context.Context, c Call) time.Duration {
	most := l.limits.MaxWait
	switch {
	case c.Lane == Sweep:
		most = 0
	case !c.writes():
		most = min(most, readWait)
	}
	if end, bound := ctx.Deadline(); bound {
		most = min(most, time.Until(end))
	}
	return most
}

// promise is when somebody who is sent away is to come back: one after the other,
// for if all came at once, all but one would have asked what there is to do in
// vain.
func (a *account) promise(lane Lane, turn time.Time, apart time.Duration) time.Time {
	last := a.promised[lane]
	if last.Before(turn) {
		last = turn
	} else if last = last.Add(apart); last.Sub(turn) > mostPromised {
		last = turn.Add(mostPromised)
	}
	a.promised[lane] = last
	return last
}

// points is how long it takes to earn so many.
func (l *limiter) points(n int) time.Duration {
	if l.limits.Points <= 0 {
		return 0
	}
	return time.Duration(n) * time.Minute / time.Duration(l.limits.Points)
}

// affordable is when a call's points are there. Half of the burst isn't for Sweep,
// and the last of it is for what is urgent alone.
func (l *limiter) affordable(ctx context.Context, a *account, c Call) time.Time {
	burst := l.limits.Burst
	switch {
	case c.Lane == Sweep:
		burst /= 2
	case !forge.IsUrgent(ctx):
		burst -= min(urgentPoints, burst/2)
	}
	return a.earned.Add(l.points(c.weight() - burst))
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

// Pauses. A forge that says nothing is left alone for a minute, then for twice
// as long each time; one that says something absurd is asked again after two
// hours at the latest, because a wrong clock must not stop an instance for ever.
const (
	minPause    = time.Second
	unsaidPause = time.Minute
	maxPause    = 2 * time.Hour
	maxDoubling = 7
	// maxSeconds tells a reset that counts seconds from one that is a time.
	maxSeconds = 366 * 24 * 60 * 60
)

// observe takes in what an answer says of limits, and returns for how long the
// forge wants to be left alone if it refused for one; 0 otherwise.
func (l *limiter) observe(c Call, res *http.Response, body []byte) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, b := l.of(c)
	now := l.now()
	spent := l.allowance(b, res.Header, now)
	if !refusedForLimit(res, body, spent) {
		if res.StatusCode < http.StatusBadRequest && (c.writes() || !a.wrote) {
			a.unsaid, a.wrote = 0, false
		}
		return 0
	}
	if said := retryAfter(res, now); said > 0 {
		a.pause = later(a.pause, now.Add(said))
		return said
	}
	if spent {
		return b.reset.Sub(now)
	}
	if now.Before(a.pause) { // several refusals of one moment are one
		return a.pause.Sub(now)
	}
	wait := min(unsaidPause<<min(a.unsaid, maxDoubling), maxPause)
	a.unsaid, a.wrote = a.unsaid+1, c.writes()
	a.pause = now.Add(wait)
	return wait
}

// allowance takes in the counters of an answer, and says whether nothing is left.
func (l *limiter) allowance(b *bucket, h http.Header, now time.Time) bool {
	left, limit := counter(h, "Remaining"), counter(h, "Limit")
	reset := counter(h, "Reset")
	if left < 0 || reset < 0 {
		return false
	}
	wait := time.Unix(reset, 0).Sub(serverTime(h, now))
	if reset <= maxSeconds {
		wait = time.Duration(reset) * time.Second
	}
	until := now.Add(clamp(wait))
	b.fill(left, until)
	if left == 0 {
		return true
	}
	if limit > 0 && left*100 < limit*int64(l.limits.Reserve) {
		b.low = until
	}
	return false
}

// sameFill is how far apart the times may be read that a forge says of one
// filling.
const sameFill = 5 * time.Second

// fill takes in how much is left until when. Answers may come in another order
// than they were given in, so that the least of a filling counts.
func (b *bucket) fill(left int64, until time.Time) {
	if d := until.Sub(b.reset); d.Abs() < sameFill {
		left = min(left, b.left)
	}
	b.left, b.reset = left, until
}

// serverTime is the forge's clock: its times are compared with its own.
func serverTime(h http.Header, now time.Time) time.Time {
	if t, err := http.ParseTime(h.Get("Date")); err == nil {
		return t
	}
	return now
}

// counter reads X-RateLimit-Name or RateLimit-Name; -1 for none.
func counter(h http.Header, name string) int64 {
	for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
		if n, err := strconv.ParseInt(h.Get(prefix+name), 10, 64); err == nil && n >= 0 {
			return n
		}
	}
	return -1
}

// refusedForLimit tells a limit from a lack of permission: both may be a 403.
func refusedForLimit(res *http.Response, body []byte, spent bool) bool {
	switch res.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		said := strings.ToLower(string(body[:min(len(body), maxKeptBody)]))
		return spent || res.Header.Get("Retry-After") != "" ||
			strings.Contains(said, "rate limit") || strings.Contains(said, "abuse detection")
	}
	return false
}

// retryAfter reads the header, in seconds or as a date; 0 for none.
func retryAfter(res *http.Response, now time.Time) time.Duration {
	v := res.Header.Get("Retry-After")
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseInt(v, 10, 32); err == nil && n >= 0 {
		return clamp(time.Duration(n) * time.Second)
	}
	if t, err := http.ParseTime(v); err == nil {
		return clamp(t.Sub(serverTime(res.Header, now)))
	}
	return 0
}

func clamp(d time.Duration) time.Duration { return min(max(d, minPause), maxPause) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
