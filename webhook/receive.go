package webhook

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// The outcomes of a delivery, in answers, log and metrics.
const (
	outcomeAccepted  = "accepted"  // stored, and its tasks are due
	outcomeDuplicate = "duplicate" // stored before; its tasks are due again
	outcomeIgnored   = "ignored"   // stored, and nothing is due
	outcomeRefused   = "refused"   // the sender's fault
	outcomeFailed    = "failed"    // ours, and it may be sent again
)

// deliveryID is the form of an id that is stored and logged.
var deliveryID = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// receive is the handler of one hook.
func (s *Server) receive(h Hook) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := currentHook(h)
		n := noteOf(c)
		r := c.Request()
		n.hook = h.Name()
		if id := h.Delivery(r.Header); deliveryID().MatchString(id) {
			n.delivery = id
		}
		from := s.sender(r)
		slot := &slot{client: from.client, proxy: from.proxy, known: s.senders.has(from.client)}
		if from.conn != nil {
			slot.onEvict = from.conn.abortRead
		}
		if err := s.budget.admit(slot); err != nil {
			return err
		}
		handedOver := false // then the slot may outlive the request
		defer func() {
			if !handedOver {
				slot.release()
			}
		}()
		d, err := s.read(c, h, slot)
		if err != nil {
			return err
		}
		s.verified(from)
		handedOver = true
		duplicate, err := s.handOver(r.Context(), d, slot)
		if err != nil {
			return err
		}
		return s.taken(c, n, d, duplicate)
	}
}

// currentHook is the hook that reads one delivery, from its headers to its event.
func currentHook(h Hook) Hook {
	if r, ok := h.(*Renewable); ok {
		return r.Current()
	}
	return h
}

// read goes from the raw request to a delivery. The order of its steps is the
// defence: nothing looks into a body before its signature holds.
func (s *Server) read(c echo.Context, h Hook, slot *slot) (Delivery, error) {
	r, n := c.Request(), noteOf(c)
	d := Delivery{Hook: h.Name(), ID: n.delivery, Received: s.now()}
	if err := checkHead(r, s.limits.Body); err != nil {
		return d, err
	}
	body, err := readBody(r, s.limits.Body, slot)
	if slot.evicted() {
		return d, evictedError()
	}
	if err != nil {
		return d, err
	}
	c.Response().Header().Del("Connection") // see closeUnreadBody
	n.bytes = len(body)
	if err := h.Verify(r.Header, body); err != nil {
		return d, err
	}
	if err := slot.setVerified(); err != nil {
		return d, err
	}
	if d.ID == "" {
		return d, refuse(kernel.CodeDeliveryInvalid, "")
	}
	if d.Event, err = h.Parse(r.Header, body); err != nil {
		return d, err
	}
	n.event = d.Event
	d.Digest = canon.Sum(body)
	if len(d.Event.Evidence) > 0 {
		d.Body = body
	}
	return d, nil
}

// setVerified notes that the signature holds. It is too late for a delivery that was
// evicted meanwhile.
func (s *slot) setVerified() error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.released {
		return evictedError()
	}
	s.verified = true
	return nil
}

// evicted reports whether the delivery was.
func (s *slot) evicted() bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.released
}

// checkHead refuses what can't be a delivery, before its body is read.
func checkHead(r *http.Request, limit int64) error {
	types := r.Header.Values("Content-Type")
	if len(types) != 1 {
		return refuse(kernel.CodeBodyType, "")
	}
	kind, params, err := mime.ParseMediaType(types[0])
	charset, given := params["charset"]
	if err != nil || kind != "application/json" || given && !strings.EqualFold(charset, "utf-8") {
		return refuse(kernel.CodeBodyType, "")
	}
	if len(r.Header.Values("Content-Encoding")) > 0 {
		return refuse(kernel.CodeBodyEncoding, "")
	}
	if r.ContentLength > limit {
		return refuse(kernel.CodeBodyTooLarge, "")
	}
	return nil
}

