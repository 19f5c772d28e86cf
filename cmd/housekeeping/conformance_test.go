//go:build conformance

package housekeeping

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// groups are the seeds' rows that docs/conformance.md must have, and how many.
var groups = []struct {
	prefix string
	rows   int
}{{"A", 52}, {"D", 66}, {"SM", 61}}

// testsOf lists the test and fuzz functions of the repository.
func testsOf(t *testing.T) []string {
	var names []string
	for _, f := range goFiles(t) {
		if !f.isTest() {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

var (
	conformanceRow = regexp.MustCompile(`(?m)^\| (A|D|SM)(\d+) \| ([^|]+) \| ([^|]*) \|$`)
	namedTest      = regexp.MustCompile("`((?:Test|Fuzz)[^`/]*)[^`]*`")
	namedCase      = regexp.MustCompile(`\bcase ([WILKSGXFRM][0-9]+)\b`)
)

// heldBy says what is wrong with the last column of a row, or nothing.
func heldBy(column string, tests []string) string {
	if reason, later := strings.CutPrefix(column, "later: "); later {
		if len(reason) < len("needs it") {
			return "later, but for what?"
		}
		return ""
	}
	if strings.Contains(column, "TODO") {
		return "nobody has said which test holds it"
	}
	found := 0
	for _, m := range namedTest.FindAllStringSubmatch(column, -1) {
		if found++; !slices.Contains(tests, m[1]) {
			return m[1] + " is not a test of this repository"
		}
	}
	for _, m := range namedCase.FindAllStringSubmatch(column, -1) {
		bears := regexp.MustCompile(`(?:^Test|^Fuzz|_)` + m[1] + `(?:_|$)`)
		if found++; !slices.ContainsFunc(tests, bears.MatchString) {
			return "no test bears case " + m[1]
		}
	}
	if found == 0 {
		return "names neither a test nor a case nor `later: ` and why"
	}
	return ""
}

// TestConformance_EachRequirementIsHeld holds docs/conformance.md to the tests.
func TestConformance_EachRequirementIsHeld(t *testing.T) {
	tests := testsOf(t)
	rows := map[string]string{}
	for _, m := range conformanceRow.FindAllStringSubmatch(read(t, "docs/conformance.md"), -1) {
		if _, twice := rows[m[1]+m[2]]; twice {
			t.Errorf("%s%s is there twice", m[1], m[2])
		}
		rows[m[1]+m[2]] = strings.TrimSpace(m[4])
	}
	for _, g := range groups {
		for i := 1; i <= g.rows; i++ {
			id := fmt.Sprintf("%s%d", g.prefix, i)
			if column, ok := rows[id]; !ok {
				t.Errorf("%s has no row", id)
			} else if wrong := heldBy(column, tests); wrong != "" {
				t.Errorf("%s: %s", id, wrong)
			}
		}
	}
}

// seedCodes are the failure codes that seed 001 fixes.
var seedCodes = []string{
	"execution.dispatch.invalid", "execution.dispatch.nondeterministic", "execution.dispatch.malformed",
	"execution.lock.violation", "execution.timeout", "execution.no_output", "execution.scope.violation",
	"execution.result.invalid", "execution.verification.failed", "execution.escalation.blocked",
}

// TestConformance_EachSeedCodeIsReached wants a test for each code of seed 001,
// the umbrella codes included.
func TestConformance_EachSeedCodeIsReached(t *testing.T) {
	tests, text := testsOf(t), read(t, "docs/conformance.md")
	for _, code := range seedCodes {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(code) + "` \\| ([^|]+) \\|$").FindStringSubmatch(text)
		if row == nil {
			t.Errorf("%s has no row", code)
		} else if wrong := heldBy(row[1], tests); wrong != "" {
			t.Errorf("%s: %s", code, wrong)
		}
	}
}

// TestConformance_TheCheckerCatches shows what the checker refuses.
func TestConformance_TheCheckerCatches(t *testing.T) {
	tests := []string{"TestL1_Claim", "TestSim_K7", "FuzzL13_Trailers", "TestScope"}
	for column, want := range map[string]string{
		"`TestScope`":                     "",
		"`TestScope/S1_link`":             "",
		"case L1, case K7, case L13":      "",
		"later: needs a forge":            "",
		"later: ":                         "for what",
		"":                                "neither",
		"TODO-lead":                       "nobody",
		"`TestGone`":                      "is not a test",
		"`TestScope`, `TestGone`":         "is not a test",
		"case L2":                         "no test bears",
		"case L1, case L11":               "no test bears",
		"`TestScope` (see TODO tomorrow)": "nobody",
	} {
		if got := heldBy(column, tests); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("heldBy(%q) = %q, want %q", column, got, want)
		}
	}
}
