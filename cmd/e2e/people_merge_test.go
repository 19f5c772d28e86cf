package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/forge/worldtest"
	"github.com/writbot/writ/kernel"
)

// change is the change of a task, whatever became of it.
func (s *forgeSite) change(n int64) forge.Change {
	s.t.Helper()
	c, err := s.findChange(n)
	s.must(err)
	return c
}

// findChange is the same, where there may be none.
func (s *forgeSite) findChange(n int64) (forge.Change, error) {
	return s.Maintainer.FindChange(s.t.Context(), s.Repo, fmt.Sprintf("writ/change/%d", n), "")
}

// writers are builders that each write one file.
func writers(names ...string) string {
	for i, name := range names {
		names[i] = fmt.Sprintf("%[1]s: {argv: [sh, -c, 'echo hello > %[1]s.txt']}", name)
	}
	return strings.Join(names, "\n  ")
}

// asksFor files an issue that asks a writer for its file, and approves it.
func (s *forgeSite) asksFor(writer string) int64 {
	s.t.Helper()
	title, body := "Write "+writer, strings.ReplaceAll(localtest.Asks(writer), "out.txt", writer+".txt")
	n := s.file(title, body)
	s.approve(n)
	if !s.EditHistory {
		digest, err := kernel.ApprovalDigest(title, s.issue(n).Body)
		s.must(err)
		s.says(n, "/writ approve "+string(digest))
	}
	return n
}

// checked reports whether a commit has a check in a state.
func (s *forgeSite) checked(oid string, state forge.CheckState) bool {
	s.t.Helper()
	return slices.ContainsFunc(s.Checks(s.t, oid), func(c forge.Check) bool { return c.State == state })
}

// pushes puts a file onto the change branch of a task, as the maintainer.
func (s *forgeSite) pushes(n int64, path, text string) (oid string) {
	s.t.Helper()
	branch := fmt.Sprintf("writ/change/%d", n)
	head := gittest.RefOID(s.GitDir, "refs/heads/"+branch)
	files := map[string]string{path: text}
	for p := range strings.SplitSeq(gittest.Git(s.t, s.GitDir, "ls-tree", "-r", "--name-only", head), "\n") {
		if p != path {
			files[p] = gittest.Git(s.t, s.GitDir, "show", head+":"+p) + "\n"
		}
	}
	oid = gittest.Commit(s.t, s.GitDir, "refs/heads/scratch", head, files)
	s.PushBranch(s.t, branch, oid)
	return oid
}

// report is what the status comment of a task says, "" for none.
func (s *forgeSite) report(n int64) string {
	s.t.Helper()
	return strings.Join(s.said(n, "task:"), "\n")
}

// mergedAs waits until an issue is closed by a merge, and its report says whether
// what was merged is what was verified.
func (s *forgeSite) mergedAs(n int64, as bool) {
	s.t.Helper()
	s.until(fmt.Sprintf("#%d is closed, merged as verified: %t", n, as), func() bool {
		return strings.Contains(s.report(n), fmt.Sprintf("merged_as_verified: `%t`", as)) && s.issue(n).State == forge.Closed
	})
}

// TestF7_MergesOnForges: with close_on merged an issue is closed by the merge of its
// change, however the forge merges it, above a base that has moved; and reopened,
// once, by the forge's own revert of that merge. What a reviewer pushed is judged
// before, and the report says whether what was merged holds.
func TestF7_MergesOnForges(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		s.contract("version: 1\nclose_on: merged\n")
		s.builders = writers("a", "b", "c", "within", "beyond")
		v := s.serve()
		methods := s.Methods()
		var merges []int64
		for i := range methods {
			merges = append(merges, s.asksFor(string(rune('a'+i))))
		}
		within, beyond := s.asksFor("within"), s.asksFor("beyond")
		all := append(slices.Clone(merges), within, beyond)
		for _, n := range all {
			s.until("it waits for the merge", func() bool {
				return s.head(n) == "waiting" && strings.Contains(s.report(n), "waits for the merge") && s.checked(s.trailer(n, "writ-change"), forge.CheckPassed)
			})
		}
		fine, stray := s.pushes(within, "within.txt", "hello, reviewed\n"), s.pushes(beyond, "elsewhere.txt", "hi\n")
		s.Commit(t, map[string]string{"README": "the base has moved\n", ".writ/contract.yaml": "version: 1\nclose_on: merged\n"})
		for i, n := range merges {
			if head := s.Prepare(t, s.change(n), methods[i]); head != "" {
				s.until("the rebased branch is judged", func() bool { return s.checked(head, forge.CheckPassed) })
			}
			s.Merge(t, s.change(n), methods[i])
		}
		for _, n := range merges {
			s.mergedAs(n, true)
		}
		s.until("what was pushed is judged", func() bool { return s.checked(fine, forge.CheckPassed) && s.checked(stray, forge.CheckFailed) })
		s.Merge(t, s.change(within), worldtest.ByMerge)
		s.Merge(t, s.change(beyond), worldtest.ByMerge)
		s.mergedAs(within, true)
		s.mergedAs(beyond, false)
		for i, n := range merges {
			s.Revert(t, s.change(n), methods[i])
		}
		for i, n := range merges {
			s.until(fmt.Sprintf("#%d is reopened by the revert of a %s", n, methods[i]), func() bool {
				return s.issue(n).State == forge.Open && strings.Contains(s.report(n), "reverted by")
			})
		}
		v.end()
		for _, n := range all {
			if got := s.closings(n); got != 1 || count(s.states(n), "completed") != 1 {
				t.Errorf("#%d was closed %d times, after %v", n, got, s.states(n))
			}
		}
	})
}
