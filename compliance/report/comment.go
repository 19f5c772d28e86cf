package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
)

// Limits of what is shown above the evidence, so that it fits the screen of a phone.
const (
	maxShownFiles  = 3
	maxShownChecks = 5
	maxShownCodes  = 3
	// maxShownCause is how much of a subject and its detail is shown, and of all paths of a
	// change together; the evidence has more of them.
	maxShownCause = 160
	// maxShownSubject leaves room for the detail.
	maxShownSubject = 60
)

// Short is a path of which the end is shown where it has no room: there stands what tells it
// from others.
func Short(path string, most int) string {
	if list := []rune(path); len(list) > most {
		return "…" + string(list[len(list)-most+1:])
	}
	return path
}

// Around is what a report doesn't hold itself, and its readers look for.
type Around struct {
	Change      string // link to the change that delivers the work, in Markdown; "" for none
	Lines       *Lines // of the change, nil where they weren't counted
	MaxAttempts int64  // 0 where that isn't known
	Revision    bool   // it is of delivered work: files and lines are those that it changed
}

// Lines are what a change adds and removes. Uncounted are files without lines: binary
// ones, and those that are too large to compare.
type Lines struct{ Added, Removed, Uncounted int }

// Comment is the part of a status comment that everybody reads: the outcome with the link
// to the change, what changed, the checks, why, and what the reader is to do now.
func (r Report) Comment(a Around) string {
	r = r.Finish()
	lead := fmt.Sprintf("**Writ: task %d %s", r.TaskID, headline(r))
	if a.Change != "" {
		lead += " (" + a.Change + ")"
	}
	return lead + ".**\n\n" + r.points(a, append(r.why(), point("**Now:** ", r.now(a))...))
}

// Description is the same for the description of the change itself. It mentions the issue,
// so that the forge links both, and doesn't close it: Writ does, once the task is completed. Nobody writes it anew once the change is merged or closed, so that it
// says only what is true then, too.
func (r Report) Description(a Around) string {
	r = r.Finish()
	return fmt.Sprintf("**For #%d. Its work is verified.**\n\n", r.TaskID) +
		r.points(a, []string{"**While it is open:** Review it and merge it, or close it. Writ merges nothing."})
}

// points are the first lines and a list.
func (r Report) points(a Around, more []string) string {
	var b strings.Builder
	for _, l := range r.FirstLines {
		b.WriteString("**" + l + "**\n\n")
	}
	for _, p := range slices.Concat(point("", r.changed(a)), point("Checks: ", r.checked()), more) {
		b.WriteString("- " + p + "\n")
	}
	return b.String()
}

func point(name, text string) []string {
	if text == "" {
		return nil
	}
	return []string{name + text}
}

// changed says how much was changed, and the first few paths.
func (r Report) changed(a Around) string {
	if len(r.ChangedFiles) == 0 {
		return ""
	}
	text := Counted(len(r.ChangedFiles), "file") + " changed"
	if a.Revision {
		text += " by the revision"
	}
	if l := a.Lines; l != nil {
		text += fmt.Sprintf(", +%d −%d", l.Added, l.Removed)
		if l.Uncounted > 0 {
			text += fmt.Sprintf(" (without %d of the files)", l.Uncounted)
		}
	}
	if r.ChangeCommit == "" {
		text += ", and not delivered"
	}
	return text + ": " + some(each(r.ChangedFiles, func(p string) string {
		return span(Short(unreferring(visible.Path(p)), maxShownCause/min(len(r.ChangedFiles), maxShownFiles)))
	}), maxShownFiles)
}

func (r Report) checked() string {
	return some(func() (out []string) {
		for _, c := range r.Checks {
			word := "passed"
			if !c.Stable {
				word = "contradicted itself"
			} else if !c.Passed {
				word = fmt.Sprintf("failed (exit %d)", c.Exit)
				if c.OnBase != nil && c.OnBase.Exit == 0 {
					word += ", and passes on the base"
				}
			}
			out = append(out, span(c.Name)+" "+word)
		}
		return out
	}(), maxShownChecks)
}

