package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/marker"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// maxWords bounds the forge's words in a record, in bytes.
const maxWords = 1 << 10

// forgeSays is what an answer of the forge comes to.
func forgeSays(err error) (kernel.OutcomeStatus, kernel.Code) {
	var fe *forge.Error
	switch {
	case err == nil:
		return kernel.OutcomeDone, ""
	case errors.As(err, &fe) && fe.Applied:
		return kernel.OutcomeUnknown, kernel.CodeEffectUnknown
	case !errors.As(err, &fe) || forge.Passing(err):
		return kernel.OutcomeFailed, kernel.CodeForgeUnreachable
	}
	return kernel.OutcomeRefused, kernel.CodeForgeRefused
}

// words are an error's, as they may be recorded.
func words(err error) string {
	if err == nil {
		return ""
	}
	s := strings.ToValidUTF8(err.Error(), "?")
	return strings.ToValidUTF8(s[:min(len(s), maxWords)], "")
}

// moveIssue makes the one call.
func (i *tracker) moveIssue(ctx context.Context, c *cycle, a kernel.Action, e kernel.IssueEffect) (err error) {
	p := i.s.deps.Forge
	switch a {
	case kernel.ActionReopen:
		err = p.Client.SetState(ctx, p.Repo, i.number, forge.Open)
	case kernel.ActionClose:
		err = p.Client.SetState(ctx, p.Repo, i.number, forge.Closed)
	case kernel.ActionComment:
		err = i.write(ctx, c, 0, c.text)
	case kernel.ActionRevise:
		err = i.write(ctx, c, e.Target, c.text)
	case kernel.ActionUncomment:
		err = gone(p.Client.DeleteComment(ctx, p.Repo, e.Target))
	case kernel.ActionAlert:
		err = i.write(ctx, c, 0, i.alertText(&c.observation))
	case kernel.ActionReview:
		err = i.startReview(ctx, &c.observation, git.OID(e.Label))
	case kernel.ActionCheck:
		err = p.Client.SetCheck(ctx, p.Repo, e.Label, c.check)
	case kernel.ActionSee:
		err = p.Client.ReactToIssue(ctx, p.Repo, i.number, forge.Reaction(e.Label))
	case kernel.ActionReact:
		err = p.Client.React(ctx, p.Repo, e.Target, forge.Reaction(e.Label))
	case kernel.ActionAnswer:
		err = i.write(ctx, c, c.replies[e.Target].edit, c.replies[e.Target].text)
	case kernel.ActionLabel:
		err = i.setLabel(ctx, e.Label)
	case kernel.ActionUnlabel:
		err = gone(p.Client.RemoveLabel(ctx, p.Repo, i.number, e.Label))
	case kernel.ActionChange, kernel.ActionAmend:
		err = i.deliver(ctx, &c.observation, e.Target)
	default:
		err = fmt.Errorf("supervisor: %s is no effect on an issue", a)
	}
	return err
}

// alertText mentions those whom the contract names.
func (i *tracker) alertText(c *observation) string {
	names := make([]string, 0, len(c.intake.notify))
	for _, n := range c.intake.notify {
		names = append(names, "@"+plainWord(strings.TrimPrefix(n, "@")))
	}
	how := "is blocked"
	if kernel.NeedsRepair(c.facts) {
		how = "waits for a person to look at its state"
	}
	return i.marker().Line(marker.Alert, c.alertOf()) +
		fmt.Sprintf("Task %d %s: %s. The report says why.\n", i.number, how, strings.Join(names, ", "))
}

