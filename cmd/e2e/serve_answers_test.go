package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
)

// TestI4_D44_AnswersUnderServe: with the embedded forge and its webhooks, what a
// maintainer says on an issue is answered, a stranger gets no word, and an issue that
// waits for the merge is closed by it, with a report that says what was merged.
func TestI4_D44_AnswersUnderServe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.contract("version: 1\nclose_on: merged\n")
	n := s.File("default")
	v := s.serve()
	s.Says(n, "/writ explain")
	says := func(word string) func() bool {
		return func() bool { return strings.Contains(strings.Join(s.BotComments(n), "\n"), word) }
	}
	s.until("the explanation", says("Nobody has approved the issue"))
	s.Says(n, "/writ help")
	s.until("the help", says("/writ approve DIGEST"))
	_, err := s.Reporter.AddComment(t.Context(), s.Repo, n, "/writ help")
	s.must(err)
	s.Approve(n)
	s.until("the work", says("is verified, and waits for the merge of its change"))
	change, err := s.Maintainer.FindChange(t.Context(), s.Repo, fmt.Sprintf("writ/change/%d", n), "")
	s.must(err)
	s.until("the check", func() bool {
		checks, err := s.Maintainer.Checks(t.Context(), s.Repo, change.HeadOID)
		s.must(err)
		return len(checks) == 1 && checks[0].State == forge.CheckPassed
	})
	if s.Issue(n).State != forge.Open {
		t.Error("it was closed before the merge")
	}
	_, err = s.Maintainer.MergeChange(t.Context(), s.Repo, change.Number)
	s.must(err)
	s.until("the closing", func() bool { return s.done(n) && says("merged_as_verified: `true`")() })
	v.end()
	if got := s.BotComments(n); len(got) != 3 || s.Closings(n) != 1 {
		t.Errorf("%d comments, closed %d times: %q", len(got), s.Closings(n), got)
	}
	s.replays(n)
}
