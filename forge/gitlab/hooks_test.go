package gitlab

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// receiver takes webhooks, and answers with a status.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []*http.Request
	bodies [][]byte
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got, r.bodies = append(r.got, req), append(r.bodies, body)
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// TestHooks: set up once, found again, and what went wrong is shown and sent again.
func TestHooks(t *testing.T) {
	w, to := newWorld(t), newReceiver(t)
	spec := HookSpec{URL: to.URL, Secret: "s3cret", Signing: gitlabtest.SigningToken("k")}
	if _, err := w.bot.host.EnsureHook(t.Context(), w.repo, spec); !forge.IsReason(err, forge.Forbidden) {
		t.Errorf("a Developer's token: %v", err)
	}
	admin := w.owner.host
	first := must[Hook](t)(admin.EnsureHook(t.Context(), w.repo, spec))
	again := must[Hook](t)(admin.EnsureHook(t.Context(), w.repo, spec))
	all := must[[]Hook](t)(admin.Hooks(t.Context(), w.repo))
	if len(all) != 1 || first.ID != again.ID || all[0].URL != to.URL || !all[0].Secret || !all[0].Signed || !all[0].Verifies || all[0].State != "executable" {
		t.Errorf("hooks %+v, made %+v and %+v", all, first, again)
	}
	to.answer(http.StatusBadRequest)
	i := w.file(t)
	w.Settle()
	to.answer(http.StatusOK)
	ok(t, w.owner.AddLabel(t.Context(), w.repo, i.Number, "writ"))
	w.Settle()
	failed := must[[]HookDelivery](t)(admin.FailedDeliveries(t.Context(), w.repo, first.ID))
	if len(failed) != 1 || failed[0].Status != "400" || failed[0].Trigger != "issue_hooks" {
		t.Fatalf("failed: %+v", failed)
	}
	ok(t, admin.Redeliver(t.Context(), w.repo, first.ID, failed[0].ID))
	w.Settle()
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.bodies) != 3 || string(to.bodies[0]) != string(to.bodies[2]) {
		t.Errorf("%d arrived", len(to.bodies))
	}
}
