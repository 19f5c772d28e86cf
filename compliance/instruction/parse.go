package instruction

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
)

// Limits of an issue. More is instruction.too_large; nothing is cut (case I14).
const (
	// MaxTitleBytes: forges allow some 256 characters.
	MaxTitleBytes = 1 << 10
	// MaxBodyBytes: forges allow 64 Ki characters, of which few take 4 bytes.
	MaxBodyBytes = 128 << 10
	// MaxProseBytes bounds what the builder is told of the body: marks of quotes
	// and lists stand before each line, which makes it longer.
	MaxProseBytes = 2 * MaxBodyBytes
	// MaxOutcomeBytes bounds the expected outcome, a sentence or two.
	MaxOutcomeBytes = 2 << 10
)

// Parsed is an issue, read.
type Parsed struct {
	Title string             // as given
	Prose string             // what the builder is told of the body, without the binding part
	Cuts  int64              // how many things were left out because the page may not show them
	Left  []Cut              // the same by construct
	Spec  kernel.TaskSpec    // what the issue itself names; the rest is empty
	Found bool               // the issue has a block or one of the headings
	Notes []string           // sentences for the report
	Bad   []kernel.Violation // what is wrong with it whatever the contract says

	words string // the body with all that isn't words of the prose blotted out, line by line
}

// Parse reads an issue. It lists every fault; with one of them the issue can't
// be dispatched, and what was read is still returned as far as it goes.
func Parse(title, body string) Parsed {
	p := Parsed{Title: title, Spec: kernel.TaskSpec{AllowedFiles: []string{}, Checks: []string{}}}
	if p.tooLarge(body) {
		return p
	}
	p.Bad = append(checkHidden("title", title, false), checkHidden("body", body, true)...)
	md := parseMarkdown([]byte(strings.ToValidUTF8(strings.ReplaceAll(body, "\r\n", "\n"), "\uFFFD")))
	if large := md.tooLarge(); len(large) > 0 {
		p.Bad = kernel.SortViolations(append(p.Bad, large...))
		return p
	}
	t := newTeller(md)
	p.read(t)
	p.Left = t.cuts()
	for _, c := range p.Left {
		p.Cuts += int64(len(c.Lines))
	}
	p.Notes = append(noteCuts(p.Left), p.Notes...)
	p.Bad = append(p.Bad, t.bad...)
	if t.faults > len(t.bad) {
		p.bad(kernel.CodeInstructionHidden, "body", fmt.Sprintf("And %d more places that hide something.", t.faults-len(t.bad)))
	}
	p.words = string(t.words)
	if len(p.Prose) > MaxProseBytes {
		p.bad(kernel.CodeInstructionTooLarge, "body", fmt.Sprintf("With its quotes and lists written out it has %d bytes; at most %d are told.", len(p.Prose), MaxProseBytes))
		p.Prose = ""
	}
	if strings.TrimSpace(title) == "" {
		p.bad(kernel.CodeDispatchMalformed, "title", "The issue has no title.")
	}
	p.Bad = kernel.SortViolations(p.Bad)
	return p
}

// plainLine is a line of which Markdown hides nothing: a page shows all its bytes.
var plainLine = lazyregexp.New(`^[A-Za-z/][A-Za-z0-9 ,./;-]*\n?$`)

// ShowsFirstLine reports whether a page shows all of the first line of a text,
// which begins a paragraph. Each look at an issue asks that of each command again, so a
// paragraph that is a plain line isn't read as Markdown.
func ShowsFirstLine(body string) bool {
	paragraph, _, _ := strings.Cut(strings.ReplaceAll(body, "\r\n", "\n"), "\n\n")
	if len(paragraph) <= MaxBodyBytes && plainLine().MatchString(paragraph) {
		return true
	}
	p := Parse("t", paragraph)
	hides := func(c Cut) bool { return slices.Contains(c.Lines, 1) }
	return len(p.Bad) == 0 && !slices.ContainsFunc(p.Left, hides)
}

func (p *Parsed) bad(code kernel.Code, subject, detail string) {
	p.Bad = append(p.Bad, kernel.Violation{Code: code, Subject: subject, Detail: detail})
}

func (p *Parsed) tooLarge(body string) bool {
	if n := len(p.Title); n > MaxTitleBytes {
		p.bad(kernel.CodeInstructionTooLarge, "title", fmt.Sprintf("It has %d bytes; at most %d are read.", n, MaxTitleBytes))
	}
	if n := len(body); n > MaxBodyBytes {
		p.bad(kernel.CodeInstructionTooLarge, "body", fmt.Sprintf("It has %d bytes; at most %d are read.", n, MaxBodyBytes))
	}
	return len(p.Bad) > 0
}

// FileError says why an issue file can't be read.
type FileError struct{ Reason string }

// Error is one line.
func (e *FileError) Error() string { return "issue file: " + e.Reason }

// ParseIssueFile splits a Markdown file into title and body: its first line
// that isn't blank must be "# title". The body is what follows that line,
// byte for byte, without blank lines at its start.
func ParseIssueFile(data []byte) (title, body string, err error) {
	if len(data) > MaxTitleBytes+MaxBodyBytes {
		return "", "", &FileError{fmt.Sprintf("it has %d bytes; at most %d are read", len(data), MaxTitleBytes+MaxBodyBytes)}
	}
	text := strings.TrimPrefix(string(data), "\uFEFF")
	for line := range strings.Lines(text) {
		text = text[len(line):]
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		title, ok := strings.CutPrefix(line, "# ")
		if title = strings.TrimSpace(title); !ok || title == "" {
			break
		}
		for strings.HasPrefix(text, "\n") || strings.HasPrefix(text, "\r\n") {
			text = strings.TrimPrefix(strings.TrimPrefix(text, "\r"), "\n")
		}
		return title, text, nil
	}
	return "", "", &FileError{"it must begin with a line \"# title\""}
}
