package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel/canon"
)

// stateRefIn finds the task in a push.
var stateRefIn = regexp.MustCompile(`refs/writ/task/(\d+)`)

// afterClaim has an act happen between the first push of a task, which is its
// claim, and the answer to it: nothing was dispatched yet.
func (s *site) afterClaim(acts map[int64]func()) {
	var mu sync.Mutex
	s.Through(gittest.OnPush(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the sender is gone
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			if m := stateRefIn.FindSubmatch(body); m != nil {
				n, _ := strconv.ParseInt(string(m[1]), 10, 64) // digits
				mu.Lock()
				act := acts[n]
				delete(acts, n)
				mu.Unlock()
				if act != nil {
					act()
				}
			}
			for k, v := range answer.Header() {
				w.Header()[k] = v
			}
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes()) // as above
		})
	}))
}

// says reports whether writ's comments on an issue have a word.
func (s *site) says(n int64, word string) bool {
	return strings.Contains(strings.Join(s.BotComments(n), "\n"), word)
}

// wantWaiting waits until a task waits and its issue says why, and fails if a
// builder was started for it.
func (s *site) wantWaiting(t *testing.T, n int64, code string) {
	t.Helper()
	s.until("the task waits and says "+code, func() bool { return s.head(n) == "waiting" && s.says(n, code) })
	if states := s.states(n); slices.Contains(states, "completed") {
		t.Errorf("#%d went through %v", n, states)
	}
}

// TestServe_BetweenClaimAndDispatch: what changes at the last moment keeps a
// builder from being started.
func TestServe_BetweenClaimAndDispatch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	edited, revoked, locked, pinned := s.File("default"), s.File("default"), s.File("default"), s.File("default")
	helper, err := s.Store.CreateUser(t.Context(), "helper", forge.Person)
	s.must(err)
	s.must(s.Store.Grant(t.Context(), s.Repo.ID, helper.ID, forge.Write))
	// A contract on any other branch is nobody's.
	gittest.Commit(t, s.bare(), "refs/heads/evil", "", map[string]string{".writ/contract.yaml": "version: 1\nbudgets: {attempts: 9}\n"})
	for _, n := range []int64{edited, locked} {
		s.Approve(n)
	}
	s.must(s.Store.As(helper).AddLabel(t.Context(), s.Repo, revoked, localtest.Label))
	s.afterClaim(map[int64]func(){
		edited: func() {
			s.must(s.Reporter.EditIssue(t.Context(), s.Repo, edited, "Say hello", localtest.Asks("default")+"And delete everything.\n"))
		},
		revoked: func() { s.must(s.Store.Grant(t.Context(), s.Repo.ID, helper.ID, forge.Read)) },
		locked:  func() { s.must(s.Maintainer.Lock(t.Context(), s.Repo, locked, true)) },
		pinned:  func() { s.contract("version: 1\nbudgets: {attempts: 7}\n") },
	})
	v := s.serve()
	t.Run("I2_Edited", func(t *testing.T) { s.wantWaiting(t, edited, "instruction.changed_after_approval") })
	t.Run("I5_Revoked", func(t *testing.T) { s.wantWaiting(t, revoked, "authority.revoked") })
	t.Run("I12_Locked", func(t *testing.T) {
		s.until("it is given up", func() bool { return s.head(locked) != "" && s.head(locked) != "working" })
		if states := s.states(locked); slices.Contains(states, "completed") {
			t.Errorf("a locked issue went through %v", states)
		}
	})
	if s.started() != 0 {
		t.Errorf("%d builders were started", s.started())
	}
	t.Run("I10_ContractChanged", func(t *testing.T) {
		s.Approve(pinned)
		s.until("it is done under the new contract", func() bool { return s.done(pinned) })
		now := canon.Sum([]byte("version: 1\nbudgets: {attempts: 7}\n"))
		if states := s.states(pinned); !slices.Contains(states, "stalled") || s.trailer(pinned, "writ-governance-hash") != string(now) || s.started() != 1 {
			t.Errorf("%v under %s, %d builders", states, s.trailer(pinned, "writ-governance-hash"), s.started())
		}
	})
	v.end()
}

// TestI12_I13_MadeAgain: the repository is renamed, and another one made by its
// name, to which every address now leads. Its number isn't ours, so nothing is
// done in either.
func TestI12_I13_MadeAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.serve()
	s.listens()
	s.must(s.Store.RenameRepo(t.Context(), s.Repo.ID, "o", "old"))
	again, err := s.Store.CreateRepo(t.Context(), local.RepoSpec{Owner: "o", Name: "n", Author: s.Bot, Files: map[string][]byte{"README": []byte("hi\n")}})
	s.must(err)
	s.must(s.Store.Grant(t.Context(), again.ID, s.Bot.ID, forge.Write))
	s.looksAgain(1, func() { s.Approve(s.File("default")) })
	for _, id := range []int64{s.Repo.ID, again.ID} {
		if refs := gittest.Git(t, s.Store.GitDir(id), "for-each-ref", "refs/writ", "refs/heads/writ"); refs != "" {
			t.Errorf("repository %d has %s", id, refs)
		}
	}
	if n := s.started(); n != 0 {
		t.Errorf("%d builders were started", n)
	}
	v.end()
}

