package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

const (
	// maxAnswers bounds the commands that are answered in one look at the issue.
	maxAnswers = 8
	// maxUnknown bounds for how many authors of commands the forge is asked only
	// to answer them.
	maxUnknown = 10
)

// wording is the answer to a command, as it is to be written.
type wording struct {
	text string // with its marker
	edit int64  // own comment that it replaces, 0 for a new one
}

// replies are what writ has answered on the issue in words.
type replies struct {
	told      map[int64]bool // commands with an answer of their own
	explained int64          // the command that the explanation was last written for
	comment   int64          // that holds it, 0 for none
	doubles   []int64        // comments that say again what an older one says
}

// repliesOn reads them off writ's own comments, the oldest first.
func (m marker) repliesOn(own []forge.Comment) replies {
	out := replies{told: map[int64]bool{}}
	for _, k := range own {
		if id, ok := m.number("answer", k.Body); ok {
			if out.told[id] {
				out.doubles = append(out.doubles, k.ID)
			}
			out.told[id] = true
		}
		if id, ok := m.number("explain", k.Body); ok {
			if out.comment != 0 {
				out.doubles = append(out.doubles, k.ID)
				continue
			}
			out.comment, out.explained = k.ID, id
		}
	}
	return out
}

// number is the comment that a reply is to.
func (m marker) number(kind, text string) (int64, bool) {
	word, ok := m.find(kind, text)
	id, err := strconv.ParseInt(word, 10, 64)
	return id, ok && err == nil
}

// readCommands takes what commands are owed an answer, and composes it.
func (i *tracker) readCommands(ctx context.Context, c *observation, f *kernel.IssueFacts, seen *approval.Facts, stands kernel.Decision) error {
	now := c.clock.WallMs
	for n, account := range approval.Unknown(i.unanswered(c, *seen), now) {
		if n == maxUnknown {
			break
		}
		if err := (&forgeIssues{s: i.s, number: i.number}).askAbout(ctx, seen, account); err != nil {
			return err
		}
	}
	list := i.unanswered(c, *seen)
	i.stopAsked(list)
	explain := int64(0)
	for _, a := range list {
		if a.May && !a.OnChange && a.Command.Verb == approval.Explain {
			explain = max(explain, a.Comment)
		}
	}
	c.replies, c.outdone, c.anewSince = map[int64]wording{}, map[int64]bool{}, seen.AnewSince()
	for _, a := range approval.Owed(approval.Commands(*seen), now) {
		if len(f.Commands) == maxAnswers {
			break
		}
		if a.Command.Verb == approval.Accept {
			if a.May = c.mayAccept(seen, a); a.May {
				if goesOn, err := i.goesOnWithSealed(ctx, c); err != nil {
					return err
				} else if goesOn {
					continue // what it accepts is being gone on with, or will be
				}
			}
		}
		if a.Command.Verb == approval.Fix && !c.reviewed && i.worker.run == nil && c.facts.Delivered() {
			continue // the next look knows more
		}
		answered := c.facts.View.Answered.Has(a.Comment)
		if answered && c.said.told[a.Comment] || !a.May && !i.s.heard(a.Author.ID, a.Comment) {
			continue
		}
		outdone, err := i.outdone(ctx, c, a)
		if err != nil {
			return err
		}
		if answered && !outdone && !i.givenUp(c, a) {
			continue
		}
		c.outdone[a.Comment] = outdone
		owed := i.answer(c, a, stands, explain)
		owed.Late = answered
		f.Commands = append(f.Commands, owed)
	}
	return nil
}

// givenUp reports whether a command asks for something with delivered work that was never
// begun, and isn't by now: whoever was answered that it counts is told why it doesn't. A stop
// speaks for itself.
func (i *tracker) givenUp(c *observation, a approval.Asked) bool {
	f := c.facts
	if i.worker.run != nil || !f.Delivered() || c.turnedDown || f.StopSeen() != "" || a.ID == f.Head.RefreshAct {
		return false
	}
	return f.Refresh != nil && f.Refresh.Act == a.ID && len(f.RefusesRefresh()) > 0 || f.Fix != nil && f.Fix.Act == a.ID && len(f.RefusesFix()) > 0
}

