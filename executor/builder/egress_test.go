package builder

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// actFetch asks for each URL as an ordinary client does, and prints what it gets.
func actFetch(urls []string) {
	for _, u := range urls {
		answer, err := http.Get(u)
		if err != nil {
			fmt.Println("failed:", u)
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		fmt.Printf("%d %s\n", answer.StatusCode, strings.TrimSpace(string(body)))
	}
	if len(urls) == 0 {
		fmt.Println("proxy:", os.Getenv("HTTPS_PROXY"))
	}
}

// here is a resolver for which every name is this machine.
type here struct{}

func (here) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// outside is a server beyond the sandbox, and the operator's rule for it.
func outside(t *testing.T, host string) (base string, rule gateway.Rule) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello from outside") }))
	t.Cleanup(s.Close)
	port := netip.MustParseAddrPort(s.Listener.Addr().String()).Port()
	return fmt.Sprintf("http://%s:%d", host, port), gateway.Rule{
		Host: host, Ports: []uint16{port}, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
}

// outward makes a bed with a way out.
func outward(t *testing.T, change ...func(*Config)) *bed {
	t.Helper()
	return newBed(t, append([]func(*Config){func(c *Config) { c.Resolver = here{} }}, change...)...)
}

const fetch = `"$INIT" act-fetch `

// TestEgress_Builder: an ordinary client reaches what the operator allows, and nothing
// else; each connection is in the result.
func TestEgress_Builder(t *testing.T) {
	t.Parallel()
	url, rule := outside(t, "registry.example.org")
	seen := make(chan gateway.Record, 10)
	b := outward(t, func(c *Config) { c.Connection = func(r gateway.Record) { seen <- r } })
	cfg := script(`echo x > calc/new; ` + fetch + url + ` http://elsewhere.example.org http://elsewhere.example.org`)
	cfg.Egress = []gateway.Rule{rule}
	o := b.build(b.job(cfg))
	if out := o.Result.Stdout.Tail; out != "200 hello from outside\n403 egress.host_denied\n403 egress.host_denied\n" {
		t.Errorf("output %q, %v", out, o.Violations)
	}
	e := o.Result.Egress
	if e == nil || e.Total != 3 || len(e.Connections) != 3 || e.Down == 0 {
		t.Fatalf("recorded %+v", e)
	}
	// Each is recorded at its end, which of the first may come after that of the second.
	i := slices.IndexFunc(e.Connections, func(c kernel.Connection) bool { return c.Host == rule.Host })
	if i < 0 {
		t.Fatalf("recorded %+v", e)
	}
	if c := e.Connections[i]; c.Verdict != "allowed" || c.Address != "127.0.0.1" || c.Rule == "" || c.At == 0 {
		t.Errorf("recorded %+v", c)
	}
	want := []kernel.Denied{{Host: "elsewhere.example.org", Port: 80, Code: gateway.CodeHost, Rule: "builder", Count: 2}}
	if !slices.Equal(e.Denied, want) || len(seen) != 3 {
		t.Errorf("denied %+v, %d seen", e.Denied, len(seen))
	}
}

// TestEgress_NoneUnlessAllowed: a builder without egress, and a check without hosts, have
// no way out, whatever others have.
func TestEgress_NoneUnlessAllowed(t *testing.T) {
	t.Parallel()
	url, rule := outside(t, "registry.example.org")
	b := outward(t, func(c *Config) { c.Checks.Egress = []gateway.Rule{rule} })
	o := b.sh(`echo x > calc/new; ` + fetch + url + `; "$INIT" act-fetch`)
	if out := o.Result.Stdout.Tail; out != "failed: "+url+"\nproxy: \n" || o.Result.Egress != nil {
		t.Errorf("output %q, %+v", out, o.Result.Egress)
	}
	check := shCheck("test", "/run/writ/init act-fetch "+url+"; exit 3")
	with := check
	with.Name, with.Hosts = "with", []string{strings.TrimPrefix(url, "http://")}
	c := b.check(o, check, with)
	if out := c.Run.Checks[0].Output.Tail; out != "failed: "+url+"\n" || c.Run.Checks[0].Egress != nil {
		t.Errorf("without hosts: %q", out)
	}
	if out := c.Run.Checks[1].Output.Tail; out != "200 hello from outside\n" || c.Run.Checks[1].Egress == nil {
		t.Errorf("with hosts: %q", out)
	}
}

// TestEgress_EachListCaps: a check reaches only what contract, checks and world allow.
func TestEgress_EachListCaps(t *testing.T) {
	t.Parallel()
	url, rule := outside(t, "registry.example.org")
	host := strings.TrimPrefix(url, "http://")
	all := map[string][]gateway.Rule{"here": {rule}}
	for name, c := range map[string]struct {
		hosts  string
		checks []gateway.Rule
		worlds map[string][]gateway.Rule
		want   string
	}{
		"all":                   {host, []gateway.Rule{rule}, all, ""},
		"no worlds":             {host, []gateway.Rule{rule}, nil, ""},
		"not asked for":         {"*.example.com", []gateway.Rule{rule}, all, "contract"},
		"not the checks'":       {host, nil, all, "builder"},
		"not this world's":      {host, []gateway.Rule{rule}, map[string][]gateway.Rule{"here": nil}, "world"},
		"another world's alone": {host, []gateway.Rule{rule}, map[string][]gateway.Rule{"there": {rule}}, "world"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outward(t, func(cfg *Config) { cfg.Checks.Egress, cfg.Worlds = c.checks, c.worlds })
			k := shCheck("test", "/run/writ/init act-fetch "+url)
			k.Hosts = []string{c.hosts}
			job := b.checkJob(changed(b), k)
			job.World = "here"
			r, err := b.local.Check(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			b.await(r)
			e := r.Outcome().Run.Checks[0].Egress
			if e == nil || len(e.Connections) != 1 || (c.want == "") != (e.Connections[0].Verdict == "allowed") || !strings.HasPrefix(e.Connections[0].Rule, c.want) {
				t.Errorf("recorded %+v", e)
			}
			vs := b.local.Reach("here", []kernel.Check{k}, nil)
			if refused := len(vs) > 0; refused != (c.want != "" && c.want != "contract") && name != "not asked for" {
				t.Errorf("before the claim: %v", vs)
			}
		})
	}
}

// TestEgress_RefusedBeforeTheClaim: what a check asks for in vain is said before a builder
// is paid, with the list that lacks it.
func TestEgress_RefusedBeforeTheClaim(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *Config) {
		c.Checks.Egress = []gateway.Rule{{Host: "a.example.org"}, {Host: "*.below.example.org"}, {Host: "plain.example.org", Ports: []uint16{80}, Methods: []string{"GET"}}}
		c.Worlds = map[string][]gateway.Rule{"here": {{Host: "*.example.org", Ports: []uint16{80, 443}}}}
	})
	for host, want := range map[string]string{
		"a.example.org": "", "*.below.example.org": "", "plain.example.org:80": "", "b.example.org": "checks.egress of",
		"*.example.org": "checks.egress of", "a.example.org:8443": "checks.egress of", "10.0.0.1": "address",
	} {
		vs := b.local.Reach("here", []kernel.Check{{Name: "test", Hosts: []string{host}}}, nil)
		if want == "" && len(vs) > 0 || want != "" && (len(vs) != 1 || vs[0].Code != kernel.CodeEgressDenied || vs[0].Subject != "test" ||
			!strings.Contains(vs[0].Detail, want)) {
			t.Errorf("%s: %v", host, vs)
		}
	}
	if vs := b.local.Reach("there", []kernel.Check{{Name: "test", Hosts: []string{"a.example.org"}}}, nil); len(vs) != 1 || !strings.Contains(vs[0].Detail, "worlds") {
		t.Errorf("another world: %v", vs)
	}
}

