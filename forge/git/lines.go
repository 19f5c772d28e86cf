package git

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/utils/diff"
)

// What is compared is bounded, and no clock bounds it: two who compare say the same.
const (
	MaxCounted  = 512 << 10  // bytes of a file
	maxCompared = 16_000_000 // lines before times lines after: 4,000 of each
)

// LineEdit is a line that stays (' '), goes ('-') or comes ('+'), with its end.
type LineEdit struct {
	Sign byte
	Line string
}

// CompareLines is a shortest way from some lines to others. Not ok: between the first and
// the last line that differ there are too many to be matched, and all of them go and come.
func CompareLines(before, after []string) (list []LineEdit, ok bool) {
	head, least := 0, min(len(before), len(after))
	for head < least && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < least-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	add := func(sign byte, lines []string) {
		for _, l := range lines {
			list = append(list, LineEdit{sign, l})
		}
	}
	add(' ', before[:head])
	old, now := before[head:len(before)-tail], after[head:len(after)-tail]
	if ok = len(old)*len(now) <= maxCompared; !ok || len(old) == 0 || len(now) == 0 {
		add('-', old)
		add('+', now)
	} else {
		for _, d := range diff.DoWithTimeout(strings.Join(old, ""), strings.Join(now, ""), 0) { // never cut off
			sign := byte(' ')
			switch {
			case d.Type > 0:
				sign = '+'
			case d.Type < 0:
				sign = '-'
			}
			add(sign, Lines(d.Text))
		}
	}
	add(' ', before[len(before)-tail:])
	return list, ok
}

// Lines are those of a text, each with its end, which the last may lack.
func Lines(text string) []string { return slices.Collect(strings.Lines(text)) }

// CountLines counts the lines that a file gained and lost. It isn't ok for what has no
// lines, and for what is too large to compare.
func CountLines(before, after []byte) (added, removed int, ok bool) {
	for _, data := range [][]byte{before, after} {
		if len(data) > MaxCounted || bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) {
			return 0, 0, false
		}
	}
	list, ok := CompareLines(Lines(string(before)), Lines(string(after)))
	if !ok {
		return 0, 0, false
	}
	for _, e := range list {
		switch e.Sign {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return added, removed, true
}
