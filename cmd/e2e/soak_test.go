package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/writbot/writ/forge/local/localtest"
)

// soakPlan is how much a soak asks of one server.
type soakPlan struct {
	worlds     int
	issues     int           // in all worlds together
	deliveries int           // at least so many are posted, the same ones again included
	crashes    int           // kill -9 of the server while it builds
	sweep      time.Duration // what finds the deliveries that are lost
	patience   time.Duration // for all of it; a hang must end
}

// TestSoak_Small is the soak in small: four worlds, deliveries that are lost,
// doubled and out of order, and two crashes.
func TestSoak_Small(t *testing.T) {
	soak(t, soakPlan{worlds: 4, issues: 24, deliveries: 200, crashes: 2, sweep: 2 * time.Second, patience: 4 * time.Minute})
}

// BenchmarkSoak is the soak: every task comes to its end or waits, nothing is
// done twice, and the memory that the server needs doesn't grow.
func BenchmarkSoak(b *testing.B) {
	plan := soakPlan{worlds: 50, issues: 2000, deliveries: 10_000, crashes: 5, sweep: 30 * time.Second, patience: 40 * time.Minute}
	for range b.N {
		f := soak(b, plan)
		second, last := quarter(f.memory, 1), quarter(f.memory, 3)
		b.ReportMetric(f.took.Seconds(), "s/all")
		b.ReportMetric(float64(f.took.Milliseconds())/float64(plan.issues), "ms/task")
		b.ReportMetric(float64(f.posted), "posted")
		b.ReportMetric(float64(f.again), "doubled")
		b.ReportMetric(float64(f.lost), "lost")
		b.ReportMetric(float64(f.builders), "builders")
		b.ReportMetric(float64(f.cut), "cut-off")
		b.ReportMetric(float64(f.completed), "completed")
		b.ReportMetric(float64(f.blocked), "blocked")
		b.ReportMetric(float64(f.waiting), "waiting")
		b.ReportMetric(float64(f.unasked), "unapproved")
		b.ReportMetric(second, "MiB-2nd")
		b.ReportMetric(last, "MiB-4th")
		if last > flatMemory*second {
			b.Errorf("%.1f MiB in the last quarter of the server's life, %.1f MiB in the second: it grows", last, second)
		}
	}
}

// flatMemory is what the mean of the last quarter may have over the second one:
// the collector alone makes a fifth.
const flatMemory = 1.25

// soakFigures is what a soak came to.
type soakFigures struct {
	took                        time.Duration
	posted, again, lost         int
	builders, cut               int // runs that were dispatched, and those of them that a crash ended
	completed, blocked, waiting int
	unasked                     int       // issues that nobody approved
	memory                      []float64 // of the last process, MiB, one each half second
}

// soak runs the plan. It fails where something was done twice or left over.
func soak(t testing.TB, plan soakPlan) soakFigures {
	t.Helper()
	s := newSoakPlace(t, plan)
	s.start()
	began := time.Now()
	s.file()
	s.crash()
	localtest.Until(t, plan.patience, "every task is terminal or waiting", s.settled)
	took := time.Since(began)
	s.post.finish(plan.deliveries)
	localtest.Until(t, plan.patience, "nothing is due any more", s.idle)
	localtest.Until(t, plan.patience, "every task is terminal or waiting still", s.settled)
	memory := s.end()
	f := s.verdict()
	f.took, f.memory = took, memory
	f.posted, f.again, f.lost = s.post.figures()
	if f.posted < plan.deliveries {
		t.Errorf("%d deliveries were posted, want %d", f.posted, plan.deliveries)
	}
	t.Logf("%d issues of %d worlds in %s: %d completed, %d blocked, %d waiting, %d not approved; %d builders, %d cut off by %d crashes; %d deliveries, %d of them again, %d lost",
		plan.issues, plan.worlds, took.Round(time.Millisecond), f.completed, f.blocked, f.waiting, f.unasked, f.builders, f.cut, plan.crashes, f.posted, f.again, f.lost)
	return f
}

// file files the issues, world after world in turn, and has people act on them.
func (s *soakPlace) file() {
	s.t.Helper()
	for i := range s.plan.issues {
		w := s.worlds[i%len(s.worlds)]
		is := &soakIssue{world: w, turn: turnOf(i / len(s.worlds))}
		is.number = s.fileIssue(is)
		s.issues = append(s.issues, is)
		s.act(is)
	}
}

// crash kills the server while it builds and starts it again, all in the first
// half of what there is to do.
func (s *soakPlace) crash() {
	s.t.Helper()
	for i := range s.plan.crashes {
		after := s.plan.issues * (i + 1) / (2*s.plan.crashes + 1)
		localtest.Until(s.t, s.plan.patience, fmt.Sprintf("%d builders have started", after), func() bool { return len(s.runs()) > after })
		s.kill()
		s.start()
	}
}

// quarter is the mean of one quarter of a series, from 0.
func quarter(list []float64, n int) float64 {
	part := list[len(list)*n/4 : len(list)*(n+1)/4]
	if len(part) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range part {
		sum += v
	}
	return sum / float64(len(part))
}

// turn is what happens to an issue.
type turn string

const (
	plain    turn = "plain"    // approved once
	strays   turn = "strays"   // its builder leaves the scope
	fails    turn = "fails"    // its builder fails
	edited   turn = "edited"   // right after the approval
	relabels turn = "relabels" // approved, taken back, approved again
	talks    turn = "talks"    // people comment
	ignored  turn = "ignored"  // nobody approves it
)

// turnOf is the turn of a world's n-th issue: half of them are plain.
func turnOf(n int) turn {
	return []turn{plain, strays, talks, edited, plain, ignored, plain, fails, plain, relabels, plain, talks}[n%12]
}

// may is how an issue of a turn may end.
func (x turn) may(state string) bool {
	switch x {
	case strays, fails:
		return state == "blocked"
	case edited: // before, during or after the build
		return slices.Contains([]string{"", "completed", "waiting"}, state)
	case ignored:
		return state == ""
	}
	return state == "completed"
}
