package server

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/webhook"
	"github.com/writbot/writ/webhook/inbox"
)

// accepting takes every delivery.
type accepting struct{}

func (accepting) Accept(context.Context, webhook.Delivery) (bool, error) { return false, nil }

// TestF6_AccessHintMakesTasksDue: when a forge tells that what writ may do has
// changed, the tasks that wait are due at once, and those of other worlds not.
func TestF6_AccessHintMakesTasksDue(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	now := time.Now().UnixMilli()
	mine, others := inbox.Key{World: "local/o/n", Task: 3}, inbox.Key{World: "local/o/m", Task: 3}
	must(t, s.inbox.Mark(t.Context(), []inbox.Key{mine, others}, now+time.Hour.Milliseconds()))
	in := following{accepting{}, s.stored}
	due := func() (keys []inbox.Key) {
		list, err := s.inbox.Due(t.Context(), time.Now().UnixMilli(), 10)
		must(t, err)
		for _, d := range list {
			keys = append(keys, d.Key)
		}
		return keys
	}
	if _, err := in.Accept(t.Context(), webhook.Delivery{Hook: "local"}); err != nil || len(s.hints["local"].take()) > 0 {
		t.Errorf("a delivery about something else is a hint, %v", err)
	}
	_, err := in.Accept(t.Context(), webhook.Delivery{Hook: "local", Event: webhook.Event{Access: &webhook.Access{Installation: 7, Worlds: []string{"local/o/n"}}}})
	must(t, err)
	s.recheck(t.Context(), s.hints["local"].take())
	if got := due(); !slices.Equal(got, []inbox.Key{mine}) {
		t.Errorf("due are %v", got)
	}
}

// TestServe_OwnAuthority: git reaches a server whose certificate only the
// operator's own authority vouches for.
func TestServe_OwnAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	for ca, works := range map[string]bool{file: true, "": false} {
		o, err := wire.GitOptions(ca, "none")
		must(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		must(t, err)
		res, err := o.HTTPClient.Do(req)
		if (err == nil) != works {
			t.Errorf("with %q: %v", ca, err)
		}
		if err == nil {
			must(t, res.Body.Close())
		}
		o.HTTPClient.CloseIdleConnections()
	}
	must(t, os.WriteFile(file, []byte("none"), 0o600))
	if _, err := wire.GitOptions(file, ""); err == nil {
		t.Error("a file without a certificate is taken")
	}
}

// TestServe_HooksOfTheForges: each forge has its hook, and none where writ polls.
func TestServe_HooksOfTheForges(t *testing.T) {
	p := newServerPlace(t)
	for more, want := range map[string]int{"": 1, ", intake: poll": 0} {
		p.More = more
		proc := wire.NewProcess(io.Discard, append(os.Environ(), p.Env...))
		cfg, err := config.Load(p.Config())
		must(t, err)
		s, err := newServer(t.Context(), proc, cfg)
		must(t, err)
		s.close()
		if len(s.hooks) != want {
			t.Errorf("%q: %d hooks", more, len(s.hooks))
		}
	}
}
