package instruction

import (
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/kernel"
)

func TestD10_EachWordIsFound(t *testing.T) {
	for _, w := range AmbiguousWords() {
		for _, text := range []string{"Do it " + w + " soon.", strings.ToUpper(w), "(" + w + ")", "Do *" + w + "*.", "- " + strings.ReplaceAll(w, " ", "  "), "a\n" + strings.Replace(w, " ", "\n", 1) + "."} {
			if got := findAmbiguous(plain(text)); len(got) != 1 || got[0].word != w {
				t.Errorf("%q in %q: %v", w, text, got)
			}
		}
	}
}

func TestD10_NearMisses(t *testing.T) {
	for _, text := range []string{
		"It was needed.", "has needed", "maybes", "unmaybe", "maybe_x", "MaybeType2", "perhapsburg", "the improbably large", "a possibility", "impossibly",
		"tiffany ideally_not", "as\n\nneeded", "or, so", "orso", "for so long", "floor so", "improbable", "`maybe`", "```\nmaybe\n```", "    maybe\n", "> maybe\n",
		"say \"maybe\" here", "say “perhaps” here", "as `x` needed", "<!-- maybe -->", "<b class=\"maybe\">x</b>", "https://x.example/maybe_later",
		"The option is optional.", "It should pass.",
	} {
		if got := findAmbiguous(plain(text)); len(got) > 0 {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestD10_Emphasis(t *testing.T) {
	for _, text := range []string{"as *needed*", "**as** needed", "as [needed](x)", "as\n**needed**", "# Perhaps\n", "- maybe\n- x\n", "| maybe |\n"} {
		if got := findAmbiguous(plain(text)); len(got) != 1 {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestD10_WhereItCounts(t *testing.T) {
	const outcome = "```writ\nallowed_files: [a]\nexpected_outcome: \"OUT\"\n```\n"
	for name, row := range map[string]struct {
		title, out, prose, language string
		subjects                    []string
		notes                       int
	}{
		"outcome, off":  {"t", "it maybe works", "x", "off", []string{"expected_outcome"}, 1},
		"outcome, warn": {"t", "it maybe works", "x", "warn", []string{"expected_outcome"}, 1},
		"title, strict": {"maybe do it", "works", "x", "strict", []string{"title"}, 0},
		"prose, strict": {"t", "works", "perhaps", "strict", []string{"body"}, 0},
		"prose, warn":   {"maybe", "works", "perhaps", "warn", nil, 3},
		"prose, off":    {"maybe", "works", "perhaps", "off", nil, 1},
		"clean, strict": {"t", "works", "as was needed", "strict", nil, 0},
	} {
		c, _, _ := contract.Load([]byte("version: 1\nlanguage: {prose: \""+row.language+"\"}\n"), contract.Source{})
		r := Parse(row.title, strings.Replace(outcome, "OUT", row.out, 1)+"\n"+row.prose).Resolve(c, nil)
		var got []string
		for _, v := range r.Violations {
			if v.Code != kernel.CodeDispatchNondeterministic {
				t.Errorf("%s: %v", name, v)
			}
			got = append(got, v.Subject)
		}
		if strings.Join(got, " ") != strings.Join(row.subjects, " ") || len(r.Notes) != row.notes {
			t.Errorf("%s: %v, notes %q", name, got, r.Notes)
		}
	}
}

func TestD10_LinesAreTheBodys(t *testing.T) {
	r := Parse("t", "<!-- a\nb -->\n\n"+block+"\nthen maybe\n").Resolve(testContract(t, "language: {prose: strict}\n"), nil)
	if len(r.Violations) != 1 || !strings.HasPrefix(r.Violations[0].Detail, "Line 11: ") {
		t.Errorf("%v", r.Violations)
	}
}

// TestI7_CutWordsDontCount: what can't be seen can't be ambiguous.
func TestI7_CutWordsDontCount(t *testing.T) {
	body := "a <span>maybe</span> b[^1]\n\n[^2]: perhaps\n\n[](maybe) ![perhaps](x \"maybe\") <b title=\"perhaps\">perhaps</b> https://e.example/maybe\n"
	r := Parse("t", body+"\n"+block).Resolve(testContract(t, "language: {prose: strict}\n"), nil)
	if len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
}
