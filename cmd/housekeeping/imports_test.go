package housekeeping

import (
	"fmt"
	"strings"
	"testing"
)

// violation is a forbidden use and the rule that forbids it.
type violation struct {
	rule int
	text string
}

// check holds one file against the rules.
func check(f goFile) []violation {
	var bad []violation
	for _, u := range uses(f) {
		i := decide(f.room(), f.isTest(), u.what)
		if i >= 0 && rules[i].allow == deny {
			bad = append(bad, violation{i, fmt.Sprintf("%s:%d: %s may not use %s: %s", f.path, u.line, f.room(), u.what, rules[i].why)})
		}
	}
	return bad
}

// decide returns the index of the first rule that matches, or -1.
func decide(room string, test bool, what string) int {
	for i, r := range rules {
		if r.in == inCode && test || r.in == inTests && !test {
			continue
		}
		if matchAny(r.from, room) && matchAny(r.what, what) {
			return i
		}
	}
	return -1
}

// TestImports_TheTreeObeys is the import rules of the house (requirements A1,
// A47, WK7, WK25, SM50, SM51, SM61, D66).
func TestImports_TheTreeObeys(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, v := range check(f) {
			t.Error(v.text)
		}
	}
}

// examples are files that the rules must catch, or let pass.
var examples = []struct {
	path string
	body string // after the package clause
	bad  string // part of the reason; empty: no violation
}{
	{"webhook/x.go", `import _ "github.com/writbot/writ/cmd/writ"`, "commands only wire"},
	{"executor/supervisor/x.go", `import _ "github.com/writbot/writ/forge/forgetest"`, "test code must not be built"},
	{"executor/supervisor/x.go", `import _ "testing"`, "test code must not be built"},
	{"executor/supervisor/x_test.go", `import _ "github.com/writbot/writ/forge/forgetest"`, ""},
	{"forge/forgetest/x.go", `import _ "testing"`, ""},
	{"forge/git/x_test.go", `func f(t interface{ Skip(...any) }) { t.Skip() }`, "a skipped test looks"},

	{"kernel/x.go", `import _ "os"`, "not on the kernel's allow-list"},
	{"kernel/plan/x.go", `import _ "context"`, "not on the kernel's allow-list"},
	{"kernel/plan/x.go", `import _ "crypto/rand"`, "not on the kernel's allow-list"},
	{"kernel/plan/x.go", `import _ "crypto/sha1"`, "not on the kernel's allow-list"},
	{"kernel/world/x.go", `import _ "sync"`, "not on the kernel's allow-list"},
	{"kernel/machine/x.go", `import _ "sync"`, ""},
	{"kernel/machine/x.go", `import _ "runtime"`, "not on the kernel's allow-list"},
	{"kernel/x.go", `import _ "go.yaml.in/yaml/v3"`, "standard library only"},
	{"kernel/x_test.go", `import _ "pgregory.net/rapid"; import _ "os/exec"`, ""},
	{"kernel/x_test.go", `import _ "github.com/writbot/writ/compliance"`, "under every other room"},
	{"kernel/kerneltest/x.go", `import _ "math/rand"`, ""},
	{"kernel/x.go", `func f() { go f() }`, "no goroutines"},
	{"kernel/world/x.go", `import "time"; var f = time.Now`, "time is an input"},
	{"kernel/world/x.go", `import clock "time"; func f() { clock.Sleep(1) }`, "time is an input"},
	{"kernel/world/x.go", `import "time"; var d time.Duration = time.Second`, ""},
	{"kernel/x.go", `import "fmt"; func f() { fmt.Println() }`, "returns what it has to say"},
	{"kernel/x.go", `func f() { println() }`, "returns what it has to say"},
	{"kernel/canon/x.go", `import _ "github.com/writbot/writ/kernel"`, "a leaf"},
	{"kernel/lease/x.go", `import _ "github.com/writbot/writ/kernel/canon"`, "a leaf"},
	{"kernel/machine/x.go", `import _ "github.com/writbot/writ/kernel/canon"`, ""},
	{"kernel/machine/x.go", `import _ "github.com/writbot/writ/kernel"`, "no tasks"},
	{"kernel/x.go", `import _ "github.com/writbot/writ/kernel/lease"`, ""},
	{"kernel/x.go", `import _ "github.com/writbot/writ/kernel/world"`, "not under them"},
	{"kernel/world/x.go", `import _ "github.com/writbot/writ/kernel"`, ""},
	{"kernel/world/x.go", `import _ "github.com/writbot/writ/compliance"`, "under every other room"},

	{"compliance/lazyregexp/x.go", `import _ "github.com/writbot/writ/executor"`, "a leaf, which knows nothing"},
	{"forge/git/x.go", `import _ "github.com/writbot/writ/compliance/lazyregexp"`, ""},
	{"forge/github/x.go", `import _ "github.com/writbot/writ/forge/gitlab"`, "adapters never"},
	{"forge/gitlab/x.go", `import _ "github.com/writbot/writ/forge/local"`, "adapters never"},
	{"forge/local/x.go", `import _ "github.com/writbot/writ/forge/github"`, "adapters never"},
	{"forge/local/x.go", `import _ "github.com/writbot/writ/forge/git"`, ""},
	{"forge/github/x.go", `import _ "github.com/google/go-github/v60/github"`, ""},
	{"webhook/x.go", `import _ "github.com/google/go-github/v60/github"`, "only the adapter knows"},
	{"forge/gitlab/x.go", `import _ "github.com/xanzy/go-gitlab"`, ""},
	{"cmd/writ/x.go", `import _ "github.com/xanzy/go-gitlab"`, "no longer kept up"},
	{"forge/x.go", `import _ "github.com/writbot/writ/compliance/policy"`, "doesn't know who decides"},
	{"forge/git/x.go", `import _ "github.com/writbot/writ/kernel/lease"`, "knows no tasks"},
	{"webhook/api/x.go", `import _ "github.com/writbot/writ/kernel/world"`, "only a hint"},

	{"executor/supervisor/x.go", `import _ "os/exec"`, "start processes"},
	{"compliance/x.go", `import "os"; var f = os.StartProcess`, "start processes"},
	{"compliance/x.go", `import "syscall"; var f = syscall.ForkExec`, "start processes"},
	{"executor/sandbox/x.go", `import _ "os/exec"`, ""},
	{"executor/command/x.go", `import _ "os/exec"`, ""},
	{"executor/command/x.go", `import _ "github.com/writbot/writ/forge/git"`, "knows nothing of why"},
	{"compliance/x_test.go", `import _ "os/exec"`, ""},
	{"cmd/bench/x.go", `import _ "os/exec"`, ""},
	{"cmd/writ/x.go", `import _ "os/exec"`, "start processes"},
	{"compliance/x.go", `import _ "github.com/writbot/writ/executor/builder"`, "nothing but the supervisor"},
	{"executor/supervisor/x.go", `import _ "github.com/writbot/writ/executor/builder"`, ""},
	{"executor/sandbox/x.go", `import _ "github.com/writbot/writ/compliance"`, "knows nothing of tasks"},
	{"executor/sandbox/x.go", `import _ "github.com/writbot/writ/kernel"`, ""},
	{"executor/gateway/x.go", `import _ "github.com/writbot/writ/executor/sandbox"`, "knows no tasks"},
	{"executor/scheduler/x.go", `import _ "github.com/writbot/writ/executor/supervisor"`, "decides when, never what"},
	{"executor/scheduler/x.go", `import _ "github.com/writbot/writ/kernel"`, ""},

	{"webhook/inbox/x.go", `import _ "database/sql"`, "speaks to the database"},
	{"compliance/ledger/x.go", `import _ "modernc.org/sqlite"`, "speaks to the database"},
	{"compliance/store/x.go", `import _ "modernc.org/sqlite"`, ""},
	{"compliance/ledger/x.go", `import _ "github.com/writbot/writ/compliance/store"`, ""},
	{"webhook/inbox/x.go", `import _ "github.com/writbot/writ/compliance/store"`, ""},
	{"executor/supervisor/x.go", `import _ "github.com/writbot/writ/compliance/store"`, "owns the table"},
	{"compliance/store/x.go", `import _ "github.com/writbot/writ/compliance/ledger"`, "no records"},
	{"compliance/store/x.go", `import _ "github.com/writbot/writ/kernel"`, ""},

	{"compliance/x.go", `import "C"`, "static"},
	{"compliance/x.go", `import . "strings"`, "dot import"},
	{"compliance/x.go", `import _ "unsafe"`, "by hand"},
	{"executor/sandbox/x.go", `import _ "unsafe"`, ""},
	{"compliance/x.go", `import _ "log"`, "no globals"},
	{"compliance/x.go", `import "log/slog"; func f() { slog.Info("") }`, "no globals"},
	{"compliance/x.go", `import "log/slog"; func f(l *slog.Logger) { l.Info("") }`, ""},
	{"compliance/x.go", `import _ "math/rand/v2"`, "crypto/rand"},
}

// TestImports_TheCheckerCatches shows that the rules bite: each example is
// caught for its own reason, and each rule that forbids has an example.
func TestImports_TheCheckerCatches(t *testing.T) {
	bitten := make([]bool, len(rules))
	for _, e := range examples {
		f, err := parseGo("", e.path, "package x\n"+e.body+"\n")
		if err != nil {
			t.Fatalf("%s: %v", e.path, err)
		}
		var got []string
		for _, v := range check(f) {
			bitten[v.rule] = true
			got = append(got, v.text)
		}
		switch all := strings.Join(got, "\n"); {
		case e.bad == "" && len(got) > 0:
			t.Errorf("%s, %s: wrongly forbidden:\n%s", e.path, e.body, all)
		case e.bad != "" && (len(got) != 1 || !strings.Contains(all, e.bad)):
			t.Errorf("%s, %s: want one violation with %q, got:\n%s", e.path, e.body, e.bad, all)
		}
	}
	for i, r := range rules {
		if r.allow == deny && !bitten[i] {
			t.Errorf("rule %d (%s: %s) has no example that it catches", i, r.from, r.why)
		}
		if r.why == "" {
			t.Errorf("rule %d has no reason", i)
		}
	}
}