// Counted is a number of things, which are named in the singular.
func Counted[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func some(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// umbrellas say that something is wrong, and finer codes beside them what.
var umbrellas = []kernel.Code{
	kernel.CodeEscalationBlocked, kernel.CodeInterruptionsSpent, kernel.CodeVerificationFailed, kernel.CodeScopeViolation,
}

// finest are the codes without those that a finer one stands beside.
func (r Report) finest() []Words {
	out := slices.DeleteFunc(slices.Clone(r.Words), func(w Words) bool { return slices.Contains(umbrellas, w.Code) })
	if len(out) == 0 && len(r.Words) > 0 {
		return r.Words[len(r.Words)-1:]
	}
	return out
}

// longID is the name of a commit or a digest: its beginning tells them apart, and the
// evidence has all of it.
var longID = lazyregexp.New(`\b((?:sha256:)?[0-9a-f]{12})[0-9a-f]{28,}\b`)

// anAct is the id of a person's act, which says nothing to a reader; the evidence has it.
var anAct = lazyregexp.New(`^[0-9]{13,}/(comment|event|closing):[0-9]+$`)

// why has each of the finest codes with its first cause.
func (r Report) why() (out []string) {
	list := r.finest()
	for _, w := range list[:min(len(list), maxShownCodes)] {
		text, more := "`"+string(w.Code)+"`: "+w.Meaning, 0
		for _, v := range r.Violations {
			if v.Code != w.Code {
				continue
			}
			if more++; more == 1 {
				subject := unreferring(v.Subject)
				if v.Code == kernel.CodeTaskStopped {
					subject = anAct().ReplaceAllString(subject, "")
				}
				cause := strings.TrimPrefix(Short(cleanLine(subject), maxShownSubject)+": ", ": ") + v.Detail
				text = "`" + string(w.Code) + "`: " + span(cutRunes(cleanLine(longID().ReplaceAllString(cause, "$1…")), maxShownCause))
			}
		}
		if more > 1 {
			text += fmt.Sprintf(", and %d more of that", more-1)
		}
		out = append(out, text)
	}
	return out
}

// now is what the reader must do, "" where the text says that elsewhere.
func (r Report) now(a Around) string {
	switch m := r.Merge; {
	case m != nil && m.Commit != "" && !m.AsVerified && m.Reverted == "":
		return "Look at what was merged: it is not what was verified."
	case m != nil:
		return ""
	case r.awaitsMerge():
		return "Review the change and merge it; the issue is closed then. Writ merges nothing."
	case r.FinalState == kernel.TaskCompleted && a.Change != "":
		return "Review the change and merge it, or close it. Writ merges nothing."
	case r.FinalState == kernel.TaskRetryPending:
		return "Nothing. It is tried again by itself" + r.notBefore() + r.attempts(a) + "."
	case r.Held != nil:
		return "Nothing. It goes on when the run of " + span(r.Held.Runner) + " has ended, or its lease has."
	}
	return r.remedies()
}

func (r Report) notBefore() string {
	if r.NotBefore == "" {
		return ""
	}
	return ", not before " + span(r.NotBefore)
}

func (r Report) attempts(a Around) string {
	if r.Attempts == 0 || a.MaxAttempts == 0 {
		return ""
	}
	return fmt.Sprintf("; attempt %d of %d failed", r.Attempts, a.MaxAttempts)
}

// remedies of the finest codes, and what moves a blocked task on.
func (r Report) remedies() string {
	var out []string
	list := r.finest()
	for _, w := range list[:min(len(list), maxShownCodes)] {
		if w.Remedy != "" && !slices.Contains(out, w.Remedy) {
			out = append(out, w.Remedy)
		}
	}
	text := strings.Join(out, " ")
	if r.FinalState == kernel.TaskBlocked && !strings.Contains(text, "/writ retry") {
		text += " Then comment `/writ retry`, with a word to the builder behind it if you like."
	}
	return strings.TrimSpace(text)
}

// Evidence is what stands folded below a comment: all that the report says, as far as it
// fits into so many bytes, and below it what the caller adds.
func (r Report) Evidence(room int, below string) string {
	r = r.Finish()
	return Fold("Evidence", evidence(r, room-len(below)-len(Fold("Evidence", "")), func(s string) int { return len(s) })+below)
}

// Fold is Markdown that a reader unfolds.
func Fold(title, body string) string {
	return "\n<details>\n<summary>" + title + "</summary>\n\n" + strings.TrimSpace(body) + "\n\n</details>\n"
}
