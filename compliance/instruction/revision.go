package instruction

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/pathdiff"
	"github.com/writbot/writ/kernel"
)

// Comment reads a comment on a change: what the builder is told of it is what both forges
// plainly show, as of an issue, and nothing in it is configuration. bad is why it can't be
// told at all.
func Comment(body string) (prose string, cuts int64, bad []kernel.Violation) {
	p := Parse("comment", body)
	bad = p.Bad
	if p.Found {
		bad = append(bad, kernel.Violation{Code: kernel.CodeDispatchMalformed, Subject: "body", Detail: "It has a writ block or headings of the issue form, which decide nothing in a comment."})
	}
	if len(bad) == 0 && strings.TrimSpace(p.Prose) == "" {
		bad = []kernel.Violation{{Code: kernel.CodeInstructionHidden, Subject: "body", Detail: "A page plainly shows nothing of it."}}
	}
	if len(bad) > 0 {
		return "", 0, bad
	}
	return p.Prose, p.Cuts, nil
}

// The limits of an [Excerpt].
const (
	// around is how many lines stand before and after those that a comment is about.
	around = 3
	// maxExcerptLines and maxExcerptBytes bound what is shown of one place: a screen. The
	// builder has the file.
	maxExcerptLines = 60
	maxExcerptBytes = 8 << 10
	// maxExcerptFile is beyond files whose lines are counted, in bytes.
	maxExcerptFile = 4 << 20
)

// Excerpt renders what a place holds. commit, blob and data are the file as git has it in
// that commit: blob is "" where there is none. It is a function of its arguments alone.
// Whatever is left out, its note says so.
func Excerpt(p kernel.Place, commit, blob string, data []byte) kernel.Excerpt {
	e := kernel.Excerpt{Commit: commit, Blob: blob}
	switch {
	case blob == "":
		e.Note = "There is no such file there."
		return e
	case p.End == 0:
		return e
	case len(data) > maxExcerptFile || bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data):
		e.Note = "It is no text, or too large, so none of it is shown."
		return e
	}
	lines := strings.SplitAfter(string(data), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	if p.Start > int64(len(lines)) {
		e.Note = fmt.Sprintf("The file has %d lines there.", len(lines))
		return e
	}
	from, to := max(0, int(p.Start)-1-around), min(len(lines), int(p.End)+around)
	e.First = int64(from + 1)
	var b strings.Builder
	for n, line := range lines[from:to] {
		shown := pathdiff.Line(line) + "\n"
		if n == maxExcerptLines || b.Len()+len(shown) > maxExcerptBytes {
			e.Note = fmt.Sprintf("Of these %d lines only %d are shown.", to-from, n)
			break
		}
		b.WriteString(shown)
	}
	e.Text = b.String()
	return e
}
