package webhook

import (
	"net/http"
	"sync/atomic"
)

// Renewable is a hook that is replaced while the receiver runs: secrets are
// rotated, and what is known of the account that writ acts as. Each delivery is
// read to its end by the one that was there when it came.
type Renewable struct {
	name string
	now  atomic.Pointer[Hook]
}

// NewRenewable begins with h, whose name it keeps.
func NewRenewable(h Hook) *Renewable {
	r := &Renewable{name: h.Name()}
	r.now.Store(&h)
	return r
}

// Renew has every delivery from now on read by h.
func (r *Renewable) Renew(h Hook) { r.now.Store(&h) }

// Now is the hook of this moment.
func (r *Renewable) Now() Hook { return *r.now.Load() }

// Name implements Hook.
func (r *Renewable) Name() string { return r.name }

// Delivery implements Hook.
func (r *Renewable) Delivery(h http.Header) string { return r.Now().Delivery(h) }

// Verify implements Hook.
func (r *Renewable) Verify(h http.Header, body []byte) error { return r.Now().Verify(h, body) }

// Parse implements Hook.
func (r *Renewable) Parse(h http.Header, body []byte) (Event, error) { return r.Now().Parse(h, body) }

// Unsigned reports whether anybody's delivery is taken.
func (r *Renewable) Unsigned() bool {
	u, ok := r.Now().(unsigned)
	return ok && u.Unsigned()
}
