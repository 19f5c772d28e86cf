package instruction

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
)

// AmbiguousWords is the list of wordings that leave open what is asked for
// (conformance D10). Words that are ambiguous only at times (optional, should,
// roughly) are not on it: they would hurt honest people more than they help.
func AmbiguousWords() []string { return slices.Clone(ambiguousWords) }

var ambiguousWords = []string{
	"and so on", "as appropriate", "as needed", "as required", "as you like", "as you see fit", "at your discretion",
	"feel free", "ideally", "if appropriate", "if convenient", "if desired", "if feasible", "if necessary", "if needed",
	"if possible", "if time permits", "if you can", "if you like", "if you want", "maybe", "might be nice", "might want",
	"nice to have", "optionally", "or similar", "or so", "or something", "perhaps", "possibly", "preferably", "probably",
	"some kind of", "some sort of", "something like", "to be decided", "to be determined", "up to you",
	"when convenient", "when possible", "whenever possible", "where appropriate", "where possible",
}

// Fillers of plain text: markup between words is a gap, code and quotes aren't.
const (
	markupMark = 0
	codeMark   = 1
	codeFill   = "\x01"
)

// plain is the text of Markdown with everything but words blotted out, of the
// same length: positions and line ends stay.
func plain(markdown string) string {
	t := newTeller(parseMarkdown([]byte(markdown)))
	t.blocks(t.md.doc, "")
	return string(t.words)
}

// gap is what may stand between two words: blanks, one line end, and the marks
// of emphasis, which [plain] turns into NUL.
const gap = `(?:[ \t\x00]+\n?|\n)[ \t\x00]*`

var ambiguous = func() lazyregexp.Regexp {
	var parts []string
	for _, w := range ambiguousWords {
		parts = append(parts, strings.ReplaceAll(regexp.QuoteMeta(w), " ", gap))
	}
	// The longest first, so that "if possible" isn't read as a shorter one.
	slices.SortStableFunc(parts, func(a, b string) int { return len(b) - len(a) })
	return lazyregexp.New(`(?i)` + strings.Join(parts, "|"))
}()

// quoted is text that somebody quotes; it speaks of a word and doesn't use it.
var quoted = lazyregexp.New("\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»")

// maxWordsListed is how many matches are named.
const maxWordsListed = 20

// ambiguity is one match: the word as listed, and its line from 1.
type ambiguity struct {
	word string
	line int
}

// findAmbiguous lists the matches in a text that [plain] made.
func findAmbiguous(text string) []ambiguity {
	text = quoted().ReplaceAllStringFunc(text, func(q string) string { return strings.Repeat(codeFill, len(q)) })
	var out []ambiguity
	line, counted := 1, 0
	for at := 0; at < len(text); {
		m := ambiguous().FindStringIndex(text[at:])
		if m == nil {
			break
		}
		from, to := at+m[0], at+m[1]
		if !boundary(text, from, to) {
			at = from + 1
			continue
		}
		word := strings.ToLower(strings.Join(strings.FieldsFunc(text[from:to], func(r rune) bool { return strings.ContainsRune(" \t\n\x00", r) }), " "))
		line += strings.Count(text[counted:from], "\n")
		counted = from
		out = append(out, ambiguity{word, line})
		at = to
	}
	return out
}

func boundary(text string, from, to int) bool {
	return !wordBefore(text[:from]) && !wordAfter(text[to:])
}

// checkWords turns matches in a text that [plain] made into one violation for
// each word and line.
func checkWords(subject, text string) []kernel.Violation {
	found := findAmbiguous(text)
	var out []kernel.Violation
	for i, a := range found {
		if i == maxWordsListed {
			out = append(out, kernel.Violation{Code: kernel.CodeDispatchNondeterministic, Subject: subject,
				Detail: fmt.Sprintf("And %d more ambiguous words.", len(found)-i)})
			break
		}
		out = append(out, kernel.Violation{Code: kernel.CodeDispatchNondeterministic, Subject: subject,
			Detail: fmt.Sprintf("Line %d: %q leaves open what is wanted.", a.line, a.word)})
	}
	return out
}

func wordRune(r rune) bool {
	return r == '_' || r == codeMark || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func wordBefore(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return s != "" && wordRune(r)
}

func wordAfter(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return s != "" && wordRune(r)
}
