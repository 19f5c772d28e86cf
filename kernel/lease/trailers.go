package lease

import "strings"

// commentMark begins a line that git leaves out of the trailer block
// (core.commentChar's default).
const commentMark = '#'

// scissors is the line below which git ignores everything, trailers included.
const scissors = "# ------------------------ >8 ------------------------\n"

// conflicts is the heading of the list of paths that old versions of git left
// at the end of a merge's message.
const conflicts = "Conflicts:\n"

// minTrailerShare is git's rule for a block that isn't trailers only: one
// trailer for every three other lines, that is a quarter, and one of the lines
// that git writes itself.
const minTrailerShare = 3

// gitWrites reports whether a line begins as one that git writes itself. One such
// line lets other text stand in a trailer block, see [minTrailerShare].
func gitWrites(line string) bool {
	return strings.HasPrefix(line, "Signed-off-by: ") ||
		strings.HasPrefix(line, "(cherry picked from commit ")
}

// lineKind is what a line is to somebody who looks for trailers.
type lineKind int

const (
	blankLine     lineKind = iota // white space only
	commentLine                   // begins with #
	trailerLine                   // key and colon, or a line that git writes
	continuedLine                 // begins with white space
	textLine                      // anything else
)

func kindOf(line string) lineKind {
	switch {
	case isBlank(line):
		return blankLine
	case line[0] == commentMark:
		return commentLine
	case gitWrites(line):
		return trailerLine
	case isSpace(line[0]):
		return continuedLine
	case keyEnd(line) > 0:
		return trailerLine
	}
	return textLine
}

// isSpace is git's own notion of white space, which knows no form feed.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

const gitSpaces = " \t\r\n"

func isBlank(line string) bool { return strings.Trim(line, gitSpaces) == "" }

// keyEnd returns the index of the colon that ends the line's key, or -1. A key
// is of letters, digits and hyphens; spaces and tabs may stand between it and the
// colon.
func keyEnd(line string) int {
	i := 0
	for i < len(line) && isKeyByte(line[i]) {
		i++
	}
	if i > 0 {
		for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
			i++
		}
	}
	if i < len(line) && line[i] == ':' {
		return i
	}
	return -1
}

func isKeyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
}

// titleLines counts the lines of the first paragraph, the title. A message
// that begins with a blank line has an empty title.
func titleLines(lines []string) int {
	for i, l := range lines {
		if isBlank(l) {
			return i
		}
	}
	return len(lines)
}

// trailerBlock finds the lines [start, end) of the trailer block: the last
// paragraph above the ignored tail, if it isn't the title and holds trailers
// only, or enough of them. Without one, found is false.
func trailerBlock(lines []string, title int) (start, end int, found bool) {
	end = tailStart(lines)
	last := end
	for last > 0 && kindOf(lines[last-1]) <= commentLine {
		last--
	}
	start = last
	for start > 0 && kindOf(lines[start-1]) != blankLine {
		start--
	}
	// The line above the block must be a blank one, at the title's end or
	// below it.
	if start == last || start-1 < title {
		return 0, 0, false
	}
	return start, end, isTrailerParagraph(lines[start:last])
}

// isTrailerParagraph applies git's rule to a paragraph. A continuation line
// counts with the line that it continues, and as text where there is no
// trailer above it.
func isTrailerParagraph(lines []string) bool {
	var trailers, others int
	git, inTrailer := false, false
	for _, l := range lines {
		switch kindOf(l) {
		case trailerLine:
			trailers++
			inTrailer = true
			git = git || gitWrites(l)
		case continuedLine:
			if !inTrailer {
				others++
			}
		case commentLine:
			inTrailer = false
		default:
			others++
			inTrailer = false
		}
	}
	if others == 0 {
		return trailers > 0
	}
	return git && trailers*minTrailerShare >= others
}

// parseBlock reads the lines of a trailer block. Lines of it that are no
// trailers are left out.
func parseBlock(lines []string) []Trailer {
	var out []Trailer
	for i := 0; i < len(lines); {
		first := i
		colon := keyEnd(lines[first])
		for i++; colon > 0 && i < len(lines) && isSpace(lines[i][0]); i++ {
		}
		if colon > 0 {
			out = append(out, Trailer{
				Key:   strings.Trim(lines[first][:colon], gitSpaces),
				Value: unfold(joinLines(lines[first:i])[colon+1:]),
			})
		}
	}
	return out
}

// unfold joins the lines of a folded value with one space each.
func unfold(v string) string {
	parts := strings.Split(strings.Trim(v, gitSpaces), "\n")
	for i := range parts[1:] {
		parts[i+1] = strings.TrimLeft(parts[i+1], gitSpaces)
	}
	return strings.Trim(strings.Join(parts, " "), gitSpaces)
}

// tailStart returns the index of the first line of the tail that git ignores:
// all from a scissors line on, or the comments, empty lines and old list of
// conflicts that end the message.
func tailStart(lines []string) int {
	cut := len(lines)
	for i, l := range lines {
		if l == scissors {
			cut = i
			break
		}
	}
	tail, inConflicts := 0, false // line 0 never begins the tail
	for i, l := range lines[:cut] {
		switch {
		case l == conflicts:
			inConflicts = true
			if tail == 0 {
				tail = i
			}
		case l[0] == commentMark || l[0] == '\n':
			if tail == 0 {
				tail = i
			}
		case inConflicts && l[0] == '\t':
			// a path of the list
		case tail != 0:
			tail, inConflicts = 0, false
		}
	}
	if tail != 0 {
		return tail
	}
	return cut
}
