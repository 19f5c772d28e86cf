package contract

import (
	"bytes"
	_ "embed" // the built-in contract
	"fmt"
	"regexp"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/compliance/strictyaml"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

//go:embed default.yaml
var defaultYAML []byte

// Source says where a contract's bytes are from.
type Source struct {
	Name string // Path at the pinned commit, a file's name, or SourceDefault
	Mode string // git mode of the entry; "" for a file that isn't in git
}

// Template returns the bytes of the built-in contract: every key with its
// default and what it means. A repository begins with [Onboarding].
func Template() []byte { return bytes.Clone(defaultYAML) }

// Default is the contract of a repository that has none.
func Default() Contract {
	c, _, faults := Load(defaultYAML, Source{Name: SourceDefault})
	if len(faults) > 0 {
		panic("contract: default.yaml: " + faults[0].Detail) // a test reads it
	}
	return c
}

// Load reads a contract. Warnings are sentences for the report; violations are
// governance.invalid, all of them, and leave the contract unusable.
func Load(data []byte, src Source) (Contract, []string, []kernel.Violation) {
	c, findings := read(data, src)
	var warnings []string
	var out []kernel.Violation
	for _, f := range findings {
		if f.Warning {
			warnings = append(warnings, f.sentence())
			continue
		}
		out = append(out, kernel.Violation{Code: kernel.CodeGovernanceInvalid, Subject: f.Path, Detail: f.at()})
	}
	return c, warnings, kernel.SortViolations(out)
}

// Finding is one remark about a contract.
type Finding struct {
	Line    int    // from 1; 0 where no line is concerned
	Path    string // key, dotted; "" is the file
	Warning bool   // false: the contract can't be used
	Detail  string // a sentence
}

func (f Finding) at() string {
	if f.Line == 0 {
		return f.Detail
	}
	return fmt.Sprintf("Line %d: %s", f.Line, f.Detail)
}

func (f Finding) sentence() string {
	if f.Path == "" {
		return f.Detail
	}
	return f.Path + ": " + f.Detail
}

// Lint returns all that can be said about a contract, in the order of the text.
func Lint(data []byte) []Finding {
	_, findings := read(data, Source{Name: Path})
	return findings
}

// lfsPointer begins every file that git-lfs keeps elsewhere.
const lfsPointer = "version https://git-lfs.github.com/spec/"

func read(data []byte, src Source) (Contract, []Finding) {
	c := zero()
	c.Hash, c.Source = canon.Sum(data), src.Name
	if why := badSource(data, src); why != "" {
		return c, []Finding{{Detail: why}}
	}
	var findings []Finding
	for _, f := range strictyaml.Parse(data, MaxBytes, c.fields()) {
		findings = append(findings, Finding{Line: f.Line, Path: f.Path, Detail: f.Detail})
	}
	if len(findings) > 0 {
		return c, findings
	}
	if findings = c.disagreements(); len(findings) > 0 {
		return c, findings
	}
	return c, c.warnings()
}

// zero holds the default of every key.
func zero() Contract {
	return Contract{
		Mode:       ModeGovern,
		Trigger:    Trigger{Label: "writ", Permission: "write", Bots: []string{}},
		Defaults:   Defaults{AllowedFiles: []string{}, Checks: []string{}},
		Deliver:    Deliver{As: DeliverPullRequest},
		CloseOn:    CloseVerified,
		Overlap:    OverlapAllow,
		Refresh:    RefreshManual,
		Builder:    "default",
		Candidates: 1,
		Prepare:    []Step{},
		Checks:     []Check{},
		Budgets: Budgets{Budgets: kernel.Budgets{
			StartTimeoutMs: 30_000, BuildTimeoutMs: 1_800_000, IdleTimeoutMs: 600_000, Attempts: 3, Interruptions: 10,
			RetryBackoffMs: 60_000, RetryBackoffMaxMs: 600_000, Files: 200, Bytes: 4 << 20,
			Interpretations: 8, Nodes: 64, Steps: 16, Depth: 8,
		}, Refreshes: 5},
		Paths:    Paths{Protected: []string{}, Forbidden: []string{}, Guarded: []string{}, Accept: "maintain", Unprotect: []string{}, Tests: []string{}, Ignored: IgnoredDiscard},
		Commit:   defaultCommit,
		Language: Language{Task: LanguageStrict, Prose: LanguageWarn},
		Evidence: EvidenceFull,
		Notify:   []string{}, Runners: []string{},
		Branches: Branches{Globs: []string{}},
	}
}

// badSource refuses what a reader and git may see differently (case I11).
func badSource(data []byte, src Source) string {
	switch src.Mode {
	case "", scope.ModeFile, scope.ModeExec:
	case scope.ModeSymlink:
		return "It is a symbolic link; it must be a regular file."
	case scope.ModeGitlink:
		return "It is a submodule; it must be a regular file."
	default:
		return "It is not a regular file."
	}
	if bytes.HasPrefix(data, []byte(lfsPointer)) {
		return "It is a git-lfs pointer; it must be a regular file."
	}
	return ""
}

var (
	// hostPattern is what executor/gateway reads as a host that is asked for. It is in
	// the form in which names are compared.
	hostPattern = lazyregexp.New(`^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?(:[1-9][0-9]{0,4})?$`)
	wordName    = lazyregexp.New(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	branchName  = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$`)
	account     = lazyregexp.New(`^@?[A-Za-z0-9][A-Za-z0-9._/-]{0,99}(\[bot\])?$`)
)

func matching(re lazyregexp.Regexp, why string) func(string) string {
	return func(s string) string {
		if re().MatchString(s) {
			return ""
		}
		return why
	}
}

func text(s string) string {
	switch {
	case len(s) > MaxText:
		return fmt.Sprintf("It is longer than %d bytes.", MaxText)
	case visible.Any(s):
		return "It must be one line without control characters or ones that a reader can't see."
	}
	return ""
}

func word(s string) string {
	if s == "" {
		return "It is empty."
	}
	return text(s)
}

func pattern(s string) string {
	if len(s) > maxPattern {
		return fmt.Sprintf("It is longer than %d bytes.", maxPattern)
	}
	if _, err := regexp.Compile(s); err != nil {
		return "It is not a regular expression that RE2 takes: " + visible.Line(err.Error()) + "."
	}
	return ""
}
