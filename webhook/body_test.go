package webhook_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// padded is a delivery of exactly size bytes.
func padded(t *testing.T, size int) []byte {
	t.Helper()
	p := labeled()
	p.Issue.Body = ""
	p.Issue.Body = strings.Repeat("x", size-len(encode(t, p)))
	return encode(t, p)
}

// inPieces hides a body's length, so that it is sent in chunks.
type inPieces struct{ io.Reader }

func TestW5_BodyTooLarge(t *testing.T) {
	const limit = 256 << 10
	for name, send := range map[string]func(*receiver, []byte) *http.Request{
		"announced": func(r *receiver, body []byte) *http.Request { return r.delivery(body, nil) },
		"in chunks": func(r *receiver, body []byte) *http.Request {
			return r.delivery(body, func(req *http.Request) {
				req.ContentLength, req.Body = -1, io.NopCloser(inPieces{bytes.NewReader(body)})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, func(c *webhook.Config) { c.Limits.Body = limit })
			r.wantRefused(r.do(send(r, padded(t, limit+1))), http.StatusRequestEntityTooLarge, kernel.CodeBodyTooLarge)
			if got := r.do(send(r, padded(t, limit))); got.status != http.StatusAccepted {
				t.Errorf("of the very limit: %d %s", got.status, got.text)
			}
			for _, d := range r.inbox.deliveries() {
				if len(d.Body) != limit {
					t.Errorf("%d bytes were handed over, want %d", len(d.Body), limit)
				}
			}
		})
	}
}

