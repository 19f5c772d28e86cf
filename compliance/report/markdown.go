package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/writbot/writ/kernel"
)

// Limits of the rendered forms.
const (
	// MaxMarkdown is the length in characters; forges take 65,536 in a comment
	// and the sender adds a marker.
	MaxMarkdown = 60_000
	maxLines    = 100     // of a list
	maxTail     = 6 << 10 // bytes of one output
	maxDetail   = 500     // characters of a detail
)

// section is a part of a rendered report; later ones are left out first.
type section struct {
	title, body string
	fold        bool // a reader unfolds it
}

// Markdown renders the report so that it can be posted as a comment.
func Markdown(r Report) string { return r.Finish().Recorded() }

// Recorded is the Markdown of a finished report, from nothing but what stands in it.
// A change of what is made of the same report needs a new [Version].
func (r Report) Recorded() string {
	var head strings.Builder
	for _, l := range r.FirstLines {
		fmt.Fprintf(&head, "**%s**\n\n", l)
	}
	fmt.Fprintf(&head, "### Writ: task %d %s\n\n", r.TaskID, headline(r))
	// Characters are what is counted, as in the first version of this text.
	return head.String() + evidence(r, MaxMarkdown-utf8.RuneCountInString(head.String()), utf8.RuneCountInString)
}

// evidence is all that a report says, as far as there is room by that measure.
func evidence(r Report, room int, measure func(string) int) string {
	const left = 200 // for the line that says that something is left out
	var facted strings.Builder
	for _, f := range facts(r) {
		fmt.Fprintf(&facted, "- %s: %s\n", f[0], span(f[1]))
	}
	out := facted.String()
	for _, s := range markdownSections(r) {
		next := "\n#### " + s.title + "\n\n" + s.body
		if s.fold {
			next = Fold(s.title, s.body)
		}
		if measure(out)+measure(next) > room-left {
			return out + "\nThe rest is left out because the report is too long; all of it is in the task's evidence.\n"
		}
		out += next
	}
	return out
}

func headline(r Report) string {
	stands := "is verified"
	if r.FinalState != kernel.TaskNone {
		stands = string(r.FinalState)
	}
	switch m := r.Merge; {
	case m != nil && m.Reverted != "":
		return stands + ", and its change was reverted"
	case m != nil && m.Into != "":
		return stands + ", and its change was merged into another branch than the base"
	case m != nil && m.Commit == "":
		return stands + ", and its change was closed unmerged"
	case m != nil:
		return stands + ", and its change is merged"
	case r.awaitsMerge():
		return stands + ", and waits for the merge of its change"
	case r.FinalState == kernel.TaskRetryPending:
		return "failed, and will be tried again"
	case r.FinalState == kernel.TaskBlocked:
		return "is blocked"
	case r.FinalState != kernel.TaskNone:
		return string(r.FinalState)
	case r.Held != nil:
		return "is held by another runner"
	case slices.Contains(r.Codes, kernel.CodeTaskHalted):
		return "is halted"
	case r.WaitingFor == kernel.WaitRule && slices.Contains(r.Codes, kernel.CodeBranchTaken):
		return "waits: a branch is in the way of its change branch"
	case r.WaitingFor != "":
		return cmp.Or(waits[r.WaitingFor], "is waiting")
	case slices.Contains(r.Codes, kernel.CodePushRefused):
		return waits[kernel.WaitRule]
	case len(r.Codes) > 0:
		return "was not carried out"
	}
	return "goes on"
}

// waits say what a task waits for.
var waits = map[string]string{
	kernel.WaitMerge:       "waits for the merge of its change",
	kernel.WaitPaths:       "waits for somebody to accept what its guarded paths hold",
	kernel.WaitPlan:        "waits for somebody to approve its plan",
	kernel.WaitApproval:    "waits for somebody to approve it",
	kernel.WaitBudget:      "waits for its budget",
	kernel.WaitRule:        "waits: a rule of the repository's server refuses its push",
	kernel.WaitEnvironment: "waits for what its checks lack",
	kernel.WaitPause:       "is paused",
	kernel.WaitRepair:      "waits for somebody to look at its state",
}

// facts are the one-line facts, the seed's three first.
func facts(r Report) [][2]string {
	out := [][2]string{
		{"execution_dispatched", fmt.Sprint(r.Dispatched)},
		{"execution_verified", fmt.Sprint(r.Verified)},
	}
	add := func(name, value string) {
		if value != "" {
			out = append(out, [2]string{name, value})
		}
	}
	add("task_final_state", string(r.FinalState))
	if m := r.Merge; m != nil && m.Commit != "" {
		add("merged_as_verified", fmt.Sprint(m.AsVerified))
		add("merged commit", m.Commit)
		if m.Verified != r.ChangeCommit {
			add("verified commit, pushed by a person", m.Verified)
		}
		add("reverted by", m.Reverted)
	}
	if m := r.Merge; m != nil {
		add("merged into", m.Into)
	}
	add("change commit", r.ChangeCommit)
	add("base commit", r.BaseCommit)
	add("attempts", count(r.Attempts))
	add("interruptions", count(r.Interruptions))
	add("next attempt not before", r.NotBefore)
	add("waiting for", r.WaitingFor)
	if r.Held != nil {
		add("held by", r.Held.Runner)
		add("until", r.Held.Until)
	}
	add("run", r.RunID)
	add("builder", r.Builder)
	if a := r.Agent; a != nil {
		add("agent", a.Kind)
		add("version, as the agent says", a.Version)
		add("model", a.Model)
		if a.Instructions {
			add("instructions", "the repository's, of the base")
		}
	}
	if r.BuilderMs > 0 {
		add("the builder ran for", (time.Duration(r.BuilderMs) * time.Millisecond).Round(100*time.Millisecond).String())
	}
	add("sandbox", r.Sandbox)
	if level, _, _ := strings.Cut(r.Sandbox, " ("); level != r.ChecksSandbox {
		add("sandbox of the checks", r.ChecksSandbox)
	}
	add("contract", r.ContractSource)
	add("governance hash", string(r.GovernanceHash))
	add("dispatch hash", string(r.DispatchHash))
	add("ledger head", string(r.LedgerHead))
	return out
}

