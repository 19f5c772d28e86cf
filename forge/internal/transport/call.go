package transport

import (
	"context"
	"net/http"
)

// Lane is what a request counts against.
type Lane int

// The lanes.
const (
	// ByMethod is Read for GET and HEAD and Create for the others.
	ByMethod Lane = iota
	// Read is a request that somebody waits for. A POST that only asks may be one.
	Read
	// Sweep is a read in bulk that can be late: it leaves the last part of the
	// forge's allowance to the other lanes.
	Sweep
	// Create is a write that makes something that people are notified of.
	Create
	// Edit is another write: it changes or takes away what is there. Its budget is
	// apart, so that a status is kept up to date however much was created.
	Edit
)

// Call says what a request is. The zero Call is allowed.
type Call struct {
	// Op is what is tried, for the error: "comment on o/n#3".
	Op string
	// Account is whose pace and pauses count, and part of what the cache is keyed
	// by: whoever asks under the same Account may see the same.
	Account string
	// Bucket is whose allowance counts where a forge has several for one account;
	// "": the account's.
	Bucket string
	Lane   Lane
	// Live keeps a read out of the cache and makes it unconditional: permissions.
	Live bool
}

type callKey struct{}

// With returns a context whose requests are that call.
func With(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf is what a context says.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// callOf completes what the context of a request says.
func callOf(req *http.Request) Call {
	c := CallOf(req.Context())
	if c.Op == "" {
		c.Op = req.Method + " " + req.URL.Path
	}
	if c.Bucket == "" {
		c.Bucket = c.Account
	}
	if c.Lane == ByMethod {
		c.Lane = Create
		if reads(req.Method) {
			c.Lane = Read
		}
	}
	return c
}

func (c Call) writes() bool { return c.Lane == Create || c.Lane == Edit }

// weight is what it counts of an account's points.
func (c Call) weight() int {
	if c.writes() {
		return writePoints
	}
	return 1
}

func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }
