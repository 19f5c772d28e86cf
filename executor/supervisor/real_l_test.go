package supervisor

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

const (
	stateRef  = "refs/writ/task/1"
	changeRef = "refs/heads/writ/change/1"
)

// rivals are two installations on one repository: A over smart HTTP, where
// faults can be set, B over the file system. They list each other's keys and
// share a clock. Builds are held until they stand in the way.
type rivals struct {
	t    *testing.T
	bare string
	srv  *gittest.HTTP
	a, b *bench
}

func newRivals(t *testing.T) *rivals {
	t.Helper()
	r := &rivals{t: t, bare: newRepo(t)}
	r.srv = gittest.ServeHTTP(t, r.bare)
	clock := newClock()
	start := func(url string) *bench {
		return newBench(t, r.bare, func(b *bench) { b.place.url, b.place.clock, b.clock, b.exec.hold = url, clock, clock, true })
	}
	r.a, r.b = start(r.srv.URL), start(r.bare)
	r.a.trusts(r.b)
	r.b.trusts(r.a)
	return r
}

func (r *rivals) git(args ...string) string {
	r.t.Helper()
	return gittest.Git(r.t, r.bare, args...)
}

func (r *rivals) head() string { return gittest.RefOID(r.bare, stateRef) }

// states are the words of the state ref's events, the newest first.
func (r *rivals) states() []string {
	return strings.Fields(r.git("log", "--format=%(trailers:key=aynig-state,valueonly)", stateRef))
}

// takenByB lets time pass until B has taken the task over and claimed it.
func (r *rivals) takenByB() {
	r.t.Helper()
	for range 20 {
		r.b.tick()
		if r.b.task.worker.run != nil {
			return
		}
		r.b.clock.advance(30_000)
	}
	r.t.Fatal("B never takes the task")
}

// before does something once, when A's next push has reached the server and
// before that looks at it.
func (r *rivals) before(f func()) {
	r.srv.Set(gittest.OnPush(once(gittest.Before(f))))
}

// once makes a fault meet one request only.
func once(f gittest.Fault) gittest.Fault {
	var first sync.Once
	return func(next http.Handler) http.Handler {
		faulty := f(next)
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			h := next
			first.Do(func() { h = faulty })
			h.ServeHTTP(w, q)
		})
	}
}

func want(t *testing.T, st Status, action kernel.Action, outcome kernel.OutcomeStatus, codes ...kernel.Code) {
	t.Helper()
	if st.Decision.Action != action || outcomeOf(st) != outcome {
		t.Errorf("%s %q, want %s %q", st.Decision.Action, outcomeOf(st), action, outcome)
	}
	for _, c := range codes {
		if !slices.Contains(st.Decision.Codes, c) {
			t.Errorf("codes %v, want %s", st.Decision.Codes, c)
		}
	}
}

// TestL1_ManyClaimAtOnce starts a dozen installations on one task at the same
// time, each a process of its own, over smart HTTP.
func TestL1_ManyClaimAtOnce(t *testing.T) {
	w := newTown(t)
	w.url = gittest.ServeHTTP(t, w.bare).URL
	const runners = 12
	all := make([]*resident, runners)
	for i := range all {
		all[i] = w.runner(fmt.Sprint("r", i))
	}
	for _, r := range all {
		r.send("drive")
	}
	ends := map[kernel.Standing]int{}
	for _, r := range all {
		a := r.read()
		if a.Error != "" {
			t.Errorf("%s: %s", r.name, a.Error)
		}
		ends[a.Standing]++
	}
	for standing := range ends {
		// One that looks after the end finds a result by a key that it lists not.
		if standing != kernel.StandFinal && standing != kernel.StandHeld && standing != kernel.StandWaiting {
			t.Errorf("%d are %s", ends[standing], standing)
		}
	}
	w.expect("completed", 1, 1, 0)
}

// TestL2_IdenticalCommits: two processes with one key mint one run id in one
// second. git would call the second push up to date; it is lost.
func TestL2_IdenticalCommits(t *testing.T) {
	t.Parallel()
	bare := newRepo(t)
	srv := gittest.ServeHTTP(t, bare)
	twins := make([]*bench, 2)
	for i := range twins {
		twins[i] = newBench(t, bare, func(b *bench) {
			b.place.cfg.RunnerID = "host/one"
			b.place.newID = func() string { return "33333333-3333-4333-8333-333333333333" }
			if i == 1 {
				copyKey(t, twins[0].place.dir, b.place.dir)
			} else {
				b.place.url = srv.URL
			}
		})
	}
	var second Status
	srv.Set(gittest.OnPush(once(gittest.Before(func() { second = twins[1].tick() }))))
	first := twins[0].tick()
	want(t, second, kernel.ActionClaim, kernel.OutcomeDone)
	want(t, first, kernel.ActionClaim, kernel.OutcomeLost)
	if twins[0].task.worker.run != nil || first.Outcome.Key != second.Outcome.Key {
		t.Errorf("the loser holds a run, or the commits differ: %s %s", first.Outcome.Key, second.Outcome.Key)
	}
}

func copyKey(t *testing.T, from, to string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(from, "*key*"))
	must(t, err)
	for _, path := range list {
		data, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, filepath.Base(path)), data, 0o600))
	}
	if len(list) == 0 {
		t.Fatal("no key to copy")
	}
}

func TestL3_RefDeletedBeforeThePush(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.reach(kernel.ActionDispatch)
	r.a.clock.advance(45_000)
	r.before(func() { r.git("update-ref", "-d", stateRef) })
	want(t, r.a.tick(), kernel.ActionHeartbeat, kernel.OutcomeLost)
	if r.head() != "" {
		t.Error("the ref was made again")
	}
	want(t, r.a.tick(), kernel.ActionAbandon, kernel.OutcomeDone, kernel.CodeLeaseLost)
	if len(r.a.exec.running()) != 0 {
		t.Error("the builder still runs")
	}
}

