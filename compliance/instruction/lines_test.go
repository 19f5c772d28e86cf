package instruction_test

import (
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/instruction"
)

// TestParse_LinesOfTheBlock: what is wrong with the writ block is told with its line.
func TestParse_LinesOfTheBlock(t *testing.T) {
	for block, want := range map[string]string{
		"allowed_files: [a]\n\tchecks: []":  "Line 2 of the block: It is not YAML (found character that cannot start any token): a tab can't indent",
		"allowed_files: [a]\nchecks: tests": "Line 2 of the block: It must be a list.",
		"allowed_file: [a]":                 "Line 1 of the block: The key is unknown; known are allowed_files,",
	} {
		p := instruction.Parse("A title", "Do it.\n\n```writ\n"+block+"\n```\n")
		if len(p.Bad) == 0 || !strings.HasPrefix(p.Bad[0].Detail, want) {
			t.Errorf("%q: %+v", block, p.Bad)
		}
	}
}
