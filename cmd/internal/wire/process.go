// Package wire makes the parts of writ that commands and the server share, from the
// configuration and the environment: secrets, forges, executors, and supervisors.
package wire

import (
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
)

// Process is what commands and a server share: the environment, where a person is told
// of things, and the secrets that are hidden from there. What tests set stands here too.
type Process struct {
	Version  string // of the program
	Env      map[string]string
	Stderr   io.Writer
	Redactor redactor
	// Fault is for crash tests, which set it in their own binary: the program
	// as it is shipped has no way to.
	Fault func(supervisor.Point)
	// Behind, for crash tests as well, is by how much the wall clock by which
	// tasks are decided lags.
	Behind time.Duration
	// Writes, for end-to-end tests, is from one write to a forge to the next; zero:
	// what the forges ask for.
	Writes time.Duration
	// Connected is told of each connection through a gateway; nil: nobody is.
	Connected func(gateway.Record)
	// Used is told what each request to a provider used; nil: nobody is.
	Used func(world, builder string, one kernel.Usage)
	// Ran is told how long each builder ran; nil: nobody is.
	Ran func(world, builder string, took time.Duration)
	// Resolver looks up what builders and checks reach; nil: the host's.
	Resolver gateway.Resolver
}

// Reach is a fault point.
func (proc *Process) Reach(p supervisor.Point) {
	if proc.Fault != nil {
		proc.Fault(p)
	}
}

// NewProcess is one with this environment, of which nothing is read but when it is
// needed. The values of the variables that are known to be secret are hidden.
func NewProcess(stderr io.Writer, env []string) *Process {
	p := &Process{Stderr: stderr, Env: map[string]string{}}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		p.Env[k] = v
	}
	p.Hide(config.Default().Redact)
	return p
}

// Usage tells of what a request to a provider used.
func (proc *Process) Usage(world, builder string, one kernel.Usage) {
	if proc.Used != nil {
		proc.Used(world, builder, one)
	}
}

// BuilderRan tells of how long a builder ran.
func (proc *Process) BuilderRan(world, builder string, took time.Duration) {
	if proc.Ran != nil {
		proc.Ran(world, builder, took)
	}
}

func (proc *Process) connection(r gateway.Record) {
	if proc.Connected != nil {
		proc.Connected(r)
	}
}

// Load reads the configuration, if one is named, and hides what it says.
func (proc *Process) Load(path string) (config.Config, error) {
	cfg := config.Default()
	if path != "" {
		var err error
		if cfg, err = config.Load(path); err != nil {
			return cfg, err
		}
	}
	proc.Hide(cfg.Redact)
	return cfg, nil
}

// Hide takes the values of these environment variables out of all that is
// shown or kept from now on.
func (proc *Process) Hide(names []string) {
	var secrets []string
	for _, n := range names {
		if v := proc.Env[n]; v != "" {
			secrets = append(secrets, v)
		}
	}
	proc.HideValues(secrets)
}

// HideValues does the same with values. What was hidden before stays hidden.
func (proc *Process) HideValues(values []string) {
	proc.Redactor.add(values)
}

// LockedLines writes whole lines for many writers.
type LockedLines struct {
	mu sync.Mutex
	W  io.Writer
}

// Write implements io.Writer.
func (l *LockedLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.W.Write(b)
}

// Clean takes secrets and what can't be seen out of one value, before it is
// quoted in any form.
func (proc *Process) Clean(_ []string, at slog.Attr) slog.Attr {
	switch at.Value.Kind() {
	case slog.KindString, slog.KindAny:
		at.Value = slog.StringValue(report.Clean(proc.Redactor.String(at.Value.String())))
	}
	return at
}

// Warnings tells a person who watches of what is worth a warning.
func (proc *Process) Warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(proc.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: WithoutTime}))
}

// WithoutTime leaves the time out of a log: a person who watches has a clock.
func WithoutTime(_ []string, attr slog.Attr) slog.Attr {
	if attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}

// StateDir is where the state of a repository lies: in the directory that is given, or in
// $XDG_STATE_HOME/writ/<name>-<8 hex digits>.
func (proc *Process) StateDir(given string, p installation.Place) (string, error) {
	if given != "" {
		return given, nil
	}
	base := proc.Env["XDG_STATE_HOME"]
	if !filepath.IsAbs(base) {
		home := proc.Env["HOME"]
		if !filepath.IsAbs(home) {
			return "", problem.Usage("There is no home directory to keep state in: give --state-dir.")
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "writ", p.Name+"-"+p.Key), nil
}
