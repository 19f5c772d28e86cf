package git

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git/gittest"
)

// keygen makes a key file with OpenSSH's own program.
func keygen(t *testing.T, file string) ssh.PublicKey {
	t.Helper()
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen (apt-get install openssh-client): %v %s", err, out)
	}
	text, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const canary = "canary-7f3a91"

// listener is a server that notes what reaches it.
func listener(t *testing.T) (*httptest.Server, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprint(r.Method, r.URL, r.Header))
	}))
	t.Cleanup(srv.Close)
	return srv, func() []string { mu.Lock(); defer mu.Unlock(); return got }
}

func TestG3_RedirectToAnotherHost(t *testing.T) {
	for name, auth := range map[string]Auth{"basic": {Username: "u", Password: canary}, "bearer": {Token: canary}, "none": {}} {
		t.Run(name, func(t *testing.T) {
			s := onHTTP(t)
			other, got := listener(t)
			oid, pack := lease(t, ZeroOID, runID(1))
			r := openAt(t, Endpoint{URL: s.http.URL, Auth: auth}, Options{})

			s.http.Set(gittest.Redirect(other.URL))
			_, err := r.Refs(t.Context(), stateRef)
			wantCode(t, err, CodeRedirectRefused)
			out := r.CompareAndSwap(t.Context(), []Command{{stateRef, ZeroOID, oid}}, pack)
			wantStatus(t, out, Unable) // a server in maintenance does so, too
			wantCode(t, out.Err, CodeRedirectRefused)
			_, err = r.Tree(t.Context(), oid)
			wantCode(t, err, CodeRedirectRefused)
			if got := got(); len(got) != 0 {
				t.Errorf("the other host got %v", got)
			}
			if strings.Contains(fmt.Sprint(err, out), canary) {
				t.Error("the error holds the credential")
			}
			wantRef(t, s.dir, stateRef, ZeroOID)
		})
	}
}

func TestG3_RedirectWithinTheServer(t *testing.T) {
	s := onHTTP(t)
	moved := strings.Replace(s.http.URL, "/repo.git", "/old.git", 1)
	s.http.Set(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/old.git/") {
				http.Redirect(w, r, strings.Replace(r.URL.RequestURI(), "/old.git/", "/repo.git/", 1), http.StatusMovedPermanently)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	r := openAt(t, Endpoint{URL: moved}, Options{})
	if _, err := r.Refs(t.Context(), stateRef); err != nil {
		t.Fatal(err)
	}
	claim(t, r, stateRef, runID(1))
}

func TestG3_Downgrade(t *testing.T) {
	plain, got := listener(t)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+r.URL.RequestURI(), http.StatusFound)
	}))
	t.Cleanup(secure.Close)
	r := openAt(t, Endpoint{URL: secure.URL + "/o/n", Auth: Auth{Token: canary}}, Options{HTTPClient: secure.Client()})
	_, err := r.Refs(t.Context())
	wantCode(t, err, CodeRedirectRefused)
	if len(got()) != 0 {
		t.Errorf("went over plain HTTP: %v", got())
	}
	_, err = Open(t.Context(), Endpoint{URL: "http://example.com/o/n", Auth: Auth{Token: canary}}, Options{})
	wantCode(t, err, CodeAuthInvalid)
}

func TestAuthentication(t *testing.T) {
	s := onHTTP(t)
	s.http.Set(gittest.RequireBasic("u", canary))
	oid, pack := lease(t, ZeroOID, runID(1))
	cmd := []Command{{stateRef, ZeroOID, oid}}
	var log bytes.Buffer
	opts := Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, auth := range []Auth{{}, {Username: "u", Password: canary + "x"}, {Token: canary}} {
		r := openAt(t, Endpoint{URL: s.http.URL, Auth: auth}, opts)
		_, err := r.Refs(t.Context(), stateRef)
		wantCode(t, err, CodeUnauthorized)
		out := r.CompareAndSwap(t.Context(), cmd, pack)
		wantStatus(t, out, Unable) // nothing of ours is taken, and a credential is mended
		wantCode(t, out.Err, CodeUnauthorized)
	}
	r := openAt(t, Endpoint{URL: s.http.URL, Auth: Auth{Username: "u", Password: canary}}, opts)
	wantStatus(t, r.CompareAndSwap(t.Context(), cmd, pack), Won)
	if strings.Contains(log.String(), canary) {
		t.Error("the log holds the credential")
	}
}

