package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/ledgers"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/report"
)

type usageFlags struct {
	state, since, world, archive string
	task                         int64
}

func (a *app) usageCommand() *cobra.Command {
	var f usageFlags
	cmd := &cobra.Command{
		Use: "usage --state-dir DIR", Short: "Who spent what: runs, time, tokens and cost of each task", Args: cobra.NoArgs,
		Long: `Usage tells from the records of an installation what its builders used: of each run and
model the wall time, the requests, the tokens that the gateway metered, and what they
cost by the price list that was in force then (prices in the configuration). It reads
the store, beside a running server or without one, and changes nothing. Records are
read and not verified: writ verify does that.

What a run used is recorded when its builder ends. What an agent says of its own cost
isn't among it.`,
		Example: "  writ usage --state-dir /var/lib/writ/state --since 2026-01-01 --world github.com/acme/shop",
	}
	fl := cmd.Flags()
	fl.StringVar(&f.state, "state-dir", "", "state directory of the installation")
	fl.StringVar(&f.since, "since", "", "day, as 2026-01-31: runs that began before it (UTC) are left out")
	fl.StringVar(&f.world, "world", "", "one repository, by its name or its identity (default: all)")
	fl.Int64Var(&f.task, "task", 0, "number of one task (default: all)")
	fl.StringVar(&f.archive, "archive", "", "directory of the archived records (writ ledger archive)")
	fl.BoolVar(&a.json, "json", false, "print JSON")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if f.state == "" {
			return problem.Usage("--state-dir is missing: give that of the installation.")
		}
		for flag, path := range map[string]string{"state-dir": f.state, "archive": f.archive} {
			if err := installation.PathFlag(flag, path); err != nil {
				return err
			}
		}
		if fl.Changed("task") && f.task < 1 {
			return problem.Usage("--task must be at least 1.")
		}
		var since int64
		if f.since != "" {
			day, err := time.Parse(time.DateOnly, f.since)
			if err != nil {
				return problem.Usage("--since is no day: write it as 2026-01-31.")
			}
			since = day.UnixMilli()
		}
		s, err := ledgers.Spent(ctx, f.state, f.archive, f.world, f.task, since)
		if err != nil {
			return err
		}
		return a.tellSpent(s)
	})
	return cmd
}

func (a *app) tellSpent(s *report.Spent) error {
	if !a.json {
		a.print("%s", s.Plain())
		return nil
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	a.printJSON(data)
	return nil
}
