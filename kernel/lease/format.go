package lease

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a message that is written. Reading has none: it is linear.
const (
	// MaxMessageBytes bounds a written message. Instructions are far smaller;
	// every heartbeat carries it again.
	MaxMessageBytes = 1 << 20
	// MaxTitleBytes bounds a title, which tools print on one line.
	MaxTitleBytes = 1024
	// MaxValueBytes bounds a trailer's value: ids, hashes, short lists.
	MaxValueBytes = 4096
	// MaxKeyBytes bounds a trailer's key.
	MaxKeyBytes = 64
	// MaxTrailers bounds the trailers of a message.
	MaxTrailers = 128
)

// Format writes a message for the layers above: title, body and trailers, each
// set off by an empty line, every line ended by a newline. What is returned
// reads back as m, by [Parse] and so by git: no text in title or body adds or
// hides a trailer. A body that can't be written so (it holds a NUL byte or
// git's scissors line) is an [*Error] with [CodeUnwritable]; nothing is quoted
// or changed on the way.
//
// Of the reserved trailers only `aynig-state` may be among m's, once, in exact
// case, with a valid value that is neither `working` nor `stalled`: those two
// are written by [Working], [Renew] and [Stalled] alone, and no other state is
// written by this package itself (A17, A24).
func Format(m Message) ([]byte, error) {
	states := 0
	for _, t := range m.Trailers {
		if !Reserved(t.Key) {
			continue
		}
		states++
		if t.Key != KeyState || states > 1 || !ValidState(t.Value) || t.Value == StateWorking || t.Value == StateStalled {
			return nil, unwritable(FaultUnexpected, t.Key, "a reserved trailer stands where it may not",
				"write aynig-state once, with a state other than working and stalled, and no other reserved trailer")
		}
	}
	return format(m)
}

// format writes a message with any trailers and proves that it reads back.
func format(m Message) ([]byte, error) {
	if err := checkParts(m); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(m.Title + "\n")
	if m.Body != "" {
		b.WriteString("\n" + m.Body + "\n")
	}
	for i, t := range m.Trailers {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(t.Key + ": " + t.Value + "\n")
	}
	if b.Len() > MaxMessageBytes {
		return nil, unwritable(FaultOutOfRange, SubjectMessage, "the message is longer than 1 MiB", "shorten the body")
	}
	back := Parse([]byte(b.String()))
	if back.Title != m.Title || back.Body != m.Body || !slices.Equal(back.Trailers, m.Trailers) {
		return nil, unwritable(FaultInvalid, SubjectBody, "git would read the body or the trailers differently",
			"take NUL bytes, git's scissors line and, without trailers of its own, a last paragraph of trailers out of the body")
	}
	return []byte(b.String()), nil
}

// checkParts checks title, keys and values, which are single lines.
func checkParts(m Message) error {
	if len(m.Title) > MaxTitleBytes || !validLine(m.Title) {
		return unwritable(FaultInvalid, SubjectTitle, "the title isn't one line of at most 1024 bytes of text", "give a short phrase")
	}
	if len(m.Trailers) > MaxTrailers {
		return unwritable(FaultOutOfRange, SubjectMessage, "there are more than 128 trailers", "write fewer")
	}
	for _, t := range m.Trailers {
		if !validKey(t.Key) {
			return unwritable(FaultInvalid, SubjectKey, "a trailer's key isn't of letters, digits and hyphens, or is longer than 64 bytes", "rename it")
		}
		if len(t.Value) > MaxValueBytes || !validLine(t.Value) {
			return unwritable(FaultInvalid, t.Key, "a trailer's value isn't one line of at most 4096 bytes of text", "shorten it, or put it into the tree")
		}
	}
	return nil
}

// validKey is narrower than git, which takes a leading hyphen too.
func validKey(k string) bool {
	if k == "" || len(k) > MaxKeyBytes || k[0] == '-' {
		return false
	}
	for i := 0; i < len(k); i++ {
		if !isKeyByte(k[i]) {
			return false
		}
	}
	return true
}

// validLine reports whether s is some UTF-8 text on one line, without white
// space around it, which git would cut, and without control characters or
// Unicode's line and paragraph separators, which a reader may break lines at.
func validLine(s string) bool {
	if s == "" || strings.Trim(s, gitSpaces) != s || !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	})
}
