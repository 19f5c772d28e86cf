package inbox

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
)

// Limits on what is stored, in bytes. Longer text is refused: it comes from
// configuration, or from headers that were checked before.
const (
	maxWorld = 1 << 10 // forge host, owner and repository
	maxID    = 256     // hooks, deliveries, actors, names of cursors, kinds
	maxText  = 16 << 10
	// maxKeys bounds the tasks that one delivery makes due: they stand in one
	// transaction that others wait for.
	maxKeys = 1024
)

// Key names a task.
type Key struct {
	World string
	Task  int64
}

func (k Key) check() error {
	if k.World == "" || k.Task <= 0 {
		return &Error{Detail: "a task has a world and a positive number"}
	}
	return fits("world", k.World, maxWorld)
}

// Inbox keeps deliveries and schedule in a store. It is safe for concurrent
// use. Errors are the store's (environment.store.unavailable), or an [*Error]
// where the caller gave what can't be stored.
type Inbox struct {
	store   store.Store
	wake    chan struct{}
	packers sync.Pool     // of *packer
	asked   atomic.Uint64 // how often Due was
}

// New is the inbox in a store that is open for writing.
func New(s store.Store) *Inbox {
	return &Inbox{store: s, wake: make(chan struct{}, 1)}
}

// Wake has a token after each durable change by this process that may have made
// a task due sooner. There is one receiver. Marks of other processes don't
// wake: look at [Inbox.Next] every few seconds, too.
func (b *Inbox) Wake() <-chan struct{} { return b.wake }

func (b *Inbox) awake() {
	select {
	case b.wake <- struct{}{}:
	default: // there is one already
	}
}

// exec runs one statement in a transaction.
func (b *Inbox) exec(ctx context.Context, text string, args ...any) error {
	return b.store.Write(ctx, func(tx store.Tx) error {
		_, err := tx.Exec(text, args...)
		return err
	})
}

// row reads one row.
func (b *Inbox) row(ctx context.Context, text string, args []any, dest ...any) (found bool, err error) {
	err = b.store.View(ctx, func(q store.Queries) error {
		found, err = q.Row(text, args, dest...)
		return err
	})
	return found, err
}

// Error is a value that can't be stored. Its code is webhook.delivery.invalid.
type Error struct{ Detail string }

func (e *Error) Error() string { return string(kernel.CodeDeliveryInvalid) + ": " + e.Detail }

// FailureCode is webhook.delivery.invalid.
func (e *Error) FailureCode() kernel.Code { return kernel.CodeDeliveryInvalid }

// fits refuses text that a database would refuse, or cut.
func fits(what, text string, limit int) error {
	switch {
	case len(text) > limit:
		return &Error{Detail: fmt.Sprintf("the %s is longer than %d bytes", what, limit)}
	case !utf8.ValidString(text) || strings.Contains(text, "\x00"):
		return &Error{Detail: "the " + what + " is no text"}
	}
	return nil
}

// field is a text with its limit.
type field struct {
	what, text string
	limit      int
}

func allFit(fields ...field) error {
	for _, f := range fields {
		if err := fits(f.what, f.text, f.limit); err != nil {
			return err
		}
	}
	return nil
}
