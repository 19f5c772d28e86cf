package worlds

import (
	"context"
	"fmt"
	"slices"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
)

// othersAtOnce bounds how many other tasks are looked at to learn whose state it is.
const othersAtOnce = 16

// Elsewhere refuses a repository whose state is that of another world: it was moved or
// copied, or only its name is known here. On a forge such a HEAD is left below, for
// nobody can take it away there; whoever runs a task from a file can.
func Elsewhere(ctx context.Context, in *installation.Governed, sup *supervisor.Supervisor, at installation.Place, number int64) error {
	prefix := installation.RefPrefix(in.Cfg.Refs)
	refs, err := in.Repo.Refs(ctx, prefix, worldref.Ref(prefix))
	if err != nil {
		return err
	}
	numbers := []int64{number}
	if !at.OnDisk { // its name is all that is known of it
		others := supervisor.TasksAt(refs.Names(), prefix)
		numbers = append(numbers, others[:min(len(others), othersAtOnce)]...)
	}
	slices.Sort(numbers)
	stands, err := sup.Stands(ctx, refs, slices.Compact(numbers)...)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(stands, func(st supervisor.Stand) bool { return st.Seen != "" || st.Legitimate() }) {
		return nil // what was copied beside it is each task's own affair
	}
	for _, st := range stands {
		if st.Code != kernel.CodeStateForeign || st.World == "" || st.World == in.World {
			continue
		}
		p := problem.Coded(kernel.CodeWorldElsewhere, "The state of task %d in this repository is of the world %s, and this is %s.", st.Task, st.World, in.World)
		p.Remedy = fmt.Sprintf("If it goes on as that one: writ world rebind '%s' '%s' --repo %s --state-dir %s --reason TEXT. ", st.World, in.World, at.URL, in.Dir.Path)
		if at.OnDisk {
			p.Remedy += fmt.Sprintf("If it is a copy and a world of its own: give another --number, or remove the copied state: git -C %s update-ref -d %s", at.URL, st.Ref)
		} else {
			p.Remedy = "Of a URL only the name is known: run it where the forge is configured (writ serve), or by the path of the repository. " + p.Remedy
		}
		return p
	}
	return nil
}
