//go:build conformance

package housekeeping

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// groups are the seeds' rows that docs/conformance.md must have, and how many.
var groups = []struct {
	prefix string
	rows   int
}{{"A", 52}, {"D", 66}, {"WK", 63}, {"KC", 63}, {"SM", 61}}

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
	conformanceRow = regexp.MustCompile(`(?m)^\| (A|D|WK|KC|SM)(\d+) \| ([^|]+) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$`)
	namedTest      = regexp.MustCompile("`((?:Test|Fuzz)[^`/]*)[^`]*`")
	namedCase      = regexp.MustCompile(`\bcase ([WILKSGXFJRM][0-9]+)\b`)
	namedPlace     = regexp.MustCompile("`((?:kernel|executor|compliance|forge|webhook|cmd|docs)/[^`]*)`")
)

// row is a requirement's row in docs/conformance.md: what holds it, and whether
// the installed program takes that way.
type row struct{ state, where, runs string }

// fault says what is wrong with the row, or nothing.
func (r row) fault(t *testing.T, tests []string) string {
	if !slices.Contains([]string{"yes", "part", "no"}, r.runs) {
		return fmt.Sprintf("runs is %q, not yes, part or no", r.runs)
	}
	switch r.state {
	case "held":
		return heldBy(r.where, tests)
	case "by design":
		return standsAt(t, r.where)
	case "not yet":
		return missing(r.where, tests)
	}
	return fmt.Sprintf("its state is %q, not held, by design or not yet", r.state)
}

// heldBy says which test that a column names isn't there, or that it names none.
func heldBy(column string, tests []string) string {
	found, wrong := named(column, tests)
	if wrong == "" && found == 0 {
		return "held, and names neither a test nor a case"
	}
	return wrong
}

// missing wants what a row waits for. Tests that it names beside that are there.
func missing(column string, tests []string) string {
	if len(column) < len("needs it") {
		return "not yet, but for what?"
	}
	_, wrong := named(column, tests)
	return wrong
}

// named counts the tests and cases that a column names, and says which isn't there.
func named(column string, tests []string) (found int, wrong string) {
	for _, m := range namedTest.FindAllStringSubmatch(column, -1) {
		if found++; !slices.Contains(tests, m[1]) {
			return found, m[1] + " is not a test of this repository"
		}
	}
	for _, m := range namedCase.FindAllStringSubmatch(column, -1) {
		bears := regexp.MustCompile(`(?:^Test|^Fuzz|_)` + m[1] + `(?:_|$)`)
		if found++; !slices.ContainsFunc(tests, bears.MatchString) {
			return found, "no test bears case " + m[1]
		}
	}
	return found, ""
}

// standsAt wants at least one file or folder of the repository, and each to be there.
func standsAt(t *testing.T, column string) string {
	places := namedPlace.FindAllStringSubmatch(column, -1)
	if len(places) == 0 {
		return "by design, and names no place of the repository"
	}
	for _, m := range places {
		if _, err := os.Stat(filepath.Join(root(t), m[1])); err != nil {
			return m[1] + " is no place of this repository"
		}
	}
	return ""
}

// TestConformance_EachRequirementIsHeld holds docs/conformance.md to the tests.
func TestConformance_EachRequirementIsHeld(t *testing.T) {
	tests := testsOf(t)
	rows := map[string]row{}
	for _, m := range conformanceRow.FindAllStringSubmatch(read(t, "docs/conformance.md"), -1) {
		if _, twice := rows[m[1]+m[2]]; twice {
			t.Errorf("%s%s is there twice", m[1], m[2])
		}
		rows[m[1]+m[2]] = row{strings.TrimSpace(m[4]), strings.TrimSpace(m[5]), strings.TrimSpace(m[6])}
	}
	for _, g := range groups {
		for i := 1; i <= g.rows; i++ {
			id := fmt.Sprintf("%s%d", g.prefix, i)
			if r, ok := rows[id]; !ok {
				t.Errorf("%s has no row", id)
			} else if wrong := r.fault(t, tests); wrong != "" {
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

// TestConformance_EachWarningIsHeld: what others warn of, in docs/security.md, names the tests
// that hold it, and these are there.
func TestConformance_EachWarningIsHeld(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "docs/security.md"), "\n## What others warn of\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| ([^|-][^|]*) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(table, -1)
	if len(rows) < 25 {
		t.Fatalf("docs/security.md has %d rows of warnings", len(rows))
	}
	tests := testsOf(t)
	for _, m := range rows[1:] { // the first one is the head
		if wrong := heldBy(m[3], tests); wrong != "" && !strings.HasPrefix(m[2], "not held") {
			t.Errorf("%s: %s", m[1], wrong)
		}
	}
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

// haltProducers is how many rows the table of what halts a kernel has.
const haltProducers = 8

// TestConformance_EachProducerOfAHaltIsHeld wants tests for each way to HALTED.
func TestConformance_EachProducerOfAHaltIsHeld(t *testing.T) {
	tests := testsOf(t)
	_, table, _ := strings.Cut(read(t, "docs/conformance.md"), "\n## What halts a kernel\n")
	rows := regexp.MustCompile(`(?m)^\| ([^|-][^|]*) \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(table, -1)
	for _, r := range rows[min(1, len(rows)):] { // the first is the head
		if wrong := heldBy(r[3], tests); wrong != "" {
			t.Errorf("%s: %s", r[1], wrong)
		}
	}
	if len(rows) != haltProducers+1 {
		t.Errorf("%d rows with the head, and %d producers", len(rows), haltProducers)
	}
}

// TestConformance_TheCheckerCatches shows what the checker refuses.
func TestConformance_TheCheckerCatches(t *testing.T) {
	tests := []string{"TestL1_Claim", "TestSim_K7", "FuzzL13_Trailers", "TestScope"}
	for _, c := range []struct {
		row
		want string
	}{
		{row{"held", "`TestScope`", "yes"}, ""},
		{row{"held", "`TestScope/S1_link`", "part"}, ""},
		{row{"held", "case L1, case K7, case L13", "no"}, ""},
		{row{"held", "", "yes"}, "neither"},
		{row{"held", "TODO-lead", "yes"}, "neither"},
		{row{"held", "`TestGone`", "yes"}, "is not a test"},
		{row{"held", "`TestScope`, `TestGone`", "yes"}, "is not a test"},
		{row{"held", "case L2", "yes"}, "no test bears"},
		{row{"held", "case L1, case L11", "yes"}, "no test bears"},
		{row{"by design", "`kernel/canon` has it", "yes"}, ""},
		{row{"by design", "it is so", "yes"}, "names no place"},
		{row{"by design", "`kernel/gone.go`", "yes"}, "no place of"},
		{row{"not yet", "needs a forge", "no"}, ""},
		{row{"not yet", "", "no"}, "for what"},
		{row{"not yet", "half of it: `TestGone`", "part"}, "is not a test"},
		{row{"held", "`TestScope`", "perhaps"}, "runs is"},
		{row{"later", "needs a forge", "no"}, "its state is"},
	} {
		if got := c.fault(t, tests); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.row, got, c.want)
		}
	}
}
