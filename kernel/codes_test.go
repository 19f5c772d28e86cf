package kernel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel"
)

// seedCodes are the failure codes that seed 001 fixes, to the letter.
var seedCodes = []kernel.Code{
	"execution.dispatch.malformed", "execution.dispatch.invalid", "execution.dispatch.nondeterministic",
	"execution.timeout", "execution.no_output", "execution.scope.violation", "execution.result.invalid",
	"execution.verification.failed", "execution.escalation.blocked", "execution.lock.violation",
}

var codeForm = regexp.MustCompile(`^[a-z]+(_[a-z]+)*(\.[a-z]+(_[a-z]+)*)+$`)

func TestCodes_SeedVerbatim(t *testing.T) {
	for _, c := range seedCodes {
		if !c.Known() {
			t.Errorf("%s of seed 001 is not in the table", c)
		}
	}
}

// TestCodes_Documented: each code has its form, a meaning, what it counts as and
// what the reader can do.
func TestCodes_Documented(t *testing.T) {
	seen := map[kernel.Code]bool{}
	for _, c := range kernel.Codes() {
		if seen[c.Code] || !codeForm.MatchString(string(c.Code)) {
			t.Errorf("%q stands twice or has another form", c.Code)
		}
		seen[c.Code] = true
		for what, text := range map[string]string{"meaning": c.Meaning, "remedy": c.Remedy} {
			if len(text) < 10 || !strings.HasSuffix(text, ".") || strings.TrimSpace(text) != text {
				t.Errorf("%s: the %s is no sentence: %q", c.Code, what, text)
			}
		}
		switch c.Counts {
		case kernel.CountsNothing, kernel.CountsAttempt, kernel.CountsInterruption:
		default:
			t.Errorf("%s counts as %q", c.Code, c.Counts)
		}
		if c.Code.Info() != c {
			t.Errorf("%s: Info differs from the table", c.Code)
		}
	}
}

// TestCodes_TwoAudiences: what the issue's page says of a code sends nobody to a
// shell, and what the operator reads doesn't end at the issue's page.
func TestCodes_TwoAudiences(t *testing.T) {
	onlyOperators := regexp.MustCompile(`^(config|ledger|machine|webhook|git|state|world|key|replay|evidence|lease|environment\.key|task\.not_)`)
	differ := 0
	for _, c := range kernel.Codes() {
		on := c.Code.IssueRemedy()
		if on != c.Remedy {
			differ++
			if strings.Contains(on, "`writ ") || !strings.HasSuffix(on, ".") {
				t.Errorf("%s: on the issue: %q", c.Code, on)
			}
			continue
		}
		if strings.Contains(on, "`writ ") && !onlyOperators.MatchString(string(c.Code)) && c.Code != kernel.CodeGovernanceInvalid {
			t.Errorf("%s sends a maintainer to a shell: %q", c.Code, on)
		}
	}
	if differ < 15 {
		t.Errorf("%d codes speak to a maintainer", differ)
	}
}

// TestCodes_NoneOutsideTheTable reads the source: each constant of type Code is
// in the table, and the table has no other.
func TestCodes_NoneOutsideTheTable(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	must(t, err)
	declared := map[kernel.Code]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || !strings.HasPrefix(v.Names[0].Name, "Code") {
			return true
		}
		text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		must(t, err)
		declared[kernel.Code(text)] = true
		return true
	})
	for c := range declared {
		if !c.Known() {
			t.Errorf("%s has no row", c)
		}
	}
	if want, got := len(kernel.Codes()), len(declared); want != got || got < 50 {
		t.Errorf("%d constants, %d rows", got, want)
	}
}

// TestCodes_CoarseToFine: umbrella codes stand before what they cover.
func TestCodes_CoarseToFine(t *testing.T) {
	got := kernel.SortCodes([]kernel.Code{
		"zz.unknown", kernel.CodePathUnsafe, kernel.CodeScopeOutside, "aa.unknown", kernel.CodeScopeViolation,
		kernel.CodeVerificationFailed, kernel.CodeEscalationBlocked, kernel.CodeScopeOutside,
	})
	want := []kernel.Code{
		kernel.CodeEscalationBlocked, kernel.CodeVerificationFailed, kernel.CodeScopeViolation, kernel.CodeScopeOutside,
		kernel.CodePathUnsafe, "aa.unknown", "zz.unknown",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestCodes_CallersCanNotChangeTheTable(t *testing.T) {
	kernel.Codes()[0].Meaning = "changed"
	if kernel.Codes()[0].Meaning == "changed" {
		t.Error("Codes gives the table itself away")
	}
	list := []kernel.Violation{{Code: kernel.CodeTimeout}, {Code: kernel.CodeVerificationFailed}}
	if kernel.SortViolations(list); list[0].Code != kernel.CodeTimeout {
		t.Error("SortViolations changed its argument")
	}
	if info := kernel.Code("no.such").Info(); info.Code != "no.such" || info.Meaning != "" {
		t.Errorf("an unknown code has a row: %+v", info)
	}
}
