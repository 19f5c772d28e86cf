package webhook

import (
	"net/http"
	"sync/atomic"
)

// Renewable is a hook that is replaced while the receiver runs: secrets are
// rotated, and what is known of the account that writ acts as. Each delivery is
// read to its end by the one that was current when it came.
type Renewable struct {
	name    string
	current atomic.Pointer[Hook]
}

// NewRenewable begins with h, and keeps the name of h.
func NewRenewable(h Hook) *Renewable {
	r := &Renewable{name: h.Name()}
	r.current.Store(&h)
	return r
}

// Renew has every delivery from now on read by h.
func (r *Renewable) Renew(h Hook) { r.current.Store(&h) }

// Current is the hook that reads a delivery that comes now.
func (r *Renewable) Current() Hook { return *r.current.Load() }

// Name implements Hook.
func (r *Renewable) Name() string { return r.name }

// Delivery implements Hook.
func (r *Renewable) Delivery(h http.Header) string { return r.Current().Delivery(h) }

// Verify implements Hook.
func (r *Renewable) Verify(h http.Header, body []byte) error { return r.Current().Verify(h, body) }

// Parse implements Hook.
func (r *Renewable) Parse(h http.Header, body []byte) (Event, error) {
	return r.Current().Parse(h, body)
}

// Unsigned reports whether deliveries are taken without a signature.
func (r *Renewable) Unsigned() bool {
	u, ok := r.Current().(unsigned)
	return ok && u.Unsigned()
}