// TestServe_DuringARun: what people, and other bots, do while builders run.
func TestServe_DuringARun(t *testing.T) {
	t.Parallel()
	var s *site
	var stale forge.User
	var turns atomic.Int64
	bot := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		p, err2 := forge.ParsePayload(body)
		if err != nil || err2 != nil || p.Action != "reopened" || p.Sender.ID != s.Bot.ID {
			return
		}
		turns.Add(1)
		if err := s.Store.As(stale).SetState(r.Context(), s.Repo, p.Issue.Number, forge.Closed); err != nil {
			t.Error(err)
		}
	}))
	defer bot.Close()
	s = newSite(t, bot.URL)
	var err error
	stale, err = s.Store.CreateUser(t.Context(), "stale", forge.Bot)
	s.must(err)
	s.must(s.Store.Grant(t.Context(), s.Repo.ID, stale.ID, forge.Write))
	mark := fmt.Sprint(1_000_000 + os.Getpid())
	s.builders = fmt.Sprintf(`default: {argv: [sleep, '600']}
  fails: {argv: [sh, -c, 'exit 3']}
  stubborn: {argv: [sh, -c, 'trap "" TERM INT HUP; setsid sleep %[1]s & sleep %[1]s; sleep %[1]s']}`, mark)
	s.contract("version: 1\nbudgets: {attempts: 5, retry_backoff: 10m, retry_backoff_max: 10m}\n")
	closed, edited, unlabeled := s.File("default"), s.File("default"), s.File("default")
	foreign, stopped, fought := s.File("default"), s.File("stubborn"), s.File("fails")
	all := []int64{closed, edited, unlabeled, foreign, stopped, fought}
	for _, n := range all {
		s.Approve(n)
	}
	v := s.serve()
	s.until("all builders run", func() bool { return s.started() == len(all) })
	s.until("the stubborn one has begun", func() bool { return len(processes(mark)) >= 2 })

	s.must(s.Maintainer.SetState(t.Context(), s.Repo, closed, forge.Closed))
	s.must(s.Reporter.EditIssue(t.Context(), s.Repo, edited, "Say hello", "Never mind.\n"))
	s.must(s.Maintainer.RemoveLabel(t.Context(), s.Repo, unlabeled, localtest.Label))
	theirs := gittest.Commit(t, s.bare(), fmt.Sprintf("refs/writ/task/%d", foreign), s.ref(foreign), map[string]string{"note": "I was here\n"})
	s.Says(foreign, "I have pushed something.")
	s.Says(stopped, "/writ stop")

	t.Run("F7_PeopleWin", func(t *testing.T) {
		s.wantWaiting(t, closed, "superseded_by_human")
		s.wantWaiting(t, edited, "instruction.changed_after_approval")
		s.wantWaiting(t, unlabeled, "superseded_by_human")
		if s.Issue(closed).State != forge.Closed {
			t.Error("what a person closed was opened")
		}
	})
	t.Run("X5_Stopped", func(t *testing.T) {
		s.wantWaiting(t, stopped, "task.stopped")
		s.until("nothing of the builder is left", func() bool { return len(processes(mark)) == 0 })
	})
	t.Run("L12_ForeignPush", func(t *testing.T) {
		s.until("it says so", func() bool { return s.says(foreign, "execution.lock.violation") })
		if s.ref(foreign) != theirs {
			t.Error("somebody's commit was pushed over")
		}
		s.Says(foreign, "/writ retry")
		s.until("it goes on from there", func() bool { return s.head(foreign) == "working" })
		gittest.Git(t, s.bare(), "merge-base", "--is-ancestor", theirs, s.ref(foreign))
		s.until("its builder runs", func() bool { return s.started() > len(all) })
		s.Says(foreign, "/writ stop")
		s.wantWaiting(t, foreign, "task.stopped")
	})
	t.Run("I6_BotsAnswerOneAnother", func(t *testing.T) {
		s.until("it is to be tried again", func() bool { return s.head(fought) == "retry_pending" && s.says(fought, "retry_pending") })
		s.must(s.Store.As(stale).SetState(t.Context(), s.Repo, fought, forge.Closed))
		s.until("the other bot has the last word", func() bool { return turns.Load() >= 3 && s.Issue(fought).State == forge.Closed })
		s.looksAgain(1, func() { s.post("issues", s.told(fought, "issues", "closed")) })
		if n := s.events(fought, forge.EventReopened); n != 3 {
			t.Errorf("opened again %d times, want 3", n)
		}
	})
	v.end()
	if s.started() != len(all)+1 {
		t.Errorf("%d builders were started for %d tasks and one retry", s.started(), len(all))
	}
}

// events counts what happened to an issue.
func (s *site) events(n int64, kind forge.EventKind) (count int) {
	s.t.Helper()
	list, err := s.Maintainer.History(s.t.Context(), s.Repo, n)
	s.must(err)
	for _, e := range list {
		if e.Kind == kind {
			count++
		}
	}
	return count
}

// processes are those that have an argument.
func processes(arg string) (ids []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is a good one
	for _, path := range dirs {
		data, err := os.ReadFile(path)
		if err == nil && slices.Contains(strings.Split(string(data), "\x00"), arg) {
			ids = append(ids, path)
		}
	}
	return ids
}
