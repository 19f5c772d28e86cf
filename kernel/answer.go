package kernel

import (
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/kernel/canon"
)

// CommandFacts is a command in a comment of the issue. Each is answered once: in
// words where they are needed, and then by a reaction, which ends the answer, but for what
// becomes known later of one that was obeyed.
type CommandFacts struct {
	Comment  int64        `json:"comment"`  // that the command stands in
	Reaction string       `json:"reaction"` // by the forge's name of it
	Want     canon.Digest `json:"want"`     // of the words that are owed, "" for none
	Told     bool         `json:"told"`     // words with this command's marker are there
	// Late says that the words are owed though the command was answered: it was obeyed, and
	// counts for nothing by now.
	Late bool `json:"late,omitempty"`
}

// Obeyed is the reaction to a command that counts, by the forge's name of it.
const Obeyed = "rocket"

// maxAnswered is how many answered commands of a task are remembered: more than
// any issue has at a time.
const maxAnswered = 100

// Answered are comments whose commands were answered: their numbers in order, with
// a space between. Of many, the newest are kept.
type Answered string

func (a Answered) list() []int64 {
	var out []int64
	for word := range strings.FieldsSeq(string(a)) {
		if id, err := strconv.ParseInt(word, 10, 64); err == nil {
			out = append(out, id)
		}
	}
	return out
}

// Has reports whether the command of a comment was answered. What is older than
// all that is remembered was.
func (a Answered) Has(comment int64) bool {
	list := a.list()
	return slices.Contains(list, comment) || len(list) == maxAnswered && comment < list[0]
}

// With adds a comment.
func (a Answered) With(comment int64) Answered {
	if a.Has(comment) {
		return a
	}
	list := append(a.list(), comment)
	slices.Sort(list)
	words := make([]string, 0, len(list))
	for _, id := range list[max(0, len(list)-maxAnswered):] {
		words = append(words, strconv.FormatInt(id, 10))
	}
	return Answered(strings.Join(words, " "))
}

// RefusedAs names the effect where a forge refused it: what it refuses of one
// command it may take of another.
func (e IssueEffect) RefusedAs(a Action) string {
	if a == ActionAnswer || a == ActionReact {
		return string(a) + ":" + strconv.FormatInt(e.Target, 10)
	}
	return string(a) + e.Label
}

// answer is the next word or reaction that a command is owed.
func (i issueRules) answer(a Action) (IssueEffect, bool) {
	for _, c := range i.f.Issue.Commands {
		if i.f.View.Answered.Has(c.Comment) && !(c.Late && a == ActionAnswer) {
			continue
		}
		words := IssueEffect{Target: c.Comment, Digest: c.Want}
		owed := c.Want != "" && !c.Told && !slices.Contains(i.f.Issue.Refused, words.RefusedAs(ActionAnswer))
		e := IssueEffect{Target: c.Comment, Label: c.Reaction}
		switch {
		case a == ActionAnswer && owed:
			return words, true
		case a == ActionReact && !owed && !slices.Contains(i.f.Issue.Refused, e.RefusedAs(a)):
			return e, true
		}
	}
	return IssueEffect{}, false
}
