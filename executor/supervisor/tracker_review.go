package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// review is the fresh scope-and-checks run of what somebody pushed to the change
// branch after the verification. It starts no builder, holds no lease and moves no
// ref: the task is completed, and what the review comes to stands on the pushed
// commit as a check. Another instance that does the same says the same.
type review struct {
	head   git.OID
	checks executor.Checks // nil where there are none to run
	found  []kernel.Violation
}

// open reports whether its checks ran without a sandbox.
func (r *review) open() bool {
	return r != nil && r.checks != nil && closed(r.checks.Done()) && r.checks.Outcome().Run.Sandbox == report.SandboxNone
}

// done is closed when the checks have ended, nil where none run.
func (r *review) done() <-chan struct{} {
	if r == nil || r.checks == nil {
		return nil
	}
	return r.checks.Done()
}

// facts are what the review of a commit came to, nil where there is none. One that
// a person stopped is over for that commit.
func (i *tracker) reviewOf(head string) *kernel.ReviewFacts {
	r := i.reviewed()
	if r == nil || string(r.head) != head {
		i.s.locked(func() { r = i.s.stopped[i.number] })
	}
	if r == nil || string(r.head) != head {
		if i.cutOff() && i.worker.isStopping() {
			return &kernel.ReviewFacts{} // the act that cut it off comes first: none is begun before
		}
		return nil
	}
	out := &kernel.ReviewFacts{Ended: true, Violations: r.found}
	if r.checks != nil {
		if out.Ended = closed(r.checks.Done()); out.Ended {
			out.Violations = append(out.Violations[:len(out.Violations):len(out.Violations)], boundViolations(r.checks.Outcome().Violations)...)
		}
	}
	return out
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

func (i *tracker) setReview(r *review) {
	i.worker.guard.Lock()
	i.worker.again, i.worker.cut = r, ""
	i.worker.guard.Unlock()
}

func (i *tracker) reviewed() *review {
	i.worker.guard.Lock()
	defer i.worker.guard.Unlock()
	return i.worker.again
}

// stopReview ends the review that runs, or was just cut off, because a person wants
// it to. It reports whether there was one.
func (i *tracker) stopReview(by string) bool {
	i.worker.kill()
	i.worker.guard.Lock()
	head := i.worker.cut
	i.worker.cut = ""
	i.worker.guard.Unlock()
	if head == "" {
		return false
	}
	r := &review{head: head, found: []kernel.Violation{{Code: kernel.CodeTaskStopped, Subject: string(head), Detail: "The checks were stopped by " + by + "."}}}
	i.setReview(r)
	i.s.locked(func() { i.s.stopped[i.number] = r })
	i.say("the review of %s is stopped by %s", head, by)
	return true
}

// stopAsked ends a review that runs where a person who may says `/writ stop`. Of a
// live run it is a request of its own.
func (i *tracker) stopAsked(list []approval.Asked) {
	for _, a := range list {
		if a.May && !a.OnChange && a.Command.Fault == "" && a.Command.Verb == approval.Stop && i.worker.run == nil {
			i.stopReview(a.Author.Login)
		}
	}
}

// reviewSays is what the start of a review came to. What is wrong with the sandbox,
// the repository or the builder's place is no trouble of the forge.
func reviewSays(err error) (kernel.OutcomeStatus, kernel.Code) {
	var ours *executor.Error
	var fe *forge.Error
	switch code := kernel.Code(git.CodeOf(err)); {
	case err == nil:
		return kernel.OutcomeDone, ""
	case errors.As(err, &ours):
		return kernel.OutcomeFailed, ours.Code
	case errors.As(err, &fe):
		return forgeSays(err)
	case code == "":
		return kernel.OutcomeFailed, kernel.CodeMachineEffect
	case code.Known():
		return kernel.OutcomeFailed, code
	}
	return kernel.OutcomeFailed, kernel.CodeEnvRepository
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

// reviewCheck is what stands on a pushed commit once it was reviewed.
func (i *tracker) reviewCheck(head string, passed bool, found []kernel.Violation) forge.Check {
	k := forge.Check{Name: checkName, State: forge.CheckPassed, Summary: "Scope and checks hold for what was pushed after the verification, " + head}
	if !passed {
		k.State, k.Summary = forge.CheckFailed, "Scope or checks don't hold for what was pushed after the verification, "+head
	}
	if slices.ContainsFunc(found, func(v kernel.Violation) bool { return v.Code == kernel.CodeTaskStopped }) {
		k.Summary = "The checks of what was pushed after the verification were stopped, " + head
	}
	var b strings.Builder
	for _, v := range found {
		b.WriteString(bullet(v))
	}
	k.Detail = b.String()
	return k
}

// checkDigest names a check by what it says, not by its details.
func checkDigest(k forge.Check) canon.Digest { return textDigest(string(k.State) + " " + k.Summary) }

// reviewPassed reports whether a commit bears the check of a review that passed, by
// what this installation has recorded.
func (i *tracker) reviewPassed(c *observation, head string) bool {
	return c.facts.View.Checked == head+" "+string(checkDigest(i.reviewCheck(head, true, nil)))
}

// cutOff reports whether a review was, and nobody has said why.
func (i *tracker) cutOff() bool {
	i.worker.guard.Lock()
	defer i.worker.guard.Unlock()
	return i.worker.cut != ""
}