// TestHosts_WhatTheBuilderMayReach: the instruction names what the operator lets the builder
// reach in this repository, and of others nothing.
func TestHosts_WhatTheBuilderMayReach(t *testing.T) {
	b := newBed(t, func(c *Config) {
		c.Builders = map[string]Builder{
			"none": {Argv: []string{"/bin/true"}},
			"some": {Argv: []string{"/bin/true"}, Egress: []gateway.Rule{
				{Host: "api.example.org", Credential: &gateway.Credential{Header: "Authorization", Value: "s"}}, {Host: "mirror.example.org", Ports: []uint16{8443}}, {Host: "else.example.org"},
			}},
		}
		c.Worlds = map[string][]gateway.Rule{"here": {{Host: "*.example.org", Ports: []uint16{443, 8443}}, {Host: "else.example.com"}}, "there": {{Host: "else.example.org"}}}
	})
	for who, want := range map[[2]string]string{
		{"here", "some"}: "else.example.org http://api.example.org mirror.example.org:8443", {"there", "some"}: "else.example.org",
		{"nowhere", "some"}: "", {"here", "none"}: "", {"here", "unknown"}: "",
	} {
		if got := strings.Join(b.local.Hosts(who[0], who[1]), " "); got != want {
			t.Errorf("%v: %q, want %q", who, got, want)
		}
	}
	b = newBed(t, func(c *Config) {
		c.Builders = map[string]Builder{"some": {Argv: []string{"/bin/true"}, Egress: []gateway.Rule{{Host: "api.example.org"}}}}
	})
	if got := b.local.Hosts("any", "some"); len(got) != 1 || got[0] != "api.example.org" {
		t.Errorf("without worlds: %q", got)
	}
}

