package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/webhook/inbox"
)

// altered is a payload with other words in its repository.
func (s *site) altered(body []byte, words map[string]any) []byte {
	s.t.Helper()
	var p map[string]any
	s.must(json.Unmarshal(body, &p))
	repository, ok := p["repository"].(map[string]any)
	if !ok {
		s.t.Fatalf("no payload: %s", body)
	}
	for k, v := range words {
		repository[k] = v
	}
	out, err := json.Marshal(p)
	s.must(err)
	return out
}

// kept reads a delivery from the store of an installation that has ended.
func (s *site) kept(id string) (d inbox.StoredDelivery, found bool) {
	s.t.Helper()
	db, err := store.Open(s.t.Context(), filepath.Join(s.statePath(), store.FileName), store.Options{})
	s.must(err)
	d, found, err = inbox.New(db).Payload(s.t.Context(), "local", id)
	s.must(err)
	s.must(db.Close())
	return d, found
}

// connections counts who connects to a listener of its own.
func connections(t *testing.T) (address string, count func() int64) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			_ = c.Close() // nothing is said
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-over })
	return l.Addr().String(), n.Load
}

// TestW11_LateAndOutOfOrder: what happened to an issue is told late and in the
// wrong order. What the issue is now decides.
func TestW11_LateAndOutOfOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	taken, closed, late := s.File("default"), s.File("default"), s.File("default")
	for _, n := range []int64{taken, closed} {
		s.Approve(n)
	}
	s.must(s.Maintainer.RemoveLabel(t.Context(), s.Repo, taken, localtest.Label))
	s.must(s.Maintainer.SetState(t.Context(), s.Repo, closed, forge.Closed))
	s.must(s.Store.ForgetHook(t.Context(), s.hookURL())) // what arrives is ours to say
	v := s.serve()
	s.listens()
	for _, n := range []int64{taken, closed} {
		action := map[int64]string{taken: "unlabeled", closed: "closed"}[n]
		s.looksAgain(1, func() {
			for _, a := range []string{action, "labeled", "opened"} {
				if r := s.post("issues", s.told(n, "issues", a)); r.status != http.StatusAccepted {
					t.Errorf("%+v", r)
				}
			}
		})
		s.wantNothing(n)
	}
	s.Approve(late)
	s.until("what was told late is done", func() bool { return s.done(late) })
	v.end()
	if s.head(taken) != "" || s.head(closed) != "" || s.started() != 1 {
		t.Errorf("%q %q, %d builders", s.head(taken), s.head(closed), s.started())
	}
}

// TestW3_NoSecret: without a secret nothing is served.
func TestW3_NoSecret(t *testing.T) {
	s := newSite(t)
	for _, secret := range []string{"", "  "} {
		a := writ(t, append(s.env, "WRIT_LOCAL_HOOK_SECRET="+secret), "serve", "--config", s.config())
		if a.exit == 0 || !strings.Contains(a.stderr, "config.secret.empty") {
			t.Errorf("with the secret %q it ended with %d: %s", secret, a.exit, a.stderr)
		}
	}
}

// TestW10_EverythingElseHangs: while git gives no answer and tasks hang in it, a
// delivery is stored and answered. While another process holds the store, nothing
// can be: the sender is told so, and comes again. Nothing is lost.
func TestW10_EverythingElseHangs(t *testing.T) {
	s := newSite(t)
	n, other := s.File("default"), s.File("default")
	v := s.serve()
	s.listens()

	release := s.holdsStore()
	s.Approve(n) // the forge's own delivery is refused as well
	if r := s.post("issues", s.told(n, "issues", "labeled")); r.status != http.StatusServiceUnavailable || r.Code != "webhook.store.unavailable" {
		t.Errorf("while the store is held: %+v", r)
	}
	release()

	hangs, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.Through(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			once.Do(func() { close(hangs) })
			select {
			case <-proceed:
			case <-r.Context().Done():
			}
			next.ServeHTTP(w, r)
		})
	})
	s.Approve(other)
	select {
	case <-hangs:
	case <-time.After(patience):
		t.Fatal("nobody asks git")
	}
	for _, k := range []int64{n, other} {
		if r := s.post("issues", s.told(k, "issues", "labeled")); r.status != http.StatusAccepted || r.Outcome != "accepted" {
			t.Errorf("while git hangs: %+v", r)
		}
	}
	if r := s.post("stars", s.told(n, "issues", "labeled")); r.status != http.StatusOK || r.Outcome != "ignored" {
		t.Errorf("an event that is ignored: %+v", r)
	}
	close(proceed)
	s.until("both are done", func() bool { return s.done(n) && s.done(other) })
	v.end()
	s.wantDone(n)
	s.wantDone(other)
}

