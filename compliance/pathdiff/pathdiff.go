// Package pathdiff shows what changes to a few files come to, to a person who has to
// answer for exactly their bytes: a unified diff in which nothing can hide. Every code
// point that can't be seen, every byte that is no UTF-8, a carriage return, a blank at the
// end of a line and a gap that would push off the screen what follows are spelled out, and
// so is a backslash, so that what is spelled out can't be written by the file itself. A long
// line goes on in another row, with the sign of the first: a lone backslash at the end of a
// row says so. What no text can show, a binary file or one that is too long, is named by its
// size and SHA-256. A letter that looks like another one is shown as it is.
//
// The same changes always give the same text.
package pathdiff

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const (
	// around is how many lines are shown before and after a changed one.
	around = 3
	// maxFile is the longest file that is compared line by line.
	maxFile = 4 << 20
	// tab is shown as it is: it is how many files are indented, and can be seen to be there.
	tab = '\t'
)

// Text is the diff of changes. read returns a file by its blob id.
func Text(changes []kernel.Change, read func(id string) ([]byte, bool)) string {
	var b strings.Builder
	for _, c := range changes {
		file(&b, c, read)
	}
	return b.String()
}

func file(b *strings.Builder, c kernel.Change, read func(id string) ([]byte, bool)) {
	name := visible.Path(c.Path)
	switch c.Op {
	case kernel.OpAdd:
		fmt.Fprintf(b, "added %s, mode %s\n", name, c.AfterMode)
	case kernel.OpDelete:
		fmt.Fprintf(b, "deleted %s, mode %s\n", name, c.BeforeMode)
	case kernel.OpModify, kernel.OpMode:
		fmt.Fprintf(b, "changed %s, mode %s", name, c.BeforeMode)
		if c.AfterMode != c.BeforeMode {
			fmt.Fprintf(b, " to %s", c.AfterMode)
		}
		b.WriteString("\n")
	}
	var before, after []byte
	readable := true
	for _, side := range []struct {
		id string
		to *[]byte
	}{{c.BeforeID, &before}, {c.AfterID, &after}} {
		if side.id != "" {
			data, ok := read(side.id)
			*side.to, readable = data, readable && ok
		}
	}
	switch {
	case !readable:
		b.WriteString("its bytes can't be read\n")
	case binary(before) || binary(after):
		fmt.Fprintf(b, "no text: before %s, after %s\n", named(c.BeforeID, before), named(c.AfterID, after))
	default:
		hunks(b, string(before), string(after))
	}
}

// binary reports whether a file is none that lines could be compared of.
func binary(data []byte) bool {
	return len(data) > maxFile || bytes.IndexByte(data, 0) >= 0
}

func named(id string, data []byte) string {
	if id == "" {
		return "none"
	}
	return fmt.Sprintf("%d bytes, %s", len(data), canon.Sum(data))
}

// hunks writes what differs, with some lines around it.
func hunks(b *strings.Builder, before, after string) {
	list, _ := git.CompareLines(git.Lines(before), git.Lines(after))
	shown := make([]bool, len(list))
	for i, e := range list {
		if e.Sign != ' ' {
			for j := max(0, i-around); j <= min(len(list)-1, i+around); j++ {
				shown[j] = true
			}
		}
	}
	was, is := 1, 1
	for i, e := range list {
		if shown[i] {
			if i == 0 || !shown[i-1] {
				fmt.Fprintf(b, "@@ line %d, now %d @@\n", was, is)
			}
			for _, row := range spelled(e.Line, maxRow) {
				fmt.Fprintf(b, "%c%s\n", e.Sign, row)
			}
		}
		if e.Sign != '+' {
			was++
		}
		if e.Sign != '-' {
			is++
		}
	}
}

// maxBlank is how wide a gap is shown as it is, in columns, a tab being tabWidth of them.
// What stands behind a wider one is pushed off a narrow screen, where nobody looks for it.
const maxBlank, tabWidth = 32, 4

// gap spells out the blanks and tabs that a text begins with, where they are too wide to be
// shown: as `\x20{40}`, and nothing else has braces behind what is spelled out.
func gap(text string) (said string, length int) {
	length = len(text) - len(strings.TrimLeft(text, " \t"))
	if length+(tabWidth-1)*strings.Count(text[:length], "\t") <= maxBlank {
		return "", 0
	}
	for rest := text[:length]; rest != ""; {
		n := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
		said += fmt.Sprintf(`\x%02x{%d}`, rest[0], n)
		rest = rest[n:]
	}
	return said, length
}

// maxRow is how many columns of a line stand in one row: a code block doesn't wrap, and what
// is further to the right is read by nobody who doesn't scroll there.
const maxRow = 100

// Line shows a line of a file in one row, as [Text] does, without its end.
func Line(line string) string {
	return spelled(strings.TrimSuffix(line, "\n")+"\n", math.MaxInt)[0]
}

// rows are what a line is shown as: all but the last end with a lone backslash.
type rows struct {
	most    int // columns of one row
	done    []string
	row     strings.Builder
	columns int
}

// add shows text, which is never divided. What isn't ASCII is taken for as wide as two.
func (r *rows) add(text string) {
	width := len(text) + (tabWidth-1)*strings.Count(text, "\t")
	if text[0] >= utf8.RuneSelf {
		width = 2
	}
	if r.columns > 0 && width > r.most-r.columns {
		r.row.WriteByte('\\')
		r.done = append(r.done, r.row.String())
		r.row.Reset()
		r.columns = 0
	}
	r.row.WriteString(text)
	r.columns += width
}

// spelled shows a line so that no two lines look the same, and none has a part that a
// narrow screen hides behind nothing.
func spelled(line string, most int) []string {
	text, ended := strings.CutSuffix(line, "\n")
	out := rows{most: most}
	for i := 0; i < len(text); {
		if said, n := gap(text[i:]); n > 0 {
			out.add(said)
			i += n
			continue
		}
		r, width := utf8.DecodeRuneInString(text[i:])
		last := i+width == len(text)
		out.add(shown(r, text[i:i+width], last))
		i += width
	}
	if !ended {
		out.row.WriteString(`\ no line end`)
	}
	return append(out.done, out.row.String())
}

// shown is a character as it is, or spelled out where nobody could see it.
func shown(r rune, bytes string, last bool) string {
	switch {
	case r == utf8.RuneError && len(bytes) == 1:
		return fmt.Sprintf(`\x%02x`, bytes[0])
	case r == '\\':
		return `\\`
	case r == tab && !last:
		return bytes
	case r == ' ' && last:
		return `\x20`
	case visible.Blank(r):
		return visible.Escape(r)
	}
	return bytes
}
