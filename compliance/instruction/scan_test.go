package instruction

import (
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

func TestI14_CostlyMarkdown(t *testing.T) {
	for _, mark := range []string{"[a](", "**x_ ", "_a*", "![", "> ", "1. "} {
		p := Parse("t", strings.Repeat(mark, MaxBodyBytes/len(mark)))
		if !slices.ContainsFunc(p.Bad, func(v kernel.Violation) bool { return v.Code == kernel.CodeInstructionTooLarge }) {
			t.Errorf("%q passes", mark)
		}
	}
}

func TestI7_LinkDefinitionsAndEmptyComments(t *testing.T) {
	for body, want := range map[string]string{
		"a\n\n[//]: <http://e.com> (HIDDEN)\n": "a", "a\n\n[x]: http://e \"HIDDEN\"\n": "a",
		"<!--> SEEN -->": "SEEN -->", "<!---> SEEN -->": "SEEN -->",
	} {
		if p := Parse("t", body); p.Prose != want || p.Cuts != 1 {
			t.Errorf("%q: %q, %d cuts", body, p.Prose, p.Cuts)
		}
	}
}

func TestI8_EnclosedBlock(t *testing.T) {
	for _, open := range []string{"<details>", "<div hidden>", "<template>", "x <details>"} {
		p := Parse("t", open+"\n\n"+block)
		if p.Found || len(p.Bad) == 0 || p.Bad[0].Code != kernel.CodeInstructionHidden {
			t.Errorf("%s: %+v", open, p)
		}
	}
	if p := Parse("t", "<details>\n\nlog\n\n</details>\n\n"+block); !p.Found || len(p.Bad) > 0 {
		t.Errorf("closed: %v", p.Bad)
	}
}
