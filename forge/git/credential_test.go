package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// TestF6_PasswordIsAskedEachTime: a password that ended is replaced in the middle
// of the work, and one that can't be had sends nothing.
func TestF6_PasswordIsAskedEachTime(t *testing.T) {
	s := onHTTP(t)
	var current, asked atomic.Int64
	password := func(n int64) string { return fmt.Sprintf("%s-%d", canary, n) }
	s.http.Set(func(next http.Handler) http.Handler {
		return gittest.RequireBasic("u", password(current.Load()))(next)
	})
	auth := Auth{Username: "u", Password: "never this", AskPassword: func(context.Context) (string, error) {
		asked.Add(1)
		return password(current.Load()), nil
	}}
	r := openAt(t, Endpoint{URL: s.http.URL, Auth: auth}, Options{})
	var last OID
	for n := range int64(3) {
		current.Store(n)
		if n == 0 {
			last = claim(t, r, stateRef, runID(1))
		}
		refs, err := r.Refs(t.Context(), stateRef)
		if err != nil || refs.OID(stateRef) != last {
			t.Fatalf("with password %d: %v", n, err)
		}
	}
	if asked.Load() < 4 {
		t.Errorf("asked %d times", asked.Load())
	}

	s.http.Requests()
	why := errors.New("the installation is suspended")
	r = openAt(t, Endpoint{URL: s.http.URL, Auth: Auth{AskPassword: func(context.Context) (string, error) { return "", why }}}, Options{})
	_, err := r.Refs(t.Context(), stateRef)
	wantCode(t, err, CodeUnreachable)
	oid, pack := lease(t, ZeroOID, runID(2))
	out := r.CompareAndSwap(t.Context(), []Command{{stateRef, last, oid}}, pack)
	if !errors.Is(err, why) || out.Status == Won || len(s.http.Requests()) > 0 {
		t.Errorf("without a password: %v, %v", err, out)
	}
	_, err = Open(t.Context(), Endpoint{URL: "http://example.com/o/n", Auth: Auth{AskPassword: auth.AskPassword}}, Options{})
	wantCode(t, err, CodeAuthInvalid) // in plain sight
}

// TestF3_AskedPasswordsAreTakenOut: neither the last password nor the one before
// is in what the server's words become.
func TestF3_AskedPasswordsAreTakenOut(t *testing.T) {
	s := onHTTP(t)
	n := 0
	auth := Auth{Username: "u", AskPassword: func(context.Context) (string, error) {
		n++
		return fmt.Sprintf("%s-%d", canary, n), nil
	}}
	var log bytes.Buffer
	r := openAt(t, Endpoint{URL: s.http.URL, Auth: auth}, Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	s.http.Set(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "access denied: %s-1 %s-%d %s", canary, canary, n, r.Header.Get("Authorization"))
		})
	})
	for range 2 {
		_, err := r.Refs(t.Context(), stateRef)
		wantCode(t, err, CodeUnauthorized)
		oid, pack := lease(t, ZeroOID, runID(1))
		out := r.CompareAndSwap(t.Context(), []Command{{stateRef, ZeroOID, oid}}, pack)
		wantStatus(t, out, Refused)
		for _, text := range []string{err.Error(), fmt.Sprint(out), log.String()} {
			if strings.Contains(text, canary) {
				t.Errorf("a password is in %q", text)
			}
		}
	}
}