// holdsStore has this process hold the installation's store, until it is released.
func (s *site) holdsStore() (release func()) {
	s.t.Helper()
	db, err := store.Open(s.t.Context(), filepath.Join(s.statePath(), store.FileName), store.Options{})
	s.must(err)
	has, let, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		over <- db.Write(context.Background(), func(store.Tx) error {
			close(has)
			<-let
			return nil
		})
	}()
	<-has
	return func() {
		close(let)
		s.must(errors.Join(<-over, db.Close()))
	}
}

// TestServe_Intake holds what a receiver is told against what a server then does:
// the event is a hint, and what is read afresh decides.
func TestServe_Intake(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := s.File("default")
	s.Approve(n)
	v := s.serve()
	s.until("the task is done", func() bool { return s.done(n) })
	labeled := s.told(n, "issues", "labeled")
	signed := local.Sign([]byte(localtest.Secret), labeled)
	head := s.ref(n)
	var replayed reply

	t.Run("W1_W2_W4_NotSigned", func(t *testing.T) {
		for code, words := range map[string]map[string]string{
			"webhook.sig.missing":  {},
			"webhook.sig.algo":     {local.HeaderSignature: "sha1=" + strings.TrimPrefix(signed, "sha256=")},
			"webhook.sig.mismatch": {local.HeaderSignature: local.Sign([]byte("another"), labeled)},
		} {
			if r := s.send("issues", labeled, words); r.status != http.StatusUnauthorized || r.Code != code {
				t.Errorf("%d %s, want %s", r.status, r.Code, code)
			}
		}
	})
	t.Run("W7_ReplayedAfterItsEnd", func(t *testing.T) {
		s.looksAgain(1, func() {
			if replayed = s.post("issues", labeled); replayed.status != http.StatusAccepted || replayed.Outcome != "accepted" {
				t.Errorf("%+v", replayed)
			}
		})
		if r := s.post("issue_comment", labeled); r.status != http.StatusOK || r.Code != "webhook.event.mismatch" {
			t.Errorf("under another event: %+v", r)
		}
		if s.ref(n) != head || s.started() != 1 {
			t.Errorf("HEAD moved: %v, %d builders", s.ref(n) != head, s.started())
		}
		s.wantDone(n)
	})
	t.Run("I13_AnotherRepository", func(t *testing.T) {
		address, count := connections(t)
		elsewhere := map[string]any{
			"owner": "evil", "name": "n", "url": "http://" + address + "/evil/n", "clone_url": "http://" + address + "/evil/n.git",
			"html_url": "http://" + address, "ssh_url": "ssh://" + address + "/evil/n.git", "default_branch": "evil",
		}
		s.looksAgain(1, func() { // the number is ours, all words are somebody else's
			if r := s.post("issues", s.altered(labeled, elsewhere)); r.status != http.StatusAccepted {
				t.Errorf("%+v", r)
			}
		})
		elsewhere["id"] = 4711
		if r := s.post("issues", s.altered(labeled, elsewhere)); r.status != http.StatusOK || r.Code != "target.not_allowed" {
			t.Errorf("a repository that isn't served: %+v", r)
		}
		if c := count(); c != 0 || s.ref(n) != head {
			t.Errorf("%d connections to where a payload pointed, HEAD moved: %v", c, s.ref(n) != head)
		}
	})
	v.end()
	if d, found := s.kept(replayed.Delivery); !found || d.Event != "issues" {
		t.Errorf("the replayed delivery isn't recorded: %+v", d)
	}
}
