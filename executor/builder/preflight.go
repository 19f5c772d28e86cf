package builder

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// How long a preflight may take, and how long it counts. One that failed is soon tried
// again, since somebody is mending what it lacked; one that went well says nothing about
// the next hour.
const (
	preflightTime = 10 * time.Second
	preflightGood = 10 * time.Minute
	preflightBad  = 30 * time.Second
)

// PreflightTime is how long one takes at most, with an agent's first request.
const PreflightTime = preflightTime + rehearsalTime

// Preflight is what was found out of a builder before anything is claimed for it.
type Preflight struct {
	Version string   // what its program says of itself; "" of none that was asked
	Note    string   // how that differs from what was tested; "" where it doesn't
	Takes   []string // providers that were reached and take the key
	Passes  bool     // the gateway's table has what its program asks for first
	Faults  []kernel.Violation
}

// preflights are those that count still, by what they were made with: another program or
// another key is tried anew.
type preflights struct {
	mu sync.Mutex
	of map[[sha256.Size]byte]*preflight
}

type preflight struct {
	turn  chan struct{} // has an element while it is tried, so that it is tried once
	found Preflight
	first rehearsal // of the program that was there last

	// These are read and written while it is tried as well.
	until atomic.Pointer[time.Time] // what was found counts so long; never nil
	said  atomic.Pointer[string]    // the version that was found last; nil before the first
}

// doubt has the next look try again. What a try under way finds out may be of before the
// doubt, so it isn't kept.
func (p *preflight) doubt() { p.until.Store(new(time.Time)) }

// version is the one that was found last, while the next is tried as well.
func (p *preflight) version() string {
	if said := p.said.Load(); said != nil {
		return *said
	}
	return ""
}

