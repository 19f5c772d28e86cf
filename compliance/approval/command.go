package approval

import (
	"strings"

	"github.com/writbot/writ/kernel/canon"
)

// Verb is what an act asks for.
type Verb string

// The verbs. Those of a label come from no command.
const (
	Labeled   Verb = "label"
	Unlabeled Verb = "unlabel"
	Run       Verb = "run"
	Approve   Verb = "approve"
	Retry     Verb = "retry"
	Stop      Verb = "stop"
)

// Command is a parsed first line of a comment.
type Command struct {
	Verb   Verb
	Digest canon.Digest // of approve
	Fault  string       // what is wrong with it; "" if it is fine
}

// maxCommandBytes bounds the line that may hold a command: verb and digest.
const maxCommandBytes = 512

// ParseCommand reads the first line of a comment; ok is false where it isn't
// addressed to writ. Only the very first line counts, so that nothing quoted is a
// command.
func ParseCommand(body string) (c Command, ok bool) {
	line, _, _ := strings.Cut(body, "\n")
	if len(line) > maxCommandBytes {
		return c, false
	}
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "/writ" || !strings.HasPrefix(line, "/writ") {
		return c, false
	}
	if len(words) == 1 {
		c.Fault = "It names nothing to do."
		return c, true
	}
	c.Verb = Verb(words[1])
	switch rest := words[2:]; c.Verb {
	case Approve:
		c.readDigest(rest)
	case Run, Stop:
		if len(rest) > 0 {
			c.Fault = "Nothing may follow it on the line."
		}
	case Retry: // a text may follow, for whoever reads the issue
	default:
		c.Fault = "There is no such command."
	}
	return c, true
}

func (c *Command) readDigest(words []string) {
	if len(words) != 1 {
		c.Fault = "It needs the digest of the text, and nothing else."
		return
	}
	d, err := canon.ParseDigest(words[0])
	if err != nil {
		c.Fault = "Its digest is none: sha256: and 64 small hexadecimal digits."
		return
	}
	c.Digest = d
}
