package main

import (
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
)

// process is what commands and a server share: the environment, where a person is told
// of things, and the secrets that are hidden from there. What tests set stands here too.
type process struct {
	version  string // of the program
	env      map[string]string
	stderr   io.Writer
	redactor redactor
	// fault is for crash tests, which set it in their own binary: the program
	// as it is shipped has no way to.
	fault func(supervisor.Point)
	// behind, for crash tests as well, is by how much the wall clock by which
	// tasks are decided lags.
	behind time.Duration
	// writes, for end-to-end tests, is from one write to a forge to the next; zero:
	// what the forges ask for.
	writes time.Duration
	// connected is told of each connection through a gateway; nil: nobody is.
	connected func(gateway.Record)
	// used is told what each request to a provider used; nil: nobody is.
	used func(world, builder string, one kernel.Usage)
	// resolver looks up what builders and checks reach; nil: the host's.
	resolver gateway.Resolver
}

// newProcess is one with this environment, of which nothing is read but when it is
// needed. The values of the variables that are known to be secret are hidden.
func newProcess(stderr io.Writer, env []string) *process {
	p := &process{stderr: stderr, env: map[string]string{}}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		p.env[k] = v
	}
	p.hide(config.Default().Redact)
	return p
}

func (a *process) usage(world, builder string, one kernel.Usage) {
	if a.used != nil {
		a.used(world, builder, one)
	}
}

func (a *process) connection(r gateway.Record) {
	if a.connected != nil {
		a.connected(r)
	}
}

// load reads the configuration, if one is named, and hides what it says.
func (a *process) load(path string) (config.Config, error) {
	cfg := config.Default()
	if path != "" {
		var err error
		if cfg, err = config.Load(path); err != nil {
			return cfg, err
		}
	}
	a.hide(cfg.Redact)
	return cfg, nil
}

// hide takes the values of these environment variables out of all that is
// shown or kept from now on.
func (a *process) hide(names []string) {
	var secrets []string
	for _, n := range names {
		if v := a.env[n]; v != "" {
			secrets = append(secrets, v)
		}
	}
	a.hideValues(secrets)
}

// hideValues does the same with values. What was hidden before stays hidden.
func (a *process) hideValues(values []string) {
	a.redactor.add(values)
}

// lockedLines writes whole lines for many writers.
type lockedLines struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lockedLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// clean takes secrets and what can't be seen out of one value, before it is
// quoted in any form.
func (a *process) clean(_ []string, at slog.Attr) slog.Attr {
	switch at.Value.Kind() {
	case slog.KindString, slog.KindAny:
		at.Value = slog.StringValue(report.Clean(a.redactor.String(at.Value.String())))
	}
	return at
}

// stateDirOf is where the state of a repository lies by default:
// $XDG_STATE_HOME/writ/<name>-<8 hex digits>.
func (a *process) stateDirOf(p place) (string, error) {
	base := a.env["XDG_STATE_HOME"]
	if !filepath.IsAbs(base) {
		home := a.env["HOME"]
		if !filepath.IsAbs(home) {
			return "", usage("There is no home directory to keep state in: give --state-dir.")
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "writ", p.name+"-"+p.key), nil
}
