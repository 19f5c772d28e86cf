package webhook_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/webhook"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func TestAccepted(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	r := start(t, func(c *webhook.Config) { c.Now = func() time.Time { return at } })
	body := encode(t, labeled())
	id := uuid.NewString()
	got := r.post(body, func(req *http.Request) { req.Header.Set(webhook.HeaderDelivery, strings.ToUpper(id)) })
	if got.status != http.StatusAccepted || got.Outcome != "accepted" || got.Delivery != id {
		t.Errorf("%d %s", got.status, got.text)
	}
	digest, err := kernel.ApprovalDigest("Add fails", "canary-body-of-the-issue")
	if err != nil {
		t.Fatal(err)
	}
	key := webhook.Key{World: world, Task: 3}
	want := []webhook.Delivery{{
		Hook: "local", ID: id, Received: at, Digest: canon.Sum(body), Body: body,
		Event: webhook.Event{
			Kind: "issues", Action: "labeled", Keys: []webhook.Key{key}, Signature: sign(secret, body),
			Evidence: []webhook.Evidence{{Key: key, Kind: webhook.EvidenceLabel, Ref: "writ", Actor: 2, Digest: digest, At: time.UnixMilli(1_700_000_000_000)}},
		},
	}}
	if diff := cmp.Diff(want, r.inbox.deliveries()); diff != "" {
		t.Error(diff)
	}
	again := r.post(body, func(req *http.Request) { req.Header.Set(webhook.HeaderDelivery, id) })
	if again.status != http.StatusAccepted || again.Outcome != "duplicate" {
		t.Errorf("a second time: %d %s", again.status, again.text)
	}
	if all := r.inbox.deliveries(); len(all) != 2 || len(all[1].Event.Keys) != 1 {
		t.Error("a duplicate must make its task due as well")
	}
}

func TestDeliveryID(t *testing.T) {
	r := start(t, nil)
	body := encode(t, labeled())
	for name, values := range map[string][]string{
		"none": nil, "two": {uuid.NewString(), uuid.NewString()}, "empty": {""}, "no UUID": {"1"},
		"in braces": {"{" + uuid.NewString() + "}"}, "with a line's end": {uuid.NewString() + "\tcode=x"},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			got := r.post(body, func(req *http.Request) { req.Header[http.CanonicalHeaderKey(webhook.HeaderDelivery)] = values })
			r.wantRefused(got, http.StatusBadRequest, kernel.CodeDeliveryInvalid)
		})
	}
}

// TestW7_OtherDeliveryID: a captured delivery under a new id is one more hint
// about the same task, and nothing else.
func TestW7_OtherDeliveryID(t *testing.T) {
	r := start(t, nil)
	body := encode(t, labeled())
	for range 2 {
		if got := r.post(body, nil); got.status != http.StatusAccepted || got.Outcome != "accepted" {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
	all := r.inbox.deliveries()
	if len(all) != 2 || !cmp.Equal(all[0].Event, all[1].Event) || all[0].ID == all[1].ID {
		t.Errorf("%+v", all)
	}
}

func TestW7_OtherEvent(t *testing.T) {
	issue := labeled()
	bare := labeled()
	bare.Issue = nil
	anonymous := labeled()
	anonymous.Sender.ID = 0
	for _, c := range []struct {
		name, header string
		body         forge.Payload
		kind         string
	}{
		{"another event", "issue_comment", issue, "issue_comment"},
		{"an event without its parts", "issues", bare, "issues"},
		{"an event of nobody", "issues", anonymous, "issues"},
		{"a push that is an issue", "push", issue, "push"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, nil)
			got := r.post(encode(t, c.body), func(req *http.Request) { req.Header.Set(webhook.HeaderEvent, c.header) })
			if got.status != http.StatusOK || got.Outcome != "ignored" || got.Code != string(kernel.CodeEventMismatch) {
				t.Errorf("%d %s", got.status, got.text)
			}
			all := r.inbox.deliveries()
			if len(all) != 1 || all[0].Event.Ignored != kernel.CodeEventMismatch || len(all[0].Event.Keys)+len(all[0].Event.Evidence) != 0 || all[0].Event.Kind != c.kind {
				t.Errorf("recorded: %+v", all)
			}
		})
	}
}

