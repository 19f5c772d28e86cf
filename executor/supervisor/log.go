package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/kernel"
)

// narrate tells the person who watches what a request did.
func (t *Task) narrate(c *cycle) {
	d := c.decision
	if c.outcome != nil && c.outcome.Status != kernel.OutcomeDone {
		return // afterEffect tells it
	}
	switch d.Action {
	case kernel.ActionClaim:
		t.say("claimed: attempt %d, run %s, base %.12s", d.Attempt, t.worker.run.id, t.worker.run.pack.Pins.BaseCommit)
		for _, note := range scopeNotes(t.worker.run.pack) {
			t.say("%s", note)
		}
	case kernel.ActionTakeOver:
		t.say("lease of %s broken (%s), interruption %d", c.facts.Head.RunnerID, c.facts.Head.LeaseReason, d.Interruptions)
	case kernel.ActionDispatch:
		t.say("builder %s started", t.worker.run.pack.Spec.Builder)
	case kernel.ActionChecks:
		t.mention("checks started: %s", checkNames(t.worker.run.pack.Checks))
	case kernel.ActionJudge:
		t.mention("judged: %s%s", d.State, codeWords(d.Codes))
	case kernel.ActionResult:
		t.say("pushed: %s%s%s", d.State, codeWords(d.Codes), t.dueWords(d))
	case kernel.ActionRestore:
		t.say("the delivered change stays as it was%s", codeWords(d.Codes))
	case kernel.ActionRelease:
		t.say("lease given back%s", codeWords(d.Codes))
	case kernel.ActionWait:
		t.say("waiting for %s%s", d.WaitingFor, codeWords(d.Codes))
	case kernel.ActionAbandon:
		t.say("run given up%s", codeWords(d.Codes))
	default:
		if !d.Action.OnForge() {
			break
		}
		tell := t.mention
		if d.Action == kernel.ActionClose || d.Action == kernel.ActionReopen {
			tell = t.say // the rest is how the issue comes to show what the log has already
		}
		tell("issue: %s", strings.TrimSpace(string(d.Action)+" "+d.Issue.Label))
	}
}

// scopeNotes are those that somebody wants to read before a builder has run for
// nothing.
func scopeNotes(p kernel.SeedPack) []string {
	var notes []string
	for _, n := range p.Notes {
		if strings.HasPrefix(n, scope.UnmatchedIn) {
			notes = append(notes, n)
		}
	}
	return notes
}

func checkNames(list []kernel.Check) string {
	names := make([]string, len(list))
	for i, k := range list {
		names[i] = k.Name
	}
	return strings.Join(names, ", ")
}

func codeWords(codes []kernel.Code) string {
	if len(codes) == 0 {
		return ""
	}
	words := make([]string, len(codes))
	for i, c := range codes {
		words[i] = string(c)
	}
	return " (" + strings.Join(words, ", ") + ")"
}

func (t *Task) dueWords(d kernel.Decision) string {
	if d.NotBefore == 0 {
		return ""
	}
	wait := time.Duration(d.NotBefore-t.s.now().WallMs) * time.Millisecond
	return fmt.Sprintf(", next attempt in %s", wait.Round(time.Second))
}

// say tells the person who watches, and the log. What it is used for makes about five
// lines for an issue from its approval to its closing.
func (sj *subject) say(format string, args ...any) { sj.tell(slog.LevelInfo, format, args...) }

// mention is say for the steps between, which the log has only where somebody looks for
// something (log_level: debug).
func (sj *subject) mention(format string, args ...any) { sj.tell(slog.LevelDebug, format, args...) }

func (sj *subject) tell(level slog.Level, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if sj.s.deps.Progress != nil {
		sj.s.deps.Progress(line)
	}
	sj.log().Log(context.Background(), level, line)
}
