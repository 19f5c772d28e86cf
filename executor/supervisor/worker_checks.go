package supervisor

import (
	"context"
	"fmt"
	"sort"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// prepareChecks starts the runner on the proposed change: a fresh tree, built
// from the hashed bytes.
func (w *worker) prepareChecks(_ *observation) (*effect, error) {
	r := w.run
	tree, err := changedTree(git.NewObjects(r.base), r)
	if err != nil {
		return nil, err
	}
	r.treeID = tree
	key := "checks:" + r.id
	job := executor.CheckJob{
		World: w.s.cfg.Repository, Task: w.number, Run: r.id, Base: w.baseOf(r), Diff: r.built.Diff, Contents: r.built.Contents,
		Checks: r.pack.Checks, Prepare: r.pack.Prepare, Trusted: w.trustedOf(r), TreeID: string(tree), OnLine: w.tail(),
	}
	return &effect{
		intent: kernel.Intent{Kind: string(kernel.KindIntent), Key: key, Effect: kernel.ActionChecks, New: string(tree)},
		do: func(ctx context.Context) kernel.Outcome {
			k, err := w.s.deps.Executor.Check(context.WithoutCancel(ctx), job)
			if err != nil {
				r.phase = kernel.PhaseChecked
				return w.notStarted(r, key, kernel.ActionChecks, err)
			}
			w.guard.Lock()
			r.checks, r.phase = k, kernel.PhaseChecking
			w.guard.Unlock()
			return kernel.Outcome{Kind: string(kernel.KindOutcome), Key: key, Effect: kernel.ActionChecks, Status: kernel.OutcomeDone}
		},
	}, nil
}

// changedTree adds the blobs and trees of the base with the change applied.
// Every byte comes from what was hashed.
func changedTree(objs *git.Objects, r *run) (git.OID, error) {
	entries := make(map[string]git.Entry, len(r.base.Entries))
	for _, e := range r.base.Entries {
		entries[e.Path] = e
	}
	for _, ch := range r.built.Diff.Changes {
		if ch.Op == kernel.OpDelete {
			delete(entries, ch.Path)
			continue
		}
		mode, err := fileMode(ch.AfterMode)
		if err != nil {
			return "", err
		}
		id := git.OID(ch.AfterID)
		if ch.Op != kernel.OpMode {
			data, ok := r.built.Contents[ch.AfterID]
			if !ok {
				return "", fmt.Errorf("supervisor: the bytes of %q are missing", ch.Path)
			}
			if id = objs.Blob(data); string(id) != ch.AfterID {
				return "", fmt.Errorf("supervisor: the bytes of %q aren't the hashed ones", ch.Path)
			}
		}
		entries[ch.Path] = git.Entry{Path: ch.Path, Mode: mode, OID: id}
	}
	list := make([]git.Entry, 0, len(entries))
	for _, e := range entries {
		list = append(list, e)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
	return objs.Tree(list)
}

// fileMode admits what a change may leave behind: regular files.
func fileMode(s string) (git.Mode, error) {
	switch s {
	case git.ModeFile.String():
		return git.ModeFile, nil
	case git.ModeExec.String():
		return git.ModeExec, nil
	}
	return 0, fmt.Errorf("supervisor: mode %q can't be committed", s)
}
