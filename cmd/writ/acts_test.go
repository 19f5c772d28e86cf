package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/status"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// TestM2_ActsOnWhatIsNotThere: a running server carries out what a person asks of
// a task, and says so where there is no such task or nothing to do.
func TestM2_ActsOnWhatIsNotThere(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	p.UntilReady()
	act := func(exit int, says, act string, n int64) {
		t.Helper()
		p.want(exit, says, "task", act, fmt.Sprint(n), "--state-dir", p.State())
	}
	for _, word := range []string{"stop", "halt", "resume"} {
		act(problem.ExitOther, "task.not_found: local/o/n has no issue 4711.", word, 4711)
	}
	n := p.File("hangs")
	act(problem.ExitDone, "so nothing was stopped", "stop", n)
	act(problem.ExitOther, fmt.Sprintf("task.not_resumable: There is nothing to resume: task %d was never started", n), "resume", n)
	act(problem.ExitDone, fmt.Sprintf("task %d is halted", n), "halt", n)
	p.want(problem.ExitDone, "halted here", "task", "show", fmt.Sprint(n), "--state-dir", p.State())
	act(problem.ExitDone, fmt.Sprintf("task %d may go on", n), "resume", n)
	p.Approve(n)
	p.Until("the task is claimed", func() bool { return p.Head(n) == "working" })
	act(problem.ExitOther, "has a lease at HEAD", "resume", n)
	act(problem.ExitDone, fmt.Sprintf("task %d was stopped", n), "stop", n)
	p.Until("the stopped task waits", func() bool { return p.Head(n) == "waiting" })
	act(problem.ExitDone, fmt.Sprintf("task %d may go on", n), "resume", n)
	done := p.File("default")
	p.Approve(done)
	p.Until("the other task completes", func() bool { return p.Head(done) == "completed" })
	act(problem.ExitOther, "is completed", "resume", done)
	s.End()
	p.want(problem.ExitOther, "is completed", "task", "resume", fmt.Sprint(done), "--state-dir", p.State(), "--config", p.Config())
	// Somebody else's commit may be moved on from, whatever it says.
	ref := fmt.Sprintf("refs/writ/task/%d", done)
	bare := p.Store.GitDir(p.Repo.ID)
	old := strings.TrimSpace(gittest.Git(t, bare, "rev-parse", ref))
	gittest.Commit(t, bare, ref, old, map[string]string{"note": "I was here\n"})
	p.want(problem.ExitDone, "may go on", "task", "resume", fmt.Sprint(done), "--state-dir", p.State(), "--config", p.Config())
}

// TestM2_HaltsWhilePaused: a halt is recorded at once, also where a pause keeps
// everything from being looked at.
func TestM2_HaltsWhilePaused(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Serve()
	p.UntilReady()
	n := p.File("default")
	p.want(problem.ExitDone, "everything is paused", "pause", "--state-dir", p.State())
	p.want(problem.ExitDone, "is halted", "task", "halt", fmt.Sprint(n), "--state-dir", p.State(), "--reason", "no")
	p.want(problem.ExitDone, ": no\n  nothing of it is done until `writ task resume", "task", "show", fmt.Sprint(n), "--state-dir", p.State())
}

// TestM2_ShowNamesTheStop: who asks how a task stands is told of a stop on its issue,
// until a person has it begun anew.
func TestM2_ShowNamesTheStop(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Serve()
	n := p.File("hangs")
	p.Approve(n)
	p.Until("it is claimed", func() bool { return p.Head(n) == "working" })
	_, err := p.Maintainer.AddComment(t.Context(), p.Repo, n, "/writ stop")
	must(t, err)
	p.Until("the issue says that it is stopped", func() bool { // which comes after the ledger's word
		list, err := p.Maintainer.Comments(t.Context(), p.Repo, n)
		must(t, err)
		return slices.ContainsFunc(list, func(k forge.Comment) bool {
			return strings.HasPrefix(k.Body, "<!-- writ:task:") && strings.Contains(k.Body, string(kernel.CodeTaskStopped))
		})
	})
	show := func() string {
		_, out := p.cli("task", "show", fmt.Sprint(n), "--state-dir", p.State())
		return out
	}
	p.Until("the stop is shown", func() bool { return strings.Contains(show(), "stopped on the issue at 20") })
	_, err = p.Maintainer.AddComment(t.Context(), p.Repo, n, "/writ run")
	must(t, err)
	p.Until("it is claimed again", func() bool { return p.Head(n) == "working" })
	p.Until("the stop isn't shown any more", func() bool { return !strings.Contains(show(), "stopped on the issue") })
}

