package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// logOf is a process whose log goes to a buffer.
func logOf(t *testing.T, form string) (*wire.Process, *bytes.Buffer, func() map[string]any) {
	t.Helper()
	var out bytes.Buffer
	proc := wire.NewProcess(&out, nil)
	return proc, &out, func() map[string]any {
		t.Helper()
		line := map[string]any{}
		if form == config.LogJSON {
			if err := json.Unmarshal(out.Bytes(), &line); err != nil {
				t.Fatalf("%v: %q", err, &out)
			}
			delete(line, "time")
			delete(line, "level")
		}
		out.Reset()
		return line
	}
}

// TestF3_TheLogIsClean: in either form a secret is hidden before it is quoted,
// wherever it stands, and what can't be seen is shown.
func TestF3_TheLogIsClean(t *testing.T) {
	const secret = `hush "quoted" \ secret`
	for _, form := range []string{config.LogText, config.LogJSON} {
		proc, out, line := logOf(t, form)
		proc.HideValues([]string{secret})
		log := serverLog(proc, config.Server{Log: form, LogLevel: "info"}, newTaskRuns(), &slog.LevelVar{})
		log.Debug("not to be seen")
		log.With("with", "a "+secret).Warn("in the message: "+secret, "text", secret, "error", errors.New(secret), "any", []string{secret}, "seen", "a\x1b[31m\u202eb")
		for _, part := range []string{"hush", "quoted", "\x1b", "\u202e", "not to be seen"} {
			if bytes.Contains(out.Bytes(), []byte(part)) {
				t.Errorf("%s: %q is in %s", form, part, out)
			}
		}
		if bytes.Count(out.Bytes(), []byte("\n")) != 1 {
			t.Errorf("%s: it is no one line: %q", form, out)
		}
		line() // is JSON where it says so
	}
}

// TestServe_ALineIsFilledIn: what a line doesn't say of its task is added, and
// what it says isn't said twice.
func TestServe_ALineIsFilledIn(t *testing.T) {
	proc, _, line := logOf(t, config.LogJSON)
	runs := newTaskRuns()
	log := serverLog(proc, config.Server{Log: config.LogJSON, LogLevel: "info"}, runs, &slog.LevelVar{})
	k := scheduler.Key{World: "w", Task: 7}
	want := func(fields map[string]any) {
		t.Helper()
		fields["msg"] = "m"
		if diff := cmp.Diff(fields, line()); diff != "" {
			t.Error(diff)
		}
	}
	all := func() map[string]any { return map[string]any{"world": "w", "task": 7.0, "run": "r"} }
	log.Info("m")
	want(map[string]any{})
	log.Info("m", "world", "w", "task", 7)
	want(map[string]any{"world": "w", "task": 7.0})
	runs.set(k, "r")
	log.Info("m", "world", "w", "task", 7)
	want(all())
	log.With("world", "w").Info("m", "task", 7, "run", "")
	want(all())
	log.Info("m", "run", "r")
	want(all())
	log.InfoContext(aboutTask(t.Context(), k), "m")
	want(all())
	log.Info("m", "world", "w", "task", 7, "run", "older")
	want(map[string]any{"world": "w", "task": 7.0, "run": "older"})
	for i := range maxRuns {
		runs.set(scheduler.Key{World: "w", Task: int64(i + 100)}, fmt.Sprint(i))
	}
	if runs.run(k) != "" || len(runs.of) > maxRuns || len(runs.tasks) > maxRuns {
		t.Errorf("%d runs are remembered", len(runs.tasks))
	}
}

// TestServe_OneIssueIsAFewLines: from its approval to its closing an issue leaves about
// five lines in the log, and what the forge tells writ of writ's own acts leaves none.
func TestServe_OneIssueIsAFewLines(t *testing.T) {
	p := newServerPlace(t)
	p.Quiet = true
	s := p.Serve()
	p.UntilReady()
	n := p.File("default")
	p.Approve(n)
	p.Until("the issue is closed", func() bool {
		return p.Issue(n).State == forge.Closed && slices.Contains(p.Issue(n).Labels, "writ:completed")
	})
	s.End()
	about := 0
	for line := range strings.Lines(s.Log.String()) {
		if strings.Contains(line, "recursion.self") || strings.Contains(line, "level=DEBUG") {
			t.Errorf("no news: %s", line)
		}
		if strings.Contains(line, fmt.Sprintf("task=%d ", n)) && !strings.Contains(line, "action=opened") {
			about++
		}
	}
	if about < 4 || about > 6 {
		t.Errorf("from its approval to its closing the issue left %d lines:\n%s", about, s.Log)
	}
	for _, word := range []string{"action=labeled", "claimed: attempt 1", "builder default started", "pushed: completed", "issue: close"} {
		if !strings.Contains(s.Log.String(), word) {
			t.Errorf("the log doesn't say %q:\n%s", word, s.Log)
		}
	}
}

// TestServe_ManyClosedRepositoriesAreOneLine: two hundred repositories that don't open
// for one reason are one line, and then one a minute as long as there are more.
func TestServe_ManyClosedRepositoriesAreOneLine(t *testing.T) {
	var out bytes.Buffer
	s := newShutLines(slog.New(slog.NewTextHandler(&out, nil)))
	var due []func()
	s.after = func(d time.Duration, f func()) {
		if d != time.Minute {
			t.Errorf("the next line comes after %s", d)
		}
		due = append(due, f)
	}
	shut := func(name string, code kernel.Code) {
		s.tell(name, code, func() { s.log.Warn("closed", "repository", name) })
	}
	lines := func(want int, words ...string) {
		t.Helper()
		if n := strings.Count(out.String(), "\n"); n != want {
			t.Errorf("%d lines, want %d:\n%s", n, want, &out)
		}
		for _, w := range words {
			if !strings.Contains(out.String(), w) {
				t.Errorf("no %q in %s", w, &out)
			}
		}
		out.Reset()
	}
	minute := func() {
		now := due
		due = nil
		for _, f := range now {
			f()
		}
	}
	for i := range 200 {
		shut(fmt.Sprintf("o/r%03d", i), kernel.CodeTargetNotAllowed)
	}
	shut("o/other", kernel.CodeForgeCredential)
	lines(2, "o/r000", "o/other")
	minute()
	lines(1, "count=199", "o/r001 o/r002", "…", "target.not_allowed", "remedy=")
	shut("o/late", kernel.CodeTargetNotAllowed)
	shut("o/late", kernel.CodeTargetNotAllowed)
	lines(0)
	minute()
	lines(1, "count=1", "o/late")
	minute()
	minute()
	lines(0)
	shut("o/later", kernel.CodeTargetNotAllowed)
	lines(1, "o/later")
}
