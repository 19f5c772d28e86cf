package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/executor/scheduler"
)

// logOf is an app whose log goes to a buffer.
func logOf(t *testing.T, form string) (*app, *bytes.Buffer, func() map[string]any) {
	t.Helper()
	var out bytes.Buffer
	a := newApp(nil, &out, &out, nil)
	return a, &out, func() map[string]any {
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
		a, out, line := logOf(t, form)
		a.hideValues([]string{secret})
		log := a.serverLog(config.Server{Log: form, LogLevel: "info"}, newTaskRuns(), &slog.LevelVar{})
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
	a, _, line := logOf(t, config.LogJSON)
	runs := newTaskRuns()
	log := a.serverLog(config.Server{Log: config.LogJSON, LogLevel: "info"}, runs, &slog.LevelVar{})
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