// TestW10_UnusedEvent: a forge stops sending to a hook that answers 4xx.
func TestW10_UnusedEvent(t *testing.T) {
	push := forge.Payload{
		Event: forge.PayloadPush, Repository: labeled().Repository, Sender: labeled().Sender,
		Ref: "refs/heads/main", Before: "a", After: "b", AtMS: 1,
	}
	for name, c := range map[string]struct {
		header string
		body   forge.Payload
	}{
		"an event we don't know": {"stars", labeled()},
		"a push to any branch":   {"push", push},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, nil)
			got := r.post(encode(t, c.body), func(req *http.Request) { req.Header.Set(webhook.HeaderEvent, c.header) })
			if got.status != http.StatusOK || got.Code != string(kernel.CodeEventUnused) {
				t.Errorf("%d %s", got.status, got.text)
			}
			if all := r.inbox.deliveries(); len(all) != 1 || len(all[0].Event.Keys) != 0 || all[0].Body != nil {
				t.Errorf("recorded: %+v", all)
			}
		})
	}
}

// TestI13_UnknownRepository: the number decides, whatever the names say.
func TestI13_UnknownRepository(t *testing.T) {
	r := start(t, nil)
	p := labeled()
	p.Repository.ID = repoID + 1
	got := r.post(encode(t, p), nil)
	if got.status != http.StatusOK || got.Outcome != "ignored" || got.Code != string(kernel.CodeTargetNotAllowed) {
		t.Errorf("%d %s", got.status, got.text)
	}
	all := r.inbox.deliveries()
	if len(all) != 1 || all[0].Event.Ignored != kernel.CodeTargetNotAllowed || len(all[0].Event.Keys)+len(all[0].Event.Evidence) != 0 {
		t.Errorf("recorded: %+v", all)
	}
}

// TestW10_AnswerAfterDurable: while the inbox has not said that a delivery is
// durable, the sender isn't told so.
func TestW10_AnswerAfterDurable(t *testing.T) {
	inbox := &memory{entered: make(chan webhook.Delivery, 1), gate: make(chan struct{})}
	r := start(t, func(c *webhook.Config) { c.Inbox, c.Limits.Store = inbox, patience })
	conn := r.dial()
	if err := r.delivery(encode(t, labeled()), nil).Write(conn); err != nil {
		t.Fatal(err)
	}
	awaited(t, inbox.entered)
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !isTimeout(err) {
		t.Fatalf("%d bytes came before the delivery was durable, %v", n, err)
	}
	close(inbox.gate)
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, len("HTTP/1.1 202"))
	if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 202" {
		t.Errorf("%s, %v", head, err)
	}
}

// TestW10_StoreHangs: the sender has its answer within a second, and what hangs
// stays counted.
func TestW10_StoreHangs(t *testing.T) {
	inbox := &memory{gate: make(chan struct{})}
	r := start(t, func(c *webhook.Config) { c.Inbox, c.Limits.Store = inbox, 0 }) // what it is by itself
	began := time.Now()
	got := r.post(encode(t, labeled()), nil)
	if took, promised := time.Since(began), webhook.DefaultLimits().Store; promised >= time.Second || took > 5*promised {
		t.Errorf("the answer took %v, promised are %v", took, promised)
	}
	r.wantRefused(got, http.StatusServiceUnavailable, kernel.CodeWebhookStore)
	if got.head.Get("Retry-After") == "" {
		t.Error("the sender isn't told when to come back")
	}
	if n, bytes := r.InFlight(); n != 1 || bytes == 0 {
		t.Errorf("what the store still has is not counted: %d deliveries, %d bytes", n, bytes)
	}
	close(inbox.gate)
}

func TestW10_HangingStoreGathersNothing(t *testing.T) {
	inbox := &memory{entered: make(chan webhook.Delivery, 8), gate: make(chan struct{})}
	r := start(t, func(c *webhook.Config) {
		c.Inbox, c.Limits.InFlight, c.Limits.Store = inbox, 2, 10*time.Millisecond
	})
	for i, code := range []kernel.Code{kernel.CodeWebhookStore, kernel.CodeWebhookStore, kernel.CodeWebhookBusy, kernel.CodeWebhookBusy} {
		if got := r.post(encode(t, labeled()), nil); got.Code != string(code) {
			t.Errorf("delivery %d: %d %s", i, got.status, got.text)
		}
	}
	if n := len(inbox.entered); n != 2 {
		t.Errorf("%d deliveries wait for the store, want 2", n)
	}
	close(inbox.gate)
}

