package contract

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/compliance/strictyaml"
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

// fields ties each key to its place.
func (c *Contract) fields() strictyaml.Fields {
	mapping := strictyaml.Mapping
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
			"as": unbuilt(strictyaml.Word(&c.Deliver.As, DeliverPullRequest, DeliverPush), func() bool { return c.Deliver.As == DeliverPush },
				"Accepted work would stay on its branch. Write pull_request."),
			"draft": strictyaml.Bool(&c.Deliver.Draft),
		}),
		"close_on": strictyaml.Word(&c.CloseOn, CloseVerified, CloseMerged),
		"overlap": unbuilt(strictyaml.Word(&c.Overlap, OverlapAllow, OverlapWait), func() bool { return c.Overlap == OverlapWait },
			"Tasks of several servers don't know of each other's files. Write allow."),
		"refresh": strictyaml.Word(&c.Refresh, RefreshManual, RefreshAuto),
		"builder": strictyaml.Text(&c.Builder, name),
		"candidates": unbuilt(strictyaml.Int(&c.Candidates, 1, 16), func() bool { return c.Candidates > 1 },
			"A task has one candidate. Write 1."),
		"plan": mapping(strictyaml.Fields{
			"approval": unbuilt(strictyaml.Word(&c.Plan.Approval, PlanRequired, PlanOff), func() bool { return true },
				"Nothing plans yet which files change: a person names them, or the contract's defaults do. Take the key out."),
		}),
		"prepare": items(&c.Prepare, prepareStep),
		"checks":  items(&c.Checks, check),
		"budgets": mapping(c.Budgets.fields()),
		"paths":   mapping(c.Paths.fields()),
		"commit":  mapping(c.Commit.fields()),
		"language": mapping(strictyaml.Fields{
			"task":  strictyaml.Word(&c.Language.Task, LanguageStrict),
			"prose": strictyaml.Word(&c.Language.Prose, LanguageStrict, LanguageWarn, LanguageOff),
		}),
		"evidence": unbuilt(strictyaml.Word(&c.Evidence, EvidenceFull, EvidenceDigest), func() bool { return c.Evidence == EvidenceDigest },
			"All evidence would be kept in the repository, for all who can read it. Write full, or keep what must not be read in a private repository."),
		"notify":  strictyaml.Texts(&c.Notify, MaxList, matching(account, "It must be an account's or a team's name.")),
		"runners": strictyaml.Texts(&c.Runners, MaxList, publicKey),
		"branches": mapping(strictyaml.Fields{
			"commands": unbuilt(strictyaml.Bool(&c.Branches.Commands), func() bool { return c.Branches.Commands }, "No branch runs a command. Write false."),
			"globs":    unbuilt(globs(&c.Branches.Globs), func() bool { return len(c.Branches.Globs) > 0 }, "No branch runs a command. Write []."),
		}),
		"mechanisms": unbuilt(strictyaml.Items(MaxList, func(i int) strictyaml.Field {
			return func(*strictyaml.Reader, *yaml.Node, string) { c.Mechanisms = int64(i) + 1 }
		}), func() bool { return c.Mechanisms > 0 }, "No rule of it would be asked, so what it denies would be done. Write []."),
	}
}

func branch(s string) string {
	if s == "" || branchName().MatchString(s) && !strings.Contains(s, "..") && !strings.Contains(s, "//") &&
		!strings.HasSuffix(s, "/") && !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, ".lock") {
		return ""
	}
	return "It must be the plain name of a branch."
}

func publicKey(s string) string {
	if _, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(s)); err != nil || len(rest) > 0 {
		return "It must be one SSH public key, as in authorized_keys."
	}
	return ""
}

func (p *Paths) fields() strictyaml.Fields {
	return strictyaml.Fields{
		"protected": adding(&p.Protected, &p.Forbidden), "forbidden": adding(&p.Protected, &p.Forbidden), "guarded": adding(&p.Protected, &p.Guarded),
		"unprotect": globs(&p.Unprotect),
		"accept":    strictyaml.Word(&p.Accept, "write", "maintain", "admin", AcceptNobody),
		"tests": unbuilt(globs(&p.Tests), func() bool { return len(p.Tests) > 0 },
			"The checks run with the tests as a task left them. Write []; paths.protected keeps tasks from changing tests."),
		"ignored": strictyaml.Word(&p.Ignored, IgnoredDiscard, IgnoredRefuse),
	}
}

func (c *Commit) fields() strictyaml.Fields {
	return strictyaml.Fields{
		"pattern":  strictyaml.Text(&c.Pattern, pattern),
		"template": strictyaml.Text(&c.Template, word),
		"signoff": unbuilt(strictyaml.Bool(&c.Signoff), func() bool { return c.Signoff },
			"Changes would come without a sign-off. Write false."),
		"sign": unbuilt(strictyaml.Bool(&c.Sign), func() bool { return c.Sign },
			"Changes would come without a signature that a forge knows. Write false."),
	}
}

// adding reads a list of patterns that is a part of others: what they hold already, of
// another key, stays.
func adding(to ...*[]string) strictyaml.Field {
	return func(r *strictyaml.Reader, n *yaml.Node, path string) {
		var list []string
		globs(&list)(r, n, path)
		for _, dst := range to {
			*dst = append(slices.Clone(*dst), list...)
		}
	}
}

