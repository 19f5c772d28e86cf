package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// untilReady waits until a server can do everything, its first probe of the sandbox
// included.
func (p *forgePlace) untilReady() {
	p.t.Helper()
	p.until("writ is ready", func() bool {
		r, err := http.Get("http://" + p.hook + "/readyz")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// TestM2_ActsOnWhatIsNotThere: a running server carries out what a person asks of
// a task, and says so where there is no such task or nothing to do.
func TestM2_ActsOnWhatIsNotThere(t *testing.T) {
	p := newForgePlace(t)
	s := p.serve()
	p.untilReady()
	act := func(exit int, says, act string, n int64) {
		t.Helper()
		p.want(exit, says, "task", act, fmt.Sprint(n), "--state-dir", p.state())
	}
	for _, word := range []string{"stop", "halt", "resume"} {
		act(exitOther, "task.not_found: local/o/n has no issue 4711.", word, 4711)
	}
	n := p.File("hangs")
	act(exitDone, "so nothing was stopped", "stop", n)
	act(exitOther, fmt.Sprintf("task.not_resumable: There is nothing to resume: task %d was never started", n), "resume", n)
	act(exitDone, fmt.Sprintf("task %d is halted", n), "halt", n)
	p.want(exitDone, "halted here", "task", "show", fmt.Sprint(n), "--state-dir", p.state())
	act(exitDone, fmt.Sprintf("task %d may go on", n), "resume", n)
	p.Approve(n)
	p.until("the task is claimed", func() bool { return p.head(n) == "working" })
	act(exitOther, "is being worked on", "resume", n)
	act(exitDone, fmt.Sprintf("task %d was stopped", n), "stop", n)
	p.until("the stopped task waits", func() bool { return p.head(n) == "waiting" })
	act(exitDone, fmt.Sprintf("task %d may go on", n), "resume", n)
	done := p.File("default")
	p.Approve(done)
	p.until("the other task completes", func() bool { return p.head(done) == "completed" })
	act(exitOther, "is completed", "resume", done)
	s.end()
	p.want(exitOther, "is completed", "task", "resume", fmt.Sprint(done), "--state-dir", p.state(), "--config", p.config())
	// Somebody else's commit may be moved on from, whatever it says.
	ref := fmt.Sprintf("refs/writ/task/%d", done)
	bare := p.Store.GitDir(p.Repo.ID)
	old := strings.TrimSpace(gittest.Git(t, bare, "rev-parse", ref))
	gittest.Commit(t, bare, ref, old, map[string]string{"note": "I was here\n"})
	p.want(exitDone, "may go on", "task", "resume", fmt.Sprint(done), "--state-dir", p.state(), "--config", p.config())
}

// TestM2_HaltsWhilePaused: a halt is recorded at once, also where a pause keeps
// everything from being looked at.
func TestM2_HaltsWhilePaused(t *testing.T) {
	p := newForgePlace(t)
	p.serve()
	p.untilReady()
	n := p.File("default")
	p.want(exitDone, "everything is paused", "pause", "--state-dir", p.state())
	p.want(exitDone, "is halted", "task", "halt", fmt.Sprint(n), "--state-dir", p.state(), "--reason", "no")
	p.want(exitDone, "halted here: no", "task", "show", fmt.Sprint(n), "--state-dir", p.state())
}

// TestPause_SaysWhatIsSo: a pause that is there stays and is named, one that isn't
// can't be ended, and log and metrics know of it, with and without a server.
func TestPause_SaysWhatIsSo(t *testing.T) {
	p := newForgePlace(t)
	s := p.serve()
	p.untilReady()
	pause := func(says, act string, more ...string) {
		t.Helper()
		p.want(exitDone, says, append([]string{act, "--state-dir", p.state()}, more...)...)
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
	if !strings.Contains(s.log.String(), `reason="disk is full"`) {
		t.Error("the log doesn't say why")
	}
	s.end()
	round()
	pause("local/o/n is paused;", "pause", "--world", "local/o/n", "--reason", "a look")
	s = p.serve()
	p.untilReady()
	if log := s.log.String(); !strings.Contains(log, `msg="paused: nothing new is started" world=local/o/n`) || !strings.Contains(log, `reason="a look"`) {
		t.Error("the start doesn't say what is paused")
	}
	for path, want := range map[string]string{"/metrics": "\nwrit_pauses 1\n", "/readyz": `"reason":"Paused: local/o/n since 20`} {
		r, err := http.Get("http://" + p.hook + path)
		must(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		must(t, err)
		if r.StatusCode != http.StatusOK || !strings.Contains(string(text), want) || strings.Contains(string(text), "a look") {
			t.Errorf("%s: %d %s", path, r.StatusCode, text)
		}
	}
	for _, reason := range []string{"a\nb", "a\x1b[31mb", "a\u202eb", "a\xffb"} {
		p.want(exitUsage, "--reason holds a line break", "pause", "--state-dir", p.state(), "--reason", reason)
	}
}
