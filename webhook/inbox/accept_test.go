package inbox

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel/canon"
)

func TestW6_SameDeliveryFiftyTimesAndAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), store.FileName)
	in, db := openAt(t, path)
	const times = 50
	var wg sync.WaitGroup
	var first [times]bool
	for i := range times {
		wg.Go(func() {
			duplicate, err := in.Accept(context.Background(), delivery("guid", int64(1000+i)), []Key{a(1)})
			if err != nil {
				t.Error(err)
			}
			first[i] = !duplicate
		})
	}
	wg.Wait()
	firsts := 0
	for _, f := range first {
		if f {
			firsts++
		}
	}
	if firsts != 1 {
		t.Errorf("%d of the deliveries were the first", firsts)
	}
	e := tried{t, in}
	wantRows(t, db, "deliveries", 1)
	wantRows(t, db, "payloads", 1)
	e.next(1000)
	e.done(e.take(a(1)), 0)
	if !e.accept(delivery("guid", 2000), a(1)) {
		t.Error("a further one is no duplicate")
	}
	e.next(2000)
	e.done(e.take(a(1)), 0)
	e.must(db.Close())

	in, db = openAt(t, path)
	e.in = in
	e.next(0)
	if !e.accept(delivery("guid", 3000), a(1)) {
		t.Error("after a restart it is no duplicate")
	}
	e.next(3000)
	e.woken(true)
	wantRows(t, db, "deliveries", 1)
	d, found, err := in.Payload(t.Context(), "local", "guid")
	if err != nil || !found || d.Arrivals != times+2 || d.LastMs != 3000 {
		t.Errorf("%+v %v %v", d, found, err)
	}
	if e.accept(Delivery{Hook: "other", ID: "guid", ReceivedMs: 1}) {
		t.Error("another hook's delivery has the same id")
	}
}

func wantRows(t *testing.T, db *store.DB, table string, want int64) {
	t.Helper()
	var n int64
	err := db.View(t.Context(), func(q store.Queries) error {
		_, err := q.Row(`SELECT count(*) FROM `+table, nil, &n)
		return err
	})
	if err != nil || n != want {
		t.Errorf("%s has %d rows (%v), want %d", table, n, err, want)
	}
}

func TestAccept_WhatIsKept(t *testing.T) {
	in := sample(t)
	for _, body := range [][]byte{
		nil, []byte("{}"), []byte(strings.Repeat("é", 4000)), []byte(strings.Repeat("é", 5000)), bytes.Repeat([]byte("ab"), MaxBody/2), bytes.Repeat([]byte("a"), MaxBody+1),
	} {
		d := delivery(fmt.Sprint(len(body)), 5)
		d.Body, d.Ignored = body, "webhook.event.unused"
		tried{t, in}.accept(d)
		got, found, err := in.Payload(t.Context(), d.Hook, d.ID)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		want := StoredDelivery{Delivery: d, LastMs: 5, Arrivals: 1, BodyBytes: got.BodyBytes}
		want.Digest = string(canon.Sum(body))
		if len(body) > MaxBody {
			want.Body = nil
		}
		if kept := got.BodyBytes > 0; kept != (len(want.Body) > 0) || !bytes.Equal(got.Body, want.Body) {
			t.Errorf("%d bytes: %d are kept", len(body), got.BodyBytes)
		}
		got.Body, want.Body = nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d bytes (-want +got):\n%s", len(body), diff)
		}
	}
	for _, packed := range [][]byte{{2}, {deflatedForm}, {deflatedForm, 0xff}, bomb(t)} {
		if body, err := unpack(packed); err == nil {
			t.Errorf("%.10x was read as %d bytes", packed, len(body))
		}
	}
	d := delivery("given", 5)
	d.Body, d.Digest = nil, "sha256:given"
	tried{t, in}.accept(d)
	if got, _, err := in.Payload(t.Context(), d.Hook, d.ID); err != nil || got.Digest != d.Digest {
		t.Errorf("%+v %v", got, err)
	}
	if _, found, err := in.Payload(t.Context(), "local", "absent"); found || err != nil {
		t.Errorf("%v %v", found, err)
	}
}