// entry is that of a builder.
func (p *preflights) entry(b Builder) *preflight {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %v %q %q %v %v\n", b.Kind, b.Model, b.Instructions, b.Argv, b.Env, b.ReadOnly, b.Loopback)
	for _, r := range b.Egress {
		fmt.Fprintf(sum, "%q %v %v\n", r.Host, r.Ports, r.Addresses)
		if r.Credential != nil {
			fmt.Fprintf(sum, "%q %q\n", r.Credential.Header, r.Credential.Value)
			if api := r.Credential.API; api != nil {
				fmt.Fprintf(sum, "%q %q\n", api.Name, api.Rows)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [sha256.Size]byte(sum.Sum(nil))
	if p.of == nil {
		p.of = map[[sha256.Size]byte]*preflight{}
	}
	if p.of[key] == nil {
		p.of[key] = &preflight{turn: make(chan struct{}, 1)}
		p.of[key].doubt()
	}
	return p.of[key]
}

// Preflight tries what a run needs, at nobody's cost: that the program of an agent starts in
// the sandbox, that the gateway reaches its provider, and that this takes the key. A builder
// of no kind and without a provider has nothing to try.
func (l *Local) Preflight(ctx context.Context, name string) Preflight {
	b, ok := l.builder(name)
	if !ok || len(b.Argv) == 0 || !b.isAgent() && len(providers(b)) == 0 {
		return Preflight{}
	}
	p := l.preflights.entry(b)
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return Preflight{Faults: []kernel.Violation{{Code: kernel.CodeEnvBuilderFailed, Subject: name, Detail: "The builder is being tried, and the wait for what is found has ended."}}}
	}
	before := p.until.Load()
	if time.Now().Before(*before) {
		return p.found
	}
	within, cancel := context.WithTimeout(ctx, preflightTime)
	defer cancel()
	found := l.fly(within, name, b)
	if len(found.Faults) == 0 && b.isAgent() && l.cfg.Sandbox.Name() == gatewayLevel {
		l.firstRequest(ctx, p, name, b, &found)
	}
	if ctx.Err() != nil {
		return found // nobody waits for it, and it was ended
	}
	p.said.Store(&found.Version)
	until := time.Now().Add(preflightGood)
	if len(found.Faults) > 0 {
		until = time.Now().Add(preflightBad)
	}
	p.found = found
	p.until.CompareAndSwap(before, &until) // not where it was doubted since
	return found
}

// TryAgent is a preflight of an agent's program alone: its provider isn't looked for. A program
// that asks for nothing, which Preflight only notes, is a fault here: it isn't that agent.
func (l *Local) TryAgent(ctx context.Context, name string) Preflight {
	if v := l.probe(ctx); v != nil {
		return Preflight{Faults: []kernel.Violation{*v}}
	}
	b, _ := l.builder(name)
	within, cancel := context.WithTimeout(ctx, preflightTime)
	defer cancel()
	found := l.starts(within, name, b)
	if len(found.Faults) > 0 {
		return found
	}
	var tried preflight
	first := l.firstRequest(ctx, &tried, name, b, &found)
	if !found.Passes && len(found.Faults) == 0 {
		found.Faults = []kernel.Violation{{Code: kernel.CodeEnvBuilderFailed, Subject: name, Detail: first.note}}
	}
	return found
}

// firstRequest adds what the gateway's table says of the program's first request. Once that is
// known it is known for the program, its version and its configuration: nothing else changes
// it. A program that asked for nothing is tried again with the next preflight.
func (l *Local) firstRequest(ctx context.Context, p *preflight, name string, b Builder, found *Preflight) rehearsal {
	r := p.first
	if of := b.program() + " " + found.Version; r.of != of {
		var err error
		if r, err = l.rehearse(ctx, b); err != nil {
			r.note = "What it asks its provider for can't be tried: " + strings.TrimSuffix(err.Error(), ".") + "."
		}
		if r.of = of; ctx.Err() == nil && (r.passed || r.refused != "") {
			p.first = r
		}
	}
	found.Passes, found.Faults = r.passed, r.unlisted(b, name, found.Version)
	found.Note = strings.TrimSpace(found.Note + " " + r.note)
	return r
}

// providers are the rules of a builder's providers of models.
func providers(b Builder) (list []gateway.Rule) {
	for _, r := range b.Egress {
		if r.Credential != nil && r.Credential.API != nil {
			list = append(list, r)
		}
	}
	return list
}

// fly tries all of it.
func (l *Local) fly(ctx context.Context, name string, b Builder) (found Preflight) {
	if b.isAgent() {
		if found = l.starts(ctx, name, b); len(found.Faults) > 0 {
			return found
		}
	}
	for _, r := range providers(b) {
		err := l.reaches(ctx, b, r)
		v := kernel.Violation{Code: kernel.CodeProviderUnavailable, Subject: r.Host}
		switch {
		case err == nil:
			found.Takes = append(found.Takes, r.Host)
			continue
		case errors.Is(err, gateway.ErrKey):
			v.Code = kernel.CodeProviderRefused
		case ctx.Err() != nil:
			err = fmt.Errorf("there was no answer within %s", preflightTime)
		}
		v.Detail = "It was asked before anything is claimed: " + err.Error() + "."
		found.Faults = append(found.Faults, v)
	}
	return found
}

// starts asks an agent's program for its version.
func (l *Local) starts(ctx context.Context, name string, b Builder) (found Preflight) {
	version, err := l.askVersion(ctx, b)
	if err != nil {
		return Preflight{Faults: []kernel.Violation{{Code: kernel.CodeEnvBuilderFailed, Subject: name, Detail: "The program of the builder doesn't start in the sandbox: " + strings.TrimSuffix(err.Error(), ".") + "."}}}
	}
	return Preflight{Version: version, Note: tested(b.Kind, b.Argv).differs(version)}
}

// listsOf has each of the three lists allow what a builder's rules do.
func listsOf(rules []gateway.Rule) gateway.Lists {
	lists := gateway.Lists{Builder: rules}
	for _, r := range rules {
		r.Credential = nil
		lists.World = append(lists.World, r)
		r.Addresses = nil
		lists.Contract = append(lists.Contract, r)
	}
	return lists
}

// reaches asks a provider for what costs nothing.
func (l *Local) reaches(ctx context.Context, b Builder, r gateway.Rule) error {
	d, err := gateway.NewDecider(listsOf(b.Egress))
	if err != nil {
		return err
	}
	limits := l.cfg.Gateway
	limits.Time = preflightTime
	s, err := gateway.New(gateway.Config{Decider: d, Resolver: l.cfg.Resolver, Limits: limits, Roots: l.roots, Record: func(gateway.Record) {}})
	if err != nil {
		return err
	}
	return s.Try(ctx, r)
}

// askVersion starts the program as a run would, and is what it says of its version.
func (l *Local) askVersion(ctx context.Context, b Builder) (string, error) {
	stdout, stderr := &sandbox.Capture{Cap: keepBytes}, &sandbox.Capture{Cap: keepBytes}
	exit, err := l.runToEnd(ctx, b, sandbox.Spec{Argv: []string{b.Argv[0], "--version"}, Env: environment(b.prepared().Env, nil), Stdout: stdout, Stderr: stderr})
	said, _, _ := strings.Cut(l.clean(stdout.TailText(keepBytes), maxDetailBytes), "\n")
	switch {
	case err != nil:
		return "", err
	case ctx.Err() != nil:
		return "", fmt.Errorf("it didn't say its version within %s", preflightTime)
	case exit.Code != 0 || exit.Cause != sandbox.CauseExited:
		return "", fmt.Errorf("asked for its version it ended with the exit status %d: %s", exit.Code, l.clean(stderr.TailText(keepBytes), maxDetailBytes))
	}
	return strings.TrimSpace(said), nil
}

// preflightDir begins the names of its directories, so that a sweep takes what a killed
// process left as that of a run.
const preflightDir = "run-preflight-"

var versionForm = lazyregexp.New(`\d+\.\d+\.\d+`)

// differs says that a version isn't the tested one.
func (p Package) differs(says string) string {
	if found := versionForm().FindString(says); p.Version == "" || found == p.Version {
		return ""
	}
	return "Tested is " + p.Version + "; what another version asks its provider for later may be refused by the gateway's table."
}

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
