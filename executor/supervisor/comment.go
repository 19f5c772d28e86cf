package supervisor

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
)

// maxComment is how long a comment may be, in bytes: forges take 65,536
// characters, and some count bytes.
const maxComment = 60_000

// marker is the hidden first line by which writ finds its comments of a task
// again. Only those of writ's own account count.
type marker struct {
	world string
	task  int64
}

const noRun = "none"

func (m marker) line(kind, run string) string {
	if run == "" {
		run = noRun
	}
	return fmt.Sprintf("<!-- writ:%s:%s:%d run=%s -->\n", kind, m.world, m.task, run)
}

func (m marker) find(kind, text string) (run string, ok bool) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	rest, ok := strings.CutPrefix(strings.TrimSpace(first), fmt.Sprintf("<!-- writ:%s:%s:%d run=", kind, m.world, m.task))
	if !ok {
		return "", false
	}
	run, ok = strings.CutSuffix(rest, " -->")
	if run == noRun {
		run = ""
	}
	return run, ok
}

func (m marker) status(text string) (run string, ok bool) { return m.find("task", text) }
func (m marker) alert(text string) (run string, ok bool)  { return m.find("alert", text) }

// quietCodes are those that nobody is told of who hasn't been told anything
// before: there is nothing that writ was asked to do by somebody who may.
var quietCodes = []kernel.Code{
	kernel.CodeEventStale, kernel.CodeRecursion, kernel.CodeAuthority, kernel.CodeTargetIneligible, kernel.CodeTargetNotAllowed,
	kernel.CodeSuperseded, kernel.CodeTaskStopped,
}

// compose writes the status comment as it is to be: a function of HEAD and of how
// the task stands by it, so that every instance writes the same.
func (t *Task) compose(ctx context.Context, c *cycle, f *kernel.IssueFacts, stands kernel.Decision) error {
	text, err := t.statusText(ctx, c, stands, len(f.Comments) > 0)
	if err != nil || text == "" {
		return err
	}
	run := c.facts.Head.Run()
	c.text = marker{world: t.s.cfg.World, task: t.number}.line("task", run) + text + t.approveLine(c, stands)
	f.Want = textDigest(c.text)
	return nil
}

// statusText is the text for people, "" where there is nothing to say.
func (t *Task) statusText(ctx context.Context, c *cycle, stands kernel.Decision, told bool) (string, error) {
	if t.run != nil {
		return t.claimedText(), nil
	}
	switch stands.Standing {
	case kernel.StandHeld, kernel.StandActing, kernel.StandRunning:
		return "", nil
	case kernel.StandFinal, kernel.StandDue, kernel.StandWaiting:
		if !c.facts.Head.Trust.Trusted() {
			break
		}
		r, ok, err := t.reportAt(ctx, c.head)
		if err != nil {
			return "", err
		}
		if ok {
			return reportText(r, string(c.head.OID), t.StateRef(), c.changeURL), nil
		}
	}
	if !told && !slices.ContainsFunc(stands.Codes, func(k kernel.Code) bool { return !slices.Contains(quietCodes, k) }) {
		return "", nil
	}
	r := t.notice(stands, c.facts, c.intake, "")
	return reportText(r, c.facts.Head.OID, t.StateRef(), ""), nil
}

// claimedText says who works on the task.
func (t *Task) claimedText() string {
	r := t.run
	lines := [][2]string{
		{"attempt", decimal(r.attempt)}, {"builder", r.pack.Spec.Builder}, {"held by", t.s.cfg.RunnerID},
		{"run", r.id}, {"base commit", r.pack.Pins.BaseCommit}, {"claim", string(r.claim)},
		{"contract", string(r.pack.Pins.Governance)},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### Writ: task %d is being worked on\n\n", t.number)
	for _, l := range lines {
		fmt.Fprintf(&b, "- %s: `%s`\n", l[0], plainWord(l[1]))
	}
	return b.String()
}

// plainWord keeps what can't end a code span or a line.
func plainWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '`' || r < ' ' || r == 0x7f || r > 0x7e && r < 0xa0 {
			return '.'
		}
		return r
	}, s)
}

// reportText renders a report so that it fits, the outputs first to go.
func reportText(r report.Report, head, ref, change string) string {
	tail := ""
	if head != "" {
		tail = fmt.Sprintf("\n`%s` is at `%s`.\n", plainWord(ref), plainWord(head))
	}
	if u, err := url.Parse(change); err == nil && (u.Scheme == "https" || u.Scheme == "http") && !strings.ContainsAny(change, " <>\n`") {
		tail += "\nThe change: " + change + "\n"
	}
	for _, cut := range []func(){
		func() {}, func() { r.Outputs = nil }, func() { r.Notes, r.Warnings, r.Discarded = nil, nil, nil },
		func() { r.Violations = r.Violations[:min(len(r.Violations), 10)] }, func() { r.ChangedFiles = r.ChangedFiles[:min(len(r.ChangedFiles), 20)] },
		func() { r.Violations, r.ChangedFiles, r.Checks = nil, nil, nil },
	} {
		cut()
		if text := report.Markdown(r) + tail; len(text) <= maxComment-markerRoom {
			return text
		}
	}
	return fmt.Sprintf("### Writ: task %d\n\nThe report is too long for a comment; it is in the task's evidence.\n%s", r.TaskID, tail)
}

// markerRoom is left for the marker.
const markerRoom = 1_000

// alertText mentions those whom the contract names.
func (t *Task) alertText(c *cycle) string {
	names := make([]string, 0, len(c.intake.notify))
	for _, n := range c.intake.notify {
		names = append(names, "@"+plainWord(strings.TrimPrefix(n, "@")))
	}
	return marker{world: t.s.cfg.World, task: t.number}.line("alert", c.facts.Head.Run()) +
		fmt.Sprintf("Task %d is blocked: %s. The report says why.\n", t.number, strings.Join(names, ", "))
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
