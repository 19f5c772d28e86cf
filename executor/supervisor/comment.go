package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
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

// numbered is the line below the marker that names the state commit that a text tells
// of; "" for none.
func (m marker) numbered(seq int64) string {
	if seq == 0 {
		return ""
	}
	return fmt.Sprintf("<!-- writ:at:%s:%d seq=%d -->\n", m.world, m.task, seq)
}

// maxToldSeq bounds the number that a comment tells of: whoever may edit it must not
// bring the task to the end of its numbers.
const maxToldSeq = maxTrailerNumber

// seq is the number of the state commit that a status comment tells of, 0 for none.
func (m marker) seq(text string) int64 {
	_, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line, _, _ := strings.Cut(rest, "\n")
	var n int64
	if word, ok := strings.CutPrefix(strings.TrimSpace(line), fmt.Sprintf("<!-- writ:at:%s:%d seq=", m.world, m.task)); ok {
		n, _ = strconv.ParseInt(strings.TrimSuffix(word, " -->"), 10, 64)
	}
	if n < 0 || n > maxToldSeq {
		return 0
	}
	return n
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
	c.text = c.ofRun(t, f) + text + t.approveLine(c, stands)
	f.Want = textDigest(c.text)
	return nil
}

// tellNoBase writes the status comment of a task of which nobody knows the contract: only an
// issue is told that heard of the task, and not yet of how it ended.
func (t *Task) tellNoBase(c *cycle, f *kernel.IssueFacts) {
	words := t.outageWords()
	if words == "" || len(f.Comments) == 0 || c.ended {
		return
	}
	c.text = c.ofRun(t, f) + t.headed(t.outageHead()) + words
	f.Want = textDigest(c.text)
}

// statusText is the text for people, "" where there is nothing to say.
func (t *Task) statusText(ctx context.Context, c *cycle, f *kernel.IssueFacts, stands kernel.Decision) (string, error) {
	h, due := c.facts.Head, stands.Standing == kernel.StandDue || stands.Standing == kernel.StandActing
	if h.AwaitsRule() && c.facts.HeadCounts() && (due || h.Kept && len(stands.Violations) == 1 && inTheWay(stands.Violations)) {
		text, err := t.ruleText(ctx, c)
		if err != nil {
			return "", err
		}
		return t.withInstruction(ctx, c, text+t.outageWords())
	}
	if t.run != nil {
		text := t.runText(c)
		return text + instructionText(t.run.dispatch.Instruction, maxComment-markerRoom-len(text)), nil
	}
	if t.parted {
		return t.partedText(c), nil
	}
	halted, err := t.haltWords(ctx, c)
	if err != nil {
		return "", err
	}
	if c.facts.StrangersLease() && stands.Standing == kernel.StandHeld {
		return t.strangersText(c, f), nil
	}
	switch stands.Standing {
	case kernel.StandHeld, kernel.StandActing, kernel.StandRunning:
		if words := t.outageWords(); words != "" && stands.Standing == kernel.StandActing {
			return t.headed(t.outageHead()) + words, nil
		}
		return "", nil
	case kernel.StandFinal, kernel.StandDue, kernel.StandWaiting, kernel.StandHalted:
		if !c.facts.HeadCounts() || c.facts.Missing != nil {
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
			tail := t.endText(c, r) + t.changeWords(c, f.Change) + editedWords(c) + halted
			brief := r
			brief.Warnings, brief.Notes, brief.Merge = nil, nil, nil // the issue says them
			c.changeText = c.marked(t, "task") + reportText(brief, t.endText(c, brief))
			return t.withInstruction(ctx, c, reportText(r, tail))
		}
	}
	if len(f.Comments) == 0 && !slices.ContainsFunc(stands.Codes, func(k kernel.Code) bool { return !slices.Contains(quietCodes, k) }) {
		return "", nil
	}
	r, err := t.noticeOf(ctx, stands, c.facts, c.head, c.intake, "")
	if err != nil {
		return "", err
	}
	return reportText(r, t.endText(c, r)+t.changeWords(c, f.Change)+halted), nil
}

// editedWords note that the issue isn't the one any more that the delivered work is for:
// an edit that came after the work was judged doesn't undo it.
func editedWords(c *cycle) string {
	if c.intake == nil || !c.facts.Delivered() || c.intake.Current == c.facts.Head.Approval {
		return ""
	}
	return "\nThe issue was edited after this work was judged. The work is for the text that was approved, which stands below; for the text as it is now, open another issue.\n"
}

// haltWords say who halted the task, and what moves it on.
func (t *Task) haltWords(ctx context.Context, c *cycle) (string, error) {
	if !c.facts.View.Halted {
		return "", nil
	}
	a, err := t.haltAct(ctx)
	if err != nil {
		return "", err
	}
	by := "Halted"
	if a.Actor != "" {
		by += " by `" + plainWord(a.Actor) + "`"
	}
	return "\n" + by + ". Nothing of it runs, and commands on this issue are not answered until an operator says `writ task resume " + decimal(t.number) + "`.\n", nil
}