// TestW5_AnnouncedOnly: an announcement alone holds no memory, and the sender
// is told at once.
func TestW5_AnnouncedOnly(t *testing.T) {
	r := start(t, nil)
	conn := r.dial()
	fmt.Fprintf(conn, "POST /hooks/local HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 30<<20)
	r.wantRefused(r.hear(conn), http.StatusRequestEntityTooLarge, kernel.CodeBodyTooLarge)
	if _, peak := r.Peak(); peak != 0 {
		t.Errorf("%d bytes were set aside", peak)
	}
}

func (r *receiver) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// hear reads the answer on a connection, which must then be closed.
func (r *receiver) hear(conn net.Conn) reply {
	r.t.Helper()
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	got := reply{status: resp.StatusCode, head: resp.Header, text: string(b)}
	if err := json.Unmarshal(b, &got); err != nil {
		r.t.Errorf("%s: %v", b, err)
	}
	if _, err := in.ReadByte(); err == nil || isTimeout(err) {
		r.t.Errorf("the connection stays open: %v", err)
	}
	return got
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func TestW5_SlowHead(t *testing.T) {
	r := start(t, func(c *webhook.Config) {
		c.Limits.HeaderTime, c.Limits.RequestTime = 50*time.Millisecond, 2*patience
	})
	conn := r.dial()
	fmt.Fprint(conn, "POST /hooks/local HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	r.wantRefused(r.hear(conn), http.StatusRequestTimeout, kernel.CodeHeaderTimeout)

	// A connection that sends nothing at all is closed without a word.
	silent := r.dial()
	if n, err := silent.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		t.Errorf("silent connection: %d bytes, %v", n, err)
	}
}

func TestW5_SlowHeadOfALaterRequest(t *testing.T) {
	r := start(t, func(c *webhook.Config) {
		c.Limits.HeaderTime, c.Limits.RequestTime = 2*time.Second, 2*patience
	})
	conn := r.dial()
	in := bufio.NewReader(conn)
	// Two at once: the second is in the server's buffer while the first is handled.
	for range 2 {
		fmt.Fprint(conn, strings.Repeat("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 2))
		for range 2 {
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%d, %v", resp.StatusCode, err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nX-Slow: ")
	r.wantRefused(r.hear(conn), http.StatusRequestTimeout, kernel.CodeHeaderTimeout)
}

func TestW5_SlowBody(t *testing.T) {
	r := start(t, func(c *webhook.Config) { c.Limits.RequestTime = 100 * time.Millisecond })
	conn := r.dial()
	fmt.Fprint(conn, "POST /hooks/local HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	r.wantRefused(r.hear(conn), http.StatusRequestTimeout, kernel.CodeBodyTimeout)
	if n, bytes := r.InFlight(); n != 0 || bytes != 0 {
		t.Errorf("%d deliveries and %d bytes are still in flight", n, bytes)
	}
}

func TestW5_BodyCutOff(t *testing.T) {
	r := start(t, nil)
	conn := r.dial()
	fmt.Fprint(conn, "POST /hooks/local HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	r.wantRefused(r.hear(conn), http.StatusBadRequest, kernel.CodeBodyMalformed)
}

func TestW5_LargeHead(t *testing.T) {
	r := start(t, nil)
	req := r.delivery(encode(t, labeled()), func(req *http.Request) { req.Header.Set("X-Large", strings.Repeat("x", 64<<10)) })
	got, err := r.send(req) // who is still sending may see the closed connection first
	if err == nil && got.status != http.StatusRequestHeaderFieldsTooLarge || len(r.inbox.deliveries()) != 0 {
		t.Errorf("%d %s", got.status, got.text)
	}
}

// TestW5_BadJSON: signed, and refused all the same.
func TestW5_BadJSON(t *testing.T) {
	const rest = `"repository":{"id":1},"sender":{"id":2,"kind":"person"},"issue":{"number":3,"id":9},"label":"writ","at_ms":1}`
	const deep = 100_000
	for _, c := range []struct {
		name, body string
		code       kernel.Code
	}{
		{"deep arrays", strings.Repeat("[", deep) + strings.Repeat("]", deep), kernel.CodeBodyDepth},
		{"deep objects", strings.Repeat(`{"a":`, deep) + "1" + strings.Repeat("}", deep), kernel.CodeBodyDepth},
		{"deep in a member nobody reads", `{"event":"issues","action":"labeled","x":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `,` + rest, kernel.CodeBodyDepth},
		{"duplicate action", `{"event":"issues","action":"opened","action":"labeled",` + rest, kernel.CodeBodyDuplicate},
		{"duplicate action, escaped", `{"event":"issues","action":"opened","\u0061ction":"labeled",` + rest, kernel.CodeBodyDuplicate},
		{"duplicate in a member nobody reads", `{"event":"issues","action":"labeled","x":[{"y":{"z":1,"z":1}}],` + rest, kernel.CodeBodyDuplicate},
		{"no JSON", `payload={}`, kernel.CodeBodyMalformed},
		{"nothing", ``, kernel.CodeBodyMalformed},
		{"two documents", `{} {}`, kernel.CodeBodyMalformed},
		{"not UTF-8", `{"event":"` + "\xff" + `"}`, kernel.CodeBodyMalformed},
		{"half a surrogate", `{"event":"\ud800"}`, kernel.CodeBodyMalformed},
		{"an array", `[]`, kernel.CodeBodyMalformed},
		{"a number as text", strings.Replace(`{"event":"issues","action":"labeled",`+rest, `"number":3`, `"number":"3"`, 1), kernel.CodeBodyMalformed},
		{"a fraction", strings.Replace(`{"event":"issues","action":"labeled",`+rest, `"number":3`, `"number":3.0`, 1), kernel.CodeBodyMalformed},
		{"beyond any number", strings.Replace(`{"event":"issues","action":"labeled",`+rest, `"number":3`, `"number":30000000000000000000`, 1), kernel.CodeBodyMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, nil)
			r.wantRefused(r.post([]byte(c.body), nil), http.StatusBadRequest, c.code)
		})
	}
}

// TestW5_Unsigned: what a stranger sends isn't even looked at.
func TestW5_Unsigned(t *testing.T) {
	r := start(t, nil)
	bomb := []byte(strings.Repeat("[", 100_000))
	got := r.post(bomb, func(req *http.Request) { req.Header.Set(webhook.HeaderSignature, sign("other", bomb)) })
	r.wantRefused(got, http.StatusUnauthorized, kernel.CodeSigMismatch)
}

// TestW5_MemoryCeiling has more senders than fit, and counts what was admitted:
// the bodies of deliveries that the inbox has not taken yet are in memory.
func TestW5_MemoryCeiling(t *testing.T) {
	const (
		size    = 1 << 20
		ceiling = 4 << 20
		senders = 64
	)
	inbox := &memory{entered: make(chan webhook.Delivery, senders), gate: make(chan struct{})}
	r := start(t, func(c *webhook.Config) {
		c.Inbox, c.Limits = inbox, webhook.Limits{Body: size, Memory: ceiling, Store: patience}
	})
	body := padded(t, size)
	replies := make(chan reply, senders)
	for range senders {
		req := r.delivery(body, nil)
		go func() {
			got, err := r.send(req)
			if err != nil {
				got.Error = err.Error()
			}
			replies <- got
		}()
	}
	held := 0
	for range senders {
		select {
		case <-inbox.entered:
			held++
		case got := <-replies:
			// A sender may see the closed connection before the answer on it.
			if got.status != 0 && (got.status != http.StatusServiceUnavailable || got.Code != string(kernel.CodeWebhookBusy) || got.head.Get("Retry-After") == "") {
				t.Errorf("%d %s", got.status, got.text)
			}
		case <-time.After(patience):
			t.Fatal("a sender hangs")
		}
	}
	_, now := r.InFlight()
	if held == 0 || held > ceiling/size || now != int64(held*size) {
		t.Errorf("%d deliveries of %d bytes in flight, %d bytes are counted", held, size, now)
	}
	close(inbox.gate)
	for range held {
		if got := awaited(t, replies); got.status != http.StatusAccepted {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
	if n, left := r.InFlight(); n != 0 || left != 0 {
		t.Errorf("%d deliveries and %d bytes are still in flight", n, left)
	}
	if _, peak := r.Peak(); peak > ceiling {
		t.Errorf("%d bytes were in flight at once, the ceiling is %d", peak, ceiling)
	}
}

func TestW5_DeliveriesInFlight(t *testing.T) {
	inbox := &memory{entered: make(chan webhook.Delivery, 2), gate: make(chan struct{})}
	r := start(t, func(c *webhook.Config) {
		c.Inbox, c.Limits = inbox, webhook.Limits{InFlight: 2, Store: patience}
	})
	replies := make(chan reply, 2)
	for range 2 {
		req := r.delivery(encode(t, labeled()), nil)
		go func() { got, _ := r.send(req); replies <- got }()
		awaited(t, inbox.entered)
	}
	got := r.post(encode(t, labeled()), nil)
	r.wantRefused(got, http.StatusServiceUnavailable, kernel.CodeWebhookBusy)
	if got.head.Get("Retry-After") == "" {
		t.Error("the sender isn't told when to come back")
	}
	close(inbox.gate)
	for range 2 {
		if got := awaited(t, replies); got.status != http.StatusAccepted {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
	inbox.entered = nil
	if got := r.post(encode(t, labeled()), nil); got.status != http.StatusAccepted {
		t.Errorf("afterwards: %d %s", got.status, got.text)
	}
}

func TestW5_LimitsThatContradict(t *testing.T) {
	l := listen(t)
	defer l.Close()
	_, err := webhook.New(webhook.Config{
		Listener: l, Inbox: &memory{}, Logger: quiet(), Limits: webhook.Limits{Body: 10, Memory: 19},
	})
	wantCode(t, err, kernel.CodeConfigInvalid)
}
