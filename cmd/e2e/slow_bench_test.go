package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/forge/local/localtest"
)

// What the server is to do under ten thousand slow connections (case W14). The benchmark
// prints what it does, and fails only beyond ten times that.
const (
	slowConnections = 10_000
	hookGoal        = time.Second
	probeGoal       = 100 * time.Millisecond
	memoryMost      = 1 << 10 // MiB; connections are bounded, so this is far off
	beyond          = 10
)

// slowAgain is how soon whoever is turned away comes again.
const slowAgain = 5 * time.Second

// The beginnings that are never ended.
const (
	slowHead = "POST /hooks/local HTTP/1.1\r\nHost: x\r\nX-Slow: "
	slowBody = "POST /hooks/local HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n%s\r\n{"
)

// BenchmarkSlowConnections measures deliveries that verify, and probes, of an idle server
// and then of the same one among ten thousand slow connections: straight from eight
// addresses, and through a proxy of the operator's, which waits for heads and not for
// bodies.
func BenchmarkSlowConnections(b *testing.B) {
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most); err != nil || most.Cur < slowConnections+500 {
		b.Fatalf("it needs %d open files, and may have %d: ulimit -Hn", slowConnections+500, most.Cur)
	}
	b.Run("straight", func(b *testing.B) {
		for range b.N {
			slowly(b, "", func(i int) (from, text string) {
				text = slowHead
				if i%2 == 0 {
					text = fmt.Sprintf(slowBody, "")
				}
				return fmt.Sprintf("127.0.0.%d", 2+i%8), text
			})
		}
	})
	b.Run("proxied", func(b *testing.B) {
		for range b.N {
			slowly(b, ", trusted_proxies: [127.0.0.1]", func(i int) (from, text string) {
				return "127.0.0.1", fmt.Sprintf(slowBody, fmt.Sprintf("X-Forwarded-For: 198.51.%d.%d\r\n", i/250%100, i%250))
			})
		}
	})
}

