package instruction

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
)

// AmbiguousWords is the list of wordings that leave open what is asked for
// (REQUIREMENTS D10). Words that are ambiguous only at times (optional, should,
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

// gap is what may stand between two words: blanks, one line end, and the marks
// of emphasis, which [plain] turns into NUL.
const gap = `(?:[ \t\x00]+\n?|\n)[ \t\x00]*`

var ambiguous = func() *regexp.Regexp {
	var parts []string
	for _, w := range ambiguousWords {
		parts = append(parts, strings.ReplaceAll(regexp.QuoteMeta(w), " ", gap))
	}
	// The longest first, so that "if possible" isn't read as a shorter one.
	slices.SortStableFunc(parts, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile(`(?i)` + strings.Join(parts, "|"))
}()

// quoted is text that somebody quotes; it speaks of a word and doesn't use it.
var quoted = regexp.MustCompile("\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»")

// maxWordsListed is how many matches are named.
const maxWordsListed = 20

// ambiguity is one match: the word as listed, and its line from 1.
type ambiguity struct {
	word string
	line int
}

// findAmbiguous lists the matches in Markdown text.
func findAmbiguous(markdown string) []ambiguity {
	text := plain(markdown)
	text = quoted.ReplaceAllStringFunc(text, func(q string) string { return strings.Repeat(codeFill, len(q)) })
	var out []ambiguity
	for at := 0; at < len(text); {
		m := ambiguous.FindStringIndex(text[at:])
		if m == nil {
			break
		}
		from, to := at+m[0], at+m[1]
		if !boundary(text, from, to) {
			at = from + 1
			continue
		}
		word := strings.ToLower(strings.Join(strings.FieldsFunc(text[from:to], func(r rune) bool { return strings.ContainsRune(" \t\n\x00", r) }), " "))
		out = append(out, ambiguity{word, 1 + strings.Count(text[:from], "\n")})
		at = to
	}
	return out
}

func boundary(text string, from, to int) bool {
	return !wordBefore(text[:from]) && !wordAfter(text[to:])
}

// checkWords turns matches into one violation for each word and line.
func checkWords(subject, markdown string) []kernel.Violation {
	found := findAmbiguous(markdown)
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
