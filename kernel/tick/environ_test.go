package tick

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel/lease"
)

func eventOf(t *testing.T, message string) lease.Event {
	t.Helper()
	ev, err := lease.ReadEvent(commit("0123", message))
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// TestA14_CommandIsGivenTheConfiguration: each part of the runner's configuration,
// set and unset, the deadline of the lease among it.
func TestA14_CommandIsGivenTheConfiguration(t *testing.T) {
	ev := eventOf(t, "t\n\naynig-state: build\n")
	full, err := Environ(nil, ev, Given{RunID: runID, RunnerID: "host", Branch: "refs/heads/job", Remote: "origin", Role: "ops",
		LogLevel: "debug", LeaseSeconds: 60, GraceSeconds: 5, DeadlineSeconds: 1060})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"AYNIG_BODY=", "AYNIG_BRANCH=refs/heads/job", "AYNIG_COMMIT_HASH=0123", "AYNIG_DEADLINE=1060", "AYNIG_GRACE_SECONDS=5",
		"AYNIG_LEASE_SECONDS=60", "AYNIG_LOG_LEVEL=debug", "AYNIG_REMOTE=origin", "AYNIG_ROLE=ops", "AYNIG_RUNNER_ID=host",
		"AYNIG_RUN_ID=" + runID, "AYNIG_TRAILER_AYNIG_STATE=build",
	}
	if diff := cmp.Diff(want, full); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	bare, err := Environ([]string{"AYNIG_ROLE=ops", "AYNIG_REMOTE=origin"}, ev, Given{})
	if err != nil || !slices.Contains(bare, "AYNIG_ROLE=") || slices.Contains(bare, "AYNIG_ROLE=ops") || !slices.Contains(bare, "AYNIG_REMOTE=") {
		t.Errorf("unset: %q, %v", bare, err)
	}
}

// TestA15_TrailersSetNothingElse: no key sets a variable that the system obeys, and
// what bound the caller's git binds no command.
func TestA15_TrailersSetNothingElse(t *testing.T) {
	ev := eventOf(t, "t\n\nb\n\naynig-state: build\nPATH: /evil\nLD-PRELOAD: x\nfoo-bar: 1\nFOO-bar: 2\n-: y\nAYNIG-RUN-ID: "+runID+"\n")
	env, err := Environ([]string{"PATH=/bin", "HOME=/h", "GIT_DIR=/d", "GIT_INDEX_FILE=i", "AYNIG_TRAILER_OLD=1", "GIT_AUTHOR_NAME=A"}, ev, Given{RunID: otherID})
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range env {
		if key, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(key, Prefix) && !slices.Contains([]string{"PATH=/bin", "HOME=/h", "GIT_AUTHOR_NAME=A"}, kv) {
			t.Errorf("%s isn't the caller's", kv)
		}
	}
	for _, want := range []string{"PATH=/bin", "AYNIG_RUN_ID=" + otherID, "AYNIG_TRAILER_PATH=/evil", "AYNIG_TRAILER_FOO_BAR=1,2", "AYNIG_TRAILER__=y", "AYNIG_TRAILER_LD_PRELOAD=x"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "AYNIG_TRAILER_OLD") }) {
		t.Error("a trailer of another run is left")
	}
}

// TestA6_TheBodyIsHandedOnUnchanged, without trailers; what doesn't fit is an error.
func TestA6_TheBodyIsHandedOnUnchanged(t *testing.T) {
	for _, body := range []string{"", "a", "a\n---\nb", "ä\xff\u2028", "a\n\nfoo: bar", strings.Repeat("x\n", 60000)} {
		message := "t\n\n" + body + "\n\naynig-state: build\n"
		if body == "" {
			message = "t\n\naynig-state: build\n"
		}
		env, err := Environ(nil, eventOf(t, message), Given{})
		if err != nil || !slices.Contains(env, "AYNIG_BODY="+body) {
			t.Errorf("a body of %d bytes: %v", len(body), err)
		}
	}
	if _, err := Environ(nil, eventOf(t, "t\n\n"+strings.Repeat("x", MaxVariable)+"\n\naynig-state: build\n"), Given{}); err == nil {
		t.Error("a body that no environment holds was handed on")
	}
	many := "t\n\naynig-state: build\n"
	for range 12 {
		many += "k" + strings.Repeat("x", 20) + ": " + strings.Repeat("y", 100000) + "\n"
	}
	if _, err := Environ(nil, eventOf(t, many), Given{}); err == nil {
		t.Error("trailers that no environment holds were handed on")
	}
}
