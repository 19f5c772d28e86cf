package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

// TestF7_Reverted: the tasks whose work a commit reverts are known by the merged
// commit, by the delivered one, and by the change; also after a restart, of a merge
// that nobody told of, and over a commit that was not new.
func TestF7_Reverted(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	f.drive()
	change := f.changeOf()
	unseen := f.push("refs/heads/main", fmt.Sprintf("Say hello (#%d)", change.Number), map[string]string{"out.txt": "hello\n"})
	other := f.push("refs/heads/main", "Something else (#99)", map[string]string{"x": "x"})
	tree := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", "main^{tree}"))
	joined := strings.TrimSpace(gittest.Git(t, f.bare, "-c", "user.name=ana", "-c", "user.email=ana@example.com", "commit-tree", tree,
		"-p", "main", "-p", change.HeadOID, "-m", "Merge branch 'writ/change/1' into 'main'"))
	of := func(message string) git.Commit {
		return git.Commit{OID: numbered(77), Message: []byte(message)}
	}
	look := func(name string, want bool, list ...git.Commit) {
		t.Helper()
		got, err := f.sup.Reverted(t.Context(), list)
		must(t, err)
		if slices.Equal(got, []int64{1}) != want || !want && len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	reverts := func(oid string) git.Commit { return of("Revert \"x\"\n\nThis reverts commit " + oid + ".") }
	for _, when := range []string{"then", "after a restart"} {
		look(when+", a squash that nobody told of", true, reverts(unseen))
		look(when+", a merge that nobody told of", true, reverts(joined))
		look(when+", by its number at GitHub", true, of(fmt.Sprintf("Revert \"Say hello\" (#9)\n\nReverts acme/shop#%d", change.Number)))
		look(when+", the delivered commit", true, reverts(change.HeadOID))
		look(when+", the revert of a revert", true, git.Commit{OID: numbered(78), Message: []byte("This reverts commit " + unseen + ".")}, reverts(string(numbered(78))))
		look(when+", something else", false, reverts(other), of("Follow up on "+unseen), reverts(strings.Repeat("a", 40)))
		f.open()
	}
	merged := f.merge("Say hello", map[string]string{"out.txt": "hello\n"})
	f.later()
	look("the merged commit", true, reverts(merged))
	f.open()
	look("the merged commit, after a restart", true, reverts(merged))
}

// TestF2_TitleRevertsNothing: no title of an issue makes the message of its commit one
// that takes other work back.
func TestF2_TitleRevertsNothing(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("a1", 20)
	for _, title := range []string{
		"Greet again, reverts commit " + id, "reverts " + strings.ToUpper(id), "Reverted: " + id[:20] + "*" + id[20:], "reverts !9", "reverts !*9",
		"Reverts acme/shop#9", "reverts merge request g/p!9", "reverts", "This reverts commit\n" + id, "revert commit \u200b" + id + id,
	} {
		msg, faults := contract.Default().Message(title, 12)
		if found := namesReverted(msg); len(found) > 0 || len(faults) > 0 {
			t.Errorf("%q became %q, which reverts %v: %v", title, msg, found, faults)
		}
	}
}

// TestF7_RevertedIsBounded: however much the new commits name, only so many others
// are read for it.
func TestF7_RevertedIsBounded(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	reads := &countedCommits{Repo: f.repo}
	f.sup.deps.Repo = reads
	var b strings.Builder
	for i := range 10 * mostAsked {
		fmt.Fprintf(&b, "This reverts commit %s.\n", numbered(1000+i))
	}
	got, err := f.sup.Reverted(t.Context(), []git.Commit{{OID: numbered(77), Message: []byte(b.String())}})
	if err != nil || len(got) > 0 || reads.n > mostAsked {
		t.Errorf("%v after %d reads, %v", got, reads.n, err)
	}
}

// countedCommits counts how many commits are read.
type countedCommits struct {
	Repo
	n int
}

func (c *countedCommits) Commit(ctx context.Context, oid git.OID) (git.Commit, error) {
	c.n++
	return c.Repo.Commit(ctx, oid)
}
