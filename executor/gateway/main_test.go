package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound stops a test that would hang.
const bound = 30 * time.Second

// liar is a resolver that answers what it likes. The n-th question for a name gets
// the n-th answer, and the last one again from then on.
type liar struct {
	mu      sync.Mutex
	answers map[string][][]netip.Addr
	asked   []string
}

func (l *liar) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, host)
	all := l.answers[strings.TrimSuffix(host, ".")]
	if len(all) == 0 {
		return nil, errors.New("no such host")
	}
	if len(all) > 1 {
		l.answers[strings.TrimSuffix(host, ".")] = all[1:]
	}
	if all[0] == nil {
		panic("the resolver\nis broken")
	}
	return all[0], nil
}

func (l *liar) questions() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.asked...)
}

func addresses(texts ...string) []netip.Addr {
	list := []netip.Addr{}
	for _, t := range texts {
		list = append(list, netip.MustParseAddr(t))
	}
	return list
}

// gate is a gateway in front of servers on this machine.
type gate struct {
	t       testing.TB
	at      net.Addr
	liar    *liar
	records chan Record
	ended   chan error
	cancel  context.CancelCauseFunc
}

var generous = Limits{Open: 100, Total: 1000, Up: 1 << 30, Down: 1 << 30, Time: time.Hour}

// open starts a gateway. Every name is at 127.0.0.1, unless answers say more.
func open(t testing.TB, lists Lists, limits Limits, change ...func(*Server)) *gate {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	return openAt(t, l, lists, limits, change...)
}

func openAt(t testing.TB, l net.Listener, lists Lists, limits Limits, change ...func(*Server)) *gate {
	t.Helper()
	g := &gate{t: t, at: l.Addr(), records: make(chan Record, 1000), ended: make(chan error, 1)}
	g.liar = &liar{answers: map[string][][]netip.Addr{}}
	for _, r := range lists.Contract {
		g.liar.answers[r.Host] = [][]netip.Addr{addresses("127.0.0.1")}
	}
	d, err := NewDecider(lists)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Decider: d, Resolver: g.liar, Limits: limits, Record: func(r Record) { g.records <- r }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(s)
	}
	var ctx context.Context
	ctx, g.cancel = context.WithCancelCause(context.Background())
	go func() { g.ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		g.cancel(nil)
		if err := <-g.ended; err != nil {
			t.Error(err)
		}
	})
	return g
}

// record waits for the next connection's end.
func (g *gate) record() Record {
	g.t.Helper()
	select {
	case r := <-g.records:
		return r
	case <-time.After(bound):
		g.t.Fatal("nothing was recorded")
		return Record{}
	}
}

// want looks at the next record's verdict and code.
func (g *gate) want(v Verdict, code string) Record {
	g.t.Helper()
	r := g.record()
	if r.Verdict != v || r.Code != code {
		g.t.Errorf("recorded %+v, want %s %s", r, v, code)
	}
	return r
}

func (g *gate) dial() net.Conn {
	g.t.Helper()
	c, err := net.Dial(g.at.Network(), g.at.String())
	if err != nil {
		g.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(bound)); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { shut(c) })
	return c
}

// say sends bytes over a connection of their own and gives what is answered.
func (g *gate) say(text string) string {
	g.t.Helper()
	c := g.dial()
	_, _ = io.WriteString(c, text) // it may be refused in the middle
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// refused wants bytes to be denied with a code, in the answer and the record.
func (g *gate) refused(text, code string) Record {
	g.t.Helper()
	if answer := g.say(text); !strings.Contains(answer, code) {
		g.t.Errorf("%.80q is answered with %q, want %s", text, answer, code)
	}
	return g.want(Denied, code)
}

// tunnel asks for one, and wants it.
func (g *gate) tunnel(target string) net.Conn {
	g.t.Helper()
	c := g.dial()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	line, err := bufio.NewReaderSize(oneByte{c}, 16).ReadString('\n')
	if err != nil || !strings.Contains(line, " 200 ") {
		g.t.Fatalf("CONNECT %s: %q, %v", target, line, err)
	}
	for n := 0; n < 2; n++ { // the empty line
		if _, err := c.Read(make([]byte, 1)); err != nil {
			g.t.Fatal(err)
		}
	}
	return c
}

// oneByte reads no more than it must.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

// origin is a server on this machine that notes what it is asked.
type origin struct {
	*httptest.Server
	port uint16
	mu   sync.Mutex
	got  []*http.Request
	conn int
}

func newOrigin(t testing.TB, secure bool, answer http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{}
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.got = append(o.got, r)
		o.mu.Unlock()
		answer(w, r)
	}))
	o.Config.ErrorLog = log.New(io.Discard, "", 0)
	o.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			o.mu.Lock()
			o.conn++
			o.mu.Unlock()
		}
	}
	if secure {
		o.StartTLS()
	} else {
		o.Start()
	}
	t.Cleanup(o.Close)
	o.port = portOf(t, o.Listener)
	return o
}

// shut ends what a test has no more use for.
func shut(c io.Closer) { _ = c.Close() }

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

func portOf(t testing.TB, l net.Listener) uint16 {
	t.Helper()
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

func (o *origin) connections() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conn
}

func (o *origin) requests() []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*http.Request{}, o.got...)
}

// at is the target for a name on the server's port.
func (o *origin) at(host string) string { return net.JoinHostPort(host, strconv.Itoa(int(o.port))) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// lists allow names on the server's port, where the operator opens this machine.
func (o *origin) lists(hosts ...string) (l Lists) {
	for _, h := range hosts {
		operators := Rule{Host: h, Ports: []uint16{o.port}, Addresses: loopback}
		l.Builder, l.World = append(l.Builder, operators), append(l.World, operators)
		l.Contract = append(l.Contract, Rule{Host: h, Ports: []uint16{o.port}})
	}
	return l
}

// closed is the same without what the operator opens.
func (o *origin) closed(hosts ...string) Lists {
	l := o.lists(hosts...)
	l.Builder, l.World = l.Contract, l.Contract
	return l
}

// client is an ordinary HTTP client whose proxy is the gateway.
func (g *gate) client(o *origin) *http.Client {
	pool := x509.NewCertPool()
	if c := o.Certificate(); c != nil {
		pool.AddCert(c)
	}
	t := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "gateway.invalid:1"}),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial(g.at.Network(), g.at.String())
		},
		TLSClientConfig: &tls.Config{RootCAs: pool},
	}
	g.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: bound}
}

// get gives the body of an answer, which must be a good one.
func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %q, %v", url, r.Status, body, err)
	}
	return string(body)
}
