package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
)

// TestServe_LivesWhileItOpens: a server that still opens, here since its forge leaves it
// waiting, lives and isn't ready. It takes nothing before it can keep it.
func TestServe_LivesWhileItOpens(t *testing.T) {
	p := newServerPlace(t)
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // takes connections, and is silent
	must(t, err)
	defer func() { _ = silent.Close() }()
	p.URL = "http://" + silent.Addr().String()
	proc := wire.NewProcess(io.Discard, append(os.Environ(), p.Env...))
	cfg, err := proc.Load(p.Config())
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	opened := make(chan error, 1)
	go func() {
		s, err := newServer(ctx, proc, cfg)
		if err == nil {
			s.close()
		}
		opened <- err
	}()
	p.Until("it lives", func() bool { return p.Asked("/healthz") == http.StatusOK })
	if got := p.Asked("/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d", got)
	}
	res, err := http.Post("http://"+p.Hook+"/hooks/local", "application/json", strings.NewReader("{}"))
	must(t, err)
	must(t, res.Body.Close())
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a delivery: %d", res.StatusCode)
	}
	cancel()
	if err := <-opened; err != nil {
		t.Log(err) // a start that is given up may end either way
	}
	if got := p.Asked("/healthz"); got != 0 {
		t.Errorf("the address is still taken: %d", got)
	}
}

// TestServe_EndedWhileItStarts: a signal during a start is an orderly end.
func TestServe_EndedWhileItStarts(t *testing.T) {
	p := newServerPlace(t)
	var said strings.Builder
	proc := wire.NewProcess(&said, append(os.Environ(), p.Env...))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Serve(ctx, proc, p.Config(), nil)
	if exit := status(&said, err); err == nil || exit != problem.ExitDone || !strings.Contains(said.String(), "ended during the start") || strings.Contains(said.String(), "task.interrupted") {
		t.Errorf("%v, status %d\n%s", err, exit, said.String())
	}
}

// TestServe_SaysWhatBudgetsDontHold: the log of a start says which builder nobody meters.
func TestServe_SaysWhatBudgetsDontHold(t *testing.T) {
	p := newServerPlace(t)
	p.Builders = "  unmetered: {argv: ['true'], egress: [{host: models.example.org, credential: {secret: MODELS_KEY}}]}\nbudgets: {day: {tokens: 5}}\n"
	p.Env = append(p.Env, "MODELS_KEY=not-a-real-key-0123456789")
	s := p.Serve()
	p.UntilReady()
	if exit := s.End(); exit != problem.ExitDone || !strings.Contains(s.Log.String(), "builders.unmetered has a credential without an api, so that nobody meters what it uses") {
		t.Errorf("serve ended with %d\n%s", exit, s.Log.String())
	}
}

// TestServe_StartsBesideWhatIsNoFile: named pipes in the places of what is only a help are
// waited for by nobody, and what a killed process left half written is removed.
func TestServe_StartsBesideWhatIsNoFile(t *testing.T) {
	p := newServerPlace(t)
	s := p.Serve()
	p.UntilReady()
	if exit := s.End(); exit != problem.ExitDone {
		t.Fatalf("serve ended with %d", exit)
	}
	folded := installation.SavedFile(p.State(), p.World())
	for _, name := range []string{folded, filepath.Join(p.State(), installation.ObservedFile)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		must(t, unix.Mkfifo(name, 0o600))
	}
	var left []string
	for _, pattern := range installation.Leftovers {
		left = append(left, filepath.Join(p.State(), strings.Replace(pattern, "*", "1234", 1)))
		must(t, os.WriteFile(left[len(left)-1], []byte("half"), 0o600))
	}
	s = p.Serve()
	p.UntilReady()
	for _, name := range left {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stays: %v", name, err)
		}
	}
	if exit := s.End(); exit != problem.ExitDone {
		t.Errorf("serve ended with %d", exit)
	}
}
