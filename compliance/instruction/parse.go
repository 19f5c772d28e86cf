package instruction

import (
	"fmt"
	"strings"

	"github.com/writbot/writ/kernel"
)

// Limits of an issue. More is instruction.too_large; nothing is cut (CASES I14).
const (
	// MaxTitleBytes: forges allow some 256 characters.
	MaxTitleBytes = 1 << 10
	// MaxBodyBytes: forges allow 64 Ki characters, of which few take 4 bytes.
	MaxBodyBytes = 128 << 10
	// MaxOutcomeBytes bounds the expected outcome, a sentence or two.
	MaxOutcomeBytes = 2 << 10
)

// Parsed is an issue, read.
type Parsed struct {
	Title string             // as given
	Prose string             // what the page shows of the body, without the binding part, trimmed
	Cuts  int64              // how many things were cut because the page doesn't show them
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
	src := []byte(strings.ToValidUTF8(strings.ReplaceAll(body, "\r\n", "\n"), "\uFFFD"))
	md := parseMarkdown(src)
	if large := md.tooLarge(); len(large) > 0 {
		p.Bad = kernel.SortViolations(append(p.Bad, large...))
		return p
	}
	pg := readPage(md)
	p.Bad = append(p.Bad, pg.bad...)
	if pg.faults > len(pg.bad) {
		p.bad(kernel.CodeInstructionHidden, "body", fmt.Sprintf("And %d more places that hide something.", pg.faults-len(pg.bad)))
	}
	binding := p.binding(pg)
	p.Cuts, p.Notes = pg.notes(p.Notes)
	p.Prose = strings.TrimSpace(pg.prose(binding))
	for _, s := range binding {
		blot(pg.words, s, markupMark)
	}
	p.words = string(pg.words)
	if strings.TrimSpace(title) == "" {
		p.bad(kernel.CodeDispatchMalformed, "title", "The issue has no title.")
	}
	p.Bad = kernel.SortViolations(p.Bad)
	return p
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

func lineOf(src []byte, at int) int { return 1 + strings.Count(string(src[:at]), "\n") }

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
