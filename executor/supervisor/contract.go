package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// contractReader reads the contract in force, for a task or for the world.
type contractReader struct {
	s      *Supervisor
	remote bool // the issues are on a forge
	trees  []keptTree
}

// contracts reads for the world, which belongs to no task.
func (s *Supervisor) contracts() *contractReader { return &contractReader{s: s, remote: true} }

// terms are the contract in force: an intake without an issue.
type terms struct {
	in       *Intake
	contract contract.Contract
	faults   []kernel.Violation
	unread   error // why base or contract can't be read, where that lasts: faults say so
}

// read reads the contract at the tip of the base branch.
func (r *contractReader) read(ctx context.Context, refs git.Refs) (terms, error) {
	in := &Intake{PolicyVersion: PolicyVersion}
	c, faults, err := r.readInForce(ctx, refs, in)
	var unread error
	if err != nil {
		c = contract.Contract{}
		if faults = r.unreadable(in, err); len(faults) > 0 {
			unread, err = err, nil
		}
	}
	if len(faults) > 0 {
		c.Trigger = contract.Default().Trigger // so that an answer can be given
	}
	in.trigger, in.notify = c.Trigger, c.Notify
	in.byChange, in.draft = c.Deliver.As == contract.DeliverPullRequest, c.Deliver.Draft
	if r.remote && in.byChange && c.CloseOn == contract.CloseMerged { // of a text in a file nobody would see the merge
		in.closeOn = kernel.CloseMerged
	}
	if c.Refresh == contract.RefreshAuto {
		in.autoRefreshes = c.Budgets.Refreshes
	}
	return terms{in, c, faults, unread}, err
}

// unreadable says what is wrong where base or contract can't be read, once that lasts:
// nothing could be done under a contract that nobody has read.
func (r *contractReader) unreadable(in *Intake, err error) []kernel.Violation {
	if in.BaseCommit.IsZero() {
		return nil
	}
	vs := r.s.surveys.failed(in.BaseCommit, r.s.now().BootMs, err)
	if len(vs) > 0 {
		in.base, in.Contract, in.Governance = git.Tree{}, nil, canon.Sum(nil)
	}
	return vs
}

// readInForce reads base and contract.
func (r *contractReader) readInForce(ctx context.Context, refs git.Refs, in *Intake) (contract.Contract, []kernel.Violation, error) {
	if err := r.readBase(ctx, refs, in); err != nil {
		return contract.Contract{}, nil, err
	}
	in.contractRef, in.contractCommit = in.BaseRef, in.BaseCommit
	if err := r.readContract(ctx, in); err != nil {
		return contract.Contract{}, nil, err
	}
	return r.loadContract(ctx, refs, in)
}

// contractNow is the governance hash as it is now, for a run that has pinned one
// (case I10).
func (r *contractReader) contractNow(ctx context.Context, refs git.Refs, pinned *Intake) (canon.Digest, error) {
	if r.s.cfg.Contract == nil && refs.OID(pinned.contractRef) == pinned.contractCommit {
		return pinned.Governance, nil
	}
	var now Intake
	if err := r.readBase(ctx, refs, &now); err != nil {
		return "", err
	}
	err := r.readContract(ctx, &now)
	return now.Governance, err
}

// readBase pins the base: the tip of the base branch as it is now.
func (r *contractReader) readBase(ctx context.Context, refs git.Refs, in *Intake) error {
	in.BaseRef = r.s.cfg.Base
	if in.BaseRef == "" {
		in.BaseRef = refs.Head
	}
	var err error
	if in.BaseCommit, err = r.s.branch(ctx, refs, in.BaseRef); err != nil {
		return err
	}
	if in.BaseCommit.IsZero() {
		return &noBaseError{executor.Error{Code: kernel.CodeEnvRepository, Detail: r.noCommit(ctx, in.BaseRef)}}
	}
	in.base, err = r.readTree(ctx, in.BaseCommit)
	return err
}

// noBaseError says that the base branch isn't there: the server can do what it is asked.
type noBaseError struct{ err executor.Error }

func (e *noBaseError) Error() string { return e.err.Error() }

func (e *noBaseError) Unwrap() error { return &e.err }

// baseRefs are the refs at which the base is looked for: the operator's, or the one
// that HEAD names and the contract's, as it was last.
func (s *Supervisor) baseRefs() []string {
	if s.cfg.Base != "" {
		return []string{s.cfg.Base}
	}
	names := []string{git.OnlyHead}
	if named := s.named.Load(); named != nil {
		names = append(names, *named)
	}
	return names
}

// branch is where a branch is, which is asked for where it wasn't. A name that can be
// none is nowhere.
func (s *Supervisor) branch(ctx context.Context, refs git.Refs, name string) (git.OID, error) {
	if oid := refs.OID(name); !oid.IsZero() || !askable(name) {
		return oid, nil
	}
	refs, err := s.deps.Repo.Refs(ctx, name)
	return refs.OID(name), err
}

func askable(ref string) bool { return git.ValidateRef(ref) == nil }

// noCommit says what a repository needs whose base branch has no commit: that nothing is
// there to work on isn't a matter of path or permission. A git server doesn't name a
// branch that was deleted, the forge does.
func (r *contractReader) noCommit(ctx context.Context, ref string) string {
	name := strings.TrimPrefix(ref, "refs/heads/")
	if p := r.s.deps.Forge; name == "" && p != nil {
		if about, err := p.Client.Repository(ctx, p.Repo.ID); err == nil {
			name = about.DefaultBranch
		}
	}
	if name == "" {
		return "the repository's HEAD names no branch that is there: push the one that is meant, or name another branch as base"
	}
	return fmt.Sprintf("the base branch %q isn't there, or has no commit: make its first one (git commit) or push it, or name another branch as base", name)
}