func count(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func markdownSections(r Report) []section {
	var out []section
	if len(r.Codes) > 0 {
		var b strings.Builder
		for _, w := range r.Words {
			fmt.Fprintf(&b, "- `%s`: %s *%s*\n", w.Code, w.Meaning, w.Remedy)
		}
		if r.Wordless() {
			for _, c := range r.Codes {
				fmt.Fprintf(&b, "- `%s`\n", c)
			}
		}
		out = append(out, section{title: "Codes", body: b.String()})
	}
	for _, s := range textSections(r) {
		s.body = fenced(s.body)
		out = append(out, s)
	}
	return out
}

// textSections are the parts that hold untrusted text.
func textSections(r Report) []section {
	var out []section
	list := func(title string, lines []string) {
		if len(lines) > 0 {
			out = append(out, section{title: title, body: listed(lines)})
		}
	}
	list("What broke a rule", violationLines(r.Violations))
	if r.Merge != nil {
		list("Merged otherwise than verified", paths(r.Merge.Differs))
	}
	list("Checks", checkLines(r.Checks))
	list("Changed files", paths(r.ChangedFiles))
	list("Discarded leftovers", each(r.Discarded, unreferring))
	list("Notes", append(append([]string{}, r.Warnings...), r.Notes...))
	for _, o := range r.Outputs {
		if strings.TrimSpace(o.Tail) != "" {
			out = append(out, section{title: "Output of " + safeName(defuse(o.Name)), body: tail(o.Tail, maxTail)})
		}
	}
	if a := r.Agent; a != nil && strings.TrimSpace(a.Message) != "" { // last, for it proves nothing, and what has no room is left out from there
		out = append(out, section{lastMessage, a.Message, true})
	}
	return out
}

// lastMessage is the title of what an agent said last. Nothing of a run is judged by it.
const lastMessage = "The agent's last message: its own words, which nobody has checked"

// safeName is a name in a heading: letters, digits and a few marks only.
func safeName(s string) string { return safe(s, " -.") }

// safePath is a path outside a code block.
func safePath(s string) string { return safe(s, "-._/") }

// safe keeps letters, digits and some marks.
func safe(s, marks string) string {
	return cutRunes(strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (strings.ContainsRune(marks, r) || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '.'
	}, s), 80)
}

// listed is a list, one item a line, with a note where it was cut.
func listed(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i == maxLines {
			fmt.Fprintf(&b, "… and %d more\n", len(lines)-i)
			break
		}
		b.WriteString(cutRunes(cleanLine(l), maxDetail) + "\n")
	}
	return b.String()
}

func violationLines(list []kernel.Violation) []string {
	var out []string
	for _, v := range list {
		line := string(v.Code)
		if v.Subject != "" {
			line += "  " + unreferring(v.Subject)
		}
		out = append(out, line+": "+v.Detail)
	}
	return out
}

func checkLines(list []Check) []string {
	var out []string
	for _, c := range list {
		word := "failed"
		switch {
		case !c.Stable:
			word = "contradicted itself"
		case c.Passed:
			word = "passed"
		}
		line := fmt.Sprintf("%s: %s, exit %d", c.Name, word, c.Exit)
		if c.Runs != 1 {
			line += fmt.Sprintf(", %d runs", c.Runs)
		}
		switch b := c.OnBase; {
		case b == nil:
		case b.Exit == 0:
			line += "; it passes on the base"
		default:
			line += fmt.Sprintf("; on the base it fails, too, with exit %d", b.Exit)
		}
		out = append(out, line)
	}
	return out
}

// Plain renders the report for a terminal, without a control character.
func Plain(r Report) string {
	r = r.Finish()
	var b strings.Builder
	for _, l := range r.FirstLines {
		b.WriteString(l + "\n")
	}
	fmt.Fprintf(&b, "task %d %s\n", r.TaskID, headline(r))
	for _, f := range facts(r) {
		fmt.Fprintf(&b, "  %s: %s\n", f[0], cleanLine(f[1]))
	}
	for _, c := range r.Codes {
		info := c.Info()
		fmt.Fprintf(&b, "\n%s\n  %s\n  %s\n", c, info.Meaning, info.Remedy)
	}
	for _, s := range textSections(r) {
		body := strings.TrimRight(Clean(s.body), "\n")
		fmt.Fprintf(&b, "\n%s\n  %s\n", s.title, strings.ReplaceAll(body, "\n", "\n  "))
	}
	return b.String()
}
