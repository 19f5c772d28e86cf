package main

import (
	"context"
	"time"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/report"
)

type archiveFlags struct{ state, before, world string }

func (a *app) archive(ctx context.Context, f archiveFlags, before time.Time, dir string) error {
	in, err := a.openRestored(ctx, f.state)
	if err != nil {
		return err
	}
	defer in.Close()
	worlds, err := in.Store.Worlds(ctx)
	if err != nil {
		return err
	}
	if f.world != "" {
		worlds = []string{in.Dir.LastUse().Meant(f.world)}
	}
	for _, w := range worlds {
		l, err := in.Store.World(ctx, w)
		if err != nil {
			return err
		}
		done, err := l.Archive(ctx, dir, before.UnixMilli())
		if err != nil {
			return err
		}
		a.tellArchived(done)
	}
	a.print("the file of the store doesn't shrink: what is free in it is used again, and a back-up has none\n")
	return nil
}

func (a *app) tellArchived(done ledger.Archived) {
	if done.Records == 0 {
		a.print("ledger of %s: nothing of it is old enough and compressed\n", done.World)
		return
	}
	a.print("ledger of %s: %s of %d archived in %s, %s written now\n",
		done.World, report.Counted(done.Records, "record"), done.Of, done.Dir, report.Counted(done.Files, "file"))
}
