package installation

import (
	"cmp"
	"context"
	"fmt"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// Resumable is an error where a resume would move nothing: the task isn't halted,
// and what stands at HEAD is nothing, was resumed already, goes on by itself, or
// is done. What it can't judge may be resumed.
func (g *Governed) Resumable(ctx context.Context, sup *supervisor.Supervisor, v kernel.TaskView) error {
	if v.Halted {
		return nil
	}
	ref, acts := StateRef(g.Cfg.Refs, v.Task), worldref.Ref(RefPrefix(g.Cfg.Refs))
	refs, err := g.Repo.Refs(ctx, ref, acts, git.OnlyHead)
	if err != nil {
		return err
	}
	oid := PlainOID(refs.OID(ref))
	lost := v.Unshown != "" && v.Unshown != oid // what the server acknowledged waits, for a rule perhaps
	switch {
	case !lost && v.ResumedHead != "" && cmp.Or(oid, kernel.AbsentHead) == v.ResumedHead:
		return notResumable(v.Task, "was resumed already, and nothing has moved it since")
	}
	h, faults, err := sup.HeadOf(ctx, refs, v)
	switch {
	case git.Lasting(err):
		return nil
	case err != nil:
		return err
	case len(faults) > 0:
		return nil
	case oid == "" && v.Seen == "":
		return notResumable(v.Task, "was never started, and isn't halted")
	case h.HeldByStranger():
		return notResumable(v.Task, fmt.Sprintf("is held by %s, whose key isn't listed (%s), until %s; look at it again then", cmp.Or(h.RunnerID, "somebody"), cmp.Or(h.Signer, "no good signature"), kernel.Timestamp(h.LeaseUntil/1000)))
	case !h.Trusted():
		return nil
	case h.State == kernel.HeadWorking && lost:
		return nil
	case h.State == kernel.HeadWorking:
		return notResumable(v.Task, "has a lease at HEAD; if its runner is dead, the lease is given back by itself once it has expired, and the task goes on or its issue says why it doesn't")
	case h.State == string(kernel.TaskCompleted):
		return notResumable(v.Task, "is completed")
	}
	return nil
}

func notResumable(task int64, why string) *problem.Error {
	return problem.Coded(kernel.CodeTaskNotResumable, "There is nothing to resume: task %d %s.", task, why)
}
