package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
)

// crashTerms have room for all deaths of a task.
const crashTerms = "version: 1\nchecks: [{name: test, run: ['true']}]\n" +
	"budgets: {attempts: 30, interruptions: 100, retry_backoff: %[1]s, retry_backoff_max: %[1]s}\n"

// flaky fails at the first attempt, so that there is a report to be revised and a
// label to be taken off.
const flaky = `flaky: {argv: [sh, -c, 'if grep -q ''"attempt":1,'' "$WRIT_DISPATCH"; then exit 3; fi; echo hello > out.txt']}`

// TestK5_K6_K7_EveryPointUnderServe kills a server at each point of each effect
// that the outside sees, one life after another. At the end every issue is
// completed once, by one report and one close, and both ledger and repository
// verify. An issue has one effect after the other: a death before it is done
// leaves the next life the same one.
func TestK5_K6_K7_EveryPointUnderServe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ actions, builder, backoff string }{
		{"claim dispatch take_over result", "default", "0s"},
		{"comment label change close", "default", "0s"},
		{"revise unlabel", "flaky", "3s"}, // a failed attempt is told before the next one
	} {
		t.Run(strings.ReplaceAll(c.actions, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.contract(fmt.Sprintf(crashTerms, c.backoff))
			s.builders += "\n  " + flaky
			var numbers []int64
			for _, action := range strings.Fields(c.actions) {
				if action != "dispatch" && action != "take_over" && action != "result" { // these follow on a claim
					numbers = append(numbers, s.File(c.builder))
					s.Approve(numbers[len(numbers)-1])
				}
				for _, stage := range []string{"recorded", "done"} {
					point := action + ":" + stage
					s.serveUntil(point).dies(point)
				}
			}
			v := s.serve()
			s.until("every issue is completed", func() bool { return !slices.ContainsFunc(numbers, func(n int64) bool { return !s.done(n) }) })
			v.end()
			for _, n := range numbers {
				s.wantDone(n)
				s.replays(n)
			}
			writ(t, s.env, "verify", "--state-dir", s.statePath()).want(t, 0)
		})
	}
}

// replays fails unless the repository alone vouches for a task.
func (s *site) replays(n int64) {
	s.t.Helper()
	writ(s.t, s.env, "verify", s.bare(), "--task", fmt.Sprint(n)).want(s.t, 0)
}

// TestK8_BlockedUnderServe: a builder that always fails is started for exactly
// three counted attempts, whatever restarts lie between; those whom the contract
// names are told once.
func TestK8_BlockedUnderServe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.contract("version: 1\nnotify: [maintainer]\nbudgets: {attempts: 3, interruptions: 100, retry_backoff: 0s, retry_backoff_max: 0s}\n")
	s.builders = "default: {argv: [sh, -c, 'exit 3']}"
	n := s.File("default")
	s.Approve(n)
	for _, point := range []string{"result:done", "dispatch:done", "result:recorded", "result:done", "alert:done"} {
		s.serveUntil(point).dies(point)
	}
	v := s.serve()
	alerts := func() (count int) {
		for _, b := range s.BotComments(n) {
			if strings.HasPrefix(b, "<!-- writ:alert:") {
				count++
			}
		}
		return count
	}
	s.until("it is blocked", func() bool { return s.head(n) == "blocked" && slices.Contains(s.Issue(n).Labels, "writ:blocked") })
	s.until("somebody is told", func() bool { return alerts() > 0 })
	failed := strings.Count(strings.Join(s.states(n), " "), "retry_pending")
	if a := s.trailer(n, "writ-attempt"); a != "3" || failed != 2 {
		t.Errorf("attempt %s, %d to be tried again", a, failed)
	}
	started := s.started()
	s.listens()
	s.looksAgain(1, func() { s.post("issues", s.told(n, "issues", "labeled")) })
	v.end()
	if alerts() != 1 || s.started() != started || s.Issue(n).State != forge.Open {
		t.Errorf("%d alerts, %d builders more, the issue is %s", alerts(), s.started()-started, s.Issue(n).State)
	}
}

// TestK10_TenDeploysUnderServe: ten deploys in the middle of one build, every
// other one a kill -9, count ten interruptions and no attempt.
func TestK10_TenDeploysUnderServe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.contract("version: 1\nbudgets: {attempts: 1, interruptions: 10, retry_backoff: 0s, retry_backoff_max: 0s}\n")
	good := s.builders
	s.builders = "default: {argv: [sleep, '600']}"
	n := s.File("default")
	s.Approve(n)
	for i := range 10 {
		v := s.serve()
		s.until("it is built", func() bool { return s.started() == i+1 })
		if i%2 == 0 {
			v.end()
		} else {
			v.kill()
		}
	}
	s.builders = good
	v := s.serve()
	s.until("it is completed", func() bool { return s.done(n) })
	v.end()
	s.wantDone(n)
	if a, i := s.trailer(n, "writ-attempt"), s.trailer(n, "writ-interruptions"); a != "1" || i != "10" || s.started() != 11 {
		t.Errorf("attempt %s, %s interruptions, %d builders", a, i, s.started())
	}
}

// TestK9_L14_DiskLostUnderServe: a server dies right after its result is pushed,
// and its disk is lost. One that doesn't list its key acts on nothing of it and
// says so; one that does closes the issue and delivers the change, from git alone.
func TestK9_L14_DiskLostUnderServe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := s.File("default")
	s.Approve(n)
	s.state = "lost"
	// Others leave a fresh result to its writer for a minute.
	s.serveUntil("result:done", "WRIT_TEST_BEHIND=10m").dies("result:done")
	key := strings.TrimSpace(writ(t, s.env, "key", "--state-dir", s.statePath()).want(t, 0).stdout)
	s.must(os.RemoveAll(s.statePath()))
	head := s.ref(n)

	s.state = "stranger"
	v := s.serve()
	s.until("the stranger says why it waits", func() bool {
		return strings.Contains(strings.Join(s.BotComments(n), "\n"), "lease.untrusted")
	})
	v.end()
	if s.ref(n) != head || s.Issue(n).State != forge.Open || s.started() != 1 {
		t.Errorf("a stranger's result was acted on: HEAD %s, the issue %s, %d builders", s.ref(n), s.Issue(n).State, s.started())
	}

	s.state, s.more = "other", "trusted_runners: ['"+key+"']"
	v = s.serve()
	s.until("it is delivered", func() bool { return s.done(n) })
	v.end()
	s.wantDone(n)
	if c, err := s.Maintainer.FindChange(t.Context(), s.Repo, fmt.Sprintf("writ/change/%d", n), ""); err != nil || c.State != forge.ChangeOpen {
		t.Errorf("the change: %+v, %v", c, err)
	}
	if s.ref(n) != head || s.started() != 1 {
		t.Errorf("HEAD %s, %d builders", s.ref(n), s.started())
	}
	if _, err := os.Stat(filepath.Join(s.dir, "lost")); err == nil {
		t.Error("the lost disk is there")
	}
}
