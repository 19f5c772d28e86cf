package ledgers

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/cmd/internal/worlds"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/kernel"
)

// VerifyTask checks a task's evidence, from its repository alone, for somebody who vouches for
// these keys; of this world where one is named.
func VerifyTask(ctx context.Context, proc *wire.Process, cfg config.Config, name string, task int64, world string, keys []ssh.PublicKey) (replay.Report, error) {
	at, err := worlds.Identify(ctx, proc, cfg, name, false)
	if at.URL == "" {
		return replay.Report{}, err // it is no place at all
	}
	defer at.Close()
	repo, err := proc.Repository(ctx, cfg, at.Place, nil)
	if err != nil {
		return replay.Report{}, err
	}
	defer repo.Close()
	o := replay.Options{Keys: keys, World: world}
	if o.World == "" && at.Vouched {
		o.World = at.World
	}
	rep, err := replay.VerifyTask(ctx, repo, installation.StateRef(cfg.Refs, task), o)
	var re *replay.Error
	if errors.As(err, &re) && re.Code == kernel.CodeTargetIneligible && cfg.Refs != config.RefsHeads {
		if again, err2 := replay.VerifyTask(ctx, repo, installation.StateRef(config.RefsHeads, task), o); err2 == nil {
			rep, err = again, nil
		}
	}
	if err == nil {
		return rep, nil
	}
	p := unverified(err)
	if p.Code == kernel.CodeTargetIneligible {
		p.Remedy = "See to --task, and to the repository: an ordinary clone leaves these refs out. Name the URL that it was cloned from, or fetch them first: git fetch origin 'refs/writ/*:refs/writ/*'."
	}
	return rep, p
}

// unverified is why there is no report: what was looked at and doesn't hold ends with 1, as a
// bad report does, and what can't be looked at as it does with every other command.
func unverified(err error) *problem.Error {
	p := problem.Explain(err)
	if !strings.HasPrefix(string(p.Code), "environment.") && p.Code != kernel.CodeForgeCredential {
		p.Exit = problem.ExitOther
	}
	return p
}
