package contract

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

func load(t *testing.T, text string) (Contract, []string) {
	t.Helper()
	c, warnings, faults := Load([]byte(text), Source{Name: Path, Mode: "100644"})
	if len(faults) > 0 {
		t.Fatalf("%s\n%v", text, faults)
	}
	return c, warnings
}

func TestDefault(t *testing.T) {
	c := Default()
	minimal, _ := load(t, "version: 1\n")
	minimal.Hash, minimal.Source = c.Hash, SourceDefault
	if d := cmp.Diff(minimal, c); d != "" {
		t.Errorf("default.yaml does not show the defaults (-default +file):\n%s", d)
	}
	file, err := os.ReadFile("default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(file)); c.Hash != canon.Digest(want) || string(Template()) != string(file) {
		t.Errorf("hash %s, sha256sum %s", c.Hash, want)
	}
}

// TestI16_DefaultNamesEveryKey holds the template against the reader: it names
// every key that does something, and none that isn't built.
func TestI16_DefaultNamesEveryKey(t *testing.T) {
	c := zero()
	known := map[string]bool{}
	for key := range c.fields() {
		known[key] = true
	}
	for key := range c.Budgets.fields() {
		known["budgets."+key] = true
	}
	for _, row := range notBuilt {
		known[row.key] = false
		if row.key == "plan.approval" || row.key == "branches.globs" {
			known[strings.Split(row.key, ".")[0]] = false // nothing else is in it
		}
	}
	for key, built := range known {
		line := "\n" + key + ":"
		if _, inner, ok := strings.Cut(key, "."); ok {
			line = "\n  " + inner + ":"
		}
		for name, text := range map[string][]byte{"default.yaml": defaultYAML, "onboarding.yaml": Onboarding()} {
			if strings.Contains(string(text), line) != built {
				t.Errorf("%s: %s is named: %v, is built: %v", name, key, !built, built)
			}
		}
	}
}

const full = `version: 1
mode: observe
trigger: {label: go, permission: admin, bots: ["renovate[bot]"]}
base: release/1.x
defaults: {allowed_files: [src/**], expected_outcome: "it builds", checks: [test]}
deliver: {as: pull_request, draft: true}
close_on: merged
overlap: allow
refresh: auto
builder: claude
candidates: 1
plan: {}
prepare: []
checks:
  - {name: test, run: [go, test, ./...], timeout: 5m, repeat: 2, vary: true, hosts: [example.org, "*.example.org:8443"]}
  - {name: lint, run: [sh, -c, "a\nb"]}
budgets: {start_timeout: 5s, build_timeout: 1h30m, idle_timeout: 1m, attempts: 5, interruptions: 2, refreshes: 7, retry_backoff: 0s,
          retry_backoff_max: 1s, files: 10, bytes: 512KiB, tokens: 900, cost_cents: 150, interpretations: 1, nodes: 2, steps: 3, depth: 4, contradictions: 5}
paths: {forbidden: [secret/**], guarded: [api/*], accept: admin, protected: [old/**], unprotect: [go.sum], tests: [], ignored: refuse}
commit: {pattern: '^chore', template: 'chore(writ): {title}', signoff: false, sign: false}
language: {task: strict, prose: strict}
evidence: full
notify: ["@org/team"]
runners: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPN0DR51GatVE8vDH8bPOlfdu2ElU3Ksi+1gDLmjGYHc"]
branches: {commands: false, globs: []}
mechanisms: []
`

