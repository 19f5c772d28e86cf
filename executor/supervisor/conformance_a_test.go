package supervisor

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// Statements of seed 000 (rows A of docs/conformance.md) that no case holds, as
// the state refs of tasks keep them.

// trailer lists one trailer's value at each commit of the state ref, oldest first.
func (b *bench) trailer(key string) []string {
	b.t.Helper()
	var out []string
	for _, oid := range strings.Fields(gittest.Git(b.t, b.bare, "rev-list", "--reverse", "refs/writ/task/1")) {
		out = append(out, strings.TrimSpace(gittest.Git(b.t, b.bare, "show", "-s", "--format=%(trailers:key="+key+",valueonly)", oid)))
	}
	return out
}

// A4, A11, A37: the event at HEAD is the only one that counts, whatever lies
// below it.
func TestA4_OnlyHEADCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), nil)
	b.until(kernel.StandFinal)
	done := b.ref("refs/writ/task/1")
	above := gittest.Git(t, b.bare, "commit-tree", done+"^{tree}", "-p", done, "-m", "no event")
	gittest.Git(t, b.bare, "update-ref", "refs/writ/task/1", above)
	st := b.tick()
	if st.Decision.Standing != kernel.StandWaiting || !slices.Contains(st.Decision.Codes, kernel.CodeLockViolation) {
		t.Errorf("with no event above a completed one: %s %v", st.Decision.Standing, st.Decision.Codes)
	}
	gittest.Git(t, b.bare, "update-ref", "refs/writ/task/1", done)
	if st := b.tick(); st.Decision.State != kernel.TaskCompleted {
		t.Errorf("with the completed one at HEAD again: %s", st.Decision.State)
	}
}

// A6, A13, A14: the body of the event is the prompt, to the byte, and the
// builder is told the commit it works on, when it is due, and what it can reach.
func TestA6_BodyIsThePrompt(t *testing.T) {
	t.Parallel()
	var job executor.BuildJob
	b := newBench(t, newRepo(t), func(b *bench) {
		b.issue.issue.Body = "Ünïcode, CRLF\r\n\n---\nReviewed-by: nobody\n\n" + issueBody
		b.exec.started = func(j executor.BuildJob) { job = j }
		b.place.cfg.Repository = "acme/shop"
		b.exec.hosts = map[string][]string{"acme/shop default": {"mirror.example.org:8443"}}
	})
	b.reach(kernel.ActionDispatch)
	if !strings.Contains(job.Instruction, "There is no network but for these hosts, through the HTTP proxy that the environment names:\n- mirror.example.org:8443\n") {
		t.Errorf("it is told %s", job.Instruction)
	}
	for _, commit := range []string{"refs/writ/task/1", "refs/writ/task/1^"} {
		raw := gittest.Git(t, b.bare, "cat-file", "commit", commit)
		_, text, _ := strings.Cut(raw, "\n\n")
		if got := lease.Parse([]byte(text + "\n")).Body; strings.TrimSpace(got) != strings.TrimSpace(job.Instruction) {
			t.Errorf("%s says\n%q, the builder was given\n%q", commit, got, job.Instruction)
		}
	}
	var d kernel.Dispatch
	must(t, json.Unmarshal(job.Dispatch, &d))
	if d.BaseCommit != b.ref("refs/heads/main") || d.Deadline <= d.Timestamp || d.Attempt != 1 || d.Instruction != job.Instruction {
		t.Errorf("the dispatch says %+v", d)
	}
}

// A26, A27, A28, A35: between claim and output there are only working commits of
// the claim's run, whose dates never go back; the output is the commit that
// this run pushed.
func TestA26_OnlyWorkingUntilTheOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) { b.exec.hold = true })
	b.reach(kernel.ActionDispatch)
	for _, ms := range []int64{45_000, 50_000} {
		b.clock.advance(ms)
		if st := b.tick(); st.Decision.Action != kernel.ActionHeartbeat {
			t.Fatalf("%s, want a heartbeat", st.Decision.Action)
		}
	}
	b.clock.now.WallMs -= 3_600_000 // somebody sets the clock back
	b.clock.now.BootMs += 45_000
	b.reach(kernel.ActionHeartbeat)
	b.until(kernel.StandFinal)
	if got, want := b.trailer("aynig-state"), []string{"open", "working", "working", "working", "working", "completed"}; !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	if runs := b.trailer("aynig-run-id"); len(slices.Compact(runs[1:5])) != 1 || runs[1] == "" {
		t.Errorf("run ids %v", runs)
	}
	dates := strings.Fields(gittest.Git(t, b.bare, "log", "--reverse", "--format=%ct", "refs/writ/task/1"))
	if !slices.IsSorted(dates) {
		t.Errorf("committer dates %v", dates)
	}
	var output string
	for _, r := range b.records() {
		var i kernel.Intent
		if r.Kind == kernel.KindIntent && json.Unmarshal(r.Body, &i) == nil && i.Effect == kernel.ActionResult {
			output = i.New
		}
	}
	if head := b.ref("refs/writ/task/1"); output == "" || output != head {
		t.Errorf("the output is %q, HEAD %q", output, head)
	}
}