// TestEgress_GatewayLost: where the gateway ends before the program, the program is ended,
// and neither builder nor check has failed.
func TestEgress_GatewayLost(t *testing.T) {
	t.Parallel()
	_, rule := outside(t, "registry.example.org")
	b := outward(t, func(c *Config) { c.Checks.Egress = []gateway.Rule{rule} })
	o := changed(b)
	b.local.onGateway = func(l net.Listener) { _ = l.Close() }
	cfg := script(`echo x > calc/new; sleep 1000`)
	cfg.Egress = []gateway.Rule{rule}
	if got := b.build(b.job(cfg)); codes(got) != string(kernel.CodeEgressUnavailable) || got.Result.Exit.Cause != kernel.CauseStopped {
		t.Errorf("builder: %q, %+v", codes(got), got.Result.Exit)
	}
	k := shCheck("test", "sleep 1000")
	k.Hosts = []string{"registry.example.org"}
	if got := b.check(o, k); words(got.Violations) != string(kernel.CodeEgressUnavailable) || got.Run.Checks[0].Passed {
		t.Errorf("check: %+v", got)
	}
	if kernel.CodeEgressUnavailable.Info().Counts != kernel.CountsNothing {
		t.Error("it counts")
	}
}

// TestEgress_GatewayKilledInTheMiddle: a gateway that ends while it hands an answer on is an
// outage, too, for a builder, a check and a step of the preparation, and what was asked for
// until then is recorded.
func TestEgress_GatewayKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	listeners := make(chan net.Listener, 3)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "half of ")
		w.(http.Flusher).Flush()
		_ = (<-listeners).Close()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	rule := gateway.Rule{Host: "registry.example.org", Ports: []uint16{at.Port()}, Addresses: []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)}}
	hosts := []string{fmt.Sprintf("registry.example.org:%d", at.Port())}
	b := outward(t, alone, func(c *Config) { c.Checks.Egress, c.Checks.Env = []gateway.Rule{rule}, map[string]string{} })
	o := changed(b)
	b.local.onGateway = func(l net.Listener) { listeners <- l }
	ask := "/run/writ/init act-fetch http://" + hosts[0] + "; sleep 1000"
	cfg := script("echo x > calc/new; " + ask)
	cfg.Egress = []gateway.Rule{rule}
	built := b.build(b.job(cfg))
	k := shCheck("test", ask)
	k.Hosts = hosts
	checked := b.check(o, k)
	unprepared := b.prepared([]kernel.Step{shStep("download", ask, hosts, []string{"check.sh"})}, "echo started")
	for what, got := range map[string]struct {
		codes  string
		egress *kernel.Egress
	}{
		"the builder": {codes(built), built.Result.Egress},
		"a check":     {words(checked.Violations), checked.Run.Checks[0].Egress},
		"a step":      {codes(unprepared), nil},
	} {
		if got.codes != string(kernel.CodeEgressUnavailable) || what != "a step" && (got.egress == nil || got.egress.Total != 1 || got.egress.Connections[0].Verdict != "allowed") {
			t.Errorf("%s: %q, %+v", what, got.codes, got.egress)
		}
	}
	if unprepared.Result.Stdout.Tail != "" {
		t.Errorf("the builder was started: %q", unprepared.Result.Stdout.Tail)
	}
}

