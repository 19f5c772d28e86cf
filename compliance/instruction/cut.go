package instruction

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// span is a part of a source, in bytes.
type span struct{ from, to int }

// kind says what a cut takes out. The table in the package comment has the
// constructs; silent cuts only put one notation in the place of another.
type kind int

const (
	silent kind = iota
	kindComment
	kindElement
	kindTag
	kindAttributes
	kindDefinition
	kindDestination
	kindTitle
	kindEmptyLink
	kindAlt
	kindImageAttributes
	kindWikiTarget
	kindFootnote
	kindFootnoteLabel
	kindInfo
	kindCells
	kindDrawing
	kindFormula
	kinds
)

// names of kinds, one and many.
var names = [kinds][2]string{
	kindComment:         {"HTML comment", "HTML comments"},
	kindElement:         {"HTML element with hidden content", "HTML elements with hidden content"},
	kindTag:             {"HTML tag that pages drop", "HTML tags that pages drop"},
	kindAttributes:      {"HTML tag's attributes", "HTML tags' attributes"},
	kindDefinition:      {"link definition", "link definitions"},
	kindDestination:     {"link destination", "link destinations"},
	kindTitle:           {"link title", "link titles"},
	kindEmptyLink:       {"link without a text", "links without a text"},
	kindAlt:             {"image description", "image descriptions"},
	kindImageAttributes: {"image's attributes", "images' attributes"},
	kindWikiTarget:      {"wiki link's target", "wiki links' targets"},
	kindFootnote:        {"footnote that nothing refers to", "footnotes that nothing refers to"},
	kindFootnoteLabel:   {"footnote label", "footnote labels"},
	kindInfo:            {"code block's attributes", "code blocks' attributes"},
	kindCells:           {"table row's cells beyond the last column", "table rows' cells beyond the last column"},
	kindDrawing:         {"drawing whose source can hide text", "drawings whose source can hide text"},
	kindFormula:         {"formula that can hide text", "formulas that can hide text"},
}

// cut is a part of the source that the page doesn't show.
type cut struct {
	span
	kind kind
	with string // what stands in its place
}

// settle sorts cuts and drops those that are inside another one.
func settle(cuts []cut) []cut {
	slices.SortStableFunc(cuts, func(a, b cut) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	out := cuts[:0]
	end := 0
	for _, c := range cuts {
		if c.from < end {
			if c.to <= end {
				continue
			}
			c.from = end
		}
		if c.from < c.to || c.with != "" {
			out = append(out, c)
			end = c.to
		}
	}
	return out
}

// inside reports whether at is in one of the settled cuts.
func inside(cuts []cut, at int) bool {
	i, found := slices.BinarySearchFunc(cuts, at, func(c cut, at int) int { return c.from - at })
	if found {
		return cuts[i].to > at
	}
	return i > 0 && cuts[i-1].to > at
}

// apply makes settled cuts in a part of src. A line of which nothing is left
// goes too, and with it a blank line after it that would be a second one.
func apply(src []byte, part span, cuts []cut) []byte {
	out := make([]byte, 0, part.to-part.from)
	at := part.from
	for _, c := range cuts {
		if c.to <= part.from || c.from >= part.to {
			continue
		}
		if c.from > at {
			out = append(out, src[at:c.from]...)
		}
		out = append(out, c.with...)
		at = min(max(at, c.to), part.to)
		if c.with != "" {
			continue
		}
		if rest, ok := blankLine(src[at:part.to]); ok {
			if line := bytes.LastIndexByte(out, '\n') + 1; len(bytes.Trim(out[line:], " \t")) == 0 {
				out = out[:line]
				at += rest
				for blankEnd(out) {
					next, ok := blankLine(src[at:part.to])
					if !ok || next == 0 {
						break
					}
					at += next
				}
			}
		}
	}
	return append(out, src[at:part.to]...)
}

// blankLine returns the length of the line that b begins with, if it is blank.
func blankLine(b []byte) (int, bool) {
	for i, c := range b {
		switch c {
		case '\n':
			return i + 1, true
		case ' ', '\t':
		default:
			return 0, false
		}
	}
	return len(b), true
}

// blankEnd reports whether b is empty or ends with a blank line.
func blankEnd(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	line := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
	return b[len(b)-1] == '\n' && len(bytes.Trim(b[line:], " \t\n")) == 0
}

// blot overwrites a part of out, line ends excepted.
func blot(out []byte, s span, with byte) {
	for i := s.from; i < s.to; i++ {
		if out[i] != '\n' {
			out[i] = with
		}
	}
}

// maxLinesListed is how many lines a note names for one kind of cut.
const maxLinesListed = 5

// noteCuts says what was left out: how much in all, then each kind with its
// code points and lines. Its length doesn't grow with the number of cuts.
func noteCuts(src []byte, cuts []cut) (count int64, notes []string) {
	var number, runes [kinds]int
	var lines [kinds][]string
	line, at := 1, 0
	for _, c := range cuts {
		if c.kind == silent {
			continue
		}
		count++
		number[c.kind]++
		runes[c.kind] += max(0, utf8.RuneCount(src[c.from:c.to])-utf8.RuneCountInString(c.with))
		line += bytes.Count(src[at:c.from], []byte("\n"))
		at = c.from
		l := strconv.Itoa(line)
		if k := lines[c.kind]; len(k) <= maxLinesListed && (len(k) == 0 || k[len(k)-1] != l) {
			lines[c.kind] = append(k, l)
		}
	}
	if count == 0 {
		return 0, nil
	}
	things := "1 thing that the issue's page does not show was"
	if count > 1 {
		things = fmt.Sprintf("%d things that the issue's page does not show were", count)
	}
	notes = append(notes, things+" left out of the instruction.")
	for k := range kinds {
		if number[k] > 0 {
			notes = append(notes, fmt.Sprintf("Left out: %s (%s), %s.", plural(number[k], names[k][0], names[k][1]),
				plural(runes[k], "character", "characters"), lineList(lines[k])))
		}
	}
	return count, notes
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// lineList names at most maxLinesListed lines.
func lineList(lines []string) string {
	if len(lines) == 1 {
		return "line " + lines[0]
	}
	if len(lines) > maxLinesListed {
		return "lines " + strings.Join(lines[:maxLinesListed], ", ") + " and more"
	}
	return "lines " + strings.Join(lines[:len(lines)-1], ", ") + " and " + lines[len(lines)-1]
}
