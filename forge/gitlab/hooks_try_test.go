package gitlab

import (
	"net/http"
	"testing"

	"github.com/writbot/writ/forge"
)

// TestTryHook: a sample goes out when it is asked for, and what became of it is
// the newest delivery.
func TestTryHook(t *testing.T) {
	w, to := newWorld(t), newReceiver(t)
	admin := w.owner.host
	hook := must[Hook](t)(admin.EnsureHook(t.Context(), w.repo, HookSpec{URL: to.URL, Secret: "s3cret"}))
	if last := must[HookDelivery](t)(admin.LastDelivery(t.Context(), w.repo, hook.ID)); last != (HookDelivery{}) {
		t.Errorf("before any: %+v", last)
	}
	if err := w.bot.host.TryHook(t.Context(), w.repo, hook.ID); !forge.IsReason(err, forge.Forbidden) {
		t.Errorf("a Developer's token: %v", err)
	}
	var last HookDelivery
	for status, shown := range map[int]string{http.StatusOK: "200", http.StatusTeapot: "418"} {
		to.answer(status)
		if err := admin.TryHook(t.Context(), w.repo, hook.ID); err != nil {
			t.Fatal(err)
		}
		w.Settle()
		next := must[HookDelivery](t)(admin.LastDelivery(t.Context(), w.repo, hook.ID))
		if next.ID == last.ID || next.Trigger != "push_hooks" || next.Status != shown {
			t.Errorf("%d: %+v", status, next)
		}
		last = next
	}
}
