package ledgers

import (
	"context"
	"slices"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/report"
)

// Spent is what builders used by the ledgers of a state directory, of one world or of all, and
// of one task or of all (0), in runs that began at or after a moment (Unix milliseconds).
func Spent(ctx context.Context, state, archive, world string, task, since int64) (*report.Spent, error) {
	out := report.NewSpent(since)
	dir, err := installation.OpenDir(state, false)
	if err != nil {
		return nil, err
	}
	if !ledger.Recorded(dir.Path) {
		return out, nil
	}
	store, err := ledger.OpenReadOnly(ctx, dir.File(ledger.FileName), ledger.Options{Archive: archive})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	worlds, err := store.Worlds(ctx)
	if err != nil {
		return nil, err
	}
	use := dir.LastUse()
	wanted := use.Meant(world)
	if world != "" && !slices.Contains(worlds, wanted) {
		return nil, &problem.Error{Exit: problem.ExitOther, Text: "Nothing was recorded here of a repository " + world + ".", Remedy: "Leave --world out to see which there are."}
	}
	for _, w := range worlds {
		if world != "" && w != wanted {
			continue
		}
		fold, err := spentIn(ctx, store, w, task)
		if err != nil {
			return nil, err
		}
		out.Add(w, use.Names[w], fold, since)
	}
	return out, nil
}

// spentIn reads one world's records, of one task or all.
func spentIn(ctx context.Context, store *ledger.Store, world string, task int64) (*report.SpentFold, error) {
	l, err := store.World(ctx, world)
	if err != nil {
		return nil, err
	}
	records := l.Records(ctx, 0, 0)
	if task > 0 {
		records = l.RecordsOfTask(ctx, task)
	}
	fold := report.NewSpentFold()
	for r, err := range records {
		if err == nil {
			err = fold.Take(r)
		}
		if err != nil {
			return nil, err
		}
	}
	return fold, nil
}
