package webhook_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/webhook"
	"github.com/writbot/writ/webhook/inbox"
)

func openStore(t testing.TB, path string) *store.DB {
	t.Helper()
	db, err := store.Open(context.Background(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func closeStore(t testing.TB, db *store.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestW6_SameDelivery: fifty at once and one after a restart are one delivery,
// each is taken, and the task is due each time.
func TestW6_SameDelivery(t *testing.T) {
	path := filepath.Join(t.TempDir(), store.FileName)
	db := openStore(t, path)
	box := inbox.New(db)
	r := start(t, func(c *webhook.Config) { c.Inbox = webhook.StoreInbox(box) })
	body := encode(t, labeled())
	id := uuid.NewString()
	same := func(req *http.Request) { req.Header.Set(webhook.HeaderDelivery, id) }
	var all sync.WaitGroup
	replies := make(chan reply, 50)
	for range cap(replies) {
		req := r.delivery(body, same)
		all.Go(func() {
			got, err := r.send(req)
			if err != nil {
				got.Error = err.Error()
			}
			replies <- got
		})
	}
	all.Wait()
	close(replies)
	outcomes := map[string]int{}
	for got := range replies {
		outcomes[got.Outcome+" "+got.Error]++
	}
	if diff := cmp.Diff(map[string]int{"accepted ": 1, "duplicate ": 49}, outcomes); diff != "" {
		t.Error(diff)
	}
	ticket, due, err := box.Take(t.Context(), inbox.Key{World: world, Task: 3})
	if err != nil || !due {
		t.Fatalf("the task isn't due: %v", err)
	}
	if err := box.Done(t.Context(), ticket, 0); err != nil {
		t.Fatal(err)
	}
	closeStore(t, db)

	db = openStore(t, path)
	defer closeStore(t, db)
	box = inbox.New(db)
	r = start(t, func(c *webhook.Config) { c.Inbox = webhook.StoreInbox(box) })
	if got := r.post(body, same); got.status != http.StatusAccepted || got.Outcome != "duplicate" {
		t.Errorf("after a restart: %d %s", got.status, got.text)
	}
	if all, err := box.Scheduled(t.Context(), world); err != nil || len(all) != 1 {
		t.Errorf("the task isn't due again: %v %v", all, err)
	}
	d, found, err := box.Payload(t.Context(), "local", id)
	if err != nil || !found || d.Arrivals != 51 || string(d.Body) != string(body) {
		t.Errorf("%+v %v %v", d, found, err)
	}
}

// TestStoreInbox: nothing of a delivery is lost on its way into the store.
func TestStoreInbox(t *testing.T) {
	db := openStore(t, filepath.Join(t.TempDir(), store.FileName))
	defer closeStore(t, db)
	box := inbox.New(db)
	at := time.UnixMilli(1_700_000_000_123)
	r := start(t, func(c *webhook.Config) { c.Inbox, c.Now = webhook.StoreInbox(box), func() time.Time { return at } })
	body := encode(t, labeled())
	approving := r.post(body, nil)
	edited := labeled()
	edited.Action = "edited"
	plain := r.post(encode(t, edited), nil)
	edited.Repository.ID = 77
	foreign := r.post(encode(t, edited), nil)

	want := map[string]inbox.Delivery{
		approving.Delivery: {
			Hook: "local", ID: approving.Delivery, Event: "issues", Action: "labeled", Signature: sign(secret, body),
			ReceivedMs: at.UnixMilli(), Body: body, Digest: string(canon.Sum(body)),
		},
		plain.Delivery:   {Hook: "local", ID: plain.Delivery, Event: "issues", Action: "edited", ReceivedMs: at.UnixMilli()},
		foreign.Delivery: {Hook: "local", ID: foreign.Delivery, Event: "issues", Action: "edited", ReceivedMs: at.UnixMilli(), Ignored: string(kernel.CodeTargetNotAllowed)},
	}
	for id, want := range want {
		got, found, err := box.Payload(t.Context(), "local", id)
		if want.Digest == "" {
			got.Digest = ""
		}
		if diff := cmp.Diff(want, got.Delivery); err != nil || !found || diff != "" {
			t.Errorf("%v %v %s", found, err, diff)
		}
	}
	digest, err := kernel.ApprovalDigest("Add fails", "canary-body-of-the-issue")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := box.Evidence(t.Context(), world, 3)
	wantKept := []inbox.StoredEvidence{{
		Evidence: inbox.Evidence{World: world, Task: 3, Kind: "label", Ref: "writ", ActorID: "2", Digest: string(digest), EventMs: 1_700_000_000_000},
		Hook:     "local", Delivery: approving.Delivery,
	}}
	if diff := cmp.Diff(wantKept, kept); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// TestW10_StoreClosed: a store that has failed is said to be unavailable.
func TestW10_StoreClosed(t *testing.T) {
	db := openStore(t, filepath.Join(t.TempDir(), store.FileName))
	r := start(t, func(c *webhook.Config) { c.Inbox = webhook.StoreInbox(inbox.New(db)) })
	closeStore(t, db)
	got := r.post(encode(t, labeled()), nil)
	if got.status != http.StatusServiceUnavailable || got.Code != string(kernel.CodeWebhookStore) {
		t.Errorf("%d %s", got.status, got.text)
	}
}

// TestStoreInbox_Unfit: what can't ever be stored isn't asked for again.
func TestStoreInbox_Unfit(t *testing.T) {
	db := openStore(t, filepath.Join(t.TempDir(), store.FileName))
	defer closeStore(t, db)
	long := strings.Repeat("w", 2<<10)
	hook, err := webhook.NewLocalHook(webhook.LocalConfig{
		Secrets: []string{secret}, World: func(int64) (string, bool) { return long, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, func(c *webhook.Config) { c.Hooks, c.Inbox = []webhook.Hook{hook}, webhook.StoreInbox(inbox.New(db)) })
	r.wantRefused(r.post(encode(t, labeled()), nil), http.StatusBadRequest, kernel.CodeDeliveryInvalid)
}