// TestEgress_GatewayLostAgain: a task whose programs lose their gateways over and over,
// whatever runs between, is charged for it, and no other task is.
func TestEgress_GatewayLostAgain(t *testing.T) {
	t.Parallel()
	url, rule := outside(t, "registry.example.org")
	b := outward(t, func(c *Config) { c.Checks.Egress = []gateway.Rule{rule} })
	var lose atomic.Bool
	b.local.onGateway = func(l net.Listener) {
		if lose.Load() {
			_ = l.Close()
		}
	}
	build := func(task int64, lost bool) string {
		lose.Store(lost)
		text := "echo x > calc/new; " + fetch + url
		if lost {
			text = "sleep 1000"
		}
		cfg := script(text)
		cfg.Egress = []gateway.Rule{rule}
		job := b.job(cfg)
		job.Task = task
		return codes(b.build(job))
	}
	check := func() string {
		lose.Store(true)
		k := shCheck("test", "sleep 1000")
		k.Hosts = []string{"registry.example.org"}
		return words(b.check(executor.BuildOutcome{}, k).Violations)
	}
	const outage, again = string(kernel.CodeEgressUnavailable), string(kernel.CodeEgressLost)
	got := []string{build(7, true), build(7, false), check(), build(7, true), build(7, true), check(), build(8, true), build(7, false)}
	if want := []string{outage, "", outage, outage, again, again, outage, ""}; !slices.Equal(got, want) {
		t.Errorf("ended with %q, want %q", got, want)
	}
	if kernel.CodeEgressLost.Info().Counts != kernel.CountsInterruption {
		t.Error("it counts nothing")
	}
	if !strings.Contains(b.log.String(), "a gateway ended before its program") {
		t.Errorf("the log doesn't say so: %s", b.log.String())
	}
}

// TestEgress_ClosedWithTheProgram: nothing is served when the program is over, and every
// connection is recorded by then.
func TestEgress_ClosedWithTheProgram(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
	}))
	defer s.Close()
	port := netip.MustParseAddrPort(s.Listener.Addr().String()).Port()
	b := outward(t)
	cfg := script(fmt.Sprintf(`echo x > calc/new; %s http://registry.example.org:%d & sleep 1000`, fetch, port))
	cfg.Egress = []gateway.Rule{{Host: "registry.example.org", Ports: []uint16{port}, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	r, err := b.local.Build(t.Context(), b.job(cfg))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-began:
	case <-time.After(waitLimit):
		t.Fatal("nobody asked")
	}
	r.Kill()
	if e := r.Outcome().Result.Egress; e == nil || e.Total != 1 {
		t.Errorf("recorded %+v", e)
	}
}

