package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"

	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// Environment implements executor.Executor. The provider of a builder is asked where all
// else is as it should be.
func (l *Local) Environment(ctx context.Context, name string) []kernel.Violation {
	if out := l.Surroundings(ctx, name); len(out) > 0 {
		return out
	}
	return l.plain(l.Preflight(ctx, name).Faults)
}

// Unheld implements [executor.Outward]: nobody meters what the builder asks models for, or
// each request would be refused, since money is limited and nobody said what its model costs.
// A builder without a network asks no model. The configuration refuses a budget of the
// operator's for a builder that nobody meters.
func (l *Local) Unheld(world, name string, contracts kernel.Budgets) []kernel.Violation {
	b, _ := l.builder(name)
	limit, keys := contracts.Lower(b.Budget), keysOf(name, b.Budget, contracts)
	v := kernel.Violation{Code: kernel.CodeBudgetUnpriced, Subject: name}
	switch {
	case limit == (kernel.Spend{}) || l.deciderOf(world, name) == nil:
		return nil
	case len(providers(b)) == 0:
		key := keys.tokens.name
		if limit.Tokens == 0 {
			key = keys.cost.name
		}
		v.Code, v.Detail = kernel.CodeBudgetUnmetered, fmt.Sprintf("%s limits what an attempt may use of models, and nobody meters what this builder uses: no credential of builders.%s.egress has an api.", key, name)
	case limit.Cost == 0:
		return nil
	case b.Model == "" && l.priced, l.cfg.Price(b.Model) != nil:
		return nil // an agent that chooses its model may choose one that has a price
	case b.Model == "":
		v.Detail = fmt.Sprintf("%s limits the attempt, and prices.models has no price at all.", keys.cost.name)
	default:
		v.Detail = fmt.Sprintf("%s limits the attempt, and prices.models has no price for the builder's model %s.", keys.cost.name, b.Model)
	}
	return l.plain([]kernel.Violation{v})
}

// Surroundings is what Environment says of this machine alone: nobody else is asked.
func (l *Local) Surroundings(ctx context.Context, name string) []kernel.Violation {
	var out []kernel.Violation
	if v := l.probe(ctx); v != nil {
		out = append(out, *v)
	}
	bad := func(subject, detail string) {
		out = append(out, kernel.Violation{Code: kernel.CodeEnvBuilder, Subject: subject, Detail: detail})
	}
	b, ok := l.builder(name)
	switch {
	case !ok:
		bad(name, fmt.Sprintf("No builder of this name is configured; there are: %s.", strings.Join(l.names(), ", ")))
	case len(b.Argv) == 0:
		bad(name, "The builder has no command.")
	case !l.visible(b):
		bad(b.Argv[0], "The program isn't there. In the sandbox only /usr, the configured read-only mounts and the workspace exist.")
	}
	for _, m := range slices.Concat(b.ReadOnly, l.cfg.Checks.ReadOnly) {
		if _, err := os.Stat(m.Source); err != nil {
			bad(m.Source, "The configured read-only mount isn't there.")
		}
	}
	if code, err := l.writable(); err != nil {
		out = append(out, kernel.Violation{Code: code, Subject: "workspaces", Detail: err.Error()})
	} else if s, ok := l.cfg.Sandbox.(interface{ Reaches(dir string) error }); ok {
		if err := s.Reaches(l.cfg.WorkDir); err != nil {
			out = append(out, kernel.Violation{Code: kernel.CodeSandboxUnavailable, Subject: l.cfg.Sandbox.Name(), Detail: err.Error()})
		}
	}
	if reserve := l.cfg.Limits.DiskReserveBytes; l.diskLow(reserve) {
		out = append(out, kernel.Violation{Code: kernel.CodeEnvDisk, Subject: "workspaces", Detail: fmt.Sprintf("Their file system has less than %d MiB free, the reserve, or too few files.", reserve>>20)})
	}
	return l.plain(out)
}

// diskLow reports whether the reserve isn't free, without the layers that nobody uses.
func (l *Local) diskLow(reserve int64) bool {
	if sandbox.DiskLow(l.cfg.WorkDir, reserve) {
		l.stock.layers.trim(0)
	}
	return sandbox.DiskLow(l.cfg.WorkDir, reserve)
}

// makeWorkDir makes the directory of all workspaces. Nobody else may look in; a
// sandbox without namespaces, whose program has a user of its own, passes through.
func (l *Local) makeWorkDir() error { return os.MkdirAll(l.cfg.WorkDir, 0o711) } //nolint:gosec // see above