func slowly(b *testing.B, proxies string, sender func(i int) (from, text string)) {
	hook, probes := localtest.FreeAddress(b), localtest.FreeAddress(b)
	p := localtest.New(b)
	dir := b.TempDir()
	// Its log of those whom it turns away would be taken in more slowly here than it is written.
	config := write(b, dir, "writ.yaml", fmt.Sprintf(`server: {state_dir: %s/state, listen: '%s', probes: '%s', sweep: 30s, observe: true, log_level: error%s}
forges: {local: {dir: %s, url: '%s', repositories: [o/n]}}
builders: {default: {argv: ['true']}}
`, dir, hook, probes, proxies, p.Dir, p.URL))
	server := start(b, []string{"WRIT_LOCAL_TOKEN=" + p.Token, "WRIT_LOCAL_HOOK_SECRET=" + localtest.Secret}, config)
	m := measured{b: b, hook: hook, probes: probes, pid: server.Process.Pid, body: deliveryOf(b, p)}
	localtest.Until(b, time.Minute, "the server answers", func() bool { return m.probe() == nil && m.deliver() == nil })

	idle := m.measure()
	senders := sendSlowly(hook, sender)
	busy := m.measure()
	senders.end()
	b.Logf("%d connections were opened, %d at once; hooks %v (idle %v), probes %v (idle %v), %d MiB (idle %d)",
		senders.opened.Load(), slowConnections, busy.hooks, idle.hooks, busy.probes, idle.probes, busy.mib, idle.mib)
	for unit, v := range map[string]float64{
		"ms/hook": ms(busy.hooks.usual), "ms/hook-worst": ms(busy.hooks.worst), "x-idle/hook": float64(busy.hooks.usual) / float64(idle.hooks.usual),
		"ms/probe": ms(busy.probes.usual), "ms/probe-worst": ms(busy.probes.worst), "x-idle/probe": float64(busy.probes.usual) / float64(idle.probes.usual),
		"MiB": float64(busy.mib), "MiB-idle": float64(idle.mib),
	} {
		b.ReportMetric(v, unit)
	}
	if busy.hooks.worst > beyond*hookGoal || busy.probes.worst > beyond*probeGoal || busy.mib > memoryMost {
		b.Errorf("hooks %v, probes %v, %d MiB: far beyond %v, %v and %d MiB", busy.hooks, busy.probes, busy.mib, hookGoal, probeGoal, memoryMost)
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// deliveryOf is the body of a delivery that the server takes.
func deliveryOf(b *testing.B, p *localtest.Place) []byte {
	b.Helper()
	body, err := json.Marshal(forge.Payload{
		Event: forge.PayloadIssues, Action: "edited", Repository: forge.PayloadRepository{ID: p.Repo.ID, Owner: "o", Name: "n"},
		Sender: forge.PayloadSender{ID: 99, Login: "l", Kind: forge.Person}, Issue: &forge.PayloadIssue{Number: p.File("default"), ID: 1, Title: "t"}, AtMS: 1_700_000_000_000,
	})
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// times are the usual and the longest of several.
type times struct{ usual, worst time.Duration }

func (t times) String() string {
	return fmt.Sprintf("%v, at worst %v", t.usual.Round(10*time.Microsecond), t.worst.Round(10*time.Microsecond))
}

type state struct {
	hooks, probes times
	mib           int
}

// measured is the server that is looked at.
type measured struct {
	b            *testing.B
	hook, probes string
	pid          int
	body         []byte
}

// do asks on a new connection, as a forge and a kubelet do.
func (m *measured) do(req *http.Request, want int) error {
	ctx, cancel := context.WithTimeout(context.Background(), beyond*hookGoal)
	defer cancel()
	req = req.WithContext(ctx)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != want {
		return fmt.Errorf("%s: %w", res.Status, err)
	}
	return nil
}

func (m *measured) probe() error {
	req, err := http.NewRequest(http.MethodGet, "http://"+m.probes+"/healthz", nil)
	if err != nil {
		return err
	}
	return m.do(req, http.StatusOK)
}

func (m *measured) deliver() error {
	req, err := http.NewRequest(http.MethodPost, "http://"+m.hook+"/hooks/local", bytes.NewReader(m.body))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", local.HeaderEvent: string(forge.PayloadIssues), local.HeaderDelivery: uuid.NewString(),
		local.HeaderSignature: local.Sign([]byte(localtest.Secret), m.body), "X-Forwarded-For": "192.0.2.1",
	} {
		req.Header.Set(name, value)
	}
	return m.do(req, http.StatusAccepted)
}

// measure asks for some seconds.
func (m *measured) measure() (s state) {
	m.b.Helper()
	for what, t := range map[string]struct {
		ask  func() error
		into *times
	}{"hook": {m.deliver, &s.hooks}, "probe": {m.probe, &s.probes}} {
		var took []time.Duration
		for until := time.Now().Add(1200 * time.Millisecond); len(took) < 10 || time.Now().Before(until) && len(took) < 500; {
			began := time.Now()
			if err := t.ask(); err != nil {
				m.b.Fatalf("a %s wasn't answered: %v", what, err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		*t.into = times{took[len(took)/2], took[len(took)-1]}
	}
	mib, ok := residentMiB(m.pid)
	if !ok {
		m.b.Fatal("the server is gone")
	}
	s.mib = int(mib)
	return s
}

// slowSenders are ten thousand who never end what they send, and come again when they are
// turned away.
type slowSenders struct {
	stop   context.CancelFunc
	all    sync.WaitGroup
	opened atomic.Int64
}

// sendSlowly returns once each of them has connected.
func sendSlowly(to string, sender func(i int) (from, text string)) *slowSenders {
	ctx, stop := context.WithCancel(context.Background())
	c := &slowSenders{stop: stop}
	var there sync.WaitGroup
	there.Add(slowConnections)
	dialling := make(chan struct{}, 64)
	for i := range slowConnections {
		from, text := sender(i)
		c.all.Go(func() {
			for first := true; ctx.Err() == nil; first = false {
				c.sit(ctx, dialling, to, from, text, func() {
					if first {
						there.Done()
					}
				})
				select {
				case <-ctx.Done():
				case <-time.After(slowAgain):
				}
			}
		})
	}
	there.Wait()
	return c
}

// sit holds one connection until the server ends it.
func (c *slowSenders) sit(ctx context.Context, dialling chan struct{}, to, from, text string, connected func()) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	dialling <- struct{}{}
	conn, err := d.DialContext(ctx, "tcp", to)
	<-dialling
	connected()
	if err != nil {
		return // it comes again
	}
	defer conn.Close()
	c.opened.Add(1)
	end := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // it is over
	defer end()
	if _, err := io.WriteString(conn, text); err == nil {
		_, _ = io.Copy(io.Discard, conn) // until it is closed
	}
}

func (c *slowSenders) end() {
	c.stop()
	c.all.Wait()
}