// partedText says that nobody works on the task for now.
func (t *Task) partedText(c *cycle) string {
	return fmt.Sprintf("### Writ: task %d waits\n\nThe server that worked on it was stopped. Its run was given back: no attempt is counted, and the task goes on by itself when a server runs again.\n", t.number) +
		t.endText(c, report.Report{TaskID: t.number})
}

// strangersText says that an unlisted writer has a task that is to be done.
func (t *Task) strangersText(c *cycle, f *kernel.IssueFacts) string {
	if len(f.Comments) == 0 && len(c.facts.Policy) > 0 {
		return ""
	}
	h := c.facts.Head
	until := (h.LeaseUntil + 59_999) / 60_000 * 60 // whole minutes, so that it stays the same
	return t.headed("is held by an unlisted writer", [][2]string{
		{"code", string(kernel.CodeLeaseHeld)}, {"held by", h.RunnerID}, {"until", kernel.Timestamp(until)},
	}) + fmt.Sprintf("\nCommit %s at `%s` is a lease, and its writer is not listed. It is waited for until then, if it isn't renewed.\n\n", c.commitLink(h.OID), plainWord(t.StateRef())) +
		"What helps: if you know the writer, list its key in `runners` of the contract. If you don't, find out who pushed it, and delete that ref; the task goes on by itself then, at the next sweep.\n"
}

// ofRun is the marker's line of the status comment. Where HEAD tells of no run, or only a
// person moves on from it, the comment goes on naming the run that it named: that there
// was one is what keeps a state ref that was removed or replaced from being taken for a
// new one by who has no memory of it (case L19).
func (c *cycle) ofRun(t *Task, f *kernel.IssueFacts) string {
	run := c.facts.Head.Run()
	if c.facts.StrangersLease() {
		run = "" // the run is nobody's
	}
	if run == "" || kernel.NeedsRepair(c.facts) {
		for _, k := range f.Comments {
			if k.Run != "" {
				run = k.Run
			}
		}
	}
	m := marker{world: t.s.cfg.World, task: t.number}
	return m.line("task", run) + m.numbered(c.seqToTell())
}

// seqToTell is the number of HEAD where it is the end of a run, so that whoever never saw
// it knows a ref that was set back from there. A lease and a wait for a rule are pushed
// anew all the time, and their run tells as much. Where HEAD doesn't count, what was told
// is kept.
func (c *cycle) seqToTell() int64 {
	h := c.facts.Head
	switch {
	case !c.facts.HeadCounts():
		return c.toldSeq
	case h.State == kernel.HeadWorking, h.AwaitsRule():
		return 0
	}
	return h.Seq
}

// marked is the marker's line of a text of HEAD's run.
func (c *cycle) marked(t *Task, kind string) string {
	return marker{world: t.s.cfg.World, task: t.number}.line(kind, c.facts.Head.Run())
}

const (
	waitsForRule   = "waits: a rule of the repository's server refuses its push"
	waitsForBranch = "waits: a branch is in the way of its change branch"
)

// outageHead is the head of a task whose server can't be asked.
func (t *Task) outageHead() (stands string, code [][2]string) {
	o, _ := t.s.outage.of(t.number)
	stands = "waits for the repository's server"
	switch o.Cause {
	case kernel.CodeGitBudget:
		stands = "waits: a limit of writ's own keeps the repository from being read"
	case kernel.CodeEnvRepository:
		stands = "waits: the repository's base branch isn't there"
	}
	return stands, [][2]string{{"code", string(o.Code())}}
}

// headed is the head of a text, and what is known of the task, a line each.
func (t *Task) headed(stands string, lines [][2]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Writ: task %d %s\n\n", t.number, stands)
	for _, l := range lines {
		if l[1] != "" {
			fmt.Fprintf(&b, "- %s: `%s`\n", l[0], plainWord(l[1]))
		}
	}
	return b.String()
}

// runText says who works on the task, and since when, or what its work waits for.
func (t *Task) runText(c *cycle) string {
	r, stands, words := t.run, "is being worked on", t.outageWords()
	first := [][2]string{{"state", "claimed"}, {"held by", t.s.cfg.RunnerID}, {"since", kernel.Timestamp(r.claimed / 1000)}}
	switch {
	case r.again > 0:
		stands, words = waitsForRule, ruleWords(r.ruling.refused[0].Detail, true)
		first = [][2]string{{"code", string(kernel.CodePushRefused)}, {"since", kernel.Timestamp(r.ruling.since / 1000)}, {"work kept by", t.s.cfg.RunnerID}}
	case t.judged() && words != "":
		stands, first = t.outageHead()
		first = append(first, [2]string{"work kept by", t.s.cfg.RunnerID})
	}
	text := t.headed(stands, slices.Concat(first, [][2]string{
		{"attempt", fmt.Sprintf("%d of %d", r.attempt, r.pack.Budgets.Attempts)}, {"builder", r.pack.Spec.Builder},
		{"run", r.id}, {"contract", string(r.pack.Pins.Governance)},
	}))
	text += fmt.Sprintf("- claim: %s\n- base commit: %s\n", c.commitLink(string(r.claim)), c.commitLink(r.pack.Pins.BaseCommit))
	for _, note := range scopeNotes(r.pack) {
		text += fmt.Sprintf("- note: `%s`\n", plainWord(note))
	}
	return text + words
}

