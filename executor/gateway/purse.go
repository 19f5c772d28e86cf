package gateway

import "context"

// Purse is what the requests to providers may use, of one run.
type Purse interface {
	// Reserve returns once as much as a request may use is reserved for it, or with why it
	// can't be paid, which the inside is told.
	Reserve(ctx context.Context, most Usage) error
	// Settle puts what was really used in the place of what was reserved: nil for a request
	// that the provider didn't take.
	Settle(most Usage, used *Usage)
}

// reserve has a request wait until it can be paid. Before that nothing of it goes out.
func (x *exchange) reserve(ctx context.Context) error {
	p := x.server.c.Purse
	if p == nil || x.meter == nil {
		return nil
	}
	if err := p.Reserve(ctx, x.meter.reserved); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		text := err.Error()
		return &fault{Denied, CodeBudget, text[:min(len(text), maxText)], err}
	}
	x.reserved = true
	return nil
}

// settle ends what was reserved.
func (x *exchange) settle() {
	if x.reserved {
		x.server.c.Purse.Settle(x.meter.reserved, x.record.Usage)
	}
}