// TestM2_ShowNamesAStopThatWaits: a stop that the server can't be told of is shown, and by
// whom, until it is carried out.
func TestM2_ShowNamesAStopThatWaits(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Serve()
	n := p.File("hangs")
	p.Approve(n)
	p.Until("the builder runs", func() bool { return p.Head(n) == "working" && p.Metric("writ_tasks_running") == 1 })
	dir := p.Store.GitDir(p.Repo.ID)
	gittest.Hook(t, dir, "pre-receive", `echo "closed for today" >&2; exit 1`)
	go p.cli("task", "stop", fmt.Sprint(n), "--state-dir", p.State(), "--reason", "enough") // it waits to be carried out
	show := func(more ...string) string {
		_, out := p.cli(append([]string{"task", "show", fmt.Sprint(n), "--state-dir", p.State()}, more...)...)
		return out
	}
	p.Until("the stop is shown", func() bool { return strings.Contains(show(), "carried out when the task is looked at next") })
	if out := show("--json"); !strings.Contains(out, `"stopped_by":"local:`) {
		t.Errorf("shown is %s", out)
	}
	gittest.Hook(t, dir, "pre-receive", "exit 0")
	p.Until("it is carried out", func() bool { return p.Head(n) == "waiting" })
	p.Until("it is shown no more", func() bool { return strings.Contains(show("--json"), `"stopped_by":""`) })
}

// TestP10_StopOfAResultOnItsWay: who stops a task whose result is being pushed isn't told
// that it was stopped: git decides which comes first.
func TestP10_StopOfAResultOnItsWay(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Serve()
	p.UntilReady()
	n := p.File("default")
	came, gate := filepath.Join(t.TempDir(), "came"), filepath.Join(t.TempDir(), "gate")
	gittest.Hook(t, p.Store.GitDir(p.Repo.ID), "pre-receive",
		`while read old new ref; do case $ref in refs/heads/writ/*) touch `+came+`; while test ! -e `+gate+`; do sleep 0.1; done;; esac; done; exit 0`)
	p.Approve(n)
	p.Until("the result is pushed", func() bool { _, err := os.Stat(came); return err == nil })
	p.want(problem.ExitDone, "its result was on its way", "task", "stop", fmt.Sprint(n), "--state-dir", p.State())
	must(t, os.WriteFile(gate, nil, 0o600))
	p.Until("the result came first", func() bool { return p.Head(n) == "completed" })
}

// TestP10_StopOfALostResult: who stops a task whose result the server took and lost isn't
// told that nothing was stopped.
func TestP10_StopOfALostResult(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Serve()
	p.UntilReady()
	n := p.File("default")
	dir := p.Store.GitDir(p.Repo.ID)
	lost := filepath.Join(t.TempDir(), "lost")
	// The server answers that it took the result, and puts both refs back.
	gittest.Hook(t, dir, "post-receive", `test -e `+lost+` && exit 0
while read old new ref; do case $ref in refs/heads/writ/*) branch=$ref;; refs/writ/*) state=$ref head=$old;; esac; done
test -z "$branch" || { git update-ref -d $branch && git update-ref $state $head && touch `+lost+`; }`)
	p.Approve(n)
	p.Until("the result is lost", func() bool { _, err := os.Stat(lost); return err == nil })
	code, out := p.cli("task", "stop", fmt.Sprint(n), "--state-dir", p.State())
	if code != problem.ExitDone || strings.Contains(out, "wasn't running") {
		t.Errorf("%d: %s", code, out)
	}
	p.Until("it is stopped", func() bool { return p.Head(n) == "waiting" })
}