// builder is the configured builder of a name.
func (l *Local) builder(name string) (Builder, bool) {
	if l.cfg.Any != nil {
		return *l.cfg.Any, true
	}
	b, ok := l.cfg.Builders[name]
	return b, ok
}

func (l *Local) names() []string {
	names := make([]string, 0, len(l.cfg.Builders))
	for n := range l.cfg.Builders {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// visible reports whether the builder's program can be expected inside: in the
// system's directories, below a read-only mount, or in the workspace (a
// relative path, which only the base commit can tell).
func (l *Local) visible(b Builder) bool {
	name := b.Argv[0]
	switch {
	case filepath.IsAbs(name):
		return l.isProgram(b, name)
	case strings.Contains(name, "/"):
		return true
	}
	for _, dir := range searchPath(b.Env) {
		if l.isProgram(b, filepath.Join(dir, name)) {
			return true
		}
	}
	return false
}

// searchPath is the PATH that a program gets.
func searchPath(operator map[string]string) []string {
	for _, kv := range slices.Backward(environment(operator, nil)) {
		if dirs, ok := strings.CutPrefix(kv, "PATH="); ok {
			return filepath.SplitList(dirs)
		}
	}
	return nil
}

// systemPlaces are the host's directories that exist inside, too.
var systemPlaces = []string{"/usr/", "/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/libx32/"}

// isProgram looks at the host's file behind a path inside.
func (l *Local) isProgram(b Builder, path string) bool {
	host := ""
	_, open := l.cfg.Sandbox.(*sandbox.None)
	if open || slices.ContainsFunc(systemPlaces, func(d string) bool { return strings.HasPrefix(path, d) }) {
		host = path
	}
	for _, m := range b.ReadOnly {
		target := m.Target
		if target == "" {
			target = m.Source
		}
		if rel, err := filepath.Rel(target, path); err == nil && filepath.IsLocal(rel) {
			host = filepath.Join(m.Source, rel)
		}
	}
	if host == "" {
		return false
	}
	info, err := os.Stat(host)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// withProxy are the operator's values, beneath them what tells of the gateway.
func withProxy(operator map[string]string, gateway bool) map[string]string {
	if !gateway {
		return operator
	}
	out := map[string]string{}
	for _, kv := range sandbox.ProxyEnv() {
		k, v, _ := strings.Cut(kv, "=")
		out[k] = v
	}
	maps.Copy(out, operator)
	return out
}

// environment is the complete environment of a process: the sandbox's base, the
// operator's values, Writ's own. Later ones win. Its order is fixed, so that
// the same dispatch gives the same bytes (conformance D30).
func environment(operator, own map[string]string) []string {
	values := map[string]string{}
	var order []string
	set := func(k, v string) {
		if _, ok := values[k]; !ok {
			order = append(order, k)
		}
		values[k] = v
	}
	for _, kv := range sandbox.BaseEnv() {
		k, v, _ := strings.Cut(kv, "=")
		set(k, v)
	}
	for _, m := range []map[string]string{operator, own} {
		keys := make([]string, 0, len(m))
		for k := range m {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			set(k, m[k])
		}
	}
	out := make([]string, len(order))
	for i, k := range order {
		out[i] = k + "=" + values[k]
	}
	return out
}

// writable is an error, with its code, where no workspace can be made, nor a layer of a
// base where those are in use: their file system is read-only, say. It tries.
func (l *Local) writable() (kernel.Code, error) {
	if err := l.makeWorkDir(); err != nil {
		return kernel.CodeEnvWorkspace, err
	}
	type place struct {
		dir, prefix string
		code        kernel.Code
	}
	places := []place{{l.cfg.WorkDir, "run-", kernel.CodeEnvWorkspace}}
	if s := l.stock.layers; s.usable() {
		if err := s.make(); err != nil {
			return kernel.CodeEnvLayers, err
		}
		places = append(places, place{s.dir, newLayer, kernel.CodeEnvLayers})
	}
	for _, p := range places {
		try, err := os.MkdirTemp(p.dir, p.prefix)
		if err == nil {
			err = os.Remove(try)
		}
		var no syscall.Errno
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist): // a sweep may have removed it
		case errors.As(err, &no):
			return p.code, fmt.Errorf("%s: %w", p.dir, no) // the same words each time, without the name that was tried
		default:
			return p.code, err
		}
	}
	return "", nil
}
