package main

import (
	"context"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/doctor"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
)

// setupLabels are those that a repository needs: the one with which people
// approve, as the built-in contract names it, and writ's own.
func setupLabels() []forge.Label {
	approves := forge.Label{Name: contract.Default().Trigger.Label, Color: "1f6feb", Description: "Approves an issue for writ"}
	return append([]forge.Label{approves}, supervisor.Labels()...)
}

// makeLabels makes the labels that a repository lacks.
func makeLabels(ctx context.Context, at *wire.Forge, full string) error {
	owner, name, _ := cutRepo(full)
	repo, err := at.Host.Find(ctx, owner, name)
	if err != nil {
		return wire.NotFound(at, full, err)
	}
	return at.Host.Client(repo.Repo).EnsureLabels(ctx, repo.Repo, setupLabels())
}

// checkSetup makes the labels of each repository and checks it by using what writ
// may do in it. It reports whether all is well. Each check is a line.
func (a *app) checkSetup(ctx context.Context, cfg config.Config, at *wire.Forge) bool {
	good := true
	for _, name := range at.Repositories {
		if err := makeLabels(ctx, at, name); err != nil {
			a.print("The labels of %s could not be made: %s.\n", name, err.Error())
		}
		checks := doctor.Repository(ctx, doctor.Target{
			Forge: at.Name, Host: at.Host, Name: name, Git: at.Git, Refs: cfg.Refs, Base: cfg.Base,
			Identity: doctor.Identity{Name: cfg.Identity.Name, Email: cfg.Identity.Email},
			Poll:     cfg.Server.Intake == config.IntakePoll, Now: time.Now,
			Each: func(c doctor.Check) { _ = doctor.Line(a.stdout, c) }, // a terminal that is gone
		})
		good = good && doctor.Good(checks)
	}
	return good
}
