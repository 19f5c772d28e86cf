package contract

import (
	"fmt"
	"time"

	"github.com/writbot/writ/compliance/internal/strictyaml"
	"github.com/writbot/writ/kernel"
	"go.yaml.in/yaml/v3"
)

// Bounds of numbers. They keep a slip of the pen from becoming a limit that is
// none; the server's caps are the real ones.
const (
	maxTimeout = 6 * time.Hour
	maxBackoff = 24 * time.Hour
	maxCount   = 1000
	maxFiles   = 10_000
	maxSize    = 256 << 20
	maxMoney   = 1_000_000_000
	maxRepeat  = 10
)

const defaultCheckTimeoutMs = int64(10 * time.Minute / time.Millisecond)

// zero holds the default of every key.
func zero() Contract {
	return Contract{
		Mode:       ModeGovern,
		Trigger:    Trigger{Label: "writ", Permission: "write", Bots: []string{}},
		Defaults:   Defaults{AllowedFiles: []string{}, Checks: []string{}},
		Deliver:    Deliver{As: DeliverPullRequest},
		CloseOn:    CloseVerified,
		Overlap:    OverlapAllow,
		Builder:    "default",
		Candidates: 1,
		Plan:       Plan{Approval: PlanRequired},
		Prepare:    []Step{},
		Checks:     []Check{},
		Budgets: Budgets{Budgets: kernel.Budgets{
			StartTimeoutMs: 30_000, BuildTimeoutMs: 1_800_000, IdleTimeoutMs: 600_000, Attempts: 3, Interruptions: 10,
			RetryBackoffMs: 60_000, RetryBackoffMaxMs: 600_000, Files: 200, Bytes: 4 << 20,
			Interpretations: 8, Nodes: 64, Steps: 16, Depth: 8,
		}},
		Paths:    Paths{Protected: []string{}, Unprotect: []string{}, Tests: []string{}, Ignored: IgnoredDiscard},
		Commit:   Commit{Pattern: `^writ: [^ ].* \(#[1-9][0-9]*\)$`, Template: "writ: {title} (#{task})"},
		Language: Language{Task: LanguageStrict, Prose: LanguageWarn},
		Evidence: EvidenceFull,
		Notify:   []string{}, Runners: []string{},
		Branches: Branches{Globs: []string{}},
	}
}