func TestEveryKey(t *testing.T) {
	c, warnings := load(t, full)
	want := Contract{
		Version: 1, Mode: ModeObserve, Trigger: Trigger{"go", "admin", []string{"renovate[bot]"}}, Base: "release/1.x",
		Defaults: Defaults{[]string{"src/**"}, "it builds", []string{"test"}}, Deliver: Deliver{DeliverPullRequest, true},
		CloseOn: CloseMerged, Overlap: OverlapAllow, Refresh: RefreshAuto, Builder: "claude", Candidates: 1, Prepare: []Step{},
		Checks: []Check{
			{"test", []string{"go", "test", "./..."}, 300_000, 2, true, []string{"example.org", "*.example.org:8443"}},
			{"lint", []string{"sh", "-c", "a\nb"}, 600_000, 1, false, nil},
		},
		Budgets: Budgets{kernel.Budgets{
			StartTimeoutMs: 5000, BuildTimeoutMs: 5_400_000, IdleTimeoutMs: 60_000, Attempts: 5, Interruptions: 2, RetryBackoffMaxMs: 1000,
			Files: 10, Bytes: 512 << 10, Interpretations: 1, Nodes: 2, Steps: 3, Depth: 4, Contradictions: 5, Tokens: 900,
		}, 7, 150},
		Paths:    Paths{[]string{"secret/**", "api/*", "old/**"}, []string{"secret/**", "old/**"}, []string{"api/*"}, "admin", []string{"go.sum"}, []string{}, IgnoredRefuse},
		Commit:   Commit{"^chore", "chore(writ): {title}", false, false},
		Language: Language{LanguageStrict, LanguageStrict}, Evidence: EvidenceFull, Notify: []string{"@org/team"},
		Runners:  []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPN0DR51GatVE8vDH8bPOlfdu2ElU3Ksi+1gDLmjGYHc"},
		Branches: Branches{false, []string{}},
		Hash:     canon.Sum([]byte(full)), Source: Path,
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "mode: ") {
		t.Errorf("warnings %q", warnings)
	}
}

// notBuilt is every key whose feature isn't there: what is refused, and what
// says what is done anyway.
var notBuilt = []struct {
	key     string
	refused []string
	taken   []string
}{
	{"deliver.as", []string{"deliver: {as: push}"}, []string{"deliver: {as: pull_request}"}},
	{"overlap", []string{"overlap: wait"}, []string{"overlap: allow"}},
	{"candidates", []string{"candidates: 2", "candidates: 16"}, []string{"candidates: 1"}},
	{"plan.approval", []string{"plan: {approval: required}", `plan: {approval: "off"}`}, []string{"plan: {}"}},
	{"paths.tests", []string{`paths: {tests: ["**/*_test.go"]}`}, []string{"paths: {tests: []}"}},
	{"commit.signoff", []string{"commit: {signoff: true}"}, []string{"commit: {signoff: false}"}},
	{"commit.sign", []string{"commit: {sign: true}"}, []string{"commit: {sign: false}"}},
	{"evidence", []string{"evidence: digest"}, []string{"evidence: full"}},
	{"branches.commands", []string{"branches: {commands: true}"}, []string{"branches: {commands: false}"}},
	{"branches.globs", []string{"branches: {globs: [bot/*]}"}, []string{"branches: {globs: []}"}},
	{"mechanisms", []string{"mechanisms: [{x: 1}]", "mechanisms: [deny]", "mechanisms: [[], {}]"}, []string{"mechanisms: []"}},
}

// TestI16_NotBuiltIsRefused: a value that nobody would honour makes the contract
// unusable, with its line and what to write; one that says what is done anyway
// changes nothing.
func TestI16_NotBuiltIsRefused(t *testing.T) {
	base, _ := load(t, "version: 1\n")
	for _, row := range notBuilt {
		for _, line := range row.refused {
			_, warnings, faults := Load([]byte("version: 1\n"+line+"\n"), Source{Name: Path})
			if len(faults) != 1 || faults[0].Code != kernel.CodeGovernanceInvalid || faults[0].Subject != row.key ||
				!strings.HasPrefix(faults[0].Detail, "Line 2: This is not built yet. ") || len(warnings) > 0 {
				t.Errorf("%s: %v, warnings %q", line, faults, warnings)
			}
		}
		for _, line := range row.taken {
			text := "version: 1\n" + line + "\n"
			got, warnings := load(t, text)
			want := base
			want.Hash = canon.Sum([]byte(text))
			if d := cmp.Diff(want, got); d != "" || len(warnings) != 1 {
				t.Errorf("%s: warnings %q, and it is not the default:\n%s", line, warnings, d)
			}
		}
	}
}

