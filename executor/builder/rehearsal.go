package builder

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// rehearsalTime bounds a rehearsal, and is more than an agent takes to begin on a machine with
// much else to do. Most take a second or two, once for each program and configuration.
const rehearsalTime = 30 * time.Second

// rehearsalWords are what an agent is asked for, in words that no model reads.
const rehearsalWords = "Say that you are ready.\n"

// rehearsal is what an agent's first request came to. Its program is the installed one, run as
// for a task; its provider is nobody: the gateway holds the request to its table, and sends
// nothing. There is no key in it, and nothing costs anything.
type rehearsal struct {
	of      string // the program, and its version
	passed  bool   // its request is one that the table lets through
	refused string // why its request isn't; "" where it asked for nothing, too
	note    string // what it did instead; "" where it asked
}

// rehearse has an agent ask its provider once.
func (l *Local) rehearse(ctx context.Context, b Builder) (out rehearsal, err error) {
	within, end := context.WithTimeout(ctx, rehearsalTime)
	defer end()
	var mu sync.Mutex
	besides := false               // a request was let through that isn't that of its work, such as for a title
	refused := map[string]string{} // the first refusal of each code
	gate, err := l.deadGateway(b, func(body []byte) {
		mu.Lock()
		defer mu.Unlock()
		if besides = true; hasTools(body) {
			out.passed = true
			end()
		}
	}, func(r gateway.Record) {
		mu.Lock()
		defer mu.Unlock()
		if refused[r.Code] == "" {
			refused[r.Code] = l.clean(r.Detail, maxDetailBytes)
		}
	})
	if err != nil {
		return out, err
	}
	p := b.prepared()
	stderr := &sandbox.Capture{Cap: keepBytes}
	spec := sandbox.Spec{Argv: p.Argv, Env: environment(withProxy(p.Env, true), nil), Loopback: b.Loopback, Gateway: gate.listen, Stderr: stderr}
	spec.Stdin, spec.Stdout = strings.NewReader(rehearsalWords), io.Discard
	if agents[b.Kind].talks {
		t := newTalk(rehearsalWords, io.Discard, l.cfg.Redact)
		defer t.close()
		spec.Stdin, spec.Stdout = t, t.said
	}
	exit, err := l.runToEnd(within, b, spec)
	gate.close()
	mu.Lock()
	defer mu.Unlock()
	body, endpoint := refused[gateway.CodeBody], refused[gateway.CodeEndpoint]
	switch {
	case out.passed, besides && body == "": // what it asks for at another endpoint, such as telemetry, isn't its work
		out.passed = true
	case body != "", endpoint != "":
		out.refused = cmp.Or(body, endpoint)
	case within.Err() != nil:
		out.note = fmt.Sprintf("It asked its provider for nothing within %s, so that it isn't known whether the gateway's table has what it asks for.", rehearsalTime)
	case err != nil:
		return out, err
	default:
		said, _, _ := strings.Cut(l.clean(stderr.TailText(keepBytes), maxDetailBytes), "\n")
		out.note = strings.TrimSpace(fmt.Sprintf("It ended with the exit status %d before it asked its provider for anything, so that it isn't known whether the gateway's table has what it asks for. %s", exit.Code, said))
	}
	return out, nil
}

// hasTools tells the request in which an agent works from those beside it.
func hasTools(body []byte) bool {
	var asked struct {
		Tools []json.RawMessage `json:"tools"`
	}
	return json.Unmarshal(body, &asked) == nil && len(asked.Tools) > 0
}

// deadGateway is a gateway that judges what is asked for, and sends nothing out.
func (l *Local) deadGateway(b Builder, judged func([]byte), record func(gateway.Record)) (*outlet, error) {
	rules := providers(b)
	for n := range rules {
		c := rules[n].Credential
		rules[n].Credential = &gateway.Credential{Header: c.Header, Value: Placeholder, API: c.API}
	}
	d, err := gateway.NewDecider(listsOf(rules))
	if err != nil {
		return nil, err
	}
	limits := l.cfg.Gateway
	limits.Time = rehearsalTime + egressGrace
	s, err := gateway.New(gateway.Config{Decider: d, Resolver: l.cfg.Resolver, Limits: limits, Record: record, Judged: judged})
	if err != nil {
		return nil, err
	}
	o := &outlet{server: s, end: func(error) {}}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o, nil
}

// runToEnd runs a program of a builder's in an empty workspace, to its end.
func (l *Local) runToEnd(ctx context.Context, b Builder, spec sandbox.Spec) (sandbox.Exit, error) {
	if err := l.makeWorkDir(); err != nil {
		return sandbox.Exit{}, err
	}
	dir, err := os.MkdirTemp(l.cfg.WorkDir, preflightDir)
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer func() { _ = sandbox.RemoveTree(dir) }() // a sweep removes what is left
	spec.Workspace, spec.ReadOnly, spec.Limits = filepath.Join(dir, "workspace"), b.ReadOnly, l.cfg.Limits
	if err := os.Mkdir(spec.Workspace, 0o700); err != nil {
		return sandbox.Exit{}, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the sandbox's user passes through
		return sandbox.Exit{}, err
	}
	p, err := l.cfg.Sandbox.Start(ctx, spec)
	if err != nil {
		return sandbox.Exit{}, err
	}
	exit := p.Wait()
	return exit, exit.Err
}

// program names the files of a builder's program as they are now: another one is tried anew.
// They are those that its argv names by their absolute paths, such as a script after its
// interpreter.
func (b Builder) program() string {
	var files []string
	for _, word := range b.Argv {
		if info, err := os.Stat(b.outside(word)); filepath.IsAbs(word) && err == nil && info.Mode().IsRegular() {
			word = fmt.Sprintf("%s %d %d", word, info.Size(), info.ModTime().UnixNano())
		}
		files = append(files, word)
	}
	return strings.Join(files, "\n")
}

// outside is where a path of the sandbox is on this machine.
func (b Builder) outside(at string) string {
	for _, m := range b.ReadOnly {
		target := m.Target
		if target == "" {
			target = m.Source
		}
		if below, is := strings.CutPrefix(at, strings.TrimSuffix(target, "/")+"/"); is {
			return filepath.Join(m.Source, below)
		}
		if at == target {
			return m.Source // a file that is mounted alone
		}
	}
	return at
}

// unlisted is the fault of an agent whose request the table doesn't let through.
func (r rehearsal) unlisted(b Builder, name, version string) []kernel.Violation {
	if r.refused == "" {
		return nil
	}
	note := ""
	if p := tested(b.Kind, b.Argv); p.differs(version) != "" {
		note = " Tested is " + p.Version + "."
	}
	return []kernel.Violation{{Code: kernel.CodeEnvBuilderRequest, Subject: name, Detail: fmt.Sprintf("The gateway's table refuses what %s asks its provider for: %s.%s", strings.TrimSpace(b.Kind+" "+version), r.refused, note)}}
}
