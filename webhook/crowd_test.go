package webhook_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

const (
	slowHead = "POST /hooks/local HTTP/1.1\r\nHost: x\r\nX-Slow: "
	slowBody = "POST /hooks/local HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n%s\r\n{"
)

// strange and third are addresses of this machine that no delivery came from.
const (
	strange = "127.0.0.2"
	third   = "127.0.0.3"
)

// slow connects from an address and sends the beginning of something.
func (r *receiver) slow(from, text string) net.Conn {
	r.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(r.t.Context(), "tcp", r.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// inFlight waits until so many deliveries are.
func (r *receiver) inFlight(n int) {
	r.t.Helper()
	for limit := time.Now().Add(patience); ; {
		if have, _ := r.InFlight(); have == n {
			return
		}
		if time.Now().After(limit) {
			r.t.Fatalf("never were there %d deliveries in flight", n)
		}
	}
}

func (r *receiver) wantTaken() {
	r.t.Helper()
	if got := r.post(encode(r.t, labeled()), nil); got.status != http.StatusAccepted {
		r.t.Errorf("%d %s", got.status, got.text)
	}
}

// TestW14_SlowHeads has ten thousand senders that never end a head, and whose time
// is never over: in between hooks, and probes at either listener, are answered.
func TestW14_SlowHeads(t *testing.T) {
	const most = 1024
	probes := listen(t)
	r := start(t, func(c *webhook.Config) {
		c.ProbeListener = probes
		c.Limits = webhook.Limits{Connections: most, HeaderTime: time.Hour, RequestTime: time.Hour, IdleTime: time.Hour, Grace: time.Millisecond, Store: patience}
	})
	var open []net.Conn
	for i := range 10_000 {
		open = append(open, r.slow(strange, slowHead))
		if len(open) > most+most/2 { // the server closed it long ago
			_ = open[0].Close()
			open = open[1:]
		}
		if i%500 == 0 {
			r.client.CloseIdleConnections() // each time as somebody new
			r.wantTaken()
			if resp, err := r.client.Get("http://" + probes.Addr().String() + "/healthz"); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%v", err)
			}
		}
	}
	for _, c := range open {
		_ = c.Close()
	}
	if n := r.PeakConnections(); n > most {
		t.Errorf("%d connections at once", n)
	}
}

// TestW14_Idle: who keeps a connection after a verified delivery doesn't lose it to
// strangers.
func TestW14_Idle(t *testing.T) {
	r := start(t, func(c *webhook.Config) {
		c.Limits = webhook.Limits{Connections: 4, HeaderTime: time.Hour, IdleTime: time.Hour, Grace: time.Nanosecond, Store: patience}
	})
	mine := r.slow("127.0.0.1", "")
	defer mine.Close()
	in := bufio.NewReader(mine)
	for range 2 {
		req := r.delivery(encode(t, labeled()), nil)
		if err := req.Write(mine); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusAccepted {
			t.Fatalf("%d, %v", resp.StatusCode, err)
		}
		for range 50 {
			defer r.slow("127.0.0.1", slowHead).Close()
		}
	}
}

// TestW14_SlowBodies: half bodies take every place, and give way to who comes once
// they are late.
func TestW14_SlowBodies(t *testing.T) {
	r := start(t, func(c *webhook.Config) {
		c.Limits = webhook.Limits{InFlight: 4, HeaderTime: time.Hour, RequestTime: time.Hour, Grace: time.Nanosecond, Store: patience}
	})
	var slow []net.Conn
	for i := range 40 {
		slow = append(slow, r.slow(strange, fmt.Sprintf(slowBody, "")))
		r.inFlight(min(i+1, 4))
		defer slow[i].Close()
	}
	r.wantTaken()
	got := r.hear(slow[0])
	if got.status != http.StatusServiceUnavailable || got.Code != string(kernel.CodeWebhookBusy) || got.head.Get("Retry-After") == "" {
		t.Errorf("who gave way is told %d %s", got.status, got.text)
	}
	if !strings.Contains(r.get("/metrics").text, `writ_webhook_gave_way_total{what="delivery"}`) {
		t.Error("they aren't counted")
	}
}

// TestW14_KnownSenders: who sent a valid delivery before takes a stranger's place at
// once; a stranger takes nobody's, but for those that are late, and never one's who
// is known.
func TestW14_KnownSenders(t *testing.T) {
	r := start(t, func(c *webhook.Config) {
		c.Limits = webhook.Limits{InFlight: 2, HeaderTime: time.Hour, RequestTime: time.Hour, Grace: time.Hour, Store: patience}
	})
	r.wantTaken()
	for i := range 2 {
		defer r.slow(strange, fmt.Sprintf(slowBody, "")).Close()
		r.inFlight(i + 1)
	}
	refused := r.slow(third, fmt.Sprintf(slowBody, ""))
	defer refused.Close()
	if got := r.hear(refused); got.Code != string(kernel.CodeWebhookBusy) {
		t.Errorf("a stranger among strangers: %s", got.text)
	}
	r.wantTaken()
}

func TestW14_StrangerTakesNoKnownPlace(t *testing.T) {
	r := start(t, func(c *webhook.Config) {
		c.Limits = webhook.Limits{InFlight: 1, HeaderTime: time.Hour, RequestTime: time.Hour, Grace: time.Nanosecond, Store: patience}
	})
	r.wantTaken()
	mine := r.slow("127.0.0.1", fmt.Sprintf(slowBody, ""))
	defer mine.Close()
	r.inFlight(1)
	refused := r.slow(strange, fmt.Sprintf(slowBody, ""))
	defer refused.Close()
	if got := r.hear(refused); got.Code != string(kernel.CodeWebhookBusy) {
		t.Errorf("a stranger: %s", got.text)
	}
}

// TestW14_LargeBodies: bodies that are held back before their end fill the memory,
// and give way.
func TestW14_LargeBodies(t *testing.T) {
	const size = 1 << 20
	r := start(t, func(c *webhook.Config) {
		c.Limits = webhook.Limits{Body: size, Memory: 4 * size, HeaderTime: time.Hour, RequestTime: time.Hour, Grace: time.Nanosecond, Store: patience}
	})
	for range 6 {
		c := r.slow(strange, fmt.Sprintf("POST /hooks/local HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat(" ", size-1)))
		defer c.Close()
	}
	for range 3 {
		if got := r.post(padded(t, size), nil); got.status != http.StatusAccepted {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
	if _, peak := r.Peak(); peak > 4*size {
		t.Errorf("%d bytes", peak)
	}
}

// TestW14_OneAddress: behind the operator's own proxies one address may hold a part
// only, whatever it claims; without them nobody is counted by address.
func TestW14_OneAddress(t *testing.T) {
	limits := webhook.Limits{PerAddress: 2, InFlight: 8, HeaderTime: time.Hour, RequestTime: time.Hour, Grace: time.Hour, Store: patience}
	r := start(t, func(c *webhook.Config) {
		c.Proxies, c.Limits = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, limits
	})
	by := func(hops string) net.Conn {
		return r.slow("127.0.0.1", fmt.Sprintf(slowBody, "X-Forwarded-For: "+hops+"\r\n"))
	}
	for i, hops := range []string{"192.0.2.1", "203.0.113.7, 192.0.2.1", "2001:db8::1", "2001:db8::2, 127.0.0.1"} {
		defer by(hops).Close()
		r.inFlight(i + 1)
	}
	for _, hops := range []string{"203.0.113.8, 192.0.2.1", "2001:db8::3"} {
		c := by(hops)
		defer c.Close()
		if got := r.hear(c); got.Code != string(kernel.CodeWebhookBusy) || !strings.Contains(got.Error, "address") {
			t.Errorf("%s: %s", hops, got.text)
		}
	}
	defer by("198.51.100.1").Close()
	r.inFlight(5)

	for range 2 {
		defer r.slow(strange, slowHead).Close()
	}
	more := r.slow(strange, "")
	defer more.Close()
	if n, err := more.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		t.Errorf("a third connection of one address: %d bytes, %v", n, err)
	}

	r = start(t, func(c *webhook.Config) { c.Limits = limits })
	for i := range 4 {
		defer r.slow(strange, fmt.Sprintf(slowBody, "")).Close()
		r.inFlight(i + 1)
	}
}

// TestW14_ProxySpeaksForMany: a proxy of the operator's is known by its very address,
// also of IPv6, and has as many connections and deliveries as it likes: those of which
// it says nobody count for no one.
func TestW14_ProxySpeaksForMany(t *testing.T) {
	limits := webhook.Limits{PerAddress: 2, InFlight: 16, HeaderTime: time.Hour, RequestTime: time.Hour, Grace: time.Hour, Store: patience}
	for _, proxy := range []string{"127.0.0.1", "2001:db8::9"} {
		r := start(t, func(c *webhook.Config) {
			addr := netip.MustParseAddr(proxy)
			c.Proxies, c.Limits = []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())}, limits
			c.Listener = fromPeer{c.Listener, net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 4711))}
		})
		for i := range 4 {
			defer r.slow("127.0.0.1", fmt.Sprintf(slowBody, "")).Close()
			r.inFlight(i + 1)
		}
		for i, hops := range []string{"2001:db8::1", "2001:db8::2"} { // one client network, of the proxy's network
			defer r.slow("127.0.0.1", fmt.Sprintf(slowBody, "X-Forwarded-For: "+hops+"\r\n")).Close()
			r.inFlight(5 + i)
		}
		c := r.slow("127.0.0.1", fmt.Sprintf(slowBody, "X-Forwarded-For: 2001:db8::3, "+proxy+"\r\n"))
		defer c.Close()
		if got := r.hear(c); got.Code != string(kernel.CodeWebhookBusy) {
			t.Errorf("%s: %s", proxy, got.text)
		}
	}
}