// bomb is a stored body that would become more than may be kept.
func bomb(t *testing.T) []byte {
	var out bytes.Buffer
	out.WriteByte(deflatedForm)
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 2*MaxBody)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAccept_Evidence(t *testing.T) {
	e := tried{t, sample(t)}
	approval := func(task, at int64, digest string) Evidence {
		return Evidence{World: worldA, Task: task, Kind: "label", Ref: "writ", ActorID: "17", Digest: digest, EventMs: at}
	}
	with := func(id string, all ...Evidence) Delivery {
		d := delivery(id, 9000)
		d.Evidence = all
		return d
	}
	late, early, other := approval(1, 500, "sha256:b"), approval(1, 400, "sha256:a"), approval(2, 1, "sha256:c")
	e.accept(with("d1", late), a(1))
	e.accept(with("d2", early, other), a(1), a(2))
	e.accept(with("d3", late))                              // the same, in another delivery
	e.accept(with("d1", approval(1, 600, "sha256:forged"))) // a duplicate says nothing new
	got, err := e.in.Evidence(t.Context(), worldA, 1)
	want := []StoredEvidence{{early, "local", "d2"}, {late, "local", "d1"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := e.in.Evidence(t.Context(), worldB, 1); len(got) != 0 || err != nil {
		t.Errorf("%v %v", got, err)
	}
}

// A view that lasts, such as the verification of a ledger, keeps no delivery
// waiting.
func TestW10_AReaderKeepsNobodyWaiting(t *testing.T) {
	in, db := openAt(t, filepath.Join(t.TempDir(), store.FileName))
	e := tried{t, in}
	e.mark(1, a(1))
	err := db.View(t.Context(), func(q store.Queries) error {
		return q.Rows(`SELECT task FROM schedule`, nil, func(store.Row) error {
			e.accept(delivery("1", 5), a(2))
			e.due(10, 10, a(1), a(2))
			return nil
		})
	})
	e.must(err)
}

func TestPrune(t *testing.T) {
	ctx := context.Background()
	in, db := openAt(t, filepath.Join(t.TempDir(), store.FileName))
	e := tried{t, in}
	const third = 70
	const all = 3*third + 1 // more than one step
	for i := range int64(all) {
		d, k := delivery(fmt.Sprint(i), i), a(i+1)
		switch i % 3 {
		case 0:
			d.Body = nil
		case 1:
			d.Evidence = []Evidence{{World: k.World, Task: k.Task, Kind: "label", EventMs: i}}
		}
		e.accept(d)
	}
	e.mark(1<<40, a(2)) // two tasks are open: one waits, one is taken
	e.mark(1, a(5))
	e.take(a(5))
	got, err := in.Prune(ctx, Keep{})
	if want := (Pruned{}); err != nil || got != want {
		t.Errorf("without limits %+v went (%v)", got, err)
	}
	got, err = in.Prune(ctx, Keep{SinceMs: 90})
	if want := (Pruned{Deliveries: 90 - 2}); err != nil || got != want {
		t.Errorf("%+v went (%v), want %+v", got, err, want)
	}
	wantRows(t, db, "deliveries", all-88)
	wantRows(t, db, "evidence", third-30+2)
	wantRows(t, db, "payloads", 2*third-60+2)
	d, found, err := in.Payload(ctx, "local", "1")
	if err != nil || !found || len(d.Body) == 0 {
		t.Errorf("the evidence of an open task went: %+v %v", d, err)
	}

	stats, err := in.Stats(ctx, 1)
	e.must(err)
	limit := stats.BodyBytes / 2
	if got, err = in.Prune(ctx, Keep{BodyBytes: limit}); err != nil || got.Deliveries != 0 || got.Bodies == 0 {
		t.Errorf("%+v went (%v)", got, err)
	}
	if stats, err = in.Stats(ctx, 1); err != nil || stats.BodyBytes > limit || stats.BodyBytes < limit*8/10 {
		t.Errorf("bodies take %d (%v), may take %d", stats.BodyBytes, err, limit)
	}
	wantRows(t, db, "payloads", 2*third-60+2-got.Bodies)
	if d, _, err := in.Payload(ctx, "local", "4"); err != nil || len(d.Body) == 0 {
		t.Errorf("the body of a taken task went: %+v %v", d, err)
	}
	if d, _, err := in.Payload(ctx, "local", fmt.Sprint(all-2)); err != nil || len(d.Body) == 0 {
		t.Errorf("the newest body went: %+v %v", d, err)
	}
	if e.accept(delivery("2", 900)) {
		t.Error("what was pruned is remembered")
	}
}