// unanswered are the commands on the issue that this installation hasn't answered.
func (i *tracker) unanswered(c *observation, seen approval.Facts) []approval.Asked {
	return slices.DeleteFunc(approval.Commands(seen), func(a approval.Asked) bool { return c.facts.View.Answered.Has(a.Comment) })
}

// answer composes the answer to one command. Of several that ask for an
// explanation the newest gets it.
func (i *tracker) answer(c *observation, a approval.Asked, stands kernel.Decision, explain int64) kernel.CommandFacts {
	reaction, words := i.wordsFor(c, a, stands)
	out := kernel.CommandFacts{Comment: a.Comment, Reaction: string(reaction)}
	m := i.marker()
	r := wording{text: m.line("answer", decimal(a.Comment)) + words}
	out.Told = c.said.told[a.Comment]
	if a.Command.Verb == approval.Explain && reaction == forge.ReactionDone {
		r = wording{text: m.line("explain", decimal(a.Comment)) + words, edit: c.said.comment}
		out.Told = c.said.explained >= a.Comment || a.Comment != explain
	}
	if words != "" {
		out.Want = textDigest(r.text)
		c.replies[a.Comment] = r
	}
	return out
}

// wordsFor is what a command is answered: a reaction, and words where it can't be
// seen from the task what became of it.
func (i *tracker) wordsFor(c *observation, a approval.Asked, stands kernel.Decision) (forge.Reaction, string) {
	head := c.facts.Head
	switch cmd := a.Command; {
	case !a.May:
		return forge.ReactionRefused, ""
	case a.OnChange && cmd.Verb != approval.Fix:
		return forge.ReactionConfused, "On the change of a task `/writ fix` alone counts. Say everything else here, on the issue.\n"
	case cmd.Verb == approval.Stop && i.tooLateFor(c, a):
		return forge.ReactionConfused, "Nothing was stopped: the result came first. " + i.resultWords(c)
	case cmd.Verb == approval.Stop && cmd.Loose:
		return forge.ReactionDone, "Read as `/writ stop`. What else the line says counts for nothing.\n"
	case a.Edited && cmd.Verb != approval.Stop:
		return forge.ReactionConfused, "A comment that was edited is no command, for whoever edited it need not be who wrote it. Write a new one.\n"
	case cmd.Fault != "":
		return forge.ReactionConfused, "That is no command. " + cmd.Fault + "\n\n" + helpText
	case cmd.Verb == approval.Help:
		return forge.ReactionDone, helpText
	case cmd.Verb == approval.Explain:
		return forge.ReactionDone, report.Explain(i.number, stands) + i.approveLine(c, stands)
	case cmd.Verb == approval.Stop:
		return forge.ReactionDone, ""
	case cmd.Verb == approval.Accept:
		return i.acceptAnswer(c, a)
	case cmd.Verb == approval.Refresh:
		return i.refreshAnswer(c, a)
	case cmd.Verb == approval.Fix:
		return i.fixAnswer(c, a)
	case cmd.Verb == approval.Approve && cmd.Digest != c.facts.Current:
		return forge.ReactionConfused, "That is not the digest of the text as it is now. Read it, then comment this line:\n\n" + approveWords(c)
	case a.ID == c.facts.Act && slices.Contains(stands.Codes, kernel.CodeApprovalUnproven):
		return forge.ReactionConfused, "" // the status comment has the line that approves
	case c.facts.Delivered() && c.turnedDown && cmd.Verb != approval.Retry:
		return forge.ReactionConfused, "Its work was turned down, and only `/writ retry` moves on from that. " + i.againWords()
	case (cmd.Verb == approval.Run || cmd.Verb == approval.Approve) && c.facts.Delivered() && !c.turnedDown && kernel.NewerAct(c.anewSince, head.Act) && kernel.NewerAct(a.ID, c.anewSince):
		return forge.ReactionDone, "The stop is over. The work stands as it was delivered, and what was asked of it before isn't begun again: ask for it once more.\n"
	case c.facts.AwaitsMerge() && !c.turnedDown && kernel.NewerAct(a.ID, head.Act):
		return forge.ReactionConfused, "The work is verified and waits for the merge of its change. To have other work instead, close the change unmerged first. " + i.againWords()
	case c.facts.Delivered() && !c.turnedDown && kernel.NewerAct(a.ID, head.Act):
		return forge.ReactionConfused, "The task is completed, and what is completed is not done again. While its change is open, `/writ fix` has that revised; else file another issue for what is missing.\n"
	case stands.WaitingFor == kernel.WaitRepair && cmd.Verb != approval.Retry:
		return forge.ReactionConfused, "The task waits for repair; the status comment says why. Only `/writ retry` moves it on.\n"
	}
	return forge.ReactionDone, ""
}