// startReview judges the scope of what was pushed, and starts the checks on its
// tree. Nothing that somebody else pushed reaches a builder or a ref.
func (i *tracker) startReview(ctx context.Context, c *observation, head git.OID) error {
	pack, rules, faults, err := i.pinnedAt(ctx, c)
	switch {
	case err != nil:
		return err
	case len(faults) > 0:
		i.setReview(&review{head: head, found: faults})
		return nil
	}
	commit, err := i.s.deps.Repo.Commit(ctx, head)
	if err != nil {
		return err
	}
	tree, err := i.s.deps.Repo.Tree(ctx, head)
	if err != nil {
		return err
	}
	base, err := i.s.deps.Repo.Tree(ctx, c.builtOn())
	if err != nil {
		return err
	}
	delivered, err := i.s.deps.Repo.Tree(ctx, c.verified())
	if err != nil && gitTrouble(err) != nil {
		return err // what isn't there any more excuses nothing
	}
	r := &review{head: head, found: judgePushed(pack, rules, base, c.intake.base, delivered, tree)}
	if len(pack.Checks) > 0 && len(r.found) == 0 {
		trusted := i.worker.baseAt(c.builtOn(), base)
		job := executor.CheckJob{
			Prepare: pack.Prepare, Trusted: &trusted,
			World: i.s.cfg.Repository, Task: i.number, Run: c.facts.Head.Run(), Checks: pack.Checks, TreeID: string(commit.Tree), OnLine: i.worker.tail(),
			Base: i.worker.baseOf(&run{base: tree, pack: kernel.SeedPack{Pins: kernel.Pins{BaseCommit: string(head)}}}),
			Diff: kernel.Diff{Kind: string(kernel.KindDiff), Run: c.facts.Head.Run()},
		}
		if r.checks, err = i.s.deps.Executor.Check(context.WithoutCancel(ctx), job); err != nil {
			return err
		}
	}
	i.setReview(r)
	return nil
}

// pinnedAt reads by what the result at HEAD was verified. What can't be made out of
// the evidence is a fault, and nothing is vouched for.
func (i *tracker) pinnedAt(ctx context.Context, c *observation) (pack kernel.SeedPack, rules contract.Contract, faults []kernel.Violation, err error) {
	files := map[string][]byte{}
	for _, name := range []string{replay.FileSeedPack, replay.FileContract} {
		if files[name], err = i.readFile(ctx, c.head.Tree, name); err != nil {
			return pack, rules, nil, err
		}
	}
	rules, _, faults = contract.Load(files[replay.FileContract], contract.Source{Name: replay.FileContract})
	if err := canon.UnmarshalCanonical(files[replay.FileSeedPack], &pack); err != nil {
		faults = append(faults, kernel.Violation{Code: kernel.CodeEvidenceInvalid, Subject: replay.FileSeedPack, Detail: err.Error()})
	}
	return pack, rules, faults, nil
}

// judgePushed holds every path that the branch changes against the scope that the
// task was approved with. What stands on the base branch by now is no change of it, and a
// protected path may hold what was delivered: a person accepted that, or it came with its
// manifest.
func judgePushed(pack kernel.SeedPack, rules contract.Contract, base, tip, delivered, head git.Tree) []kernel.Violation {
	var out []kernel.Violation
	bad := func(code kernel.Code, path, detail string) {
		out = append(out, kernel.Violation{Code: code, Subject: scope.Display(path), Detail: detail})
	}
	allowed, faults := scope.ParseGlobs(pack.Spec.AllowedFiles)
	guard, more := scope.NewProtection(rules.Paths.Protected, rules.Paths.Unprotect)
	if len(faults)+len(more) > 0 {
		bad(kernel.CodeGovernanceInvalid, "", "The patterns can't be read.")
	}
	changed := 0
	for _, path := range git.Unequal(base, head) {
		entry, there := head.Find(path)
		if now, known := tip.Find(path); known == there && now == entry {
			continue
		}
		changed++
		was, brought := delivered.Find(path)
		switch same := brought == there && was == entry; {
		case same && guard.Match(path):
		case guard.Match(path):
			bad(kernel.CodeProtectedPath, path, "It is protected.")
		case !allowed.Match(path):
			bad(kernel.CodeScopeOutside, path, "No allowed pattern covers it.")
		}
		if _, before := base.Find(path); there && !before {
			if why := scope.CheckPath(path); why != "" {
				bad(kernel.CodePathUnsafe, path, why)
			}
		}
		if there && entry.Mode != git.ModeFile && entry.Mode != git.ModeExec {
			bad(kernel.CodeScopeFileType, path, "It is no regular file.")
		}
	}
	if int64(changed) > pack.Budgets.Files {
		bad(kernel.CodeScopeSize, "budgets.files", fmt.Sprintf("%d files are changed, %d are allowed.", changed, pack.Budgets.Files))
	}
	return boundViolations(kernel.SortViolations(out))
}

