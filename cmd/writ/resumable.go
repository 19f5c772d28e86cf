package main

import (
	"context"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// resumable is an error where a resume would move nothing: the task isn't halted,
// and what stands at HEAD is nothing, was resumed already, goes on by itself, or
// is done. What it can't judge may be resumed.
func (g *governed) resumable(ctx context.Context, v kernel.TaskView) error {
	if v.Halted {
		return nil
	}
	ref := stateRef(g.cfg.Refs, v.Task)
	refs, err := g.repo.Refs(ctx, ref)
	if err != nil {
		return err
	}
	oid := refs.OID(ref)
	switch {
	case oid.IsZero():
		return notResumable(v.Task, "was never started, and isn't halted")
	case string(oid) == v.ResumedHead:
		return notResumable(v.Task, "was resumed already, and nothing has moved it since")
	}
	trusted, err := parseKeys(g.cfg.TrustedRunners)
	if err != nil {
		return err
	}
	switch g.trustedState(ctx, oid, append(trusted, g.key.SSHSigner().PublicKey())) {
	case lease.StateWorking:
		return notResumable(v.Task, "is being worked on; if its runner is dead, it is taken up again by itself")
	case string(kernel.TaskCompleted):
		return notResumable(v.Task, "is completed")
	}
	return nil
}

// trustedState is the state that a commit says, if one of the keys signed it; ""
// for somebody else's, and for what can't be read.
func (g *governed) trustedState(ctx context.Context, oid git.OID, trusted []ssh.PublicKey) string {
	commit, err := g.repo.Commit(ctx, oid)
	if err != nil {
		return ""
	}
	if _, err := commit.Verify(trusted); err != nil {
		return ""
	}
	ev, err := lease.ReadEvent(lease.Head{
		OID: string(oid), Message: commit.Message, CommitterSeconds: commit.Committer.Seconds,
		CommitterOK: commit.Committer.OK && len(commit.Ambiguous) == 0,
	})
	if err != nil {
		return ""
	}
	return ev.State
}

func notResumable(task int64, why string) *problem {
	return coded(kernel.CodeTaskNotResumable, "There is nothing to resume: task %d %s.", task, why)
}