// readTree reads a commit's tree, or the one that was read last.
func (r *contractReader) readTree(ctx context.Context, commit git.OID) (git.Tree, error) {
	for _, kept := range r.trees {
		if kept.commit == commit {
			return kept.tree, nil
		}
	}
	tree, err := r.s.deps.Repo.Tree(ctx, commit)
	if err != nil {
		return tree, err
	}
	// Two: the branch of the contract and the base, where they differ.
	r.trees = append([]keptTree{{commit, tree}}, r.trees...)[:min(2, len(r.trees)+1)]
	return tree, nil
}

// keptTree is a tree by the commit that it was read from.
type keptTree struct {
	commit git.OID
	tree   git.Tree
}

// readContract reads the operator's contract, the repository's at the pinned
// commit, or the built-in one.
func (r *contractReader) readContract(ctx context.Context, in *Intake) error {
	if x := r.s.cfg.Contract; x != nil {
		data, err := x.Read()
		if err != nil {
			return &executor.Error{Code: kernel.CodeEnvGovernance, Detail: "the contract can't be read", Err: err}
		}
		in.Contract, in.Source, in.Overridden = data, x.Name, true
		in.Governance = canon.Sum(data)
		return nil
	}
	in.Contract, in.Source = contract.Template(), contract.SourceDefault
	e, found := in.base.Find(contract.Path)
	switch {
	case found:
		in.Source, in.Contract = contract.Path, nil
		if e.Mode == git.ModeGitlink {
			break
		}
		err := r.s.deps.Repo.Blobs(ctx, []git.OID{e.OID}, func(_ git.OID, data []byte) error { in.Contract = data; return nil })
		if err != nil {
			return fmt.Errorf("%s: %w", contract.Path, err)
		}
	default:
		if in.misplaced = contract.Misplaced(paths(in.base)); len(in.misplaced) > 0 {
			in.Contract = nil
		}
	}
	in.Governance = canon.Sum(in.Contract)
	return nil
}

// paths are those of a tree's entries.
func paths(tree git.Tree) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range tree.Entries {
			if !yield(e.Path) {
				return
			}
		}
	}
}

// mode is the git mode of the contract's entry, "" where it isn't from git.
func (in *Intake) mode() string {
	for _, e := range in.base.Entries {
		if e.Path == in.Source && !in.Overridden {
			return e.Mode.String()
		}
	}
	return ""
}

// loadContract parses the contract, which may name another base branch than
// the one that it is read from.
func (r *contractReader) loadContract(ctx context.Context, refs git.Refs, in *Intake) (contract.Contract, []kernel.Violation, error) {
	if len(in.misplaced) > 0 {
		return contract.Contract{}, in.misplaced, nil
	}
	c, warnings, faults := r.parse(in.Contract, contract.Source{Name: in.Source, Mode: in.mode()})
	in.Warnings = append(append([]string{}, r.s.cfg.Warnings...), warnings...)
	if len(faults) > 0 || c.Base == "" || r.s.cfg.Base != "" || in.BaseRef == "refs/heads/"+c.Base {
		return c, faults, nil
	}
	named := "refs/heads/" + c.Base
	in.BaseRef = named
	var err error
	if in.BaseCommit, err = r.s.branch(ctx, refs, in.BaseRef); err != nil {
		return c, nil, err
	}
	if in.BaseCommit.IsZero() {
		return c, []kernel.Violation{{Code: kernel.CodeGovernanceInvalid, Subject: "base", Detail: fmt.Sprintf("The repository has no branch %q.", c.Base)}}, nil
	}
	if askable(named) { // a server may put anything at any name
		r.s.named.Store(&named)
	}
	in.base, err = r.readTree(ctx, in.BaseCommit)
	return c, nil, err
}

// parsed is a contract as it was last read, for whichever task of the world. Every
// request reads its bytes again, but holding them against all rules costs more than
// the rest of a look. Nobody writes to it.
type parsed struct {
	data     []byte
	source   contract.Source
	contract contract.Contract
	warnings []string
	faults   []kernel.Violation
}

func (r *contractReader) parse(data []byte, source contract.Source) (contract.Contract, []string, []kernel.Violation) {
	p := r.s.parsed.Load()
	if p == nil || p.source != source || !bytes.Equal(p.data, data) {
		p = &parsed{data: data, source: source}
		p.contract, p.warnings, p.faults = contract.Load(data, source)
		p.faults = slices.Clip(p.faults) // others are appended to it
		r.s.parsed.Store(p)
	}
	return p.contract, p.warnings, p.faults
}

// listRunners reads the keys whose results count in this repository. Where the
// contract names some and ours isn't among them, nothing of ours would count.
func (s *Supervisor) listRunners(in *Intake, c contract.Contract) {
	listed := len(c.Runners) == 0
	own := git.Fingerprint(s.deps.Signer.PublicKey())
	for _, line := range c.Runners {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			continue // the contract was refused for it
		}
		listed = listed || git.Fingerprint(key) == own
		in.runners = append(in.runners, key)
	}
	if in.unlisted = !listed; !listed {
		in.Policy = append(in.Policy, kernel.Violation{Code: kernel.CodeAuthority, Subject: "runners",
			Detail: "The contract lists runners, and this installation's key " + own + " isn't among them."})
	}
}
