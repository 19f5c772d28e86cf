package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/compliance/lazyregexp"
)

// escapeSequence is what terminals obey: CSI, OSC and the two-byte forms.
var escapeSequence = lazyregexp.New("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_]|[ -/]+[0-~])|\u009b[0-?]*[ -/]*[@-~]")

// Clean makes untrusted text harmless for a terminal: escape sequences go, line
// ends become LF, and other code points that can't be seen are shown as
// escapes. Tabs stay.
func Clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = escapeSequence().ReplaceAllString(s, "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\r':
			b.WriteByte('\n')
		case r == '\n' || r == '\t' || !visible.Hidden(r):
			b.WriteRune(r)
		default:
			b.WriteString(visible.Escape(r))
		}
	}
	return b.String()
}

// CleanJSON is a JSON document in which no code point stands bare that a reader
// can't see or a terminal obeys. It says the same: JSON has an escape for each. White
// space between the values stays.
func CleanJSON(doc string) string {
	var b strings.Builder
	for _, r := range doc {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || !visible.Hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// cleanLine is Clean for text that must stay on one line.
func cleanLine(s string) string { return strings.Join(strings.Fields(Clean(s)), " ") }

// closing is a keyword and a reference that would close some issue if the text
// came into a commit or a change's description, code or not.
var (
	closing    = lazyregexp.New(`(?i)\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)\b[^\n]*`)
	reference  = lazyregexp.New(`([#!])([0-9])`)
	otherForms = lazyregexp.New(`(?i)\b(gh)-([0-9])|\b(https?:)//`)
)

// defuse breaks up the references after closing keywords.
func defuse(s string) string {
	return closing().ReplaceAllStringFunc(s, func(m string) string {
		return otherForms().ReplaceAllString(reference().ReplaceAllString(m, "$1 $2"), "$1$3 $2")
	})
}

// Paths as they are shown: names that differ never look the same. Discarded ones and
// subjects of violations are recorded so.
func paths(list []string) []string {
	return each(list, func(p string) string { return unreferring(visible.Path(p)) })
}

func each(list []string, f func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = f(s)
	}
	return out
}

// referring are the marks in a name of a file that [defuse] would pull apart.
var referring = lazyregexp.New(`[#!][0-9]|(?i:\bgh-[0-9])`)

// unreferring writes them as escapes instead: with a blank it is another name.
func unreferring(path string) string {
	if defuse(path) == path {
		return path
	}
	return referring().ReplaceAllStringFunc(path, func(m string) string {
		last := len(m) - 2
		return fmt.Sprintf(`%s\x%02x%s`, m[:last], m[last], m[last+1:])
	})
}

// Escapes reports whether the text of a report has names of files with escapes, or other
// characters that are shown by one. It had none of the first when the first reports of
// version 1 were made, and showed the second otherwise.
func (r Report) Escapes() bool {
	list := slices.Concat(r.ChangedFiles, r.Discarded)
	for _, v := range r.Violations {
		list = append(list, v.Subject)
	}
	if r.Merge != nil {
		list = append(list, r.Merge.Differs...)
	}
	return !slices.Equal(list, paths(list)) || escape().MatchString(r.Recorded())
}

// escape is what [visible.Escape] makes.
var escape = lazyregexp.New(`\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})`)

// bar stands before each line of untrusted text.
const bar = "| "

// fenced is untrusted text as a Markdown block. The fence is longer than any
// run of backticks inside, and no line inside begins with one.
func fenced(text string) string {
	text = strings.Trim(defuse(Clean(text)), "\n")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + bar + strings.ReplaceAll(text, "\n", "\n"+bar) + "\n" + fence + "\n"
}

// Quoted is untrusted text as a block of Markdown in which nothing counts.
func Quoted(text string) string { return fenced(text) }

// span is a short untrusted text as Markdown code on one line.
func span(text string) string {
	text = strings.ReplaceAll(cleanLine(defuse(text)), "`", "'")
	if text == "" {
		return "–"
	}
	return "`" + cutRunes(text, maxSpan) + "`"
}

// maxSpan is the length of a code span, in runes.
const maxSpan = 200

func cutRunes(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// tail is the end of a text, cut at a line where that is near.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[len(s)-most:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < most/4 {
		s = s[i+1:]
	}
	return "[…]\n" + strings.ToValidUTF8(s, "")
}
