package main

import (
	"context"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/doctor"
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
func makeLabels(ctx context.Context, at *connected, full string) error {
	owner, name, _ := cutRepo(full)
	repo, err := at.host.Find(ctx, owner, name)
	if err != nil {
		return notFound(at, full, err)
	}
	return at.host.Client(repo.Repo).EnsureLabels(ctx, repo.Repo, setupLabels())
}

// checkSetup makes the labels of each repository and checks it by using what writ
// may do in it. It reports whether all is well. Each check is a line.
func (a *app) checkSetup(ctx context.Context, cfg config.Config, at *connected) bool {
	good := true
	for _, name := range at.repositories {
		if err := makeLabels(ctx, at, name); err != nil {
			a.print("The labels of %s could not be made: %s.\n", name, err.Error())
		}
		checks := doctor.Repository(ctx, doctor.Target{
			Forge: at.name, Host: at.host, Name: name, Git: at.git, Refs: cfg.Refs, Base: cfg.Base,
			Identity: doctor.Identity{Name: cfg.Identity.Name, Email: cfg.Identity.Email},
			Poll:     cfg.Server.Intake == config.IntakePoll, Now: time.Now,
			Each: func(c doctor.Check) { _ = doctor.Line(a.stdout, c) }, // a terminal that is gone
		})
		good = good && doctor.Good(checks)
	}
	return good
}