// ruleText says that the task waits for a rule of the server's own. It is a function of
// HEAD, whoever has the work, and stays the same while the server says the same.
func (t *Task) ruleText(ctx context.Context, c *cycle) (string, error) {
	since, err := t.ruleSince(ctx, c)
	if err != nil {
		return "", err
	}
	h, attempt := c.facts.Head, ""
	if h.Attempt > 0 {
		attempt = fmt.Sprintf("%d of %d", h.Attempt, c.facts.Budgets.Attempts)
	}
	stands, code, words := waitsForRule, kernel.CodePushRefused, ruleWords(ruleSaid(c.head), h.Kept)
	if slices.Contains(strings.Fields(said(c.event, kernel.TrailerCodes)), string(kernel.CodeBranchTaken)) {
		stands, code, words = waitsForBranch, kernel.CodeBranchTaken, branchWords(ruleSaid(c.head))
	}
	return t.headed(stands, [][2]string{
		{"code", string(code)}, {"since", kernel.Timestamp(since / 1000)}, {"attempt", attempt}, {"run", h.Run()},
	}) + words, nil
}

// branchWords say what is in the way of done work, and what helps.
func branchWords(said string) string {
	return "\nThe work is done and kept. What keeps it from being delivered:\n\n" + report.Quoted(said) +
		"\nIt is delivered by itself once that branch is gone.\n"
}

// ruleWords say what a rule of the server is against, in its words, and what helps.
func ruleWords(said string, done bool) string {
	text := "\nThe server refuses, by a rule of its own, what is to be pushed. What it said:\n\n" + report.Quoted(cmp.Or(said, NoWords))
	if !done {
		return text + "\nNothing was started. The task is claimed again by itself, at least once an hour.\n\n" +
			"What helps: mend the rule or the permission that these words name, then comment `/writ retry` to have it tried at once.\n"
	}
	return text + "\nThe work is done and kept, and pushed again by itself, at least once an hour.\n\n" +
		"What helps: mend the rule or the permission that these words name, then comment `/writ retry` to have the work pushed at once by the installation that keeps it, or with a text after it to have it built anew.\n"
}

// NoWords stand for those of a server that gave none.
const NoWords = "(the server gave no words)"

// withInstruction adds what the builder was told, as the evidence at HEAD has it.
func (t *Task) withInstruction(ctx context.Context, c *cycle, text string) (string, error) {
	data, err := t.readFile(ctx, c.head.Tree, replay.FileDispatch)
	var told kernel.Dispatch
	if err == nil && canon.UnmarshalCanonical(data, &told) == nil && told.TaskID == t.number {
		text += instructionText(told.Instruction, maxComment-markerRoom-len(text))
	}
	return text, err
}

// instructionText is what the builder was told, byte for byte and one click away.
// No line of it is a command of the forge: what others wrote begins with ">".
func instructionText(told string, room int) string {
	fence := "```"
	for strings.Contains(told, fence) {
		fence += "`"
	}
	text := "\n<details>\n<summary>The exact instruction</summary>\n\n" + fence + "text\n" + told + fence + "\n\n</details>\n"
	if told == "" || len(text) > room {
		return "\nThe exact instruction is in the task's evidence, in `" + replay.FileDispatch + "`.\n"
	}
	return text
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
		fmt.Fprintf(&b, "\n`%s` is at %s", plainWord(t.StateRef()), c.commitLink(c.facts.Head.OID))
		if at := c.headAt(); at > 0 { // a commit that is no event has no time that counts
			fmt.Fprintf(&b, " since `%s`", kernel.Timestamp(at/1000))
		}
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
		return "\n" + t.againWords()
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

// againWords say how work that was turned down is done again: while its branch is there, no
// other change can be made.
func (t *Task) againWords() string {
	return "To have it done again, delete the branch `" + plainWord(t.changeBranch()) + "`, then comment `/writ retry` and what should be different.\n"
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
	how := "is blocked"
	if kernel.NeedsRepair(c.facts) {
		how = "waits for a person to look at its state"
	}
	return marker{world: t.s.cfg.World, task: t.number}.line("alert", c.alertOf()) +
		fmt.Sprintf("Task %d %s: %s. The report says why.\n", t.number, how, strings.Join(names, ", "))
}

// alertOf is what an alert is about, so that there is one of each: the run that HEAD
// tells of, or the HEAD that waits for a person.
func (c *cycle) alertOf() string {
	if kernel.NeedsRepair(c.facts) {
		return "repair-" + resumedAt(c.facts.Head.OID)
	}
	return c.facts.Head.Run()
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