// fields ties each key to its place.
func (c *Contract) fields() strictyaml.Fields {
	mapping, globs := strictyaml.Mapping, func(dst *[]string) strictyaml.Field { return strictyaml.Texts(dst, MaxList, glob) }
	return strictyaml.Fields{
		"version": strictyaml.Int(&c.Version, 1, 1),
		"mode":    strictyaml.Word(&c.Mode, ModeGovern, ModeObserve),
		"trigger": mapping(strictyaml.Fields{
			"label":      strictyaml.Text(&c.Trigger.Label, word),
			"permission": strictyaml.Word(&c.Trigger.Permission, "triage", "write", "maintain", "admin"),
			"bots":       strictyaml.Texts(&c.Trigger.Bots, MaxList, matching(account, "It must be an account's name.")),
		}),
		"base": strictyaml.Text(&c.Base, branch),
		"defaults": mapping(strictyaml.Fields{
			"allowed_files":    globs(&c.Defaults.AllowedFiles),
			"expected_outcome": strictyaml.Text(&c.Defaults.ExpectedOutcome, text),
			"checks":           strictyaml.Texts(&c.Defaults.Checks, MaxChecks, name),
		}),
		"deliver": mapping(strictyaml.Fields{
			"as":    strictyaml.Word(&c.Deliver.As, DeliverPullRequest, DeliverPush),
			"draft": strictyaml.Bool(&c.Deliver.Draft),
		}),
		"close_on":   strictyaml.Word(&c.CloseOn, CloseVerified, CloseMerged),
		"overlap":    strictyaml.Word(&c.Overlap, OverlapAllow, OverlapWait),
		"builder":    strictyaml.Text(&c.Builder, name),
		"candidates": strictyaml.Int(&c.Candidates, 1, 16),
		"plan":       mapping(strictyaml.Fields{"approval": strictyaml.Word(&c.Plan.Approval, PlanRequired, PlanOff)}),
		"prepare":    items(&c.Prepare, prepareStep),
		"checks":     items(&c.Checks, check),
		"budgets":    mapping(c.Budgets.fields()),
		"paths": mapping(strictyaml.Fields{
			"protected": globs(&c.Paths.Protected), "unprotect": globs(&c.Paths.Unprotect), "tests": globs(&c.Paths.Tests),
			"ignored": strictyaml.Word(&c.Paths.Ignored, IgnoredDiscard, IgnoredRefuse),
		}),
		"commit": mapping(strictyaml.Fields{
			"pattern":  strictyaml.Text(&c.Commit.Pattern, pattern),
			"template": strictyaml.Text(&c.Commit.Template, word),
			"signoff":  strictyaml.Bool(&c.Commit.Signoff),
			"sign":     strictyaml.Bool(&c.Commit.Sign),
		}),
		"language": mapping(strictyaml.Fields{
			"task":  strictyaml.Word(&c.Language.Task, LanguageStrict),
			"prose": strictyaml.Word(&c.Language.Prose, LanguageStrict, LanguageWarn, LanguageOff),
		}),
		"evidence": strictyaml.Word(&c.Evidence, EvidenceFull, EvidenceDigest),
		"notify":   strictyaml.Texts(&c.Notify, MaxList, matching(account, "It must be an account's or a team's name.")),
		"runners":  strictyaml.Texts(&c.Runners, MaxList, publicKey),
		"branches": mapping(strictyaml.Fields{"commands": strictyaml.Bool(&c.Branches.Commands), "globs": globs(&c.Branches.Globs)}),
		"mechanisms": strictyaml.Items(MaxList, func(i int) strictyaml.Field {
			return func(*strictyaml.Reader, *yaml.Node, string) { c.Mechanisms = int64(i) + 1 }
		}),
	}
}

func (b *Budgets) fields() strictyaml.Fields {
	return strictyaml.Fields{
		"start_timeout":     strictyaml.Duration(&b.StartTimeoutMs, time.Second, maxTimeout),
		"build_timeout":     strictyaml.Duration(&b.BuildTimeoutMs, time.Second, maxTimeout),
		"idle_timeout":      strictyaml.Duration(&b.IdleTimeoutMs, time.Second, maxTimeout),
		"attempts":          strictyaml.Int(&b.Attempts, 1, maxCount),
		"interruptions":     strictyaml.Int(&b.Interruptions, 0, maxCount),
		"retry_backoff":     strictyaml.Duration(&b.RetryBackoffMs, 0, maxBackoff),
		"retry_backoff_max": strictyaml.Duration(&b.RetryBackoffMaxMs, 0, maxBackoff),
		"files":             strictyaml.Int(&b.Files, 1, maxFiles),
		"bytes":             strictyaml.Size(&b.Bytes, 1, maxSize),
		"tokens":            strictyaml.Int(&b.Tokens, 0, maxMoney),
		"cost_cents":        strictyaml.Int(&b.CostCents, 0, maxMoney),
		"interpretations":   strictyaml.Int(&b.Interpretations, 1, maxCount),
		"nodes":             strictyaml.Int(&b.Nodes, 1, maxCount),
		"steps":             strictyaml.Int(&b.Steps, 1, maxCount),
		"depth":             strictyaml.Int(&b.Depth, 1, maxCount),
		"contradictions":    strictyaml.Int(&b.Contradictions, 0, maxCount),
	}
}

func name(s string) string {
	return matching(wordName, "It must be a name of small letters, digits, - and _.")(s)
}

// items reads a list of mappings into dst.
func items[T any](dst *[]T, read func(*T) strictyaml.Field) strictyaml.Field {
	return strictyaml.Items(MaxChecks, func(int) strictyaml.Field {
		return func(r *strictyaml.Reader, n *yaml.Node, path string) {
			var item T
			read(&item)(r, n, path)
			*dst = append(*dst, item)
		}
	})
}