// handOver gives a delivery to the inbox. The sender's patience and ours end
// after Limits.Store, whatever the inbox does; the slot stays taken until the
// inbox is done with it, so that a store that hangs can't gather deliveries
// without bound. A sender that hangs up changes nothing: what it sent holds.
func (s *Server) handOver(ctx context.Context, d Delivery, slot *slot) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.Store)
	defer cancel()
	type result struct {
		duplicate bool
		err       error
	}
	done := make(chan result, 1)
	s.handOvers.Go(func() {
		var r result
		r.err = sheltered(func() (err error) {
			r.duplicate, err = s.inbox.Accept(ctx, d)
			return err
		})
		slot.release()
		done <- r
	})
	select {
	case r := <-done:
		return r.duplicate, notStored(r.err)
	case <-ctx.Done():
	}
	select {
	case r := <-done: // both at once: what is durable counts
		return r.duplicate, notStored(r.err)
	default:
		return false, notStored(ctx.Err())
	}
}

// notStored gives the inbox's error its code, unless it has one of ours.
func notStored(err error) error {
	var own *Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	return &Error{Code: kernel.CodeWebhookStore, Cause: err}
}

// taken answers a delivery that is durable.
func (s *Server) taken(c echo.Context, n *note, d Delivery, duplicate bool) error {
	a, code := answer{}, http.StatusAccepted
	switch {
	case d.Event.Ignored != "":
		n.outcome, n.code, code = outcomeIgnored, d.Event.Ignored, http.StatusOK
		a = explain(d.Event.Ignored, "")
	case duplicate:
		n.outcome = outcomeDuplicate
	default:
		n.outcome = outcomeAccepted
	}
	a.Delivery, a.Outcome = d.ID, n.outcome
	n.failed = c.JSON(code, a)
	return nil
}

// firstRead is how many bytes are set aside for a body before any of it has
// come: most bodies fit, and a large one that is only announced holds no more.
const firstRead = 64 << 10

// readBody reads the whole body into memory that the slot accounts for, also
// while it is moved to a larger place. At most limit bytes are taken.
func readBody(r *http.Request, limit int64, s *slot) ([]byte, error) {
	size := limit
	if r.ContentLength >= 0 {
		size = r.ContentLength
	}
	var body []byte
	for {
		if int64(len(body)) == size {
			return body, atEnd(r.Body)
		}
		if len(body) == cap(body) {
			var err error
			if body, err = grow(body, size, s); err != nil {
				return nil, err
			}
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) && (r.ContentLength < 0 || int64(len(body)) == size) {
			return body, nil
		}
		if err != nil {
			return nil, unread(err)
		}
	}
}

// grow doubles a body's place, up to size. Both places are accounted for until
// the old one is empty.
func grow(body []byte, size int64, s *slot) ([]byte, error) {
	capacity := min(size, max(firstRead, 2*int64(cap(body))))
	if err := s.hold(capacity); err != nil {
		return nil, err
	}
	larger := make([]byte, len(body), capacity)
	copy(larger, body)
	return larger, s.hold(-int64(cap(body)))
}

// atEnd returns nil if a body ends here, and an error if there is more, or if that can't be
// told.
func atEnd(body io.Reader) error {
	var extra [1]byte
	switch n, err := body.Read(extra[:]); {
	case n > 0:
		return refuse(kernel.CodeBodyTooLarge, "")
	case err == nil || errors.Is(err, io.EOF):
		return nil
	default:
		return unread(err)
	}
}

// unread says why a body could not be read.
func unread(err error) error {
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return refuse(kernel.CodeBodyTimeout, "")
	}
	return refuse(kernel.CodeBodyMalformed, "It ended too early.")
}

// malformed gives a fault of JSON its code.
func malformed(err error) error {
	var e *forge.PayloadError
	if !errors.As(err, &e) {
		return refuse(kernel.CodeBodyMalformed, "")
	}
	switch e.Fault {
	case forge.PayloadDepth:
		return refuse(kernel.CodeBodyDepth, "")
	case forge.PayloadDuplicate:
		return refuse(kernel.CodeBodyDuplicate, "")
	case forge.PayloadSize:
		return refuse(kernel.CodeBodyTooLarge, "")
	}
	return refuse(kernel.CodeBodyMalformed, e.Error()+".")
}
