package local

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/writbot/writ/forge"
)

// The headers of a delivery. The signature is the HMAC-SHA256 of the raw body.
const (
	HeaderEvent     = "X-Writ-Event"
	HeaderDelivery  = "X-Writ-Delivery" // a UUID, the same at each try
	HeaderSignature = "X-Hub-Signature-256"
)

const (
	// deliveryTimeout bounds one try: a receiver is to answer within a second.
	deliveryTimeout = 10 * time.Second
	// maxAnswer is how much of an answer is read, in bytes, so that the
	// connection can be used again.
	maxAnswer = 64 << 10
)

// Hook is somebody who is told what happens.
type Hook struct {
	URL    string
	Secret []byte // signs; at least one byte
	// Drop, for tests, loses a delivery: it is kept as dropped, and can be
	// redelivered. It is called inside a transaction and must not use the Store.
	Drop func(Delivery) bool
}

// Retry says how long to wait after a delivery failed: Min, doubled at each
// further failure up to Max.
type Retry struct{ Min, Max time.Duration }

func (r Retry) orDefaults() Retry {
	return Retry{cmp.Or(r.Min, time.Second), cmp.Or(r.Max, time.Minute)}
}

// after is the wait behind so many failures.
func (r Retry) after(attempts int64) time.Duration {
	wait := r.Min
	for ; attempts > 1 && wait < r.Max; attempts-- {
		wait *= 2
	}
	return min(wait, r.Max)
}

// DeliveryState says how far a delivery has come.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryPending   DeliveryState = "pending"
	DeliveryDelivered DeliveryState = "delivered"
	DeliveryDropped   DeliveryState = "dropped" // by Hook.Drop or ForgetHook
)

// Delivery is what one hook is told of one happening.
type Delivery struct {
	Seq      int64 // grows with time
	ID       string
	Hook     string // its URL
	Event    string
	Body     []byte // a forge.Payload in JSON
	State    DeliveryState
	Attempts int64
	Status   int    // of the last answer; 0 for none
	Fault    string // of the last try; "" if it went well
	At, Due  time.Time
}

const deliveryColumns = `seq, id, hook, event, body, state, attempts, status, fault, at, due FROM hook_deliveries`

func scanDelivery(scan func(...any) error) (d Delivery, err error) {
	var at, due int64
	err = scan(&d.Seq, &d.ID, &d.Hook, &d.Event, &d.Body, &d.State, &d.Attempts, &d.Status, &d.Fault, &at, &due)
	d.At, d.Due = timeOf(at), timeOf(due)
	return d, err
}

// sender sends one hook's deliveries, one after another.
type sender struct {
	s    *Store
	hook Hook
	wake chan struct{}

	unnoted int64 // tries in a row of which nothing could be written down
}

// AddHook tells somebody of everything that happens from now on, and sends what
// waits for the same URL. The URL is remembered in the file: acts are noted for
// it whichever process does them, and whether or not one is there that sends.
// Only one process may send to a URL.
func (s *Store) AddHook(ctx context.Context, h Hook) error {
	u, err := url.Parse(h.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return refuse(forge.Invalid, "a hook's URL is http or https, with a host and without credentials")
	}
	if len(h.Secret) == 0 {
		return refuse(forge.Invalid, "a hook without a secret can't be signed")
	}
	err = s.update(ctx, "add a hook", func(x *session) error {
		return x.do(`INSERT INTO hooks (url, at) VALUES (?, ?) ON CONFLICT DO NOTHING`, h.URL, x.now)
	})
	if err != nil {
		return err
	}
	n := &sender{s: s, hook: h, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.hooks {
		if other.hook.URL == h.URL {
			return refuse(forge.Conflict, "the hook is there already")
		}
	}
	s.hooks = append(s.hooks[:len(s.hooks):len(s.hooks)], n)
	s.running.Go(n.run)
	return nil
}

// ForgetHook tells a URL nothing more, and drops what waits for it.
func (s *Store) ForgetHook(ctx context.Context, address string) error {
	return s.update(ctx, "forget a hook", func(x *session) error {
		n, err := x.exec(`DELETE FROM hooks WHERE url = ?`, address)
		if err := oneRow(n, err, "the hook %s", address); err != nil {
			return err
		}
		return x.do(`UPDATE hook_deliveries SET state = 'dropped' WHERE hook = ? AND state = 'pending'`, address)
	})
}

// wake lets the senders look for what is to be sent.
func (s *Store) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.hooks {
		select {
		case n.wake <- struct{}{}:
		default: // it will look anyway
		}
	}
}

