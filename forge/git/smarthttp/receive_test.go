package smarthttp_test

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/git/smarthttp"
)

// three refs: what a push may ask of each.
const (
	refA = "refs/heads/a"
	refB = "refs/heads/b"
	refC = "refs/writ/c"
)

// TestPostReceive: the callback hears of what was moved, whether the client
// wants a report, in whatever form, or none.
func TestPostReceive(t *testing.T) {
	for _, caps := range []string{"report-status", "report-status-v2 side-band-64k", "report-status side-band-64k atomic", "side-band-64k", ""} {
		t.Run(caps, func(t *testing.T) {
			s := serve(t)
			o := git.NewObjects()
			one := string(commit(t, o, "", "one\n"))
			two := string(commit(t, o, git.OID(one), "two\n"))
			push := func(updates ...smarthttp.RefUpdate) {
				t.Helper()
				if status, text := s.post(t, bytes.NewReader(pushBody(o, caps, updates...))); status != http.StatusOK {
					t.Fatalf("%d %s", status, text)
				}
			}
			push(smarthttp.RefUpdate{Ref: refA, New: one}, smarthttp.RefUpdate{Ref: refB, New: one}, smarthttp.RefUpdate{Ref: refC, New: two})
			wantEvents(t, s, event(refA, "", one), event(refB, "", one), event(refC, "", two))

			push(smarthttp.RefUpdate{Ref: refA, Old: one, New: two})
			wantEvents(t, s, event(refA, one, two))
			push(smarthttp.RefUpdate{Ref: refA, Old: one, New: two}) // again: it is not at one
			push(smarthttp.RefUpdate{Ref: refA, New: one})           // it is there
			push(smarthttp.RefUpdate{Ref: refA, Old: two, New: two}) // up to date
			push(smarthttp.RefUpdate{Ref: "refs/heads/none", Old: one})
			push(smarthttp.RefUpdate{Ref: "refs/heads/bad..name", New: one})
			push(smarthttp.RefUpdate{Ref: "HEAD", New: one})
			wantEvents(t, s)

			push(smarthttp.RefUpdate{Ref: refB, Old: one}, smarthttp.RefUpdate{Ref: refC, Old: two, New: one})
			wantEvents(t, s, event(refB, one, ""), event(refC, two, one))
			if list := gittest.Git(t, s.dir, "for-each-ref", "--format=%(objectname) %(refname)"); list != two+" "+refA+"\n"+one+" "+refC {
				t.Errorf("refs:\n%s", list)
			}
		})
	}
}

// TestPostReceive_Declined: of a push of several refs only those count that the
// repository's hooks let through; none, if it is atomic.
func TestPostReceive_Declined(t *testing.T) {
	s := serve(t)
	gittest.Hook(t, s.dir, "update", `test "$1" != `+refB+` || { echo no such thing >&2; exit 1; }`)
	o := git.NewObjects()
	one := string(commit(t, o, "", "one\n"))
	three := []smarthttp.RefUpdate{{Ref: refA, New: one}, {Ref: refB, New: one}, {Ref: refC, New: one}}
	status, text := s.post(t, bytes.NewReader(pushBody(o, "report-status side-band-64k atomic", three...)))
	if status != http.StatusOK || !strings.Contains(text, "no such thing") || !strings.Contains(text, "ng "+refA) {
		t.Errorf("%d %q", status, text)
	}
	wantEvents(t, s)
	status, text = s.post(t, bytes.NewReader(pushBody(o, "report-status side-band-64k", three...)))
	if status != http.StatusOK || !strings.Contains(text, "ng "+refB) {
		t.Errorf("%d %q", status, text)
	}
	wantEvents(t, s, event(refA, "", one), event(refC, "", one))

	gittest.Hook(t, s.dir, "pre-receive", "exit 1")
	s.post(t, bytes.NewReader(pushBody(o, "report-status", smarthttp.RefUpdate{Ref: refA, Old: one})))
	s.post(t, bytes.NewReader(pushBody(o, "", smarthttp.RefUpdate{Ref: refA, Old: one})))
	wantEvents(t, s)
}

