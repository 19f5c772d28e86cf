//go:build agents

package builder

import (
	"crypto/x509"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/gateway/stub"
	"github.com/writbot/writ/executor/sandbox"
)

// providersPace is how long a provider takes for one answer: 1.8 s until it begins, and eighty
// tokens at 63 a second, as Artificial Analysis published for Claude Sonnet 4.5 in November
// 2025. Slower models make less of what writ adds.
const providersPace = 3 * time.Second

// BenchmarkAgent is a published agent that reads, edits, runs the check and finishes: in the
// sandbox and through the gateway, from the wish for the run to its outcome, and the same
// program with the same arguments bare, in a directory that is there already, both against the
// same stub in turns. Bare it asks by plain HTTP, which spares it TLS.
func BenchmarkAgent(b *testing.B) {
	for _, p := range publishedAgents {
		if p.kind == "acp" { // it has to be talked to
			continue
		}
		b.Run(p.kind+"/instant", func(b *testing.B) { benchmarkAgent(b, p, 0) })
		b.Run(p.kind+"/paced", func(b *testing.B) { benchmarkAgent(b, p, providersPace) })
	}
}

func benchmarkAgent(b *testing.B, p published, pace time.Duration) {
	var model atomic.Pointer[stub.Model]
	anew := func() { model.Store(&stub.Model{Key: providersKey, Turns: work}) }
	anew()
	play := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			<-time.After(pace)
		}
		model.Load().ServeHTTP(w, r)
	})
	far, near := httptest.NewTLSServer(play), httptest.NewServer(play)
	b.Cleanup(far.Close)
	b.Cleanup(near.Close)
	program, mount, err := KindPackage(p.kind).In(os.Getenv("WRIT_TEST_AGENTS"))
	if err != nil {
		b.Fatalf("use make agents: %v", err)
	}
	a := gateway.APIs()[p.api]
	builder := Builder{
		Kind: p.kind, Model: "test-model", Argv: []string{"/opt/agent" + strings.TrimPrefix(program, mount)}, ReadOnly: []sandbox.Mount{{Source: mount, Target: "/opt/agent"}},
		Egress: []gateway.Rule{{
			Host: "example.com", Ports: []uint16{netip.MustParseAddrPort(far.Listener.Addr().String()).Port()}, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Credential: &gateway.Credential{Header: a.Header, Value: a.Prefix + providersKey, API: a},
		}},
	}
	dir := benchDir(b)
	l := New(Config{
		Sandbox: sandbox.NewBubblewrap(sandbox.Config{}), WorkDir: filepath.Join(dir, "work"), Layers: Layers{Dir: filepath.Join(dir, "layers")},
		Resolver: here{}, Now: func() int64 { return time.Now().UnixMilli() }, Builders: map[string]Builder{"default": builder},
	})
	defer l.Close()
	l.roots = x509.NewCertPool()
	l.roots.AddCert(far.Certificate())
	if vs := l.Environment(b.Context(), "default"); len(vs) > 0 {
		b.Fatal(vs)
	}
	base := baseOf(calc)
	inside := func(n int) {
		job := executor.BuildJob{
			Run: fmt.Sprint("run-", n), Builder: "default", Dispatch: []byte(`{"kind":"dispatch"}`), Instruction: "Add a line to calc/add.go.\n",
			Base: base, Budgets: budgets(), Scope: executor.ScopeRules{Allowed: []string{"calc/**"}},
		}
		ms := agentLimit.Milliseconds()
		job.Budgets.StartTimeoutMs, job.Budgets.BuildTimeoutMs, job.Budgets.IdleTimeoutMs = ms, ms, ms
		r, err := l.Build(b.Context(), job)
		if err != nil {
			b.Fatal(err)
		}
		<-r.Done()
		if o := r.Outcome(); codes(o) != "" || paths(o.Diff) != "modify calc/add.go" {
			b.Fatalf("%s: %s", codes(o), o.Result.Stdout.Tail)
		}
	}
	home := func(n int) (workspace string) {
		at := filepath.Join(dir, fmt.Sprint("bare-", n))
		if err := os.Mkdir(at, 0o700); err != nil {
			b.Fatal(err)
		}
		f := newFeed(base)
		err := scope.Materialise(b.Context(), filepath.Join(at, "workspace"), entries(base.Files), func(id string) ([]byte, error) { return f.get(b.Context(), id) })
		if err != nil {
			b.Fatal(err)
		}
		if out, err := exec.CommandContext(b.Context(), "git", "init", "-q", filepath.Join(at, "workspace")).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		return filepath.Join(at, "workspace")
	}
	outside := func(workspace string) {
		bare := builder.prepared()
		_, at := builder.provider()
		cmd := exec.CommandContext(b.Context(), program)
		for _, arg := range bare.Argv[1:] {
			cmd.Args = append(cmd.Args, strings.ReplaceAll(arg, at, near.URL))
		}
		env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": filepath.Dir(workspace), "OPENAI_API_KEY": Placeholder}
		maps.Copy(env, bare.Env)
		for name, value := range env {
			value = strings.NewReplacer(at, near.URL, sandbox.HomeDir, env["HOME"], sandbox.TmpDir, os.TempDir()).Replace(value)
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		cmd.Dir, cmd.Stdin = workspace, strings.NewReader("Add a line to calc/add.go.\n")
		out, err := cmd.CombinedOutput()
		if data, rerr := os.ReadFile(filepath.Join(workspace, "calc", "add.go")); err != nil || rerr != nil || !strings.Contains(string(data), "// changed") {
			b.Fatalf("bare: %v, %v\n%s", err, rerr, out)
		}
	}
	var in, out []time.Duration
	timed := func(list *[]time.Duration, f func()) {
		anew()
		began := time.Now()
		f()
		*list = append(*list, time.Since(began))
	}
	for n := 0; b.Loop(); n++ {
		workspace := home(n)
		timed(&in, func() { inside(n) })
		timed(&out, func() { outside(workspace) })
	}
	slices.Sort(in)
	slices.Sort(out)
	with, bare := in[len(in)/2], out[len(out)/2]
	b.ReportMetric(float64(with.Milliseconds()), "ms/writ")
	b.ReportMetric(float64(bare.Milliseconds()), "ms/bare")
	b.ReportMetric(float64((with - bare).Milliseconds()), "ms/added")
	b.ReportMetric(float64(with)/float64(bare), "ratio")
}