func TestL4_RefRewoundBeforeThePush(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.a.reach(kernel.ActionDispatch)
	r.a.clock.advance(45_000)
	r.a.reach(kernel.ActionHeartbeat)
	r.a.reach(kernel.ActionJudge)
	earlier := r.git("rev-parse", stateRef+"^")
	r.before(func() { r.git("update-ref", stateRef, earlier) })
	want(t, r.a.tick(), kernel.ActionResult, kernel.OutcomeLost)
	if r.head() != earlier || r.a.ref(changeRef) != "" {
		t.Error("a ref moved")
	}
	want(t, r.a.tick(), kernel.ActionAbandon, kernel.OutcomeDone, kernel.CodeLeaseLost)
	r.waitsForRepair(r.a, kernel.CodeStateRollback)
	must(t, r.a.sup.Resume(t.Context(), 1, "alice", "I looked"))
	r.a.until(kernel.StandFinal)
	delivered(t, r.bare)
}

// waitsForRepair: an installation leaves HEAD as it is, however often it looks.
func (r *rivals) waitsForRepair(b *bench, code kernel.Code) {
	b.t.Helper()
	head := b.ref(stateRef)
	for range 3 {
		st := b.tick()
		want(b.t, st, kernel.ActionNone, "", code)
		if st.Decision.Standing != kernel.StandWaiting || st.Decision.WaitingFor != kernel.WaitRepair {
			b.t.Errorf("it stands %s, waiting for %q", st.Decision.Standing, st.Decision.WaitingFor)
		}
		b.clock.advance(4_000_000)
	}
	if b.ref(stateRef) != head {
		b.t.Error("what waits for a person was moved")
	}
}

func TestL5_TwoCreators(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	var b Status
	r.before(func() { b = r.b.tick() })
	a := r.a.tick()
	want(t, b, kernel.ActionClaim, kernel.OutcomeDone)
	want(t, a, kernel.ActionClaim, kernel.OutcomeLost)
	if got := r.states(); len(got) != 2 {
		t.Errorf("events %v, want the winner's two", got)
	}
	if st := r.a.tick(); st.Decision.Standing != kernel.StandHeld {
		t.Errorf("the loser stands %s", st.Decision.Standing)
	}
}

func TestL6_AnswerLost(t *testing.T) {
	t.Parallel()
	for _, action := range []kernel.Action{kernel.ActionClaim, kernel.ActionHeartbeat, kernel.ActionResult} {
		r := newRivals(t)
		r.bringTo(action)
		r.srv.Set(gittest.OnPush(once(gittest.DropResponse)))
		want(t, r.a.tick(), action, kernel.OutcomeDone)
		r.a.until(kernel.StandFinal)
		delivered(t, r.bare)
		r.oneLease()
	}
}

// bringTo stops before A's next tick does an action.
func (r *rivals) bringTo(action kernel.Action) {
	r.t.Helper()
	switch action {
	case kernel.ActionHeartbeat:
		r.a.reach(kernel.ActionDispatch)
		r.a.clock.advance(45_000)
	case kernel.ActionResult:
		r.a.reach(kernel.ActionJudge)
	}
}

// oneLease fails if the task was claimed more than once.
func (r *rivals) oneLease() {
	r.t.Helper()
	runs := strings.Fields(r.git("log", "--format=%(trailers:key=aynig-run-id,valueonly)", stateRef))
	if slices.Sort(runs); len(slices.Compact(runs)) != 1 {
		r.t.Errorf("leases of the runs %v", runs)
	}
}

// TestL7_AppliedLater: the server takes a push, cuts the connection, and applies
// it only after the same objects were pushed again.
func TestL7_AppliedLater(t *testing.T) {
	t.Parallel()
	for _, action := range []kernel.Action{kernel.ActionClaim, kernel.ActionHeartbeat, kernel.ActionResult} {
		r := newRivals(t)
		r.bringTo(action)
		held := gittest.NewHeld()
		r.srv.Set(gittest.OnPush(once(held.Fault)))
		want(t, r.a.tick(), action, kernel.OutcomeDone)
		after := r.head()
		held.Release()
		if r.head() != after {
			t.Errorf("%s: the late push moved HEAD", action)
		}
		r.a.until(kernel.StandFinal)
		delivered(t, r.bare)
		r.oneLease()
	}
}

// TestL7_NobodyAnswers: while the outcome of the own push is unknown nothing
// else is tried; the late push then counts as what it is.
func TestL7_NobodyAnswers(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	held := gittest.NewHeld()
	r.srv.Set(func(next http.Handler) http.Handler {
		// The push is taken, and from then on nothing answers.
		return gittest.OnPush(held.Fault)(next)
	})
	down := gittest.Status(http.StatusBadGateway, "down")
	first := true
	r.srv.Set(func(next http.Handler) http.Handler {
		push := gittest.OnPush(held.Fault)(next)
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			switch {
			case first && q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/git-receive-pack"):
				first = false
				push.ServeHTTP(w, q)
			case first:
				next.ServeHTTP(w, q)
			default:
				down(next).ServeHTTP(w, q)
			}
		})
	})
	want(t, r.a.tick(), kernel.ActionClaim, kernel.OutcomeUnknown)
	for range 3 {
		if _, err := r.a.task.Tick(t.Context(), kernel.RequestTick, "alice"); err == nil {
			t.Fatal("a request while the own push is unknown")
		}
	}
	held.Release()
	r.srv.Set(nil)
	r.a.until(kernel.StandFinal)
	delivered(t, r.bare)
	r.oneLease()
}
