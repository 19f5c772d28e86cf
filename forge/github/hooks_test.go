package github_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
)

// TestPlace_TellsTheApp: what happens at a place is told to the App's webhook,
// signed, each time under a GUID of its own.
func TestPlace_TellsTheApp(t *testing.T) {
	const secret = "a-secret-of-the-tests"
	type delivery struct{ event, id, action string }
	got := make(chan delivery, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); err != nil || r.Header.Get("X-Hub-Signature-256") != want {
			t.Errorf("a delivery is signed with %q", r.Header.Get("X-Hub-Signature-256"))
		}
		var p struct{ Action string }
		if err := json.Unmarshal(body, &p); err != nil {
			t.Error(err)
		}
		got <- delivery{r.Header.Get("X-GitHub-Event"), r.Header.Get("X-GitHub-Delivery"), p.Action}
	}))
	t.Cleanup(hook.Close)
	p := githubtest.Start(t).Place(t, githubtest.Options{HookURL: hook.URL, HookSecret: secret})
	owner := p.As(t, p.Owner)
	i := must[forge.Issue](t)(owner.FileIssue(t.Context(), p.Repo, "One", "text"))
	ok(t, owner.AddLabel(t.Context(), p.Repo, i.Number, "writ"))
	must[forge.Comment](t)(owner.AddComment(t.Context(), p.Repo, i.Number, "/writ run"))
	want := map[delivery]bool{{"push", "", ""}: true, {"issues", "", "opened"}: true, {"issues", "", "labeled"}: true, {"issue_comment", "", "created"}: true}
	ids := map[string]bool{}
	for len(want) > 0 {
		select {
		case d := <-got:
			if _, err := uuid.Parse(d.id); err != nil || ids[d.id] {
				t.Errorf("delivery id %q: %v", d.id, err)
			}
			ids[d.id] = true
			d.id = ""
			delete(want, d)
		case <-time.After(time.Minute):
			t.Fatalf("these were not told: %v", want)
		}
	}
}

// TestW12_FailedDeliveries: what nobody took is listed, once each, and what was
// taken isn't.
func TestW12_FailedDeliveries(t *testing.T) {
	down := make(chan bool, 1)
	got := make(chan string, 1000)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		off := <-down
		down <- off
		if off {
			w.WriteHeader(http.StatusBadGateway)
		}
		got <- r.Header.Get("X-GitHub-Delivery")
	}))
	t.Cleanup(hook.Close)
	down <- false
	p := githubtest.Start(t).Place(t, githubtest.Options{HookURL: hook.URL, HookSecret: "a-secret-of-the-tests"})
	owner := p.As(t, p.Owner)
	i := must[forge.Issue](t)(owner.FileIssue(t.Context(), p.Repo, "One", "text"))
	<-got // the push of the first commit
	<-got // the issue
	<-down
	down <- true
	const many = 130
	want := map[string]bool{}
	for range many {
		must[forge.Comment](t)(owner.AddComment(t.Context(), p.Repo, i.Number, "lost"))
		want[<-got] = true
	}
	<-down
	down <- false
	must[forge.Comment](t)(owner.AddComment(t.Context(), p.Repo, i.Number, "taken"))
	<-got
	h := host(t, p.Config(), held(t))
	// The emulator notes an answer a moment after the receiver gave it.
	var failed []github.Delivery
	for range 200 {
		failed = must[[]github.Delivery](t)(h.FailedDeliveries(t.Context(), time.Now().Add(-time.Hour)))
		if len(failed) == many && failed[0].Status == http.StatusBadGateway {
			break
		}
	}
	if len(failed) != many {
		t.Fatalf("%d failed deliveries, want %d", len(failed), many)
	}
	for _, f := range failed {
		if !want[f.GUID] || f.Event != "issue_comment" || f.Action != "created" || f.Repository != p.Repo.ID {
			t.Fatalf("listed %+v", f)
		}
		delete(want, f.GUID)
	}
	if later := must[[]github.Delivery](t)(h.FailedDeliveries(t.Context(), time.Now().Add(time.Hour))); len(later) > 0 {
		t.Errorf("of the future: %+v", later)
	}
}
