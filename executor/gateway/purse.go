package gateway

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

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
	there, leave := x.whileThere(ctx)
	err := p.Reserve(there, x.meter.reserved)
	x.reserved = err == nil
	if gone := leave(); gone != nil {
		return gone
	}
	if err != nil {
		text := err.Error()
		return &fault{Denied, CodeBudget, text[:min(len(text), maxText)], err}
	}
	return nil
}

// whileThere is ctx until the client goes away. Its request was read whole: what it still
// sends is thrown away. That it closes its own side alone counts as going away: TCP tells both
// by the same sign, and only an answer would find out, which isn't there before the provider
// was paid for one. leave says why ctx has ended, nil if it hasn't, and nothing reads
// from the client any more when it returns.
func (x *exchange) whileThere(ctx context.Context) (there context.Context, leave func() error) {
	there, cancel := context.WithCancel(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		if _, err := io.Copy(io.Discard, x.in); !errors.Is(err, os.ErrDeadlineExceeded) {
			cancel()
		}
	}()
	return there, func() error {
		defer cancel()
		_ = x.client.SetReadDeadline(time.Now())
		<-read
		_ = x.client.SetReadDeadline(time.Time{})
		return there.Err()
	}
}
