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
	text, err := t.statusText(ctx, c, f, stands)
	if err != nil || text == "" {
		return err
	}
	c.text = c.marked(t, "task") + text + t.approveLine(c, stands)
	f.Want = textDigest(c.text)
	return nil
}

// statusText is the text for people, "" where there is nothing to say.
func (t *Task) statusText(ctx context.Context, c *cycle, f *kernel.IssueFacts, stands kernel.Decision) (string, error) {
	if t.run != nil {
		return t.claimedText(c), nil
	}
	if t.parted {
		return t.partedText(c), nil
	}
	switch stands.Standing {
	case kernel.StandHeld, kernel.StandActing, kernel.StandRunning:
		return "", nil
	case kernel.StandFinal, kernel.StandDue, kernel.StandWaiting, kernel.StandHalted:
		if !c.facts.Head.Trust.Trusted() {
			break
		}
		r, ok, err := t.reportAt(ctx, c.head)
		if err != nil {
			return "", err
		}
		if ok {
			if r.Merge = mergeOf(f.Change); r.Merge != nil {
				r.WaitingFor = ""
			}
			t.readCheck(c, f, r)
			tail := t.endText(c, r) + t.changeWords(c, f.Change) + t.haltWords()
			brief := r
			brief.Warnings, brief.Notes, brief.Merge = nil, nil, nil // the issue says them
			c.changeText = c.marked(t, "task") + reportText(brief, t.endText(c, brief))
			return reportText(r, tail), nil
		}
	}
	if len(f.Comments) == 0 && !slices.ContainsFunc(stands.Codes, func(k kernel.Code) bool { return !slices.Contains(quietCodes, k) }) {
		return "", nil
	}
	r := t.notice(stands, c.facts, c.intake, "")
	return reportText(r, t.endText(c, r)+t.changeWords(c, f.Change)+t.haltWords()), nil
}

// haltWords say who has just halted the task, and what moves it on.
func (t *Task) haltWords() string {
	if t.haltedBy == "" {
		return ""
	}
	return "\nHalted by `" + plainWord(t.haltedBy) + "`. Nothing of it runs, and commands on this issue are not answered until an operator says `writ task resume " + decimal(t.number) + "`.\n"
}

// partedText says that nobody works on the task for now.
func (t *Task) partedText(c *cycle) string {
	return fmt.Sprintf("### Writ: task %d waits\n\nThe server that worked on it was stopped. Its run was given back: no attempt is counted, and the task goes on by itself when a server runs again.\n", t.number) +
		t.endText(c, report.Report{TaskID: t.number})
}

// marked is the marker's line of a text of HEAD's run.
func (c *cycle) marked(t *Task, kind string) string {
	return marker{world: t.s.cfg.World, task: t.number}.line(kind, c.facts.Head.Run())
}

// claimedText says who works on the task, and since when.
func (t *Task) claimedText(c *cycle) string {
	r := t.run
	lines := [][2]string{
		{"state", "claimed"}, {"held by", t.s.cfg.RunnerID}, {"since", kernel.Timestamp(r.claimed / 1000)},
		{"attempt", fmt.Sprintf("%d of %d", r.attempt, r.pack.Budgets.Attempts)}, {"builder", r.pack.Spec.Builder},
		{"run", r.id}, {"contract", string(r.pack.Pins.Governance)},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### Writ: task %d is being worked on\n\n", t.number)
	for _, l := range lines {
		fmt.Fprintf(&b, "- %s: `%s`\n", l[0], plainWord(l[1]))
	}
	fmt.Fprintf(&b, "- claim: %s\n- base commit: %s\n", c.commitLink(string(r.claim)), c.commitLink(r.pack.Pins.BaseCommit))
	return b.String()
}

// commitLink is a commit's id with a link to its page, which lasts, where the forge
// has one.
func (c *cycle) commitLink(oid string) string {
	word := "`" + plainWord(oid) + "`"
	if c.pages == "" || oid == "" {
		return word
	}
	return "[" + word + "](" + c.pages + "/commit/" + url.PathEscape(oid) + ")"
}

// pagesOf is where the pages of an issue's repository are, "" where its own page
// doesn't tell: commits are found beside issues.
func pagesOf(issue string) string {
	u, err := url.Parse(issue)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(issue, " <>()[]\n`") {
		return ""
	}
	for _, beside := range []string{"/issues", "/work_items"} {
		if at := strings.LastIndex(issue, beside); at > 0 {
			return issue[:at]
		}
	}
	return ""
}

// endText is what stands below a report: where it is, since when, and what it
// delivered.
func (t *Task) endText(c *cycle, r report.Report) string {
	var b strings.Builder
	if c.facts.Head.OID != "" {
		fmt.Fprintf(&b, "\n`%s` is at %s since `%s`", plainWord(t.StateRef()), c.commitLink(c.facts.Head.OID), kernel.Timestamp(c.headAt()/1000))
		if most := c.facts.Budgets.Attempts; r.Attempts > 0 && most > 0 {
			fmt.Fprintf(&b, ", attempt %d of %d", r.Attempts, most)
		}
		b.WriteString(".\n")
	}
	if r.ChangeCommit != "" {
		fmt.Fprintf(&b, "\nThe work is commit %s on %s.\n", c.commitLink(r.ChangeCommit), c.commitLink(r.BaseCommit))
	}
	if u, err := url.Parse(c.changeURL); err == nil && (u.Scheme == "https" || u.Scheme == "http") && !strings.ContainsAny(c.changeURL, " <>\n`") {
		b.WriteString("\nThe change: " + c.changeURL + "\n")
	}
	return b.String()
}

// changeWords say what people did with the change that a reader must know.
func (t *Task) changeWords(c *cycle, ch *kernel.ChangeFacts) string {
	branch := plainWord(t.changeBranch())
	switch {
	case ch == nil:
		return ""
	case ch.Number == 0 || ch.Old:
		if words, refused := t.refusedAt(c.facts.Head.OID)[kernel.IssueEffect{}.RefusedAs(kernel.ActionChange)]; refused {
			return "\nThe forge refused to open the change: `" + plainWord(words) + "`. The work is on the branch `" + branch + "`: open the change from it by hand, and the issue is closed.\n"
		}
		return ""
	case ch.Undone():
		return "\nTo have it done again, delete the branch `" + branch + "`, then comment `/writ retry` and what should be different.\n"
	case !ch.Open || !ch.Pushed:
		return ""
	}
	words := "\nSomebody pushed to `" + branch + "` after the verification. "
	switch r := ch.Review; {
	case t.reviewPassed(c, ch.Head) || r != nil && r.Ended && len(r.Violations) == 0:
		return words + "Scope and checks hold for " + c.commitLink(ch.Head) + ", too.\n"
	case r != nil && !r.Ended:
		return words + "The checks run again on " + c.commitLink(ch.Head) + ".\n"
	}
	return words + c.commitLink(ch.Head) + " is not what was verified; its check says what became of it.\n"
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

// reportText renders a report so that it fits, the outputs first to go. tail comes
// below it in any case.
func reportText(r report.Report, tail string) string {
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
	return c.marked(t, "alert") +
		fmt.Sprintf("Task %d is blocked: %s. The report says why.\n", t.number, strings.Join(names, ", "))
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
