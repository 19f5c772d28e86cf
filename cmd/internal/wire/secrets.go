package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
)

// Secrets are what the environment gave.
type Secrets struct {
	Github, gitlab, local ForgeSecrets
	// Traces are the headers for the collector.
	Traces map[string]string
}

// ForgeSecrets are those of one forge.
type ForgeSecrets struct {
	Token string
	key   string // an App's private key, PEM
	hooks []string
	keys  []string // of a GitLab that signs
	bound []string // of a GitLab whose hooks are bound, in their order: keys or tokens
}

// secretReader reads many secrets and collects what is wrong.
type secretReader struct {
	getenv func(string) string
	values []string // all that were read
	err    error
}

// read reads one; there is none without a name.
func (r *secretReader) read(name string) string {
	if name == "" {
		return ""
	}
	value, err := config.Secret(r.getenv, name)
	r.values, r.err = append(r.values, value), errors.Join(r.err, err)
	return value
}

// all reads those that sign webhooks; none where there are no webhooks.
func (r *secretReader) all(poll bool, names []string) (list []string) {
	if poll {
		return nil
	}
	for _, name := range names {
		list = append(list, r.read(name))
	}
	return list
}

// pem reads a private key, which has many lines.
func (r *secretReader) pem(name string) string {
	text, err := config.SecretText(r.getenv, name)
	r.values, r.err = append(r.values, text), errors.Join(r.err, err)
	return text
}

// ReadSecrets reads those of the configured forges and hides them from
// everything that is shown.
func (proc *Process) ReadSecrets(cfg config.Config) (s Secrets, err error) {
	r := &secretReader{getenv: func(name string) string { return proc.Env[name] }}
	poll := cfg.Server.Intake == config.IntakePoll
	if c := cfg.Forges.GitHub; c.On() {
		s.Github.Token = r.read(c.Token)
		if c.AppID != 0 {
			s.Github.key = r.pem(c.PrivateKey)
		}
		s.Github.hooks = r.all(poll, c.HookSecrets)
	}
	if c := cfg.Forges.GitLab; c.On() {
		s.gitlab.Token, s.gitlab.hooks, s.gitlab.keys = r.read(c.Token), r.all(poll, c.HookSecrets), r.all(poll, c.HookKeys)
		s.gitlab.bound = r.all(poll, boundNames(c))
	}
	if c := cfg.Forges.Local; c.On() {
		s.local.Token, s.local.hooks = r.read(c.Token), r.all(poll, c.HookSecrets)
	}
	var e error
	s.Traces, e = traceHeaders(r.getenv, cfg.Server.Traces)
	if err = errors.Join(r.err, e); err != nil {
		return s, &problem.Error{Code: "config.secret.empty", Exit: problem.ExitUsage, Text: err.Error() + "."}
	}
	proc.HideValues(slices.Concat(r.values, slices.Collect(maps.Values(s.Traces))))
	return s, nil
}

// Credentials reads the secrets for hosts that builders and checks reach, by their
// names, and hides them.
func (proc *Process) Credentials(cfg config.Config) (map[string]string, error) {
	r := &secretReader{getenv: func(name string) string { return proc.Env[name] }}
	out := map[string]string{}
	for _, name := range cfg.Credentials() {
		out[name] = r.read(name)
	}
	if r.err != nil {
		return nil, &problem.Error{Code: "config.secret.empty", Exit: problem.ExitUsage, Text: r.err.Error() + "."}
	}
	proc.HideValues(r.values)
	return out, nil
}

// Fingerprint changes whenever the configuration file does, or a file with one of
// the secrets that a configuration names. What can't be read counts as empty.
func (proc *Process) Fingerprint(file string, cfg config.Config) string {
	sum := sha256.New()
	paths := []string{file}
	for _, name := range secretNames(cfg) {
		if path := proc.Env[name+"_FILE"]; path != "" {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		data, err := installation.ReadLimited(path, config.MaxBytes+1)
		one := sha256.Sum256(data)
		fmt.Fprint(sum, path, "\x00", err == nil, "\x00")
		sum.Write(one[:])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// boundNames are the variables of a GitLab's bound hooks.
func boundNames(c config.GitLabForge) (names []string) {
	for _, h := range c.Hooks {
		names = append(names, cmp.Or(h.Key, h.Secret))
	}
	return names
}

// secretNames are the variables that a configuration names.
func secretNames(cfg config.Config) (names []string) {
	f := cfg.Forges
	names = append(names, f.GitHub.Token, f.GitHub.PrivateKey, f.GitLab.Token, f.Local.Token, cfg.Server.Traces.Headers)
	names = append(names, slices.Concat(f.GitHub.HookSecrets, f.GitLab.HookSecrets, f.GitLab.HookKeys, boundNames(f.GitLab), f.Local.HookSecrets)...)
	names = append(names, cfg.Credentials()...)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// traceHeaders reads name=value,name=value, values percent-encoded where they
// have to be, as the standard's own variable has them. No error holds a value.
func traceHeaders(getenv func(string) string, t config.Traces) (map[string]string, error) {
	if t.Headers == "" {
		return map[string]string{}, nil
	}
	text, err := config.Secret(getenv, t.Headers)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, part := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("%s doesn't hold headers as name=value, with commas between them", t.Headers)
		}
		out[name] = value
	}
	return out, nil
}

// Of are the secrets of one forge.
func (s Secrets) Of(forge string) ForgeSecrets {
	switch forge {
	case "github":
		return s.Github
	case "gitlab":
		return s.gitlab
	}
	return s.local
}

// SameCredential reports whether writ acts by the same token or key.
func (f ForgeSecrets) SameCredential(other ForgeSecrets) bool {
	return f.Token == other.Token && f.key == other.key
}

// WithoutHooks is a configuration of which only the way to the forges is used.
func WithoutHooks(cfg config.Config) config.Config {
	cfg.Server.Intake = config.IntakePoll
	return cfg
}
