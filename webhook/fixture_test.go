package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The repository that is allowed, and what signs its deliveries.
const (
	repoID = 1
	world  = "127.0.0.1/o/n"
	secret = "canary-secret-of-the-hook"
)

// patience bounds what would otherwise hang; nothing waits for it.
const patience = time.Minute

// memory is an inbox whose callers can be held up.
type memory struct {
	entered chan webhook.Delivery // if set, told of each call before it waits
	gate    chan struct{}         // if set, calls wait until it is closed, whatever their context says
	accept  func(context.Context, webhook.Delivery) error

	mu   sync.Mutex
	got  []webhook.Delivery
	seen map[string]bool
}

func (m *memory) Accept(ctx context.Context, d webhook.Delivery) (bool, error) {
	if m.entered != nil {
		m.entered <- d
	}
	if m.gate != nil {
		<-m.gate
	}
	if m.accept != nil {
		if err := m.accept(ctx, d); err != nil {
			return false, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = map[string]bool{}
	}
	key := d.Hook + " " + d.ID
	duplicate := m.seen[key]
	m.seen[key] = true
	m.got = append(m.got, d)
	return duplicate, nil
}

func (m *memory) deliveries() []webhook.Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]webhook.Delivery(nil), m.got...)
}

// logged is a log that many write and the test reads.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// receiver is a running server.
type receiver struct {
	*webhook.Server
	t      *testing.T
	url    string
	inbox  *memory
	log    *logged
	client *http.Client
	stop   context.CancelFunc
	ended  chan error

	unclean bool // Run may end with an error
}

func localHook(t testing.TB) *webhook.LocalHook {
	t.Helper()
	h, err := webhook.NewLocalHook(webhook.LocalConfig{Secrets: []string{secret}, World: allowed})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func allowed(id int64) (string, bool) { return world, id == repoID }

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start runs a server over real HTTP until the test ends.
func start(t *testing.T, change func(*webhook.Config)) *receiver {
	t.Helper()
	r := &receiver{t: t, inbox: &memory{}, log: &logged{}, ended: make(chan error, 1)}
	c := webhook.Config{
		Listener: listen(t), Hooks: []webhook.Hook{localHook(t)}, Inbox: r.inbox,
		Logger: slog.New(slog.NewJSONHandler(r.log, nil)), Registry: prometheus.NewRegistry(),
		Limits: webhook.Limits{Store: patience},
	}
	if change != nil {
		change(&c)
	}
	if m, ok := c.Inbox.(*memory); ok {
		r.inbox = m
	}
	var err error
	if r.Server, err = webhook.New(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop, r.url = cancel, "http://"+r.Addr().String()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	r.client = &http.Client{Transport: transport, Timeout: patience}
	go func() { r.ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		select {
		case err := <-r.ended:
			if err != nil && !r.unclean {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the server didn't stop")
		}
	})
	return r
}

func sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// labeled is the usual delivery: an issue got its label.
func labeled() forge.Payload {
	return forge.Payload{
		Event: forge.PayloadIssues, Action: "labeled",
		Repository: forge.PayloadRepository{ID: repoID, Owner: "o", Name: "n"},
		Sender:     forge.PayloadSender{ID: 2, Login: "l", Kind: forge.Person},
		Issue:      &forge.PayloadIssue{Number: 3, ID: 9, Title: "Add fails", Body: "canary-body-of-the-issue"},
		Label:      "writ", AtMS: 1_700_000_000_000,
	}
}

func encode(t testing.TB, p forge.Payload) []byte {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// delivery makes a request as the embedded forge would; change may spoil it.
func (r *receiver) delivery(body []byte, change func(*http.Request)) *http.Request {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.url+"/hooks/local", bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(webhook.HeaderEvent, "issues")
	req.Header.Set(webhook.HeaderDelivery, uuid.NewString())
	req.Header.Set(webhook.HeaderSignature, sign(secret, body))
	if change != nil {
		change(req)
	}
	return req
}

// reply is what a sender sees.
type reply struct {
	status int
	head   http.Header
	text   string

	Delivery, Outcome, Code, Error, Next string
}

func (r *receiver) send(req *http.Request) (reply, error) {
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	got := reply{status: resp.StatusCode, head: resp.Header, text: string(b)}
	if json.Unmarshal(b, &got) != nil {
		got.Code = "not JSON"
	}
	return got, err
}

func (r *receiver) do(req *http.Request) reply {
	r.t.Helper()
	got, err := r.send(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func (r *receiver) post(body []byte, change func(*http.Request)) reply {
	r.t.Helper()
	return r.do(r.delivery(body, change))
}

func (r *receiver) get(path string) reply {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.url+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.do(req)
}

// wantRefused checks a refusal's whole form, and that nothing was stored.
func (r *receiver) wantRefused(got reply, status int, code kernel.Code) {
	r.t.Helper()
	info := code.Info()
	if got.status != status || got.Code != string(code) {
		r.t.Errorf("got %d %s, want %d %s", got.status, got.Code, status, code)
	}
	if !strings.HasPrefix(got.Error, info.Meaning) || got.Next != info.Remedy {
		r.t.Errorf("the sender isn't told what happened and what to do next: %s", got.text)
	}
	if n := len(r.inbox.deliveries()); n != 0 {
		r.t.Errorf("%d deliveries were handed over", n)
	}
}

func wantCode(t *testing.T, err error, code kernel.Code) {
	t.Helper()
	var e *webhook.Error
	if !errors.As(err, &e) || e.FailureCode() != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

// awaited receives, or fails the test instead of hanging.
func awaited[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// spy is a hook that counts what is asked of it.
type spy struct {
	webhook.Hook
	parse  func(body []byte) // before the real Parse
	parsed chan struct{}
}

func (s *spy) Parse(h http.Header, body []byte) (webhook.Event, error) {
	if s.parsed != nil {
		s.parsed <- struct{}{}
	}
	if s.parse != nil {
		s.parse(body)
	}
	return s.Hook.Parse(h, body)
}
