package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
)

// hosted are the forges whose API is reached over the network.
var hosted = []string{"github", "gitlab"}

// onceTerms have room for all deaths of a task.
const onceTerms = "version: 1\nchecks: [{name: test, run: ['true']}]\n" +
	"budgets: {attempts: 30, interruptions: 100, retry_backoff: 0s, retry_backoff_max: 0s}\n"

// TestK5_K6_LivesOnForges: a server on GitHub and on GitLab dies at one point after
// another of what the forge sees of one issue, before an effect and after it. At the
// end there is one result, one report, one change, one check and one closing.
func TestK5_K6_LivesOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		s.contract(onceTerms)
		n := s.asks("default")
		early := false // its change was there before the server was to die on it
		for _, point := range []string{
			"comment:recorded", "comment:done", "label:recorded", "label:done", "result:done", "change:recorded", "change:done",
			"revise:done", "close:recorded", "close:done", "check:done",
		} {
			if point == "change:recorded" {
				_, none := s.findChange(n)
				early = none == nil
			}
			if point == "result:done" && s.head(n) == "completed" || early && slices.Contains([]string{"change:recorded", "change:done", "revise:done"}, point) {
				continue // on a busy machine the builder was done before the claim was told
			}
			s.serveUntil(point)
		}
		started := s.started()
		v := s.serve()
		s.until("it is completed", func() bool { return s.done(n) })
		v.end()
		s.wantDone(n)
		if again := s.started() - started; again != 0 {
			t.Errorf("%d builders were started after the result", again)
		}
		writ(t, nil, "verify", "--state-dir", s.statePath()).want(t, 0)
	}, hosted...)
}

// TestK8_BlockedOnForges: a builder that always fails is started for exactly three
// counted attempts, whatever deaths lie between, and those whom the contract names
// are told once.
func TestK8_BlockedOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		s.contract("version: 1\nnotify: [maintainer]\nbudgets: {attempts: 3, interruptions: 100, retry_backoff: 0s, retry_backoff_max: 0s}\n")
		s.builders = "default: {argv: [sh, -c, 'exit 3']}"
		n := s.asks("default")
		for _, point := range []string{"result:done", "dispatch:done", "result:recorded", "alert:recorded", "alert:done"} {
			s.serveUntil(point)
		}
		v := s.serve()
		s.until("it is blocked", func() bool { return s.blocked(n) })
		s.until("one label says so", func() bool { return slices.Equal(s.ours(n), []string{"writ:blocked"}) })
		v.end()
		failed := count(s.states(n), "retry_pending")
		if a := s.trailer(n, "writ-attempt"); a != "3" || failed != 2 || s.issue(n).State != forge.Open || s.closings(n) != 0 {
			t.Errorf("attempt %s, %d to be tried again, the issue is %s", a, failed, s.issue(n).State)
		}
		if len(s.said(n, "alert:")) != 1 || len(s.said(n, "task:")) != 1 {
			t.Errorf("it says %q", s.said(n, ""))
		}
		s.replays(n)
	}, hosted...)
}

// TestK9_L14_DiskLostOnForges: a server dies right after its result is pushed, and
// its disk is lost. One that doesn't list its key acts on nothing of it and says so;
// one that does delivers the change and closes the issue, from git alone.
func TestK9_L14_DiskLostOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		s.contract(onceTerms)
		n := s.asks("default")
		s.state = "lost"
		// Others leave a fresh result to its writer for a minute.
		s.serveUntil("result:done", "WRIT_TEST_BEHIND=5m")
		key := strings.TrimSpace(writ(t, nil, "key", "--state-dir", s.statePath()).want(t, 0).stdout)
		s.must(os.RemoveAll(s.statePath()))
		head, started := s.ref(n), s.started()

		s.state = "stranger"
		v := s.serve()
		s.until("the stranger says why it waits", func() bool { return s.tells(n, "lease.untrusted") })
		v.end()
		if s.ref(n) != head || s.issue(n).State != forge.Open || s.started() != started {
			t.Errorf("a stranger's result was acted on: HEAD %s, the issue is %s, %d builders", s.ref(n), s.issue(n).State, s.started())
		}

		s.state, s.more = "other", "trusted_runners: ['"+key+"']"
		v = s.serve()
		s.until("it is delivered", func() bool { return s.done(n) })
		v.end()
		s.wantDone(n)
		if s.ref(n) != head || s.started() != started {
			t.Errorf("HEAD %s, %d builders", s.ref(n), s.started())
		}
	}, hosted...)
}

// TestK11_SealedOnForges: a server dies as soon as it has sealed what its builder
// left, at the start of the checks and after them; then its disk is lost, too. Another
// one that lists its key judges the sealed work and delivers it: one builder ran in all
// these lives.
func TestK11_SealedOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		const lease = "lease: {seconds: 15, grace: 0s, margin: 2s, skew: 1s}\n"
		s.contract(onceTerms)
		n := s.asks("default")
		s.state, s.more = "lost", lease
		for _, point := range []string{"seal:done", "checks:recorded", "result:recorded"} {
			s.serveUntil(point)
		}
		key := strings.TrimSpace(writ(t, nil, "key", "--state-dir", s.statePath()).want(t, 0).stdout)
		s.must(os.RemoveAll(s.statePath()))

		s.state, s.more = "other", lease+"trusted_runners: ['"+key+"']"
		v := s.serve()
		s.until("it is completed", func() bool { return s.done(n) })
		v.end()
		s.wantDone(n)
		if s.started() != 1 || s.trailer(n, "writ-attempt") != "1" || s.trailer(n, "writ-resumes") == "" {
			t.Errorf("%d builders, attempt %s, resumes %q", s.started(), s.trailer(n, "writ-attempt"), s.trailer(n, "writ-resumes"))
		}
		writ(t, nil, "verify", "--state-dir", s.statePath()).want(t, 0)
	})
}

// TestL12_ForeignPushOnForges: somebody's commit on the state ref in the middle of a
// run is never pushed over; the issue says so, and the maintainer's word goes on
// from it.
func TestL12_ForeignPushOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		s.contract(onceTerms)
		good := s.builders
		s.builders = "default: {argv: [sleep, '600']}"
		v := s.serve() // GitLab leaves a hook alone that fails again and again
		n := s.asks("default")
		s.until("its builder runs", func() bool { return s.started() == 1 })
		theirs := gittest.Commit(t, s.GitDir, stateRef(n), s.ref(n), map[string]string{"note": "I was here\n"})
		s.says(n, "I have pushed something.")
		s.until("it says so", func() bool { return s.tells(n, "execution.lock.violation") })
		if s.ref(n) != theirs {
			t.Error("somebody's commit was pushed over")
		}
		v.end()
		s.builders = good
		v = s.serve()
		s.says(n, "/writ retry")
		s.until("it is completed", func() bool { return s.done(n) })
		v.end()
		gittest.Git(t, s.GitDir, "merge-base", "--is-ancestor", theirs, s.ref(n))
		s.wantDone(n)
	}, hosted...)
}
