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
	if len(to.bodies) != 3 || string(to.bodies[0]) != string(to.bodies[2]) || to.got[0].Header.Get("Idempotency-Key") != to.got[2].Header.Get("Idempotency-Key") {
		t.Errorf("%d arrived", len(to.bodies))
	}
}

// TestW9_SigningLeftOut: a GitLab that can't sign says nothing of it; whoever sets
// the hook up is told.
func TestW9_SigningLeftOut(t *testing.T) {
	w := newWorld(t, func(o *gitlabtest.Options) { o.NoSigning = true })
	spec := HookSpec{URL: "https://writ.example/hooks/gitlab", Secret: "s3cret", Signing: gitlabtest.SigningToken("k")}
	if _, err := w.owner.host.EnsureHook(t.Context(), w.repo, spec); !forge.IsReason(err, forge.Conflict) {
		t.Errorf("a signature that won't come: %v", err)
	}
	spec.Signing = ""
	if got := must[Hook](t)(w.owner.host.EnsureHook(t.Context(), w.repo, spec)); got.Signed || !got.Secret {
		t.Errorf("with a secret token: %+v", got)
	}
	if all := must[[]Hook](t)(w.owner.host.Hooks(t.Context(), w.repo)); len(all) != 1 {
		t.Errorf("hooks: %+v", all)
	}
}

// TestW9_SignedForm: the signature that arrives is of the bytes that arrive.
func TestW9_SignedForm(t *testing.T) {
	w, to := newWorld(t), newReceiver(t)
	key := gitlabtest.SigningToken("k")
	must[Hook](t)(w.owner.host.EnsureHook(t.Context(), w.repo, HookSpec{URL: to.URL, Signing: key}))
	w.file(t)
	w.Settle()
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.got) != 1 {
		t.Fatalf("%d arrived", len(to.got))
	}
	head := to.got[0].Header
	if got := head.Get("Webhook-Signature"); got != gitlabtest.Sign(key, head.Get("Webhook-Id"), head.Get("Webhook-Timestamp"), to.bodies[0]) || head.Get("X-Gitlab-Token") != "" {
		t.Errorf("signed %q", got)
	}
}