func globs(dst *[]string) strictyaml.Field { return strictyaml.Texts(dst, MaxList, glob) }

func glob(s string) string {
	if _, faults := scope.ParseGlobs([]string{s}); len(faults) > 0 {
		return faults[0].Reason
	}
	return ""
}

func (b *Budgets) fields() strictyaml.Fields {
	return strictyaml.Fields{
		"start_timeout":     strictyaml.Duration(&b.StartTimeoutMs, time.Second, maxTimeout),
		"build_timeout":     strictyaml.Duration(&b.BuildTimeoutMs, time.Second, maxTimeout),
		"idle_timeout":      strictyaml.Duration(&b.IdleTimeoutMs, time.Second, maxTimeout),
		"attempts":          strictyaml.Int(&b.Attempts, 1, maxCount),
		"interruptions":     strictyaml.Int(&b.Interruptions, 0, maxCount),
		"refreshes":         strictyaml.Int(&b.Refreshes, 1, maxCount),
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

// unbuilt refuses a value whose feature isn't there. It would be ignored, and
// whoever wrote it would rely on a rule that nobody keeps (case I16). A value
// that says what is done anyway is taken: asked reports whether the one that was
// read is another. The sentence says what happens instead, and what to write.
func unbuilt(read strictyaml.Field, asked func() bool, instead string) strictyaml.Field {
	return func(r *strictyaml.Reader, n *yaml.Node, path string) {
		before := len(r.Faults)
		read(r, n, path)
		if len(r.Faults) == before && asked() {
			r.Fail(n, path, "This is not built yet. %s", instead)
		}
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
	return command(&s.Name, &s.Run, &s.TimeoutMs, strictyaml.Fields{"hosts": hosts(&s.Hosts), "keys": globs(&s.Keys)})
}

func check(k *Check) strictyaml.Field {
	k.TimeoutMs, k.Repeat = defaultCheckTimeoutMs, 1
	return command(&k.Name, &k.Run, &k.TimeoutMs, strictyaml.Fields{
		"repeat": strictyaml.Int(&k.Repeat, 1, maxRepeat),
		"vary":   strictyaml.Bool(&k.Vary),
		"hosts":  hosts(&k.Hosts),
	})
}

func hosts(dst *[]string) strictyaml.Field {
	return strictyaml.Texts(dst, MaxList, matching(hostPattern, "It must be a host's name in small letters, *.name for all below it, or one of them with a port: registry.example.org, *.example.org, example.org:8443."))
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

// argument is one word of a command; it may be empty and have line ends.
func argument(s string) string {
	switch {
	case len(s) > MaxText:
		return fmt.Sprintf("It is longer than %d bytes.", MaxText)
	case strings.ContainsRune(s, 0) || !utf8.ValidString(s):
		return "It has a NUL character."
	}
	return ""
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
	out = append(out, c.stepFaults()...)
	if b := c.Budgets; b.RetryBackoffMaxMs < b.RetryBackoffMs {
		bad("budgets.retry_backoff_max", "It is less than retry_backoff.")
	}
	if c.Refresh == RefreshAuto && c.CloseOn != CloseMerged {
		bad("refresh", "auto needs close_on: merged, for a closed issue is done and nobody looks at its change.")
	}
	if c.Commit != defaultCommit {
		out = append(out, c.commitFindings()...)
	}
	return out
}

// stepFaults are those of the preparation. What has a network must not see what it would
// run there, and what is kept for many bases must not come from one of them.
func (c *Contract) stepFaults() []Finding {
	var out []Finding
	known, whole, offline := map[string]bool{}, false, false
	for i, s := range c.Prepare {
		bad := func(key, detail string) {
			out = append(out, Finding{Path: fmt.Sprintf("prepare.%d.%s", i, key), Detail: detail})
		}
		switch {
		case known[s.Name]:
			bad("name", "Two steps have this name.")
		case len(s.Hosts) > 0 && len(s.Keys) == 0:
			bad("keys", "A step with hosts must name the files that it reads, such as [go.mod, go.sum]: it sees no others.")
		case offline && len(s.Hosts) > 0:
			bad("hosts", "A step with hosts can't come after one without: what that ran may have left something for it. Put it before.")
		case whole && len(s.Keys) > 0:
			bad("keys", "A step with keys can't come after one that sees the whole base. Put it before.")
		}
		known[s.Name], whole, offline = true, whole || len(s.Keys) == 0, offline || len(s.Hosts) == 0
	}
	return out
}

// warnings are what a reader should know of a contract that can be used.
func (c *Contract) warnings() []Finding {
	var out []Finding
	warn := func(when bool, path, detail string) {
		if when {
			out = append(out, Finding{Path: path, Warning: true, Detail: detail})
		}
	}
	warn(c.Mode == ModeObserve, "mode", "It holds for issues on a forge. A task from a file is carried out.")
	warn(len(c.Checks) == 0, "checks", "There are none, so nothing is checked but the scope of a change.")
	return out
}