// TestF3_EgressCredential: a builder uses a host that wants a credential, and finds it
// nowhere: not in its environment, not in an answer, not in what is recorded.
func TestF3_EgressCredential(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-of-the-operator"
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", secret)
		fmt.Fprint(w, r.Header.Get("Authorization") == "Bearer "+secret, r.Header.Get("X-Api-Key") == "")
	}))
	t.Cleanup(s.Close)
	port := netip.MustParseAddrPort(s.Listener.Addr().String()).Port()
	b := outward(t)
	b.local.roots = x509.NewCertPool()
	b.local.roots.AddCert(s.Certificate())
	cfg := script(fmt.Sprintf("echo x > calc/new; env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null || true; %s http://example.com:%d", fetch, port))
	cfg.Egress = []gateway.Rule{{
		Host: "example.com", Ports: []uint16{port}, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Credential: &gateway.Credential{Header: "Authorization", Value: "Bearer " + secret},
	}}
	o := b.build(b.job(cfg))
	if !strings.HasSuffix(o.Result.Stdout.Tail, "200 true true\n") {
		t.Errorf("output %q %v", o.Result.Stdout.Tail, o.Violations)
	}
	kept, err := json.Marshal(o.Result)
	if err != nil || strings.Contains(string(kept), secret) || strings.Contains(b.lines.all()+b.log.String(), secret) {
		t.Errorf("the secret is in the result or the log: %s, %v", kept, err)
	}
	if e := o.Result.Egress; e == nil || e.Connections[0].Mode != "reverse" {
		t.Errorf("recorded %+v", e)
	}
}

// TestEgress_ChecksShareTheLog: all checks of a run together tell of no more connections
// one by one than a record has room for.
func TestEgress_ChecksShareTheLog(t *testing.T) {
	t.Parallel()
	b := outward(t)
	k := shCheck("test", "/run/writ/init act-fetch http://a.example.org http://a.example.org")
	k.Hosts = []string{"registry.example.org"}
	r := &checks{l: b.local, job: b.checkJob(changed(b), k), told: 3}
	r.change, r.feed = mustChange(t, r), b.local.stock.feedOf(b.base)
	trees := r.startTrees(t.Context())
	defer trees.end()
	first, _ := r.check(t.Context(), trees, k)
	r.job.Checks = append(r.job.Checks, k)
	again := r.startTrees(t.Context())
	defer again.end()
	second, _ := r.check(t.Context(), again, k)
	if a, b := first.Egress, second.Egress; a == nil || b == nil || len(a.Connections) != 2 || len(b.Connections) != 1 || b.Total != 2 {
		t.Errorf("told %+v, then %+v", a, b)
	}
}