// TestPostReceive_GitDies: git has moved a ref and dies before it says so. The
// refs tell it, and the answer does not say that nothing was done.
func TestPostReceive_GitDies(t *testing.T) {
	mute := filepath.Join(t.TempDir(), "git")
	script := `#!/bin/sh
case "$*" in *receive-pack*) git "$@" >/dev/null; kill -9 $$;; esac
exec git "$@"
`
	gittest.WriteProgram(t, mute, script)
	s := serve(t, func(o *smarthttp.Options) { o.GitBinary = mute })
	gittest.Hook(t, s.dir, "update", `test "$1" != `+refB)
	o := git.NewObjects()
	one := string(commit(t, o, "", "one\n"))
	status, text := s.post(t, bytes.NewReader(pushBody(o, "report-status", smarthttp.RefUpdate{Ref: refA, New: one}, smarthttp.RefUpdate{Ref: refB, New: one})))
	if status != http.StatusInternalServerError {
		t.Errorf("%d %q", status, text)
	}
	wantEvents(t, s, event(refA, "", one))
}

// TestPush_CutShort: what has not arrived whole changes nothing.
func TestPush_CutShort(t *testing.T) {
	s := serve(t)
	o := git.NewObjects()
	one := string(commit(t, o, "", "one\n"))
	whole := pushBody(o, "report-status", smarthttp.RefUpdate{Ref: refA, New: one})
	for _, n := range []int{0, 3, 50, 100, 120, len(whole) - 60, len(whole) - 21, len(whole) - 1} {
		s.post(t, bytes.NewReader(whole[:n]))
		if at := gittest.RefOID(s.dir, refA); at != "" {
			t.Fatalf("%d of %d bytes moved the ref to %s", n, len(whole), at)
		}
	}
	wantEvents(t, s)
	if status, text := s.post(t, bytes.NewReader(whole)); status != http.StatusOK || !strings.Contains(text, "ok "+refA) {
		t.Fatalf("%d %q", status, text)
	}
	s.pushed()

	// A deletion has no pack whose end git would wait for.
	s.cut(t, fmt.Sprintf("Content-Length: %d\r\n", 1000), pushBody(nil, "report-status", smarthttp.RefUpdate{Ref: refA, Old: one}))
	within(t, s.ended, "the deletion")
	if at := gittest.RefOID(s.dir, refA); at != one {
		t.Errorf("a deletion that broke off moved the ref to %q", at)
	}
	wantEvents(t, s)
}

// TestPush_Malformed: what is no push is answered with a 4xx, and starts nothing.
func TestPush_Malformed(t *testing.T) {
	s := serve(t, func(o *smarthttp.Options) { o.GitBinary = "/nonexistent/git" })
	oid := strings.Repeat("1", 40)
	line := func(text string) string { return fmt.Sprintf("%04x%s0000", len(text)+4, text) }
	for name, c := range map[string]struct {
		body   string
		header []string
		want   int
	}{
		"empty":            {"", nil, 400},
		"no pkt-line":      {"hello, world", nil, 400},
		"a delimiter":      {"0001", nil, 400},
		"two ids":          {line(oid + " " + oid), nil, 400},
		"a short id":       {line(oid[1:] + " " + oid + " refs/heads/a"), nil, 400},
		"signed":           {line("push-cert\x00report-status"), nil, 400},
		"without an end":   {line(oid + " " + oid + " refs/heads/a")[:100], nil, 400},
		"too many":         {strings.Repeat(line(oid + " " + oid + " refs/heads/a")[:97], 100_000), nil, 400},
		"kind":             {"0000", []string{"Content-Type", "text/plain"}, 415},
		"encoding":         {"0000", []string{"Content-Encoding", "br"}, 415},
		"broken gzip":      {"0000", []string{"Content-Encoding", "gzip"}, 400},
		"a long deletion":  {line(oid+" "+string(git.ZeroOID)+" refs/heads/a") + strings.Repeat("x", 70_000), nil, 400},
		"git is not there": {line(oid + " " + oid + " refs/heads/a\x00report-status"), nil, 500},
	} {
		t.Run(name, func(t *testing.T) {
			if status, text := s.post(t, strings.NewReader(c.body), c.header...); status != c.want {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/git-receive-pack", 405}, {"POST", "/info/refs?service=git-upload-pack", 405}, {"GET", "/info/refs", 403},
		{"GET", "/info/refs?service=upload-pack", 403}, {"GET", "/info/refs?service=git-upload-archive", 403}, {"GET", "/HEAD", 404},
		{"GET", "/objects/info/packs", 404}, {"GET", "", 404},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if status, text := do(t, req); status != c.want {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
	wantEvents(t, s)
}
