package instruction

import (
	"fmt"
	"strconv"
	"strings"
)

// kind says what was left out. The table in the package comment has the
// constructs.
type kind int

const (
	kindComment kind = iota
	kindElement
	kindTag
	kindFold
	kindDefinition
	kindAddress
	kindQuery
	kindImage
	kindWikiTarget
	kindReplaced
	kindFootnote
	kindInfo
	kindCells
	kindDrawing
	kindFormula
	kindSmall
	kindGap
	kindDoubt
	kinds
)

// names of kinds, one and many.
var names = [kinds][2]string{
	kindComment:    {"HTML comment", "HTML comments"},
	kindElement:    {"HTML element", "HTML elements"},
	kindTag:        {"HTML tag", "HTML tags"},
	kindFold:       {"part that the page folds away", "parts that the page folds away"},
	kindDefinition: {"link definition, or what looks like one", "link definitions, or what looks like one"},
	kindAddress:    {"link's address", "links' addresses"},
	kindQuery:      {"address's query or fragment", "addresses' queries or fragments"},
	kindImage:      {"image", "images"},
	kindWikiTarget: {"wiki link's target", "wiki links' targets"},
	kindReplaced:   {"mark for which GitLab shows something else", "marks for which GitLab shows something else"},
	kindFootnote:   {"footnote that nothing refers to", "footnotes that nothing refers to"},
	kindInfo:       {"code block's attributes", "code blocks' attributes"},
	kindCells:      {"table row's cells beyond the last column", "table rows' cells beyond the last column"},
	kindDrawing:    {"code block that is or may be a drawing", "code blocks that are or may be drawings"},
	kindFormula:    {"formula", "formulas"},
	kindSmall:      {"text in small print inside small print", "texts in small print inside small print"},
	kindGap:        {"end of a line of code, behind a long run of blanks", "ends of lines of code, behind long runs of blanks"},
	kindDoubt:      {"text that renderers read differently", "texts that renderers read differently"},
}

// Cut is what was left out of the instruction of one construct.
type Cut struct {
	Kind  string // the construct, in words
	Lines []int  // of the body, one for each time
}

// maxLinesListed is how many lines a note names for one kind of cut.
const maxLinesListed = 5

// noteCuts says what was left out, in a text that no issue can make long.
func noteCuts(cuts []Cut) []string {
	total := 0
	var notes []string
	for _, c := range cuts {
		total += len(c.Lines)
		what := c.Kind
		if len(c.Lines) > 1 {
			what = many(what)
		}
		notes = append(notes, fmt.Sprintf("Left out: %d %s, %s.", len(c.Lines), what, lineList(c.Lines)))
	}
	switch total {
	case 0:
		return nil
	case 1:
		return append([]string{"1 thing of the issue was left out of the instruction, because it is or may be hidden on the page."}, notes...)
	}
	return append([]string{fmt.Sprintf("%d things of the issue were left out of the instruction, because they are or may be hidden on the page.", total)}, notes...)
}

// many is the plural of a construct.
func many(kind string) string {
	for _, n := range names {
		if n[0] == kind {
			return n[1]
		}
	}
	return kind
}

// lineList names the first lines, each once.
func lineList(lines []int) string {
	var out []string
	more := ""
	for i, l := range lines {
		if i > 0 && l == lines[i-1] {
			continue
		}
		if len(out) == maxLinesListed {
			more = " and more"
			break
		}
		out = append(out, strconv.Itoa(l))
	}
	if len(out) == 1 {
		return "line " + out[0]
	}
	if last := len(out) - 1; more == "" {
		return "lines " + strings.Join(out[:last], ", ") + " and " + out[last]
	}
	return "lines " + strings.Join(out, ", ") + more
}
