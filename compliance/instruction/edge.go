package instruction

import (
	"fmt"
	"strings"
	"unicode"
)

// A page shows code in a box that doesn't wrap its lines: what is beyond its edge
// is seen by those who move its scroll bar, and after a run of blanks nothing says
// that there is more.
const (
	// maxGap is the longest run of blanks in a line of code that is told: a page is
	// some 100 characters wide.
	maxGap = 100
	// Lines of a block that decides stay within a page.
	maxDecidingGap    = 8
	maxDecidingIndent = 40
	maxDecidingLine   = 100

	tabWidth    = 8
	blankInFont = '\u2800' // a pattern of Braille without dots
)

// blankRun is the place in a line of a run of blanks that is too long and has something
// after it, -1 if there is none.
func blankRun(line string, most int) int {
	run, begin := 0, 0
	for i, r := range line {
		switch {
		case r == '\t':
			run += tabWidth
		case unicode.IsSpace(r), r == blankInFont:
			run++
		case run > most:
			return begin
		default:
			run, begin = 0, i+len(string(r))
		}
	}
	return -1
}

// beyondEdge says what may be beyond the edge of the page in a line that decides.
func beyondEdge(line string) string {
	line = strings.TrimRight(line, " \t")
	inside := strings.TrimLeft(line, " \t")
	switch {
	case blankRun(inside, maxDecidingGap) >= 0:
		return fmt.Sprintf("It has more than %d blanks in a row", maxDecidingGap)
	case blankRun(line, maxDecidingIndent) == 0:
		return fmt.Sprintf("It begins with more than %d blanks", maxDecidingIndent)
	case len([]rune(line)) > maxDecidingLine:
		return fmt.Sprintf("It is longer than %d characters", maxDecidingLine)
	}
	return ""
}