// A37, A50: what happens follows from HEAD, configuration and time. In a copy
// without any parent commit, another installation decides the same, to the byte,
// and goes on.
func TestA37_HistoryIsNeverRead(t *testing.T) {
	t.Parallel()
	bare := newRepo(t)
	b := newBench(t, bare, func(b *bench) { b.exec.build = failing })
	b.until(kernel.StandDue)
	shallow := gittest.NewBare(t)
	gittest.Git(t, shallow, "fetch", "-q", "--depth", "1", "file://"+bare, "+refs/heads/main:refs/heads/main", "+refs/writ/task/1:refs/writ/task/1")
	if parent := gittest.Git(t, bare, "rev-parse", "refs/writ/task/1^"); gittest.Git(t, shallow, "rev-list", "--all", "--count") != "2" {
		t.Fatalf("the copy still has %s", parent)
	}
	whole, copied := newBench(t, bare, nil), newBench(t, shallow, nil)
	whole.trusts(b)
	copied.trusts(b)
	one, err := canon.Marshal(whole.tick().Decision)
	must(t, err)
	two, err := canon.Marshal(copied.tick().Decision)
	must(t, err)
	if string(one) != string(two) || !strings.Contains(string(one), `"due"`) {
		t.Errorf("decided\n%s, without history\n%s", one, two)
	}
	copied.until(kernel.StandFinal)
	if got := copied.trailer("aynig-state"); got[len(got)-1] != "completed" || got[0] != "retry_pending" {
		t.Errorf("events %v", got)
	}
}

// A38: looking again at an end, or at an event of one's own, starts nothing.
func TestA38_ReadingTwiceRunsNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), nil)
	b.until(kernel.StandFinal)
	head := b.ref("refs/writ/task/1")
	for range 20 {
		if st := b.tick(); st.Decision.Standing != kernel.StandFinal || st.Decision.Action != kernel.ActionNone {
			t.Fatalf("%s %s", st.Decision.Standing, st.Decision.Action)
		}
	}
	if n := len(b.exec.builds); n != 1 || b.ref("refs/writ/task/1") != head {
		t.Errorf("%d builds, HEAD %s", n, b.ref("refs/writ/task/1"))
	}
}

// A44, A45: a base that moves during the build, on the very line that the
// builder writes, is neither merged into the change nor moved.
func TestA45_NoMergeIsInvented(t *testing.T) {
	t.Parallel()
	bare := newRepo(t)
	b := newBench(t, bare, func(b *bench) { b.exec.hold = true })
	b.reach(kernel.ActionDispatch)
	old := b.ref("refs/heads/main")
	moved := gittest.Commit(t, bare, "refs/heads/main", old, map[string]string{"README": "hi\n", "out.txt": "somebody else's\n"})
	b.until(kernel.StandFinal)
	if got := b.ref("refs/heads/main"); got != moved {
		t.Errorf("main is at %s, want %s", got, moved)
	}
	if got := gittest.Git(t, bare, "show", "-s", "--format=%P", "refs/heads/writ/change/1"); got != old {
		t.Errorf("the change is on %s, want its base %s alone", got, old)
	}
	if got := gittest.Git(t, bare, "show", "refs/heads/writ/change/1:out.txt"); got != "hello" {
		t.Errorf("out.txt is %q", got)
	}
}

// A49: every state that a task went through is a commit, found by its id below
// HEAD: claims, interruption, failure, block.
func TestA49_EveryStateIsACommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) { b.exec.build, b.exec.hold = failing, true })
	b.reach(kernel.ActionDispatch)
	b.ask(kernel.RequestShutdown)
	b.until(kernel.StandFinal)
	kept := strings.Fields(gittest.Git(t, b.bare, "rev-list", "refs/writ/task/1"))
	pushed := 0
	for _, r := range b.records() {
		var i kernel.Intent
		if r.Kind != kernel.KindIntent || json.Unmarshal(r.Body, &i) != nil || i.New == "" {
			continue
		}
		if pushed++; !slices.Contains(kept, i.New) {
			t.Errorf("%s %s can't be found", i.Effect, i.New)
		}
	}
	states := b.trailer("aynig-state")
	for _, want := range []string{"open", "working", "stalled", "retry_pending", "blocked"} {
		if !slices.Contains(states, want) {
			t.Errorf("no commit says %s: %v", want, states)
		}
	}
	if pushed < 8 || states[len(states)-1] != "blocked" {
		t.Errorf("%d pushes, events %v", pushed, states)
	}
}
