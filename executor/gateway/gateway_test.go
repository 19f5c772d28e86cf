package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestConnect_AnOrdinaryClient(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.lists("example.com"), generous)
	c := g.client(o)
	if body := get(t, c, "https://"+o.at("example.com")); body != "hello" {
		t.Errorf("body %q", body)
	}
	c.CloseIdleConnections()
	r := g.record()
	if r.Verdict != Allowed || r.Mode != Connect || r.Host != "example.com" || r.Port != o.port || r.Address != "127.0.0.1" ||
		r.Rule != "contract example.com" || r.Up == 0 || r.Down == 0 || r.Method != "" || r.At.IsZero() {
		t.Errorf("recorded %+v", r)
	}
	if q := g.liar.questions(); len(q) != 1 || q[0] != "example.com." {
		t.Errorf("looked up %q", q)
	}
}

func TestPlain_AnOrdinaryClient(t *testing.T) {
	o := newOrigin(t, false, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Keep-Alive", "timeout=5")
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, r.URL, body)
	})
	g := open(t, o.lists("example.com"), generous)
	for _, body := range []io.Reader{strings.NewReader("a body"), io.MultiReader(strings.NewReader("a "), strings.NewReader("body"))} {
		req, err := http.NewRequest("POST", "http://"+o.at("example.com")+"/a%2fb?c=d", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Expect", "100-continue")
		answer, err := g.client(o).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if want := "POST " + o.at("example.com") + " /a%2fb?c=d a body"; string(got) != want {
			t.Errorf("answer %q, want %q", got, want)
		}
		if answer.Header.Get("Keep-Alive") != "" {
			t.Error("Keep-Alive of the outside came inside")
		}
		if r := g.want(Allowed, ""); r.Mode != Plain || r.Method != "POST" || r.Up == 0 || r.Down == 0 {
			t.Errorf("recorded %+v", r)
		}
	}
}

// TestPlain_ARedirectIsDecidedAnew: the gateway follows none, and the client's next
// request is one of its own.
func TestPlain_ARedirectIsDecidedAnew(t *testing.T) {
	o := newOrigin(t, false, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.example.org/", http.StatusFound)
	})
	g := open(t, o.lists("example.com"), generous)
	answer, err := g.client(o).Get("http://" + o.at("example.com"))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("answered %s", answer.Status)
	}
	// Either may be recorded first.
	first, second := g.record(), g.record()
	if first.Host != "example.com" {
		first, second = second, first
	}
	if first.Verdict != Allowed || first.Code != "" || second.Host != "elsewhere.example.org" || second.Code != CodeHost {
		t.Errorf("recorded %+v and %+v", first, second)
	}
}

func TestDecider_Lists(t *testing.T) {
	all := []Rule{{Host: "*.example.org"}, {Host: "example.org", Ports: []uint16{443, 80}}, {Host: "get.example.com", Ports: []uint16{80}, Methods: []string{"GET"}}}
	tests := []struct {
		name       string
		lists      Lists
		ask        Ask
		code, rule string
	}{
		{"exact", Lists{all, all, all}, Ask{Host: "example.org", Port: 443}, "", "contract example.org"},
		{"below", Lists{all, all, all}, Ask{Host: "a.b.example.org", Port: 443}, "", "contract *.example.org"},
		{"another that ends so", Lists{all, all, all}, Ask{Host: "notexample.org", Port: 443}, CodeHost, "builder"},
		{"a suffix of it", Lists{all, all, all}, Ask{Host: "example.org.evil.com", Port: 443}, CodeHost, "builder"},
		{"not itself", Lists{all[:1], all, all}, Ask{Host: "example.org", Port: 443}, CodeHost, "builder"},
		{"port of the exact rule only", Lists{all, all, all}, Ask{Host: "a.example.org", Port: 80}, CodePort, "builder *.example.org"},
		{"capped by the builder", Lists{nil, all, all}, Ask{Host: "example.org", Port: 443}, CodeHost, "builder"},
		{"capped by the world", Lists{all, nil, all}, Ask{Host: "example.org", Port: 443}, CodeHost, "world"},
		{"not asked for", Lists{all, all, nil}, Ask{Host: "example.org", Port: 443}, CodeHost, "contract"},
		{"method", Lists{all, all, all}, Ask{Host: "get.example.com", Port: 80, Method: "GET"}, "", "contract get.example.com"},
		{"another method", Lists{all, all, all}, Ask{Host: "get.example.com", Port: 80, Method: "POST"}, CodeMethod, "builder get.example.com"},
		{"method that can't be seen", Lists{all, all, all}, Ask{Host: "get.example.com", Port: 80}, CodeMethod, "builder get.example.com"},
		{"unknown method", Lists{all, all, all}, Ask{Host: "example.org", Port: 80, Method: "TRACE"}, CodeMethod, "builder example.org"},
	}
	for _, tt := range tests {
		d, err := NewDecider(tt.lists)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Decide(tt.ask); got.Code != tt.code || got.Rule != tt.rule {
			t.Errorf("%s: %+v, want %q by %q", tt.name, got, tt.code, tt.rule)
		}
	}
	if got := (&Decider{}).Decide(Ask{Host: "example.org", Port: 443}); got.Code != CodeHost {
		t.Errorf("without lists: %+v", got)
	}
}