func TestW10_StoreFails(t *testing.T) {
	fails := true
	inbox := &memory{accept: func(context.Context, webhook.Delivery) error {
		if fails {
			return errors.New("database is locked")
		}
		return nil
	}}
	r := start(t, func(c *webhook.Config) { c.Inbox = inbox })
	got := r.post(encode(t, labeled()), nil)
	r.wantRefused(got, http.StatusServiceUnavailable, kernel.CodeWebhookStore)
	if strings.Contains(got.text, "locked") || !strings.Contains(r.log.String(), "database is locked") {
		t.Error("the cause belongs in the log and not in the answer")
	}
	fails = false
	if got := r.post(encode(t, labeled()), nil); got.status != http.StatusAccepted {
		t.Errorf("afterwards: %d %s", got.status, got.text)
	}
}

// TestW10_SenderHangsUp: what was sent and signed is stored all the same.
func TestW10_SenderHangsUp(t *testing.T) {
	inbox := &memory{entered: make(chan webhook.Delivery, 1), gate: make(chan struct{})}
	ended := make(chan error, 1)
	inbox.accept = func(ctx context.Context, _ webhook.Delivery) error {
		ended <- ctx.Err()
		return ctx.Err()
	}
	gone := make(chan struct{})
	r := start(t, func(c *webhook.Config) {
		c.Inbox, c.Limits.Store = inbox, patience
		c.Hooks = []webhook.Hook{&spy{Hook: localHook(t), parse: func([]byte) {}}}
		c.Middleware = append(c.Middleware, tellWhenGone(gone))
	})
	ctx, hangUp := context.WithCancel(t.Context())
	req := r.delivery(encode(t, labeled()), nil).WithContext(ctx)
	sent := make(chan error, 1)
	go func() { _, err := r.send(req); sent <- err }()
	awaited(t, inbox.entered)
	hangUp()
	if err := awaited(t, sent); err == nil {
		t.Fatal("the sender has an answer")
	}
	awaited(t, gone)
	close(inbox.gate)
	if err := awaited(t, ended); err != nil {
		t.Errorf("the store was told to give up: %v", err)
	}
}

// TestPanic: one request fails, by its code, and nothing of the body is shown.
func TestPanic(t *testing.T) {
	explode := true
	hook := &spy{Hook: localHook(t), parse: func(body []byte) {
		if explode {
			panic("can't handle " + string(body))
		}
	}}
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{hook} })
	got := r.post(encode(t, labeled()), nil)
	r.wantRefused(got, http.StatusInternalServerError, kernel.CodeWebhookPanic)
	log := r.log.String()
	if !strings.Contains(log, string(kernel.CodeWebhookPanic)) || !strings.Contains(log, "webhook_test.TestPanic") {
		t.Errorf("the log doesn't say where: %s", log)
	}
	if strings.Contains(log+got.text, "canary") {
		t.Error("a piece of the body is shown")
	}
	explode = false
	if got := r.post(encode(t, labeled()), nil); got.status != http.StatusAccepted {
		t.Errorf("afterwards: %d %s", got.status, got.text)
	}
	if n, bytes := r.InFlight(); n != 0 || bytes != 0 {
		t.Errorf("%d deliveries and %d bytes are still in flight", n, bytes)
	}
}

func TestPanicOfTheInbox(t *testing.T) {
	var nothing map[string]int
	inbox := &memory{accept: func(context.Context, webhook.Delivery) error { nothing["x"] = 1; return nil }}
	r := start(t, func(c *webhook.Config) { c.Inbox = inbox })
	got := r.post(encode(t, labeled()), nil)
	r.wantRefused(got, http.StatusServiceUnavailable, kernel.CodeWebhookStore)
	if !strings.Contains(r.log.String(), "assignment to entry in nil map") {
		t.Errorf("the log doesn't say what happened: %s", r.log)
	}
}