// TestPrepare_Faults: what has a network sees only the files that it names, and what is
// kept for many bases comes from none of them.
func TestPrepare_Faults(t *testing.T) {
	const download = "{name: deps, run: [go, mod, download], hosts: [proxy.example.org], keys: [go.mod, go.sum]}"
	c, _ := load(t, "version: 1\nprepare: ["+download+", {name: warm, run: [go, build, ./...], timeout: 1h}]\n")
	steps := c.Preparation(Caps{CheckTimeoutMs: 700_000})
	want := []kernel.Step{
		{Name: "deps", Argv: []string{"go", "mod", "download"}, TimeoutMs: 600_000, Hosts: []string{"proxy.example.org"}, Keys: []string{"go.mod", "go.sum"}},
		{Name: "warm", Argv: []string{"go", "build", "./..."}, TimeoutMs: 700_000},
	}
	if d := cmp.Diff(want, steps); d != "" {
		t.Error(d)
	}
	for line, key := range map[string]string{
		"[{name: a, run: [x], hosts: [example.org]}]":                                                            "prepare.0.keys",
		"[{name: a, run: [x]}, {name: b, run: [x], keys: [f]}]":                                                  "prepare.1.keys",
		"[{name: a, run: [npm, rebuild], keys: [package.json]}, {name: b, run: [x], keys: [f], hosts: [a.org]}]": "prepare.1.hosts",
		"[" + download + ", " + download + "]":                                                                   "prepare.1.name",
		"[{name: a, run: [x], keys: [/etc/passwd]}]":                                                             "prepare.0.keys.0",
		"[{name: a, run: [x], keys: [f], hosts: [192.0.2.1]}]":                                                   "prepare.0.hosts.0",
		"[{name: a, run: [x], keys: [f], repeat: 2}]":                                                            "prepare.0.repeat",
		"[{name: a, run: [x], keys: [f], hosts: [\"https://a.org\"]}]":                                           "prepare.0.hosts.0",
	} {
		if _, _, faults := Load([]byte("version: 1\nprepare: "+line+"\n"), Source{Name: Path}); len(faults) != 1 || faults[0].Subject != key {
			t.Errorf("%s: %v", line, faults)
		}
	}
}

// TestI16_OutOfBounds: what can't be meant is refused as such, also under a key
// that isn't built.
func TestI16_OutOfBounds(t *testing.T) {
	for _, row := range []struct{ line, key string }{
		{"candidates: 0", "candidates"},
		{"candidates: -1", "candidates"},
		{"budgets: {tokens: -1}", "budgets.tokens"},
		{"budgets: {cost_cents: -1}", "budgets.cost_cents"},
		{"budgets: {cost_cents: 1.5}", "budgets.cost_cents"},
		{"budgets: {files: -1}", "budgets.files"},
		{"budgets: {bytes: -1MiB}", "budgets.bytes"},
		{"budgets: {interruptions: -1}", "budgets.interruptions"},
		{"checks: [{name: a, run: [x], repeat: -1}]", "checks.0.repeat"},
		{"overlap: none", "overlap"},
		{"evidence: none", "evidence"},
		{"mechanisms: {x: 1}", "mechanisms"},
		{"plan: {approval: never}", "plan.approval"},
		{"paths: {tests: [a, a]}", "paths.tests.1"},
		{"prepare: [x]", "prepare.0"},
	} {
		_, _, faults := Load([]byte("version: 1\n"+row.line+"\n"), Source{Name: Path})
		if len(faults) != 1 || faults[0].Subject != row.key || strings.Contains(faults[0].Detail, "built") {
			t.Errorf("%s: %v", row.line, faults)
		}
	}
}

func TestI11_FilesThatAreNoContract(t *testing.T) {
	valid := "version: 1\n"
	for name, row := range map[string]struct{ text, mode string }{
		"symlink":      {valid, "120000"},
		"gitlink":      {"", "160000"},
		"tree":         {valid, "040000"},
		"lfs pointer":  {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "100644"},
		"bom":          {"\xef\xbb\xbf" + valid, "100644"},
		"crlf":         {"version: 1\r\n", "100644"},
		"lone cr":      {"version: 1\r", "100644"},
		"too large":    {valid + "#" + strings.Repeat("x", MaxBytes), "100644"},
		"empty":        {"", "100644"},
		"only comment": {"# x\n", "100644"},
		"not utf-8":    {"version: 1 # \xff\n", "100644"},
		"list":         {"- version: 1\n", "100644"},
		"documents":    {"version: 1\n---\nversion: 1\n", "100644"},
		"garbage":      {"\t{", "100644"},
	} {
		_, _, faults := Load([]byte(row.text), Source{Name: Path, Mode: row.mode})
		if len(faults) == 0 || faults[0].Code != kernel.CodeGovernanceInvalid {
			t.Errorf("%s: %v", name, faults)
		}
	}
	if _, _, faults := Load([]byte(valid), Source{Name: Path, Mode: "100755"}); len(faults) > 0 {
		t.Error(faults)
	}
}

