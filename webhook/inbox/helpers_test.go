package inbox

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/writbot/writ/compliance/store"
)

const (
	worldA = "forge.example/team/alpha"
	worldB = "forge.example/team/beta"
	worldC = "forge.example/team/gamma"
)

func a(n int64) Key { return Key{worldA, n} }
func b(n int64) Key { return Key{worldB, n} }
func c(n int64) Key { return Key{worldC, n} }

func openAt(t testing.TB, path string) (*Inbox, *store.DB) {
	t.Helper()
	db, err := store.Open(context.Background(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(db), db
}

func sample(t testing.TB) *Inbox {
	t.Helper()
	in, _ := openAt(t, filepath.Join(t.TempDir(), store.FileName))
	return in
}

// delivery is a small one that is kept with its body.
func delivery(id string, at int64) Delivery {
	return Delivery{
		Hook: "local", ID: id, Event: "issues", Action: "labeled", Signature: "sha256=00", ReceivedMs: at,
		Body: fmt.Appendf(nil, `{"action":"labeled","delivery":%q}`, id),
	}
}

// tried is an inbox whose errors end the test.
type tried struct {
	t  testing.TB
	in *Inbox
}

func (e tried) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e tried) accept(d Delivery, due ...Key) (duplicate bool) {
	e.t.Helper()
	duplicate, err := e.in.Accept(context.Background(), d, due)
	e.must(err)
	return duplicate
}

func (e tried) mark(at int64, keys ...Key) {
	e.t.Helper()
	e.must(e.in.Mark(context.Background(), keys, at))
}

func (e tried) take(k Key) Ticket {
	e.t.Helper()
	t, ok, err := e.in.Take(context.Background(), k)
	e.must(err)
	if !ok {
		e.t.Fatalf("%v can't be taken", k)
	}
	return t
}

func (e tried) notTaken(k Key) {
	e.t.Helper()
	if t, ok, err := e.in.Take(context.Background(), k); ok || err != nil {
		e.t.Errorf("%v was handed out: %+v %v", k, t, err)
	}
}

func (e tried) done(t Ticket, next int64) {
	e.t.Helper()
	e.must(e.in.Done(context.Background(), t, next))
}

func (e tried) due(now int64, limit int, want ...Key) {
	e.t.Helper()
	list, err := e.in.Due(context.Background(), now, limit)
	e.must(err)
	var got []Key
	for _, d := range list {
		got = append(got, d.Key)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		e.t.Errorf("due at %d (-want +got):\n%s", now, diff)
	}
}

func (e tried) next(want int64) {
	e.t.Helper()
	at, ok, err := e.in.Next(context.Background())
	e.must(err)
	if at != want || ok != (want != 0) {
		e.t.Errorf("next is %d %v, want %d", at, ok, want)
	}
}

func (e tried) woken(want bool) {
	e.t.Helper()
	got := false
	select {
	case <-e.in.Wake():
		got = true
	default:
	}
	if got != want {
		e.t.Errorf("woken: %v, want %v", got, want)
	}
}