func prepareStep(s *Step) strictyaml.Field {
	s.TimeoutMs = defaultCheckTimeoutMs
	return command(&s.Name, &s.Run, &s.TimeoutMs, nil)
}

func check(k *Check) strictyaml.Field {
	k.TimeoutMs, k.Repeat = defaultCheckTimeoutMs, 1
	return command(&k.Name, &k.Run, &k.TimeoutMs, strictyaml.Fields{
		"repeat": strictyaml.Int(&k.Repeat, 1, maxRepeat),
		"vary":   strictyaml.Bool(&k.Vary),
	})
}

func command(nameTo *string, run *[]string, timeout *int64, more strictyaml.Fields) strictyaml.Field {
	fields := strictyaml.Fields{
		"name":    strictyaml.Text(nameTo, name),
		"run":     strictyaml.Words(run, MaxArgs, argument),
		"timeout": strictyaml.Duration(timeout, time.Second, maxTimeout),
	}
	for k, f := range more {
		fields[k] = f
	}
	return func(r *strictyaml.Reader, n *yaml.Node, path string) {
		before := len(r.Faults)
		strictyaml.Mapping(fields)(r, n, path)
		if len(r.Faults) > before {
			return
		}
		if *nameTo == "" || len(*run) == 0 || (*run)[0] == "" {
			r.Fail(n, path, "It needs a name and a command: {name: test, run: [go, test, ./...]}.")
		}
	}
}

// disagreements are the faults between keys.
func (c *Contract) disagreements() []Finding {
	var out []Finding
	bad := func(path, detail string) { out = append(out, Finding{Path: path, Detail: detail}) }
	if c.Version == 0 {
		bad("version", "It is missing; write version: 1.")
	}
	known := map[string]bool{}
	for i, k := range c.Checks {
		if known[k.Name] {
			bad(fmt.Sprintf("checks.%d.name", i), "Two checks have this name.")
		}
		known[k.Name] = true
	}
	for _, n := range c.Defaults.Checks {
		if !known[n] {
			bad("defaults.checks", "There is no check named "+n+".")
		}
	}
	if b := c.Budgets; b.RetryBackoffMaxMs < b.RetryBackoffMs {
		bad("budgets.retry_backoff_max", "It is less than retry_backoff.")
	}
	return append(out, c.commitFindings()...)
}

// warnings name what is set and not built, and what a reader should know.
func (c *Contract) warnings() []Finding {
	var out []Finding
	warn := func(when bool, path, detail string) {
		if when {
			out = append(out, Finding{Path: path, Warning: true, Detail: detail})
		}
	}
	const later = "This is not built yet and has no effect."
	warn(c.Mode == ModeObserve, "mode", "It holds for issues on a forge. A task from a file is carried out.")
	warn(c.Deliver.As == DeliverPush, "deliver.as", later+" The change is left on its branch.")
	warn(c.CloseOn == CloseMerged && c.Deliver.As == DeliverPush, "close_on", "There is no merge to wait for with deliver.as: push. An issue is closed when its task is verified.")
	warn(c.Overlap == OverlapWait, "overlap", "The tasks of one server take turns. Those of others don't know of them.")
	warn(c.Candidates > 1, "candidates", later+" There is one candidate.")
	warn(c.Plan.Approval == PlanOff, "plan.approval", later)
	warn(len(c.Prepare) > 0, "prepare", later)
	warn(c.Budgets.Tokens > 0, "budgets.tokens", later)
	warn(c.Budgets.CostCents > 0, "budgets.cost_cents", later)
	warn(c.Commit.Signoff, "commit.signoff", later)
	warn(c.Commit.Sign, "commit.sign", later)
	warn(c.Evidence == EvidenceDigest, "evidence", later+" All evidence is kept.")
	warn(c.Branches.Commands || len(c.Branches.Globs) > 0, "branches", later)
	warn(c.Mechanisms > 0, "mechanisms", later)
	warn(len(c.Checks) == 0, "checks", "There are none, so nothing is checked but the scope of a change.")
	return out
}
