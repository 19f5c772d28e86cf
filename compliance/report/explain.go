package report

import (
	"fmt"
	"strings"

	"github.com/writbot/writ/kernel"
)

// ruleWords say in plain words what holds when a rule of the kernel holds.
var ruleWords = map[string]string{
	"kernel": "nobody halted the task", "target": "the task's number is this issue's",
	"binding": "what stands at the task's ref was made for this task", "history": "nobody set the task back", "delivered": "what was accepted is there", "event": "the task's ref says how it stands",
	"trust": "who wrote that is trusted", "lease": "nobody else works on it", "consent": "the text is the one that was approved",
	"input": "the issue says clearly what is asked for", "policy": "approval, contract and repository allow it",
	"environment": "what a run needs is there", "budget": "the operator's budgets pay for an attempt", "attempts": "there are attempts left", "interruptions": "there are interruptions left",
	"owner": "the run still owns the task", "fence": "its lease was renewed in time", "approved": "the text is the one that was approved",
	"dispatch": "the instruction is whole", "build": "the builder did not fail", "scope": "the change stays within what is allowed",
	"message": "the commit's message is in order", "checks": "no check failed", "server": "the repository takes the result",
	"person": "nobody stopped it", "standing": "approval and repository still allow it",
}

// standingWords say how a task stands, and what will move it on where nothing is
// wrong with it.
var standingWords = map[kernel.Standing][2]string{
	kernel.StandActing:    {"It is about to go on.", "Nothing has to be done."},
	kernel.StandRunning:   {"A builder or the checks are at work.", "It goes on when they have ended."},
	kernel.StandFinal:     {"It has come to its end.", ""},
	kernel.StandDue:       {"It will be tried again.", "It goes on by itself when its time has come."},
	kernel.StandHeld:      {"Another runner works on it.", "It goes on when that one has ended, or its lease has."},
	kernel.StandWaiting:   {"It waits for a person.", "`/writ run` or `/writ retry` by somebody with the permission."},
	kernel.StandRefused:   {"It can't be started as it is.", ""},
	kernel.StandHalted:    {"It is halted.", "`writ task resume` by the operator."},
	kernel.StandAbandoned: {"Its run ended without a result.", "It is taken up again by itself."},
}

// Explain says how a task stands: each rule that was asked, whether it holds, what
// speaks against it, and what would move the task on.
func Explain(task int64, d kernel.Decision) string {
	var b strings.Builder
	words := standingWords[d.Standing]
	fmt.Fprintf(&b, "### Writ: why task %d stands as it does\n\n%s\n\n", task, words[0])
	if d.Standing == kernel.StandFinal {
		fmt.Fprintf(&b, "Its state is `%s`. What follows would be asked if it were to be started now.\n\n", d.State)
	}
	for _, r := range d.Reasons.Children {
		explainRule(&b, r)
	}
	if len(d.Violations) > 0 {
		b.WriteString("\nWhat speaks against it:\n\n" + fenced(listed(violationLines(d.Violations[:min(len(d.Violations), maxExplained)]))))
	}
	b.WriteString("\nWhat would move it on:\n\n")
	said := false
	for _, c := range d.Codes {
		if remedy := c.IssueRemedy(); remedy != "" {
			fmt.Fprintf(&b, "- %s (`%s`)\n", remedy, c)
			said = true
		}
	}
	switch {
	case d.State == kernel.TaskBlocked && d.Standing == kernel.StandFinal:
		b.WriteString("- `/writ retry` by somebody with the permission: it begins anew.\n")
	case d.WaitingFor == kernel.WaitMerge && !said:
		b.WriteString("- The merge of its change. For other work instead: close the change unmerged, delete its branch, then `/writ retry`.\n")
	case words[1] != "" && !said:
		fmt.Fprintf(&b, "- %s\n", words[1])
	case !said:
		b.WriteString("- Nothing: there is nothing left to do.\n")
	}
	return b.String()
}

// maxExplained bounds the violations that are shown.
const maxExplained = 20

// explainRule is a line of the tree, with those below it.
func explainRule(b *strings.Builder, r kernel.Reason) {
	words := ruleWords[r.Rule]
	if words == "" {
		words = safeName(r.Rule)
	}
	if r.Holds {
		fmt.Fprintf(b, "- yes: %s\n", words)
		return
	}
	fmt.Fprintf(b, "- **no**: %s (%s)\n", words, strings.Join(codeWords(r.Violations), ", "))
}

func codeWords(list []kernel.Violation) []string {
	var out []string
	for _, c := range kernel.CodesOf(list) {
		out = append(out, "`"+string(c)+"`")
	}
	return out
}
