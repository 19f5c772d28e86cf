package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// checks are what the whole process needs, by the names that /readyz shows.
func (s *server) checks() []webhook.Check {
	list := []webhook.Check{
		{Name: "store", Run: func(context.Context) error { return s.in.db.Err() }},
		{Name: "sandbox", Run: func(ctx context.Context) error {
			return s.environment(ctx, defaultBuilder, kernel.CodeSandboxUnavailable, kernel.CodeEnvState)
		}},
	}
	return list
}

// parts are the checks of what comes and goes. The process is ready without them:
// each fails alone, and the webhooks of the others must be taken.
func (s *server) parts() (list []webhook.Check) {
	part := func(name string, run func(context.Context) error) {
		list = append(list, webhook.Check{Name: name, Part: true, Run: func(ctx context.Context) error { return s.inWords(run(ctx)) }})
	}
	for _, name := range slices.Sorted(maps.Keys(s.conf().Builders)) {
		part("builder:"+name, func(ctx context.Context) error { return s.environment(ctx, name, kernel.CodeEnvBuilder) })
	}
	part("pauses", s.notPaused)
	part("configuration", func(context.Context) error { return s.reloads.refused() })
	for _, l := range s.worlds.shown() {
		if w := l.served; w != nil {
			part("git:"+l.world, func(ctx context.Context) error {
				return w.git.ask(time.Now(), func() error {
					_, err := w.repo.Refs(ctx, refPrefix(s.cfg.Refs))
					return err
				})
			})
		}
		part("forge:"+l.world, func(ctx context.Context) error { return s.forgeOf(ctx, l) })
		if l.forge.access != nil && l.served != nil {
			part("access:"+l.world, func(context.Context) error { return orNil(l.lacks) })
		}
	}
	return list
}

// forgeOf is what is wrong with a listed repository at its forge.
func (s *server) forgeOf(ctx context.Context, l listing) error {
	if l.served == nil {
		if l.why == nil {
			return errors.New("It is being opened.") //nolint:staticcheck // a sentence
		}
		return l.why
	}
	return l.served.seen.ask(time.Now(), func() error {
		found, err := l.served.client.Repository(ctx, l.served.at.ID)
		if err == nil && !strings.EqualFold(found.String(), l.name) {
			err = fmt.Errorf("%s is called %s now: put that name in its place under repositories", l.name, found.Repo)
		}
		return err
	})
}

// orNil is an error that is nil where there is no problem.
func orNil(p *problem) error {
	if p == nil {
		return nil
	}
	return p
}

// inWords is an error as anybody may read it, with what to do.
func (s *server) inWords(err error) error {
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	p := explain(err)
	text := strings.TrimSuffix(p.Error(), ".") + "."
	if p.remedy != "" {
		text += " " + p.remedy
	}
	return errors.New(report.Clean(s.app.redactor.String(text)))
}

// environment is what is wrong with a builder's surroundings, of these codes.
func (s *server) environment(ctx context.Context, builder string, codes ...kernel.Code) error {
	for _, v := range s.now().executor.Environment(ctx, builder) {
		if slices.Contains(codes, v.Code) {
			return errors.New(v.Subject + ": " + v.Detail)
		}
	}
	return nil
}
