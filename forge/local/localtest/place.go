// Package localtest has an embedded forge with a repository and people, served
// over HTTP on loopback, for tests of what works with one.
package localtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
)

// Secret signs the webhooks of every place.
const Secret = "a-secret-of-the-tests"

// Label approves an issue by the default contract.
const Label = "writ"

// Place is a forge with the repository o/n, and three accounts: maintainer,
// reporter, who may only read, and writ-bot.
type Place struct {
	Dir        string // the forge's
	URL        string
	Store      *local.Store
	Repo       forge.Repo
	Maintainer *local.Client
	Reporter   *local.Client
	Bot        forge.User
	Token      string // the bot's
	t          testing.TB

	mu      sync.Mutex
	through func(http.Handler) http.Handler
}

// New makes a place that tells the given URLs of everything.
func New(t testing.TB, hooks ...string) *Place {
	t.Helper()
	p := &Place{t: t, Dir: filepath.Join(t.TempDir(), "forge")}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	p.must(err)
	p.URL = "http://" + l.Addr().String()
	o := local.Options{Dir: p.Dir, URL: p.URL, Retry: local.Retry{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond}}
	for _, u := range hooks {
		o.Hooks = append(o.Hooks, local.Hook{URL: u, Secret: []byte(Secret)})
	}
	p.Store, err = local.Open(t.Context(), o)
	p.must(err)
	handler, err := p.Store.Handler()
	p.must(err)
	server := &http.Server{Handler: p.asked(handler), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		p.must(server.Close())
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		p.must(p.Store.Close())
	})
	p.people(t.Context())
	return p
}

// Through makes every further request to the forge, git's among them, go through
// f; nil ends that. See package gittest for some.
func (p *Place) Through(f func(http.Handler) http.Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.through = f
}

func (p *Place) asked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		through := p.through
		p.mu.Unlock()
		if through != nil {
			through(next).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (p *Place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *Place) people(ctx context.Context) {
	made := map[string]forge.User{}
	for login, kind := range map[string]forge.Kind{"maintainer": forge.Person, "reporter": forge.Person, "writ-bot": forge.Bot} {
		u, err := p.Store.CreateUser(ctx, login, kind)
		p.must(err)
		made[login] = u
	}
	r, err := p.Store.CreateRepo(ctx, local.RepoSpec{Owner: "o", Name: "n", Author: made["maintainer"], Files: map[string][]byte{"README": []byte("hi\n")}})
	p.must(err)
	p.Repo, p.Bot = r.Repo, made["writ-bot"]
	for login, may := range map[string]forge.Permission{"maintainer": forge.Maintain, "reporter": forge.Read, "writ-bot": forge.Write} {
		p.must(p.Store.Grant(ctx, r.ID, made[login].ID, may))
	}
	p.Token, err = p.Store.NewToken(ctx, p.Bot.ID)
	p.must(err)
	p.Maintainer, p.Reporter = p.Store.As(made["maintainer"]), p.Store.As(made["reporter"])
	p.must(p.Maintainer.EnsureLabels(ctx, p.Repo, []forge.Label{{Name: Label, Color: "ffffff"}}))
}

// Asks is the text of an issue that asks a builder for out.txt.
func Asks(builder string) string {
	return "Please do it.\n\n```writ\nallowed_files: [out.txt]\nexpected_outcome: out.txt says hello\nbuilder: " + builder + "\n```\n"
}

// File files an issue that asks a builder for out.txt.
func (p *Place) File(builder string) int64 {
	p.t.Helper()
	return p.FileText("Say hello", Asks(builder))
}

// FileText files an issue, as the reporter.
func (p *Place) FileText(title, body string) int64 {
	p.t.Helper()
	i, err := p.Reporter.FileIssue(p.t.Context(), p.Repo, title, body)
	p.must(err)
	return i.Number
}

// Says comments on an issue, as the maintainer.
func (p *Place) Says(n int64, body string) {
	p.t.Helper()
	_, err := p.Maintainer.AddComment(p.t.Context(), p.Repo, n, body)
	p.must(err)
}

// Approve sets the label, as the maintainer.
func (p *Place) Approve(n int64) {
	p.t.Helper()
	p.must(p.Maintainer.AddLabel(p.t.Context(), p.Repo, n, Label))
}

// Issue reads an issue as its page shows it.
func (p *Place) Issue(n int64) forge.Issue {
	p.t.Helper()
	i, err := p.Maintainer.Issue(p.t.Context(), p.Repo, n)
	p.must(err)
	return i
}

// BotComments are what writ's account wrote on an issue.
func (p *Place) BotComments(n int64) (bodies []string) {
	p.t.Helper()
	all, err := p.Maintainer.Comments(p.t.Context(), p.Repo, n)
	p.must(err)
	for _, c := range all {
		if c.Author.ID == p.Bot.ID {
			bodies = append(bodies, c.Body)
		}
	}
	return bodies
}

// Closings is how often an issue was closed.
func (p *Place) Closings(n int64) (count int) {
	p.t.Helper()
	events, err := p.Maintainer.History(p.t.Context(), p.Repo, n)
	p.must(err)
	for _, e := range events {
		if e.Kind == forge.EventClosed {
			count++
		}
	}
	return count
}

// FreeAddress is one that nobody listens on and that nobody else gets before the
// test ends, though its server is stopped for a while: the port lies below those
// that Linux gives to connections and to listeners on port 0 (32768 and above),
// and a listener on a second loopback address reserves it.
func FreeAddress(t testing.TB) string {
	t.Helper()
	var listen net.ListenConfig
	for range 100 {
		port := strconv.Itoa(10_000 + rand.IntN(32_768-10_000)) //nolint:gosec // no secret
		reserved, err := listen.Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.2", port))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = reserved.Close() })
		if address := net.JoinHostPort("127.0.0.1", port); isFree(t, address) {
			return address
		}
	}
	t.Fatal("a hundred ports in vain")
	return ""
}

// AwaitAddress waits for a while until nobody listens on an address: a program that began
// just before a server of this process ended has the server's listener, too, until it has
// become another program.
func AwaitAddress(t testing.TB, address string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(2 * time.Second); !isFree(t, address); {
		select {
		case <-tick.C:
		case <-over:
			return // the server says who has it
		}
	}
}

// isFree listens for a moment, in which no program begins that would have the listener.
func isFree(t testing.TB, address string) bool {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	return err == nil && l.Close() == nil
}

// Until looks again and again until a condition holds, for a while.
func Until(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	over := time.After(limit)
	for !holds() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("in vain for %s: %s", limit, what)
		}
	}
}
