package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// checks are what /readyz names: everything that a task needs, each by its name.
func (s *server) checks() []webhook.Check {
	list := []webhook.Check{
		{Name: "store", Run: func(context.Context) error { return s.in.db.Err() }},
		{Name: "sandbox", Run: func(ctx context.Context) error {
			return s.environment(ctx, defaultBuilder, kernel.CodeSandboxUnavailable, kernel.CodeEnvState)
		}},
	}
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Builders)) {
		list = append(list, webhook.Check{Name: "builder:" + name, Run: func(ctx context.Context) error {
			return s.environment(ctx, name, kernel.CodeEnvBuilder)
		}})
	}
	for _, name := range slices.Sorted(maps.Keys(s.worlds)) {
		w := s.worlds[name]
		list = append(list, webhook.Check{Name: "git:" + name, Run: func(ctx context.Context) error {
			_, err := w.repo.Refs(ctx, refPrefix(s.cfg.Refs))
			return err
		}}, webhook.Check{Name: "forge:" + name, Run: func(ctx context.Context) error {
			_, err := w.client.Repository(ctx, w.at.ID)
			return err
		}})
	}
	return list
}

// environment is what is wrong with a builder's surroundings, of these codes.
func (s *server) environment(ctx context.Context, builder string, codes ...kernel.Code) error {
	for _, v := range s.executor.Environment(ctx, builder) {
		if slices.Contains(codes, v.Code) {
			return errors.New(v.Subject + ": " + v.Detail)
		}
	}
	return nil
}