func mustChange(t *testing.T, k *checks) *change {
	t.Helper()
	c, err := newChange(entries(k.job.Base.Files), k.job.Diff.Changes, k.job.Contents)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// actSay sends each text, in Go's quotes, to the proxy over a connection of its own, and
// prints the last line of what is answered.
func actSay(texts []string) {
	for _, text := range texts {
		text, err := strconv.Unquote(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		c, err := net.Dial("tcp", sandbox.ProxyAddress)
		if err != nil {
			fmt.Println(err)
			continue
		}
		_, _ = io.WriteString(c, text)
		answer, _ := io.ReadAll(c)
		_ = c.Close()
		lines := strings.Split(strings.TrimSpace(string(answer)), "\n")
		fmt.Printf("%q\n", lines[len(lines)-1])
	}
}

// TestEgress_Hostile has a builder try each published way round such a gateway from inside
// the sandbox, where one host is allowed. The gateway's own tests have them in every form.
func TestEgress_Hostile(t *testing.T) {
	t.Parallel()
	url, rule := outside(t, "registry.example.org")
	host := strings.TrimPrefix(url, "http://")
	connect := func(target string) string { return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n" }
	get := func(more string) string { return "GET " + url + "/ HTTP/1.1\r\n" + more + "\r\n" }
	for name, c := range map[string]struct{ text, code string }{
		"X11_a_name_as_a_message":  {connect("what-was-read." + "elsewhere.example.net:443"), gateway.CodeHost},
		"X12_another_port":         {connect("registry.example.org:22"), gateway.CodePort},
		"X13_an_address":           {connect("127.0.0.1:443"), gateway.CodeLiteral},
		"X13_an_address_in_octal":  {connect("0177.1:443"), gateway.CodeLiteral},
		"X14_this_machine":         {connect("localhost:443"), gateway.CodeHostInvalid},
		"X15_metadata":             {connect("169.254.169.254:80"), gateway.CodeLiteral},
		"X16_no_TLS_in_a_tunnel":   {connect(host) + "GET / HTTP/1.1\r\nHost: elsewhere.example.net\r\n\r\n", ""},
		"X17_two_lengths":          {get("Host: " + host + "\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n"), gateway.CodeRequest},
		"X17_two_hosts":            {get("Host: " + host + "\r\nHost: elsewhere.example.net\r\n"), gateway.CodeRequest},
		"X18_a_mapped_address":     {connect("[::ffff:127.0.0.1]:443"), gateway.CodeLiteral},
		"X19_a_NUL_byte":           {connect("registry.example.org\x00.example.net:443"), gateway.CodeRequest},
		"X20_another_Host":         {get("Host: elsewhere.example.net\r\n"), gateway.CodeMismatch},
		"X21_another_protocol":     {get("Host: " + host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"), gateway.CodeUpgrade},
		"X22_a_name_looked_up_now": {connect("elsewhere.example.org:443"), gateway.CodeHost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outward(t)
			cfg := script(`echo x > calc/new; "$INIT" act-say ` + "'" + strconv.Quote(c.text) + "'")
			cfg.Egress = []gateway.Rule{rule}
			o := b.build(b.job(cfg))
			e := o.Result.Egress
			if e == nil || e.Total != 1 || e.Connections[0].Verdict != "denied" || c.code != "" && e.Connections[0].Code != c.code {
				t.Errorf("recorded %+v", e)
			}
			if got := o.Result.Stdout.Tail; !strings.Contains(got, c.code) || strings.Contains(got, "hello") {
				t.Errorf("answered %s", got)
			}
		})
	}
}

// TestEgress_LogIsCapped: what is kept of connections is bounded, and has no secret.
func TestEgress_LogIsCapped(t *testing.T) {
	t.Parallel()
	l := New(Config{WorkDir: t.TempDir(), Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }})
	defer l.Close()
	g := l.newEgressLog("here#7", kernel.MaxConnections)
	for n := range kernel.MaxConnections + 10 {
		g.add(gateway.Record{Host: fmt.Sprintf("hunter2-%d.example.org", n), Detail: "TLS names hunter2", Verdict: gateway.Denied, Code: gateway.CodeHost, Up: 1})
	}
	e := g.result()
	if e.Total != kernel.MaxConnections+10 || e.Up != e.Total || len(e.Connections) != kernel.MaxConnections || len(e.Denied) != kernel.MaxDenied ||
		e.DeniedMore != e.Total-kernel.MaxDenied {
		t.Errorf("kept %d connections, %d denied, %d more of %d", len(e.Connections), len(e.Denied), e.DeniedMore, e.Total)
	}
	if text := fmt.Sprint(e); strings.Contains(text, "hunter2") {
		t.Error("a secret is kept")
	}
}

// TestEgress_UsageIsSummed: of each model, whatever many names the inside asks for, with
// how many of the requests weren't measured, in numbers that a record can hold.
func TestEgress_UsageIsSummed(t *testing.T) {
	t.Parallel()
	l := New(Config{WorkDir: t.TempDir()})
	defer l.Close()
	g := l.newEgressLog("here#7", kernel.MaxConnections)
	one := gateway.Usage{Model: "m", Basis: gateway.Measured, Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4}
	for _, basis := range []gateway.Basis{gateway.Measured, gateway.Reserved, gateway.Unknown, gateway.Unknown} {
		one.Basis = basis
		g.add(gateway.Record{API: "anthropic", Verdict: gateway.Allowed, Usage: &one})
	}
	g.add(gateway.Record{API: "anthropic", Verdict: gateway.Allowed}) // it cost nothing
	for n := range kernel.MaxModels + 5 {
		g.add(gateway.Record{Verdict: gateway.Allowed, Usage: &gateway.Usage{Model: fmt.Sprint("m", n), Output: maxTokens}})
	}
	got := g.result().Usage
	if want := (kernel.Usage{Model: "m", Requests: 4, Input: 4, CacheRead: 8, CacheWrite: 12, Output: 16, Reserved: 1, Unknown: 2}); len(got) != kernel.MaxModels || got[0] != want {
		t.Errorf("%+v, want %+v first", got, want)
	}
	if last := got[len(got)-1]; last.Model != kernel.OtherModels || last.Requests != 7 || last.Output != maxTokens {
		t.Errorf("the others: %+v", last)
	}
}

// TestEgress_UsageHasItsCost: by the price of the model, rounded up once. What stands for
// several models has the dearest price of each kind, and none where one of them has none.
func TestEgress_UsageHasItsCost(t *testing.T) {
	t.Parallel()
	l := New(Config{WorkDir: t.TempDir(), Price: func(model string) *kernel.Price {
		if model == "unknown" {
			return nil
		}
		return &kernel.Price{Currency: "USD", Input: 300_000, Output: int64(len(model))}
	}})
	defer l.Close()
	g := l.newEgressLog("here#7", kernel.MaxConnections)
	use := func(model string, input int64) {
		g.add(gateway.Record{API: "anthropic", Verdict: gateway.Allowed, Usage: &gateway.Usage{Model: model, Basis: gateway.Measured, Input: input}})
	}
	use("m", 1)
	use("unknown", 7)
	use("m", 1)
	for n := range kernel.MaxModels - 2 {
		use(fmt.Sprint("model", n), 1_000_000)
	}
	got := g.result().Usage
	if m := got[0]; m.Cost != 1 || m.Price == nil || got[1].Price != nil || got[1].Cost != 0 || got[1].Input != 7 {
		t.Errorf("%+v", got[:2])
	}
	use("a-longer-name", 1)
	if last := g.result().Usage[kernel.MaxModels-1]; last.Price == nil || last.Price.Output != int64(len("a-longer-name")) || last.Cost != 300_001 {
		t.Errorf("the others: %+v", last)
	}
	use("another", 1)
	for n := range 3 {
		use(fmt.Sprint("unknown", n), 1)
	}
	l.cfg.Price = func(string) *kernel.Price { return nil }
	use("one more", 1)
	if last := g.result().Usage[kernel.MaxModels-1]; last.Price != nil || last.Cost != 0 {
		t.Errorf("the others, with one that has no price: %+v", last)
	}
}

// TestEgress_ProxyIsTheOperatorsToChange: what the configuration says of a variable wins.
func TestEgress_ProxyIsTheOperatorsToChange(t *testing.T) {
	t.Parallel()
	env := environment(withProxy(map[string]string{"NO_PROXY": "*"}, true), nil)
	if !slices.Contains(env, "NO_PROXY=*") || !slices.Contains(env, "https_proxy=http://"+sandbox.ProxyAddress) {
		t.Errorf("environment %q", env)
	}
}

// TestEgress_AtALevelWithoutNamespaces: a run that would need a gateway doesn't start.
func TestEgress_AtALevelWithoutNamespaces(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *Config) { c.Sandbox = sandbox.NewNone(sandbox.Config{}) })
	cfg := script("touch calc/ran")
	cfg.Egress = []gateway.Rule{{Host: "registry.example.org"}}
	for _, s := range []sandbox.Sandbox{b.cfg.Sandbox, sandbox.NewLandlocked(sandbox.Config{})} {
		vs := New(Config{Sandbox: s, WorkDir: t.TempDir()}).Reach("here", []kernel.Check{{Name: "test", Hosts: []string{"registry.example.org"}}}, nil)
		if len(vs) != 1 || vs[0].Code != kernel.CodeEgressDenied || !strings.Contains(vs[0].Detail, "the level "+s.Name()+" has no network namespace") {
			t.Errorf("before the claim: %v", vs)
		}
	}
	o := b.build(b.job(cfg))
	if codes(o) != string(kernel.CodeEnvBuilderFailed) || len(o.Diff.Changes) > 0 || !strings.Contains(o.Violations[0].Detail, "egress") {
		t.Errorf("outcome %q %+v", codes(o), o.Violations)
	}
}