// fromPeer is a listener whose connections come from somewhere else.
type fromPeer struct {
	net.Listener
	peer net.Addr
}

func (l fromPeer) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return peerConn{c, l.peer}, err
}

type peerConn struct {
	net.Conn
	peer net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.peer }

// TestW14_Probes: with a listener of their own probes are there alone, and while
// the server ends they say so.
func TestW14_Probes(t *testing.T) {
	probes := listen(t)
	r := start(t, func(c *webhook.Config) { c.ProbeListener = probes })
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		r.wantRefused(r.get(path), http.StatusNotFound, kernel.CodeWebhookNotFound)
		resp, err := r.client.Get("http://" + probes.Addr().String() + path)
		if err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %v", path, err)
		}
	}
	resp, err := r.client.Post("http://"+probes.Addr().String()+"/hooks/local", "application/json", strings.NewReader("{}"))
	if err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("a hook at the probes: %v", err)
	}
}

// TestW14_BodyForAPage: what is sent to a page isn't waited for.
func TestW14_BodyForAPage(t *testing.T) {
	r := start(t, func(c *webhook.Config) { c.Limits.RequestTime = time.Hour })
	conn := r.slow(strange, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	defer conn.Close()
	if got := r.hear(conn); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.text)
	}
}

// TestW14_Host: states and metrics are shown under the server's own names. A page
// elsewhere whose name leads here reads nothing.
func TestW14_Host(t *testing.T) {
	r := start(t, func(c *webhook.Config) { c.Hosts = []string{"writ"} })
	for host, status := range map[string]int{
		"127.0.0.1:1": 200, "localhost:8714": 200, "LOCALHOST": 200, "[::1]:2": 200, "10.1.2.3": 200, "writ:8714": 200, "writ.": 200,
		"evil.example": 421, "127.0.0.1.evil.example:8714": 421, "writ.evil.example": 421,
	} {
		for _, path := range []string{"/metrics", "/readyz", "/healthz"} {
			req, err := http.NewRequest(http.MethodGet, r.url+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			want := status
			if path == "/healthz" {
				want = http.StatusOK // it says nothing
			}
			got := r.do(req)
			if got.status != want {
				t.Errorf("%s at %s: %d", path, host, got.status)
			}
			if want != http.StatusOK {
				r.wantRefused(got, want, kernel.CodeWebhookHost)
			}
		}
	}
}
