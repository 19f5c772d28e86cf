package approval

import (
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/instruction"
	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel/canon"
)

// Verb is what an act or command asks for.
type Verb string

// The verbs. Those of a label and of the closing come from no command; Explain
// and Help ask for words and are no acts.
const (
	Labeled   Verb = "label"
	Unlabeled Verb = "unlabel"
	Closed    Verb = "close"
	Run       Verb = "run"
	Approve   Verb = "approve"
	Retry     Verb = "retry"
	Stop      Verb = "stop"
	Accept    Verb = "accept"  // moves no task by itself: it answers for guarded paths
	Refresh   Verb = "refresh" // approves nothing: what is delivered is applied on the base as it is now
	Fix       Verb = "fix"     // approves a list of comments on what is delivered, see [FixRevision]
	Explain   Verb = "explain"
	Help      Verb = "help"
)

// Command is a parsed first line of a comment.
type Command struct {
	Verb   Verb
	Digest canon.Digest // of approve and accept
	Text   string       // of retry and fix: what the next dispatch is told
	Fault  string       // what is wrong with it; "" if it is fine
	Loose  bool         // it is read as a stop, and says something else too
	Reject bool         // it is a stop by the word reject
}

// act reports whether the command does something to the task.
func (c Command) act() bool {
	return c.Fault == "" && c.Verb != Explain && c.Verb != Help && c.Verb != Accept && c.Verb != Refresh && c.Verb != Fix
}

// maxCommandBytes bounds the line that may hold a command: room for what somebody
// says in passing, not for another issue.
const maxCommandBytes = 2 << 10

// stopLine begins a line that stops, whatever follows the word: of all commands a stop
// may be read too often, but never too seldom.
// Who rejects what waits for him takes the approval back as well.
var stopLine = lazyregexp.New(`(?i)^/writ[\pZ\t]+(stop|reject)([^\pL\pN]|$)`)

// ParseCommand reads the first line of a comment; ok is false where it isn't
// addressed to writ. Only the very first line counts, so that nothing quoted is a
// command.
func ParseCommand(body string) (c Command, ok bool) {
	line, _, _ := strings.Cut(body, "\n")
	if m := stopLine().FindStringSubmatch(line); m != nil {
		said := strings.Join(strings.Fields(line), " ")
		return Command{Verb: Stop, Loose: said != "/writ stop" && said != "/writ reject", Reject: strings.EqualFold(m[1], "reject")}, true
	}
	words := strings.Fields(line[:min(len(line), maxCommandBytes)])
	if len(words) == 0 || words[0] != "/writ" || !strings.HasPrefix(line, "/writ") {
		return c, false
	}
	if len(line) > maxCommandBytes {
		c.Fault = "Its line is too long."
		return c, true
	}
	if len(words) == 1 {
		c.Fault = "It names nothing to do."
		return c, true
	}
	c.Verb = Verb(words[1])
	switch rest := words[2:]; c.Verb {
	case Approve, Accept:
		c.readDigest(rest)
	case Run, Refresh, Explain, Help:
		if len(rest) > 0 {
			c.Fault = "Nothing may follow it on the line."
		}
	case Retry, Fix:
		c.readText(strings.Join(rest, " "), body)
	default:
		c.Fault = "There is no such command."
	}
	return c, true
}

func (c *Command) readDigest(words []string) {
	if len(words) != 1 {
		c.Fault = "It needs the digest that writ names, and nothing else."
		return
	}
	d, err := canon.ParseDigest(words[0])
	if err != nil {
		c.Fault = "Its digest is none: sha256: and 64 small hexadecimal digits."
		return
	}
	c.Digest = d
}

// readText takes the text after retry or fix. What a reader can't see doesn't reach a
// builder (cases I7, I15).
func (c *Command) readText(text, body string) {
	if visible.Any(text) || !utf8.ValidString(text) {
		c.Fault = "Its text has characters that can't be seen."
		return
	}
	if text != "" && !instruction.ShowsFirstLine(body) {
		c.Fault = "Its text has parts that the page may not show; put them in backticks."
		return
	}
	c.Text = text
}
