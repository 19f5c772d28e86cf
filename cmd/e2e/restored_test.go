package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/worldtest"
)

// refs are the refs that writ writes, with their commits, a line each.
func (s *forgeSite) refs() []string {
	s.t.Helper()
	out := gittest.Git(s.t, s.GitDir, "for-each-ref", "--format=%(refname) %(objectname)", "refs/writ/", "refs/heads/writ/")
	return strings.Split(strings.TrimSpace(out), "\n")
}

// loses has the repository be as it was when it had these refs, as after its back-up was
// restored: what was pushed since is gone, objects and all.
func (s *forgeSite) loses(before []string) {
	s.t.Helper()
	var b strings.Builder
	for _, line := range s.refs() {
		ref, _, _ := strings.Cut(line, " ")
		fmt.Fprintf(&b, "delete %s\n", ref)
	}
	gittest.GitInput(s.t, s.GitDir, b.String(), "update-ref", "--stdin")
	b.Reset()
	for _, line := range before {
		fmt.Fprintf(&b, "create %s\n", line)
	}
	gittest.GitInput(s.t, s.GitDir, b.String(), "update-ref", "--stdin")
	gittest.Git(s.t, s.GitDir, "reflog", "expire", "--expire=now", "--all")
	gittest.Git(s.t, s.GitDir, "gc", "-q", "--prune=now")
}

// forgets has an issue be open and bear nothing of writ's. The forge has no way to
// forget what happened, so that it's writ's own account that does it.
func (s *forgeSite) forgets(n int64) {
	s.t.Helper()
	ctx, bot := s.t.Context(), s.Client(s.t, worldtest.Wiring{})
	comments, err := s.Maintainer.Comments(ctx, s.Repo, n)
	s.must(err)
	for _, c := range comments {
		if c.Author.ID == s.Bot {
			s.must(bot.DeleteComment(ctx, s.Repo, c.ID))
		}
	}
	for _, l := range s.ours(n) {
		s.must(bot.RemoveLabel(ctx, s.Repo, n, l))
	}
	if s.issue(n).State == forge.Closed {
		s.must(bot.SetState(ctx, s.Repo, n, forge.Open))
	}
}

// world is the identity of the repository, as the server of the last life named it.
func (v *server) world() string {
	_, after, _ := strings.Cut(v.log.String(), "a repository is open\" world=")
	world, _, _ := strings.Cut(after, " ")
	return world
}

// TestL19_RestoredOnForges: GitHub or GitLab is put back to an earlier moment. One task was
// completed before it, one was being built, and one began after it: its ref is gone. The
// issues of the last two bear nothing of writ's any more, either. Without a reason nothing
// is changed; then both are back, the server shows them again without a second build, and
// goes on with others.
func TestL19_RestoredOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		s.contract(onceTerms)
		before := s.asks("default")
		v := s.serve()
		s.until("the first is completed", func() bool { return s.done(before) })
		v.end()
		running := s.asks("default")
		s.serveUntil("dispatch:done")
		backup := s.refs()
		later := s.asks("default")
		v = s.serve()
		s.until("both others are completed", func() bool { return s.done(running) && s.done(later) })
		v.end()
		full, started := s.refs(), s.started()
		s.loses(backup)
		s.forgets(running)
		s.forgets(later)
		closed := map[int64]int{before: s.closings(before), running: s.closings(running) + 1, later: s.closings(later) + 1}

		// The server finds it so, and leaves it to a person.
		v = s.serve()
		for _, n := range []int64{running, later} {
			s.until("it waits for repair", func() bool { return s.tells(n, "state.rollback") })
		}
		v.end() // its log names the world
		if now := s.refs(); !slices.Equal(now, backup) || s.started() != started {
			t.Fatalf("the server changed %v to %v, with %d more builders", backup, now, s.started()-started)
		}
		restore := []string{"world", "restore", v.world(), "--state-dir", s.statePath(), "--config", s.config()}
		dry := writ(t, s.all(), restore...).want(t, 2)
		if shown := dry.stdout + dry.stderr; !strings.Contains(shown, "2 tasks are behind what was seen, 2 of them can be put back") {
			t.Errorf("the dry run says:\n%s", shown)
		}
		if now := s.refs(); !slices.Equal(now, backup) {
			t.Fatalf("without a reason it changed %v to %v", backup, now)
		}
		restore = append(restore, "--reason", "the forge was restored")
		writ(t, s.all(), restore...).want(t, 0)
		again := writ(t, s.all(), restore...).want(t, 0)
		if !strings.Contains(again.stdout, "nothing is to be put back") {
			t.Errorf("the second time it says:\n%s", again.stdout)
		}
		for _, line := range full {
			if strings.HasPrefix(line, "refs/writ/task/") || strings.HasPrefix(line, "refs/heads/") {
				if !slices.Contains(s.refs(), line) {
					t.Errorf("%s isn't back", line)
				}
			}
		}

		v = s.serve()
		next := s.asks("default")
		s.until("what is back is shown again, and another is done", func() bool { return s.done(running) && s.done(later) && s.done(next) })
		v.end()
		closed[next] = 1
		for _, n := range []int64{before, running, later, next} {
			s.wantDoneOf(n, closed[n])
		}
		if s.started() != started+1 {
			t.Errorf("%d builders were started for one new task", s.started()-started)
		}
		writ(t, nil, "verify", "--state-dir", s.statePath()).want(t, 0)
	}, hosted...)
}
