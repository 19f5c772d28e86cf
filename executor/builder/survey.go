package builder

import (
	"context"
	"errors"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

var _ executor.Surveyor = (*Local)(nil)

// Survey implements [executor.Surveyor]: it lays the base out as for a run. The
// tree is kept for the run that may follow.
func (l *Local) Survey(ctx context.Context, name string, base executor.Base) ([]kernel.Violation, error) {
	cfg, ok := l.builder(name)
	if !ok || base.Commit == "" {
		return nil, nil
	}
	if err := l.makeWorkDir(); err != nil {
		return nil, failed(kernel.CodeEnvWorkspace, "there is no directory for workspaces", err)
	}
	f := l.stock.feedOf(base)
	t := l.stock.lay(f, use{git: !cfg.WithoutGit})
	err := l.stock.await(ctx, t)
	if err == nil {
		l.stock.offer(f, t)
		return nil, nil
	}
	if be, ok := errors.AsType[*baseError](err); ok {
		return l.plain([]kernel.Violation{be.violation}), nil
	}
	return nil, err
}

// baseError is a base that no run can use, in whose hands ever it is.
type baseError struct{ violation kernel.Violation }

// Error is one line.
func (e *baseError) Error() string { return e.violation.Subject + ": " + e.violation.Detail }

// unusable reports whether what went wrong while a base was laid out lies in the
// base: the same commit would be as bad the next time.
func unusable(err error) (v kernel.Violation, is bool) {
	if te, ok := errors.AsType[*scope.TreeError](err); ok {
		return te.Violation(), true
	}
	ee, ok := errors.AsType[*scope.EntryError](err)
	if _, reading := errors.AsType[*readError](err); !ok || !reading || !git.Lasting(err) {
		return v, false
	}
	return scope.UnusableBase(ee.Path, git.Reason(err)), true
}
