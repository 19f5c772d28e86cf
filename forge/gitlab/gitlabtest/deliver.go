package gitlabtest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Delivery is one webhook on its way.
type Delivery struct {
	ID     string // the Idempotency-Key, and webhook-id of a signed one
	Event  string // "Issue Hook"
	URL    string
	Header http.Header
	Body   []byte

	project, hook int64
	trigger       string
}

// Bounds of the way: a receiver that is slower has failed, and one that fails so
// often in a row is left alone for a while.
const (
	hookTimeout  = 10 * time.Second
	mostFailures = 4
	hookPause    = time.Minute
	// maxHookAnswer is how many bytes of an answer are read.
	maxHookAnswer = 8 << 10
)

// postbox sends deliveries one after another.
type postbox struct {
	mu     sync.Mutex
	queue  []Delivery
	sent   []Delivery
	busy   bool
	idle   *sync.Cond
	signal chan struct{}
	ended  chan struct{}
	stop   context.CancelFunc
	client *http.Client
}

func (b *postbox) open(s *Server) {
	ctx, stop := context.WithCancel(context.Background())
	b.stop, b.signal, b.ended = stop, make(chan struct{}, 1), make(chan struct{})
	b.idle = sync.NewCond(&b.mu)
	b.client = &http.Client{Timeout: hookTimeout, Transport: &http.Transport{}}
	go func() {
		defer close(b.ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-b.signal:
			}
			for d, ok := b.next(); ok; d, ok = b.next() {
				b.carry(ctx, s, d)
			}
		}
	}()
}

func (b *postbox) close() {
	b.stop()
	<-b.ended
	b.client.CloseIdleConnections()
}

func (b *postbox) wake() {
	if b.signal == nil {
		return
	}
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

func (b *postbox) next() (Delivery, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy = len(b.queue) > 0; !b.busy {
		b.idle.Broadcast()
		return Delivery{}, false
	}
	d := b.queue[0]
	b.queue = b.queue[1:]
	return d, true
}

func (b *postbox) carry(ctx context.Context, s *Server, d Delivery) {
	arrive := []Delivery{d}
	if s.opts.Network != nil {
		arrive = s.opts.Network(d)
	}
	for _, one := range arrive {
		status := b.post(ctx, one)
		s.delivered(one, status)
		b.mu.Lock()
		b.sent = append(b.sent, one)
		b.mu.Unlock()
	}
}

func (b *postbox) post(ctx context.Context, d Delivery) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		return "internal error"
	}
	req.Header = d.Header.Clone()
	res, err := b.client.Do(req)
	if err != nil {
		return "internal error"
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxHookAnswer)
	_ = res.Body.Close() // of no more use
	return strconv.Itoa(res.StatusCode)
}

// delivered writes a delivery down, and counts failures.
func (s *Server) delivered(d Delivery, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.data.Projects[d.project]
	if p == nil {
		return
	}
	at := slices.IndexFunc(p.Hooks, func(h *hook) bool { return h.ID == d.hook })
	if at < 0 {
		return
	}
	h := p.Hooks[at]
	headers := map[string]string{}
	for name := range d.Header {
		headers[name] = d.Header.Get(name)
	}
	now := s.tick()
	h.Deliveries = append(h.Deliveries, &hookEvent{ID: s.data.id(), Trigger: d.trigger, Headers: headers, Body: d.Body, Status: status, At: now})
	if strings.HasPrefix(status, "2") || strings.HasPrefix(status, "3") {
		h.Failures = 0
		return
	}
	if h.Failures++; h.Failures >= mostFailures {
		h.Until = now.Add(hookPause)
	}
}

// Settle waits until every delivery has arrived, or failed to.
func (s *Server) Settle() {
	s.post.wake()
	s.post.mu.Lock()
	defer s.post.mu.Unlock()
	for s.post.busy || len(s.post.queue) > 0 {
		s.post.idle.Wait()
	}
}

// Deliveries are those that were sent, in order.
func (s *Server) Deliveries() []Delivery {
	s.post.mu.Lock()
	defer s.post.mu.Unlock()
	return slices.Clone(s.post.sent)
}

// Send sends a delivery now, again or for the first time, and returns the answer's status.
func (s *Server) Send(ctx context.Context, d Delivery) string {
	status := s.post.post(ctx, d)
	s.delivered(d, status)
	return status
}

// tell hands an event to each hook that asked for it. The lock is held.
func (s *Server) tell(p *project, trigger, flag, event string, body map[string]any) {
	for _, h := range p.Hooks {
		if h.Events[flag] && !s.opts.Now().Before(h.Until) {
			b, err := json.Marshal(body)
			s.must(err)
			s.send(p, h, trigger, event, b, uuid.New().String())
		}
	}
}

// send puts a delivery on its way; sent again, it keeps its id. The lock is held.
func (s *Server) send(p *project, h *hook, trigger, event string, body []byte, id string) {
	header := http.Header{}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "GitLab/18.8.0", "Idempotency-Key": id, "X-Gitlab-Event": event,
		"X-Gitlab-Webhook-UUID": uuid.New().String(), "X-Gitlab-Instance": s.URL, "X-Gitlab-Event-UUID": uuid.New().String(),
	} {
		header.Set(name, value)
	}
	if h.Token != "" {
		header.Set("X-Gitlab-Token", h.Token)
	}
	if h.Signing != "" {
		at := strconv.FormatInt(s.opts.Now().Unix(), 10)
		header.Set("webhook-id", id)
		header.Set("webhook-timestamp", at)
		header.Set("webhook-signature", Sign(h.Signing, id, at, body))
	}
	s.post.mu.Lock()
	defer s.post.mu.Unlock()
	s.post.queue = append(s.post.queue, Delivery{
		ID: id, Event: event, URL: h.URL, Header: header, Body: body, project: p.ID, hook: h.ID, trigger: trigger,
	})
}

// Sign is the value of webhook-signature: version 1 of Standard Webhooks, HMAC
// over id, time in Unix seconds and body.
func Sign(signing, id, at string, body []byte) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signing, signingPrefix))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
