package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
)

// Options say how the demo is shown.
type Options struct {
	Writ string    // path of writ's own program
	Out  io.Writer // what happens, for a person
	Keep bool      // leave server and page running until ctx ends
	// Agent does the work of one issue instead of the builders of the four; nil for these.
	Agent *Agent
	// Report gets the compliance report of the agent's issue; nil: nobody does.
	Report io.Writer
}

// patience is how long the four issues may take together, on a slow machine.
const patience = 3 * time.Minute

// Run shows the demo. An error says which of the four did not end as it should. Where ctx
// ends before they have, nothing is left.
func Run(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "writ-demo-")
	if err != nil {
		return err
	}
	s := &show{o: o, dir: dir, began: time.Now()}
	err = errors.Join(s.run(ctx), s.close())
	switch {
	case ctx.Err() != nil && !s.kept:
		return errors.Join(ctx.Err(), os.RemoveAll(dir))
	case err != nil:
		return fmt.Errorf("%w (what is left is in %s)", err, dir)
	case !o.Keep:
		return os.RemoveAll(dir)
	}
	return nil
}

// run shows it, from the forge's start to the last word.
func (s *show) run(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	play := s.play
	if s.o.Agent != nil {
		play = s.playAgent
	}
	if err := play(limited); err != nil || !s.o.Keep {
		return err
	}
	return s.keep(ctx)
}

// keep leaves server and page running until ctx ends, and the directory after that.
func (s *show) keep(ctx context.Context) error {
	s.kept = true
	s.say("The page is at %s/-/login until you press Ctrl-C; maintainer's token is %s", s.url, s.maintainerToken)
	select {
	case <-ctx.Done():
		s.say("Forge, ledger and log are left in %s; remove it when you have seen enough", s.dir)
		return nil
	case err := <-s.writ.ended:
		s.writ = nil
		return fmt.Errorf("writ ended: %w", err)
	}
}

// show is a demo that is being shown.
type show struct {
	o     Options
	dir   string
	began time.Time
	kept  bool // the four have ended, and what is there is for somebody to look at

	forge  *local.Store
	server *http.Server
	url    string // of the forge
	repo   forge.Repo
	writ   *process
	stub   *provider // of the agent's model

	token, maintainerToken, secret string
	reporter, maintainer           *local.Client
	numbers                        []int64 // of the issues
	seen                           map[int64]string
}

// open makes forge and sample, and everything that writ needs to be started.
func (s *show) open(ctx context.Context) error {
	l, err := listen(ctx)
	if err != nil {
		return err
	}
	s.url = "http://" + l.Addr().String()
	hook, err := freeAddress(ctx)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s.secret = rand.Text()
	s.forge, err = local.Open(ctx, local.Options{
		Dir: filepath.Join(s.dir, "forge"), URL: s.url, Retry: local.Retry{Min: 100 * time.Millisecond, Max: time.Second},
		Hooks: []local.Hook{{URL: "http://" + hook + "/hooks/local", Secret: []byte(s.secret)}},
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	handler, err := s.forge.Handler()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(l) }() // ends with Close
	if err := s.people(ctx); err != nil {
		return err
	}
	builders, err := s.builders()
	if o := s.o.Agent; err == nil && o != nil {
		builders, err = s.agent(*o)
	}
	if err != nil {
		return err
	}
	return s.configure(hook, builders)
}

// people makes the accounts and the repository.
func (s *show) people(ctx context.Context) error {
	made := map[string]forge.User{}
	for _, who := range []struct {
		login string
		kind  forge.Kind
	}{{"reporter", forge.Person}, {"maintainer", forge.Person}, {"writ-bot", forge.Bot}} {
		u, err := s.forge.CreateUser(ctx, who.login, who.kind)
		if err != nil {
			return err
		}
		made[who.login] = u
	}
	files, err := Sample()
	if err != nil {
		return err
	}
	r, err := s.forge.CreateRepo(ctx, local.RepoSpec{Owner: owner, Name: name, Files: files, Author: made["maintainer"]})
	if err != nil {
		return err
	}
	s.repo = r.Repo
	for login, p := range map[string]forge.Permission{"reporter": forge.Read, "maintainer": forge.Maintain, "writ-bot": forge.Write} {
		if err := s.forge.Grant(ctx, r.ID, made[login].ID, p); err != nil {
			return err
		}
	}
	if s.token, err = s.forge.NewToken(ctx, made["writ-bot"].ID); err != nil {
		return err
	}
	if s.maintainerToken, err = s.forge.NewToken(ctx, made["maintainer"].ID); err != nil {
		return err
	}
	s.reporter, s.maintainer = s.forge.As(made["reporter"]), s.forge.As(made["maintainer"])
	return s.maintainer.EnsureLabels(ctx, s.repo, []forge.Label{{Name: label, Color: "1f6feb", Description: "Approved for writ"}})
}

// freeAddress finds an address that nobody listens on now.
func freeAddress(ctx context.Context) (string, error) {
	l, err := listen(ctx)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// listen takes a free port of this machine.
func listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}

// builders are those of the four issues, as the operator's file has them.
func (s *show) builders() (text string, err error) {
	script := filepath.Join(s.dir, "builders", "builders.sh")
	if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil { //nolint:gosec // a sandbox reads it as another user
		return "", err
	}
	if err := os.WriteFile(script, builderScript, 0o644); err != nil { //nolint:gosec // a sandbox reads it as another user
		return "", err
	}
	for _, b := range []string{"rename", "stray", "slow"} {
		text += fmt.Sprintf("  %s: {argv: [sh, /builders/builders.sh, %[1]s], ro: ['%s/builders:/builders']}\n", b, s.dir)
	}
	return text, nil
}

// configure writes the operator's file.
func (s *show) configure(listen, builders string) error {
	text := fmt.Sprintf(`server:
  state_dir: %[1]s/state
  listen: %[2]s
  sweep: 2s
  drain: 10s
forges:
  local:
    dir: %[1]s/forge
    url: %[3]s
    repositories: [%[4]s/%[5]s]
builders:
%[6]s`, s.dir, listen, s.url, owner, name, builders)
	return os.WriteFile(s.config(), []byte(text), 0o600)
}

func (s *show) config() string { return filepath.Join(s.dir, "writ.yaml") }

// close ends everything that still runs.
func (s *show) close() error {
	var errs []error
	if s.writ != nil {
		errs = append(errs, s.writ.end())
	}
	if s.stub != nil {
		errs = append(errs, s.stub.server.Close())
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.forge != nil {
		errs = append(errs, s.forge.Close())
	}
	return errors.Join(errs...)
}

// say prints a line with the time since the beginning.
func (s *show) say(format string, args ...any) {
	fmt.Fprintf(s.o.Out, "%5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}