func TestStrict(t *testing.T) {
	for _, row := range []struct{ text, path string }{
		{"mode: govern\n", "version"},
		{"version: 2\n", "version"},
		{"version: \"1\"\n", "version"},
		{"version: 01\n", "version"},
		{"version: 1\nversion: 1\n", "version"},
		{"version: 1\nMode: govern\n", "Mode"},
		{"version: 1\nmode: ~\n", "mode"},
		{"version: 1\nmode:\n", "mode"},
		{"version: 1\nmode: Govern\n", "mode"},
		{"version: 1\nmode: &a govern\nclose_on: *a\n", "mode"},
		{"version: 1\n<<: {mode: govern}\n", "<<"},
		{"version: 1\nmode: !!str govern\n", "mode"},
		{"version: 1\nbudgets: {attempts: 0}\n", "budgets.attempts"},
		{"version: 1\nbudgets: {attempts: 1.0}\n", "budgets.attempts"},
		{"version: 1\nbudgets: {attempts: 0x3}\n", "budgets.attempts"},
		{"version: 1\nbudgets: {attempts: 99999999999999999999}\n", "budgets.attempts"},
		{"version: 1\nbudgets: {attempts: 2, attempts: 3}\n", "budgets.attempts"},
		{"version: 1\nbudgets: {build_timeout: 30}\n", "budgets.build_timeout"},
		{"version: 1\nbudgets: {build_timeout: -5s}\n", "budgets.build_timeout"},
		{"version: 1\nbudgets: {build_timeout: 1.5h}\n", "budgets.build_timeout"},
		{"version: 1\nbudgets: {build_timeout: 999h}\n", "budgets.build_timeout"},
		{"version: 1\nbudgets: {bytes: 4MB}\n", "budgets.bytes"},
		{"version: 1\nbudgets: {bytes: 4}\n", "budgets.bytes"},
		{"version: 1\nbudgets: {retry_backoff: 11m}\n", "budgets.retry_backoff_max"},
		{"version: 1\ndeliver: {draft: yes}\n", "deliver.draft"},
		{"version: 1\nlanguage: {task: warn}\n", "language.task"},
		{"version: 1\nchecks: {name: a}\n", "checks"},
		{"version: 1\nchecks: [{name: a}]\n", "checks.0"},
		{"version: 1\nchecks: [{name: A b, run: [x]}]\n", "checks.0.name"},
		{"version: 1\nchecks: [{name: a, run: x}]\n", "checks.0.run"},
		{"version: 1\nchecks: [{name: a, run: []}]\n", "checks.0"},
		{"version: 1\nchecks: [{name: a, run: [x], retry: 2}]\n", "checks.0.retry"},
		{"version: 1\nchecks: [{name: a, run: [x]}, {name: a, run: [y]}]\n", "checks.1.name"},
		{"version: 1\ndefaults: {checks: [nope]}\n", "defaults.checks"},
		{"version: 1\ndefaults: {allowed_files: [\"**\"]}\n", "defaults.allowed_files.0"},
		{"version: 1\ndefaults: {expected_outcome: \"a\\u200bb\"}\n", "defaults.expected_outcome"},
		{"version: 1\npaths: {unprotect: [a, a]}\n", "paths.unprotect.1"},
		{"version: 1\nbase: \"-x\"\n", "base"},
		{"version: 1\nbase: a..b\n", "base"},
		{"version: 1\nrunners: [ssh-ed25519 AAAA]\n", "runners.0"},
		{"version: 1\ncommit: {pattern: '('}\n", "commit.pattern"},
		{"version: 1\n? [a]\n: b\n", "[a]"},
	} {
		_, _, faults := Load([]byte(row.text), Source{Name: Path})
		found := false
		for _, f := range faults {
			found = found || f.Code == kernel.CodeGovernanceInvalid && (f.Subject == row.path || strings.HasPrefix(row.path, "[") && f.Detail != "")
		}
		if !found {
			t.Errorf("%q: no fault at %s in %v", row.text, row.path, faults)
		}
	}
}