func TestG6_HookDeclines(t *testing.T) {
	const words = "push protection: secret found in https://bot:" + canary + "@example.com\x1b[31m"
	for _, hook := range []string{"pre-receive", "update"} {
		t.Run(hook, func(t *testing.T) {
			everywhere(t, func(t *testing.T, s served) {
				r := s.open(t)
				old := claim(t, r, stateRef, runID(1))
				gittest.Hook(t, s.dir, hook, "cat >/dev/null; printf '%s\\n' '"+words+"' >&2; exit 1")
				next, pack := lease(t, old, runID(2))
				out := r.CompareAndSwap(t.Context(), []Command{{stateRef, old, next}}, pack)
				wantStatus(t, out, Refused)
				wantCode(t, out.Err, CodePushRefused)
				if !strings.Contains(out.Reason, "push protection") || !strings.Contains(out.Reason, "declined") {
					t.Errorf("%s: the server's words are lost: %q", hook, out.Reason)
				}
				if strings.Contains(out.Reason, canary) || strings.Contains(out.Reason, "\x1b") {
					t.Errorf("%s: not cleaned: %q", hook, out.Reason)
				}
				wantRef(t, s.dir, stateRef, old)

				// Two refs: atomic masks the reason of one, not the answer.
				o := NewObjects()
				next = addCommit(t, o, old, runID(3))
				out = r.CompareAndSwap(t.Context(), []Command{{stateRef, old, next}, {"refs/heads/writ/change/1", ZeroOID, next}}, o.Pack())
				wantStatus(t, out, Refused)
				wantRef(t, s.dir, "refs/heads/writ/change/1", ZeroOID)
			})
		})
	}
}

// TestG6_Rules: refusals by configuration, and by a hook that leaves git only
// general words.
func TestG6_Rules(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		const branch = "refs/heads/writ/task/1" // git applies these rules to branches only
		r := s.open(t)
		old := claim(t, r, branch, runID(1))
		other, pack := lease(t, ZeroOID, runID(2))
		forced := []Command{{branch, old, other}}
		for _, rule := range []string{"receive.denyNonFastForwards", "receive.denyDeletes"} {
			gittest.Git(t, s.dir, "config", rule, "true")
		}
		wantStatus(t, r.CompareAndSwap(t.Context(), forced, pack), Refused)
		wantStatus(t, r.CompareAndSwap(t.Context(), []Command{{branch, old, ZeroOID}}, Pack{}), Refused)
		wantRef(t, s.dir, branch, old)
	})
}

// TestG6_TransactionHook: git dies over it without a report. On this machine its
// words are at hand; over a network there is no answer, and none is invented.
func TestG6_TransactionHook(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		r := s.open(t)
		old := claim(t, r, stateRef, runID(1))
		gittest.Hook(t, s.dir, "reference-transaction", `test "$1" != prepared || exit 1`)
		o := NewObjects()
		next := addCommit(t, o, old, runID(2))
		want := Unknown
		if r.local != nil {
			want = Refused
		}
		one := Command{stateRef, old, next}
		wantStatus(t, r.CompareAndSwap(t.Context(), []Command{one}, o.Pack()), want)
		wantStatus(t, r.CompareAndSwap(t.Context(), []Command{one, {"refs/heads/x", ZeroOID, next}}, o.Pack()), want)
		wantRef(t, s.dir, stateRef, old)
	})
}

func TestG6_Status(t *testing.T) {
	s := onHTTP(t)
	r := s.open(t)
	old := claim(t, r, stateRef, runID(1))
	next, pack := lease(t, old, runID(2))
	for code, want := range map[int]Status{
		401: Unable, 403: Unable, 404: Unable, 408: Unable, 410: Unable, 413: Unable, 422: Refused, 429: Unable, 507: Unable, 500: Unknown, 502: Unknown, 503: Unknown, 504: Unknown,
	} {
		s.http.Set(gittest.OnPush(gittest.Status(code, "why not: "+canary)))
		auth := Auth{Token: canary}
		out := openAt(t, Endpoint{URL: s.http.URL, Auth: auth}, Options{}).CompareAndSwap(t.Context(), []Command{{stateRef, old, next}}, pack)
		wantStatus(t, out, want)
		if !strings.Contains(out.Reason, "why not") || strings.Contains(fmt.Sprint(out), canary) {
			t.Errorf("%d: reason %q", code, out.Reason)
		}
	}
	s.http.Set(nil)
	wantRef(t, s.dir, stateRef, old)
}