// TestDecider_Hosts: what is told of the hosts is what all lists allow of them, port by port.
func TestDecider_Hosts(t *testing.T) {
	world := []Rule{{Host: "*.below.example.org"}, {Host: "mirror.example.org", Ports: []uint16{443, 8443}}, {Host: "post.example.org"}, {Host: "read.example.org", Ports: []uint16{80}}, {Host: "token.example.org"}, {Host: "world.example.org"}, {Host: "api.example.org"}, {Host: "models.example.org"}}
	mine := []Rule{
		{Host: "MIRROR.example.org", Ports: []uint16{8443, 443, 80}}, {Host: "a.below.example.org"}, {Host: "alone.example.org"},
		{Host: "post.example.org", Methods: []string{"POST"}}, {Host: "api.example.org", Credential: &Credential{Header: "Authorization", Value: "secret"}},
		{Host: "read.example.org", Ports: []uint16{80}, Methods: []string{"HEAD", "GET"}}, {Host: "token.example.org", Methods: []string{"GET"}, Credential: &Credential{Header: "Authorization", Value: "secret"}},
		{Host: "*.world.example.org"}, {Host: "models.example.org", Credential: &Credential{Header: "Authorization", Value: "secret", API: APIs()["openai"]}},
	}
	for name, c := range map[string]struct {
		builder, world []Rule
		want           string
	}{
		"both":             {mine, world, "a.below.example.org http://api.example.org http://post.example.org:443 (POST only) http://read.example.org (GET and HEAD only) http://token.example.org (GET only) mirror.example.org mirror.example.org:8443"},
		"the world's name": {[]Rule{{Host: "*.example.org"}}, world, "*.below.example.org api.example.org mirror.example.org models.example.org post.example.org token.example.org world.example.org"},
		"none in common":   {mine[2:3], world, ""},
		"no world":         {mine, nil, ""},
	} {
		contract := slices.Clone(c.builder)
		for i := range contract {
			contract[i].Credential = nil
		}
		d, err := NewDecider(Lists{c.builder, c.world, contract})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(d.Hosts(), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestDecider_RefusesMistakes(t *testing.T) {
	net10 := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	if _, err := NewDecider(Lists{Builder: []Rule{{Host: "example.org", Addresses: net10}}}); err != nil {
		t.Errorf("a private network of the operator: %v", err)
	}
	for name, l := range map[string]Lists{
		"everything":           {World: []Rule{{Host: "*"}}},
		"a whole domain":       {World: []Rule{{Host: "*.org"}}},
		"a star inside":        {World: []Rule{{Host: "a.*.org"}}},
		"an address":           {World: []Rule{{Host: "10.0.0.1"}}},
		"port 0":               {World: []Rule{{Host: "example.org", Ports: []uint16{0}}}},
		"an unknown method":    {World: []Rule{{Host: "example.org", Methods: []string{"get"}}}},
		"a contract's network": {Contract: []Rule{{Host: "example.org", Addresses: net10}}},
		"a public network":     {World: []Rule{{Host: "example.org", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/7")}}}},
		"link-local":           {World: []Rule{{Host: "example.org", Addresses: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")}}}},
	} {
		if _, err := NewDecider(l); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestNew_RefusesWhatIsUnlimited(t *testing.T) {
	good := Config{Decider: &Decider{}, Resolver: &liar{}, Limits: generous, Record: func(Record) {}}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []func(*Config){
		func(c *Config) { c.Decider = nil }, func(c *Config) { c.Resolver = nil }, func(c *Config) { c.Record = nil },
		func(c *Config) { c.Limits.Open = 0 }, func(c *Config) { c.Limits.Total = 0 }, func(c *Config) { c.Limits.Up = 0 },
		func(c *Config) { c.Limits.Down = 0 }, func(c *Config) { c.Limits.Time = 0 },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func TestLimits_Connections(t *testing.T) {
	o := newOrigin(t, true, hello)
	limits := generous
	limits.Open, limits.Total = 1, 3 // a refused one is counted too
	g := open(t, o.lists("example.com"), limits)
	first := g.tunnel(o.at("example.com"))
	if answer := g.say("CONNECT"); !strings.Contains(answer, CodeOpen) {
		t.Errorf("a second one at once: %q", answer)
	}
	g.want(Cut, CodeOpen)
	shut(first)
	g.want(Denied, CodeNotTLS)
	g.refused("x\r\n", CodeRequest) // the place is free again, for the third and last
	g.say("x\r\n")
	g.want(Cut, CodeTotal)
	if err := <-g.ended; err != nil {
		t.Error(err)
	}
	g.ended <- nil
	if c, err := net.Dial(g.at.Network(), g.at.String()); err == nil {
		shut(c)
		t.Error("it still listens")
	}
}

func TestLimits_WhoSaysNothing(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.lists("example.com"), generous, func(s *Server) { s.headTime = 100 * time.Millisecond })
	if answer, err := io.ReadAll(g.dial()); err != nil || !strings.Contains(string(answer), CodeRequest) {
		t.Errorf("%q, %v", answer, err)
	}
	g.want(Denied, CodeRequest)
	g = open(t, o.lists("example.com"), generous, func(s *Server) { s.helloTime = time.Millisecond })
	if answer, err := io.ReadAll(g.tunnel(o.at("example.com"))); err != nil || string(answer) != alert {
		t.Errorf("%q, %v", answer, err)
	}
	g.want(Denied, CodeNotTLS)
}

func TestLimits_TheRunEnds(t *testing.T) {
	limits := generous
	limits.Time = time.Millisecond
	g := open(t, Lists{}, limits)
	if err := <-g.ended; err != nil {
		t.Error(err)
	}
	g.ended <- nil
}

func TestServe_ABrokenListener(t *testing.T) {
	s, err := New(Config{Decider: &Decider{}, Resolver: &liar{}, Limits: generous, Record: func(Record) {}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shut(l)
	if err := s.Serve(context.Background(), l); err == nil {
		t.Error("no error")
	}
}

// TestX21_NoDescriptorLeft: a process that has nothing left to accept with goes on once it
// has.
func TestX21_NoDescriptorLeft(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		l := &starved{left: 3, errno: errno}
		s, err := New(Config{Decider: &Decider{}, Resolver: &liar{}, Limits: generous, Record: func(Record) {}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(context.Background(), l); !errors.Is(err, net.ErrClosed) || l.left != 0 {
			t.Errorf("%v: ended with %v, %d to come", errno, err, l.left)
		}
	}
}

// starved is a listener that has nothing to accept with, so many times, and is closed then.
type starved struct {
	net.Listener
	left  int
	errno syscall.Errno
}

func (l *starved) Accept() (net.Conn, error) {
	if l.left == 0 {
		return nil, net.ErrClosed
	}
	l.left--
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", l.errno)}
}

func (l *starved) Close() error { return nil }

func TestReach_TheOutsideFails(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.lists("example.com"), generous)
	gone, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	shut(gone)
	g.liar.answers["example.com"] = [][]netip.Addr{{}, make([]netip.Addr, maxAnswers+1), nil, addresses("127.0.0.9")}
	request := "CONNECT " + o.at("example.com") + " HTTP/1.0\r\n\r\n"
	for _, code := range []string{CodeUnreachable, CodeUnreachable, CodeInternal, CodeUnreachable} {
		if answer := g.say(request); !strings.Contains(answer, code) || !strings.HasPrefix(answer, "HTTP/1.1 502 ") {
			t.Errorf("answer %q, want %s", answer, code)
		}
		if r := g.want(Failed, code); strings.Contains(r.Detail, "\n") {
			t.Errorf("recorded %+v", r)
		}
	}
}

// TestRecord_Cleaned: what the inside sends is bounded and printable in a record,
// and what may be a password isn't there.
func TestRecord_Cleaned(t *testing.T) {
	g := open(t, Lists{}, generous)
	for _, host := range []string{"user:secret@evil.org", strings.Repeat("a", 5000) + ".org", "\"<b>\\.org", "a,b.org"} {
		g.say("CONNECT " + host + ":443 HTTP/1.1\r\n\r\n")
		g.say("GET http://" + host + "/ HTTP/1.1\r\n\r\n")
		for range 2 {
			r := g.record()
			text, err := json.Marshal(r)
			if err != nil || r.Verdict != Denied || len(r.Host) > maxText || strings.Contains(string(text), "secret") {
				t.Errorf("%.40q: %s, %v", host, text, err)
			}
		}
	}
	if got := clean("a\x00b\nc\xff\u202ed@e\x7f f"); got != "e??f" {
		t.Errorf("clean: %q", got)
	}
}