// write writes a comment, or with a number edits that one.
func (i *tracker) write(ctx context.Context, c *cycle, edit int64, text string) (err error) {
	p := i.s.deps.Forge
	if edit != 0 {
		c.wrote = forge.Comment{ID: edit, Body: text}
		return p.Client.EditComment(ctx, p.Repo, edit, text)
	}
	c.wrote, err = p.Client.AddComment(ctx, p.Repo, i.number, text)
	return err
}

// gone: what isn't there needs no taking away.
func gone(err error) error {
	if forge.IsReason(err, forge.NotFound) {
		return nil
	}
	return err
}

// labels are writ's, as a repository offers them.
var labels = []forge.Label{
	{Name: kernel.LabelClaimed, Color: "fbca04", Description: "Writ works on it"},
	{Name: kernel.LabelCompleted, Color: "0e8a16", Description: "Writ's result was verified"},
	{Name: kernel.LabelRetryPending, Color: "d4c5f9", Description: "Writ will try again"},
	{Name: kernel.LabelBlocked, Color: "b60205", Description: "Writ gave up; a person decides"},
}

// setLabel sets a label, which the repository is made to offer first, once in a
// process. Only that one: forges take writes one a second, and the first task of a
// repository would wait for labels that it may never bear.
func (i *tracker) setLabel(ctx context.Context, label string) error {
	p := i.s.deps.Forge
	var made bool
	i.s.locked(func() { made = i.s.labelled[label] })
	if at := slices.IndexFunc(labels, func(l forge.Label) bool { return l.Name == label }); !made && at >= 0 {
		if err := p.Client.EnsureLabels(ctx, p.Repo, labels[at:at+1]); err != nil {
			return err
		}
		i.s.locked(func() { i.s.labelled[label] = true })
	}
	return p.Client.AddLabel(ctx, p.Repo, i.number, label)
}

// deliver opens the change, or edits it: its title is the commit's, its text the
// report at HEAD.
func (i *tracker) deliver(ctx context.Context, c *observation, number int64) error {
	p := i.s.deps.Forge
	commit, err := i.s.deps.Repo.Commit(ctx, c.verified())
	if err != nil {
		return fmt.Errorf("the change can't be read: %w", err)
	}
	title, _, _ := strings.Cut(strings.TrimSpace(string(commit.Message)), "\n")
	if number != 0 {
		return p.Client.EditChange(ctx, p.Repo, number, title, c.changeText)
	}
	_, err = p.Client.OpenChange(ctx, p.Repo, forge.Change{
		Title: title, Body: c.changeText, Head: i.changeBranch(), Base: c.intake.baseBranch(), Draft: c.intake.draft,
	})
	return err
}

// refuseAt remembers an effect that the forge refused, and with which words: it isn't
// asked again while HEAD stands.
func (i *tracker) refuseAt(head, effect, words string) {
	if i.noted.head != head || i.noted.effects == nil {
		i.noted = refusals{head: head, effects: map[string]string{}}
	}
	i.noted.effects[effect] = words
}

func (i *tracker) refusedAt(head string) map[string]string {
	if i.noted.head != head {
		return nil
	}
	return i.noted.effects
}

// refusals are effects that the forge refused while HEAD stood somewhere, each with
// the forge's words.
type refusals struct {
	head    string
	effects map[string]string
}

// provenBy is until when the payload that proves an approval may still be on its
// way, Unix milliseconds; 0 where nothing is missing, or nothing comes any more. An
// issue that is filed and labelled at once is looked at for the first delivery,
// shows the label already, and the second has the text: nobody is to be told, by
// mail too, what is wrong for a second. A time far ahead of our clock is no reason
// to wait.
func (i *tracker) provenBy(st Status, now int64) int64 {
	if !slices.Contains(st.Decision.Codes, kernel.CodeApprovalUnproven) {
		return 0
	}
	within := i.s.deps.Forge.PayloadWithin.Milliseconds()
	if at := st.Intake.Approval.Time + within; now < at && at <= now+2*within {
		return at
	}
	return 0
}

func (i *tracker) runID() string {
	if i.worker.run == nil {
		return ""
	}
	return i.worker.run.id
}

// Labels are writ's own, as a repository offers them; set-up makes them ahead.
func Labels() []forge.Label { return slices.Clone(labels) }