// tooLateFor reports whether a stop came to a result that git has, and stopped neither a review
// of what was pushed to its change nor what waits for its guarded paths.
func (i *tracker) tooLateFor(c *observation, a approval.Asked) (is bool) {
	i.s.locked(func() { is = i.s.stopped[i.number] == nil })
	return is && c.facts.Delivered() && !c.facts.Paths.Held() && !c.turnedDown && kernel.NewerAct(a.ID, c.facts.Head.Act)
}

// resultWords say what becomes of a result that nobody stopped.
func (i *tracker) resultWords(c *observation) string {
	if c.facts.AwaitsMerge() {
		return "The work waits for the merge of its change; close that unmerged to turn the work down.\n"
	}
	return "The task is completed.\n"
}

// approveWords is the line that approves the text as it is now.
func approveWords(c *observation) string {
	return fmt.Sprintf("```\n/writ approve %s\n```\n", c.facts.Current)
}

// approveLine says how the text as it is now can be approved, where the task waits
// for that, and is "" elsewhere.
func (i *tracker) approveLine(c *observation, stands kernel.Decision) string {
	wanted := stands.WaitingFor == kernel.WaitApproval || slices.ContainsFunc(stands.Codes, func(k kernel.Code) bool {
		return k == kernel.CodeInstructionChanged || k == kernel.CodeApprovalUnproven
	})
	if !i.remote || !wanted || i.worker.run != nil || !c.facts.Current.Valid() {
		return ""
	}
	return "\nTo approve the text as it is now, read it and comment this line:\n\n" + approveWords(c)
}

// helpText lists what can be said.
const helpText = `What a maintainer can say, in the first line of a comment:

| line | what it does |
|---|---|
| ` + "`/writ run`" + ` | approves the issue's text as it is now, and starts |
| ` + "`/writ retry`" + ` | the same; also moves on from a task that is blocked or waits for repair |
| ` + "`/writ retry TEXT`" + ` | the same, and the builder is given TEXT beside the issue |
| ` + "`/writ stop`" + ` | stops the run and takes back every approval so far |
| ` + "`/writ approve DIGEST`" + ` | approves the text with this digest, which writ names where it asks |
| ` + "`/writ accept DIGEST`" + ` | accepts what waits for that with this digest: changed paths that are guarded |
| ` + "`/writ reject`" + ` | turns such work down; like ` + "`/writ stop`" + ` |
| ` + "`/writ refresh`" + ` | applies the delivered change on the base as it is now, and checks it again there; nothing is built |
| ` + "`/writ fix TEXT`" + ` | has the delivered change revised for what people said of it; also on the change itself, and without TEXT |
| ` + "`/writ explain`" + ` | says why the task stands as it does, and what would move it on |
| ` + "`/writ help`" + ` | shows this |
`