func TestLintNamesLines(t *testing.T) {
	got := Lint([]byte("version: 1\nmod: govern\nbudgets:\n  attempts: none\n"))
	if len(got) != 2 || got[0].Line != 2 || got[1].Line != 4 || got[1].Path != "budgets.attempts" {
		t.Errorf("%+v", got)
	}
	if got := Lint(Template()); len(got) != 1 || !got[0].Warning {
		t.Errorf("the template: %+v", got)
	}
}

func TestApplyCaps(t *testing.T) {
	c, _ := load(t, full)
	checks, unknown := c.SelectChecks([]string{"test", "nope"})
	if len(checks) != 1 || len(unknown) != 1 || unknown[0] != "nope" {
		t.Fatal(checks, unknown)
	}
	all, _ := c.SelectChecks(nil)
	b, capped, notes, faults := c.Apply(Caps{Budgets: kernel.Budgets{Attempts: 2, Files: 100, BuildTimeoutMs: 1000}, CheckTimeoutMs: 1000, Checks: 1}, all)
	if b.Attempts != 2 || b.Files != 10 || b.BuildTimeoutMs != 1000 || capped[0].TimeoutMs != 1000 || c.Checks[0].TimeoutMs != 300_000 {
		t.Errorf("%+v %+v", b, capped)
	}
	if len(notes) != 4 || len(faults) != 1 || faults[0].Code != kernel.CodeBudgetExceeded {
		t.Errorf("%q %v", notes, faults)
	}
	if b, _, notes, faults := c.Apply(Caps{}, all); len(notes)+len(faults) > 0 || b.Tokens != 900 || b.Cost != 1_500_000 {
		t.Error(b, notes, faults)
	}
	b, _, notes, _ = c.Apply(Caps{Budgets: kernel.Budgets{Tokens: 800, Cost: 1_499_999}}, all)
	if want := "budgets.cost_cents (in the currency): lowered from 1.50 to 1.499999, the server's cap."; b.Tokens != 800 || b.Cost != 1_499_999 || len(notes) != 2 || notes[1] != want {
		t.Errorf("%+v %q", b, notes)
	}
}

// TestI11_ContractElsewhere: what stands where the contract should, or is meant to
// be one, is named; the names of others are left alone.
func TestI11_ContractElsewhere(t *testing.T) {
	for _, p := range []string{".writ/contract.yaml/part.yaml", ".writ", ".WRIT", ".writ/contract.yml", ".writ/Contract.yaml", ".Writ/contract.yaml"} {
		vs := Misplaced(slices.Values([]string{"README", p}))
		if len(vs) != 1 || vs[0].Code != kernel.CodeGovernanceInvalid || vs[0].Subject != p {
			t.Errorf("%s: %v", p, vs)
		}
	}
	others := []string{".writ/guide.md", ".writ/contract.yaml.bak", ".writx", "sub/.writ/contract.yml", ".writ/contract/x", "README"}
	if vs := Misplaced(slices.Values(others)); len(vs) > 0 {
		t.Error(vs)
	}
}

// TestI16_AutoNeedsTheMerge: nobody looks at the change of a closed issue, so a contract
// that closes at once can't ask for refreshes by itself, and is told so.
func TestI16_AutoNeedsTheMerge(t *testing.T) {
	if _, _, faults := Load([]byte("version: 1\nrefresh: auto\n"), Source{Name: Path}); len(faults) != 1 || !strings.Contains(faults[0].Detail, "close_on: merged") {
		t.Errorf("%+v", faults)
	}
	if _, _, faults := Load([]byte("version: 1\nrefresh: auto\nclose_on: merged\nbudgets: {refreshes: 1}\n"), Source{Name: Path}); len(faults) != 0 {
		t.Errorf("%+v", faults)
	}
}