func (n *sender) run() {
	ctx := n.s.ended
	for ctx.Err() == nil {
		wait := n.next(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-n.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// idle is how long a sender with nothing to do waits: acts of this process wake
// it, those of another are found by looking.
const idle = time.Second

// next sends what is due, oldest first, and says how long there is nothing to do.
func (n *sender) next(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		d, err := n.oldest(ctx)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return idle
		case err != nil:
			n.s.log.Warn("the next delivery can't be read", "hook", n.hook.URL, "error", err)
			return n.s.retry.Min
		}
		if wait := d.Due.Sub(n.s.now()); wait > 0 {
			return min(wait, n.s.retry.Max)
		}
		if n.deliver(ctx, d) {
			n.unnoted = 0
			continue
		}
		n.unnoted++
		return n.s.retry.after(n.unnoted)
	}
	return 0
}

func (n *sender) oldest(ctx context.Context) (d Delivery, err error) {
	err = n.s.view(ctx, "find the next delivery", func(x *session) error {
		row := x.tx.QueryRowContext(ctx, `SELECT `+deliveryColumns+` WHERE hook = ? AND state = 'pending' ORDER BY seq LIMIT 1`, n.hook.URL)
		d, err = scanDelivery(row.Scan)
		return err
	})
	return d, err
}

// deliver makes one try and writes down how it went. Where that can't be written,
// the delivery is as due as before, and the next try has to wait all the same.
func (n *sender) deliver(ctx context.Context, d Delivery) (noted bool) {
	status, err := n.post(ctx, d)
	if ctx.Err() != nil {
		return true // the forge is being closed; the try doesn't count
	}
	d.Attempts++
	d.Status, d.State, d.Fault = status, DeliveryDelivered, ""
	if err != nil {
		d.State, d.Fault = DeliveryPending, err.Error()
		n.s.log.Debug("delivery failed", "hook", d.Hook, "delivery", d.ID, "attempts", d.Attempts, "error", err)
	}
	due := n.s.now().Add(n.s.retry.after(d.Attempts)).UnixMilli()
	err = n.s.run(ctx, n.s.write, "note a delivery", func(x *session) error {
		return x.do(`UPDATE hook_deliveries SET state = ?, attempts = ?, status = ?, fault = ?, due = ? WHERE seq = ?`,
			string(d.State), d.Attempts, d.Status, d.Fault, due, d.Seq)
	})
	if err != nil && ctx.Err() == nil {
		n.s.log.Warn("a delivery can't be noted and will come again", "delivery", d.ID, "error", err)
	}
	return err == nil
}

func (n *sender) post(ctx context.Context, d Delivery) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.hook.URL, bytes.NewReader(d.Body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "writ-local-forge")
	r.Header.Set(HeaderEvent, d.Event)
	r.Header.Set(HeaderDelivery, d.ID)
	r.Header.Set(HeaderSignature, Sign(n.hook.Secret, d.Body))
	answer, err := n.s.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)) // the status is the answer
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return answer.StatusCode, fmt.Errorf("answered %s", answer.Status)
	}
	return answer.StatusCode, nil
}

// Sign is the value of HeaderSignature for a body.
func Sign(secret, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// Deliveries lists all of them, oldest first.
func (s *Store) Deliveries(ctx context.Context) (all []Delivery, err error) {
	err = s.view(ctx, "list deliveries", func(x *session) error {
		return x.each(func(scan func(...any) error) error {
			d, err := scanDelivery(scan)
			all = append(all, d)
			return err
		}, `SELECT `+deliveryColumns+` ORDER BY seq`)
	})
	return all, err
}

// Redeliver sends one again, under the same id, whether or not it has arrived.
func (s *Store) Redeliver(ctx context.Context, id string) error {
	return s.update(ctx, "redeliver "+id, func(x *session) error {
		n, err := x.exec(`UPDATE hook_deliveries SET state = 'pending', due = ? WHERE id = ?`, x.now, id)
		return oneRow(n, err, "the delivery %s", id)
	})
}