func TestNotSent(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	oid, pack := lease(t, ZeroOID, runID(1))
	out := openAt(t, Endpoint{URL: srv.URL + "/r"}, Options{}).CompareAndSwap(t.Context(), []Command{{stateRef, ZeroOID, oid}}, pack)
	wantStatus(t, out, Unable)
	wantCode(t, out.Err, CodeUnreachable)

	s := onFile(t)
	out = openAt(t, Endpoint{URL: s.dir}, Options{GitBinary: "/nonexistent/git"}).CompareAndSwap(t.Context(), []Command{{stateRef, ZeroOID, oid}}, pack)
	wantStatus(t, out, Unable)
	wantCode(t, out.Err, CodeLocal)

	_, err := Open(t.Context(), Endpoint{URL: "ssh://git@127.0.0.1:1/r", Auth: Auth{SSHKeys: []ssh.Signer{gittest.NewKey(t)},
		KnownHosts: []string{filepath.Join(t.TempDir(), "none")}}}, Options{})
	wantCode(t, err, CodeHostKey)
}

func TestL7_Timeout(t *testing.T) {
	t.Run("http", func(t *testing.T) {
		s := onHTTP(t)
		r := openAt(t, Endpoint{URL: s.http.URL}, Options{Timeout: 300 * time.Millisecond})
		proceed := make(chan struct{})
		t.Cleanup(func() { close(proceed) })
		s.http.Set(gittest.OnPush(gittest.Delay(proceed)))
		oid, pack := lease(t, ZeroOID, runID(1))
		wantStatus(t, r.CompareAndSwap(t.Context(), []Command{{stateRef, ZeroOID, oid}}, pack), Unknown)
	})
	for name, s := range map[string]served{"file": onFile(t), "ssh": onSSH(t, true)} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "started")
			if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
				t.Fatalf("mkfifo: %v %s", err, out)
			}
			gittest.Hook(t, s.dir, "pre-receive", "echo started >"+fifo+"; exec sleep 60 >/dev/null 2>&1")
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				_, _ = os.ReadFile(fifo) // until the hook runs
				cancel()
			}()
			oid, pack := lease(t, ZeroOID, runID(1))
			began := time.Now()
			wantStatus(t, s.open(t).CompareAndSwap(ctx, []Command{{stateRef, ZeroOID, oid}}, pack), Unknown)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestPostReceiveIsNotWaitedFor: the answer is there when the refs have moved,
// and the hook still runs to its end.
func TestPostReceiveIsNotWaitedFor(t *testing.T) {
	s := onFile(t)
	dir := t.TempDir()
	fifo, done := filepath.Join(dir, "go"), filepath.Join(dir, "done")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v %s", err, out)
	}
	gittest.Hook(t, s.dir, "post-receive", "cat "+fifo+" >"+done)
	r, err := Open(t.Context(), Endpoint{URL: s.dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	claim(t, r, stateRef, runID(1))
	wantRef(t, s.dir, stateRef, OID(gittest.RefOID(s.dir, stateRef)))
	if err := os.WriteFile(fifo, []byte("released"), 0); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(done); err != nil || string(text) != "released" {
		t.Errorf("the hook was cut off: %q, %v", text, err)
	}
}

func TestWordsOfGit(t *testing.T) {
	for words, want := range map[string]Status{
		"pre-receive hook declined": Refused, "hook declined": Refused, "push declined due to repository rule violations": Refused,
		"deletion prohibited": Refused, "non-fast-forward": Refused, "branch is currently checked out": Refused,
		"protected branch hook declined": Refused, "deny updating a hidden ref": Refused, "unpacker error": Unable,
		"cannot lock ref 'refs/a/b': 'refs/a' exists; cannot create 'refs/a/b'":                       Refused,
		"cannot lock ref 'refs/a': is at 1 but expected 2":                                            Lost,
		"cannot lock ref 'refs/a': Unable to create '/srv/protected/r.git/refs/a.lock': File exists.": Lost,
		"reference already exists": Lost, "stale info": Lost, "fetch first": Lost, "failed to lock": Lost, "LOCK_FAILURE": Lost,
		"failed to update ref": Unknown, "atomic transaction failed": Unknown, "atomic push failure": Unknown, "": Unknown,
	} {
		if got := read(words).status; got != want {
			t.Errorf("%q: %s, want %s", words, got, want)
		}
	}
}