// TestPause_SaysWhatIsSo: a pause that is there stays and is named, one that isn't
// can't be ended, and log and metrics know of it, with and without a server.
func TestPause_SaysWhatIsSo(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	p.UntilReady()
	pause := func(says, act string, more ...string) {
		t.Helper()
		p.want(problem.ExitDone, says, append([]string{act, "--state-dir", p.State()}, more...)...)
	}
	round := func() {
		t.Helper()
		pause("everything wasn't paused by", "unpause")
		pause("everything is paused;", "pause", "--reason", "disk is full")
		pause("everything is paused already, since 20", "pause", "--reason", "other")
		pause("(disk is full)", "pause")
		pause("everything is, since 20", "unpause", "--world", "local/o/n")
		pause("the pause of everything is over", "unpause")
	}
	round()
	if !strings.Contains(s.Log.String(), `reason="disk is full"`) {
		t.Error("the log doesn't say why")
	}
	s.End()
	round()
	pause("local/o/n is paused;", "pause", "--world", "local/o/n", "--reason", "a look")
	p.pausesAre("pause all, unpause all, pause all, unpause all, pause repository")
	must(t, os.WriteFile(filepath.Join(p.State(), "pause"), []byte("local/o/n\n"), 0o600))
	s = p.Serve()
	p.UntilReady()
	if log := s.Log.String(); !strings.Contains(log, `repository=local/o/n`) || !strings.Contains(log, `reason="a look"`) {
		t.Error("the start doesn't say what is paused")
	}
	p.Until("the pause of the file is recorded", func() bool { return strings.HasSuffix(p.pausesRecorded(), ", pause file") })
	must(t, os.Remove(filepath.Join(p.State(), "pause")))
	for path, want := range map[string]string{"/metrics": "\nwrit_pauses 1\n", "/readyz": `"reason":"Paused: local/o/n since 20`} {
		var text string
		p.Until(path+" answers", func() bool { // a server that is too busy says 503
			r, err := http.Get("http://" + p.Hook + path)
			must(t, err)
			data, err := io.ReadAll(r.Body)
			must(t, errors.Join(err, r.Body.Close()))
			text = string(data)
			return r.StatusCode == http.StatusOK
		})
		if !strings.Contains(text, want) || strings.Contains(text, "a look") {
			t.Errorf("%s says %s", path, text)
		}
	}
	for _, reason := range []string{"a\nb", "a\x1b[31mb", "a\u202eb", "a\xffb"} {
		p.want(problem.ExitUsage, "--reason holds a line break", "pause", "--state-dir", p.State(), "--reason", reason)
	}
}

// pausesAre demands which pauses and ends of pauses the ledger has, and that it verifies.
func (p *forgePlace) pausesAre(want string) {
	p.T.Helper()
	if got := p.pausesRecorded(); got != want {
		p.T.Errorf("recorded are %s; it is %s", got, want)
	}
	p.want(problem.ExitDone, "verified", "verify", "--state-dir", p.State())
}

// pausesRecorded are the pauses and ends of pauses of the only ledger, in order.
func (p *forgePlace) pausesRecorded() string {
	p.T.Helper()
	store, err := ledger.OpenReadOnly(p.T.Context(), filepath.Join(p.State(), ledger.FileName), ledger.Options{})
	must(p.T, err)
	defer store.Close()
	worlds, err := store.Worlds(p.T.Context())
	must(p.T, err)
	l, err := store.World(p.T.Context(), worlds[0])
	must(p.T, err)
	var out []string
	for r, err := range l.Records(p.T.Context(), 0, 0) {
		must(p.T, err)
		if r.Kind == kernel.KindOperatorAct && r.Task == 0 {
			var a kernel.OperatorAct
			must(p.T, canon.UnmarshalCanonical(r.Body, &a))
			out = append(out, a.Act+" "+a.Pause)
		}
	}
	return strings.Join(out, ", ")
}

// TestM2_ShowOfADeadLease: a lease that ended without being renewed is nobody's, and shown
// as that.
func TestM2_ShowOfADeadLease(t *testing.T) {
	t.Parallel()
	for until, want := range map[time.Duration]string{time.Hour: "task 1 of o/n is held by A, until ", -time.Minute: "task 1 of o/n was held by A until "} {
		s := status.Task{Number: 1, Repository: "o/n", Head: "c0ffee", State: kernel.HeadWorking, Holder: "A", HeldUntil: kernel.Timestamp(time.Now().Add(until).Unix())}
		if got := taskPlain(s); !strings.HasPrefix(got, want) {
			t.Errorf("shown is %q", got)
		}
	}
}

// TestM2_ResumeBehindAHalt: who resumes a task whose halt waits for the look under way is
// told that both are stored, and the task goes on when the look ends. Where a process dies
// between the two, the next one resumes.
func TestM2_ResumeBehindAHalt(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Serve()
	p.UntilReady()
	n := p.File("default")
	came, gate := filepath.Join(t.TempDir(), "came"), filepath.Join(t.TempDir(), "gate")
	gittest.Hook(t, p.Store.GitDir(p.Repo.ID), "pre-receive",
		`touch `+came+`; while test ! -e `+gate+`; do sleep 0.1; done; exit 0`)
	p.Approve(n)
	p.Until("the claim is pushed", func() bool { _, err := os.Stat(came); return err == nil })
	p.want(problem.ExitDone, "the halt is stored", "task", "halt", fmt.Sprint(n), "--state-dir", p.State(), "--reason", "a look")
	p.want(problem.ExitDone, "a halt by local:", "task", "show", fmt.Sprint(n), "--state-dir", p.State())
	p.want(problem.ExitDone, "the resume is stored behind it", "task", "resume", fmt.Sprint(n), "--state-dir", p.State(), "--reason", "go on")
	must(t, os.WriteFile(gate, nil, 0o600))
	p.Until("it goes on", func() bool { return p.Head(n) == "completed" })
}
