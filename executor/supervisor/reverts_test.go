package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel/world"
)

// commits is a repository of which there are only commits; those without an entry
// can't be read.
type commits struct {
	Repo
	known map[git.OID]git.Commit
}

func (r commits) Commit(_ context.Context, oid git.OID) (git.Commit, error) {
	c, ok := r.known[oid]
	if !ok {
		return c, errors.New("the connection was lost")
	}
	return c, nil
}

func (r commits) Log(ctx context.Context, from, not []git.OID, most int) ([]git.Commit, []git.OID, error) {
	return logOf(ctx, r, from, not, min(most, 1000))
}

func numbered(n int) git.OID { return git.OID(fmt.Sprintf("%040x", n)) }

// chain makes commits on a merged one, each the child of the one before.
func chain(messages ...string) (r commits, merged, tip git.OID) {
	r.known = map[git.OID]git.Commit{}
	merged, tip = numbered(1), numbered(1)
	for i, text := range messages {
		next := numbered(i + 2)
		r.known[next] = git.Commit{OID: next, Message: []byte(text), Parents: []git.OID{tip}}
		tip = next
	}
	return r, merged, tip
}

func (r commits) revertOf(t *testing.T, task *Task, merged, tip git.OID) (string, error) {
	t.Helper()
	task.s = &Supervisor{deps: Deps{Repo: r}}
	return task.tracker.revertedBy(t.Context(), tip, forge.Change{Number: 7, MergedOID: string(merged)}, merged, merged)
}

// TestF7_RevertBelowALostAnswer: what could not be read is read the next time.
func TestF7_RevertBelowALostAnswer(t *testing.T) {
	t.Parallel()
	r, merged, tip := chain("This reverts commit "+string(numbered(1))+".", "Something else")
	lost := numbered(2)
	whole := r.known[lost]
	delete(r.known, lost)
	task := (&Supervisor{}).task(1, nil)
	if by, err := r.revertOf(t, task, merged, tip); err == nil {
		t.Fatalf("a commit was not read, and yet: %q", by)
	}
	r.known[lost] = whole
	if by, err := r.revertOf(t, task, merged, tip); by != string(lost) || err != nil {
		t.Errorf("reverted by %q, %v", by, err)
	}
}

// TestF7_RevertFarDown: a revert is found below however many commits; those that are
// too many for one look are the next one's.
func TestF7_RevertFarDown(t *testing.T) {
	t.Parallel()
	for _, above := range []int{300, maxReverts + 300} {
		r, merged, tip := chain(append([]string{"This reverts commit " + string(numbered(1)) + "."}, make([]string, above)...)...)
		task := (&Supervisor{}).task(1, nil)
		by, err := r.revertOf(t, task, merged, tip)
		if above > maxReverts && by == "" && err == nil {
			by, err = r.revertOf(t, task, merged, tip)
		}
		if by != string(numbered(2)) || err != nil {
			t.Errorf("below %d commits: reverted by %q, %v", above, by, err)
		}
	}
}

// TestF7_RevertsOfReverts: messages that each name two others are many ways through
// few commits; each commit is looked at once.
func TestF7_RevertsOfReverts(t *testing.T) {
	t.Parallel()
	messages := make([]string, 199)
	for i := range messages {
		var names []string
		for _, earlier := range []int{i + 1, i} {
			if earlier > 0 {
				names = append(names, "This reverts commit "+string(numbered(earlier))+".")
			}
		}
		messages[i] = strings.Join(names, "\n")
	}
	r, merged, tip := chain(messages...)
	if _, err := r.revertOf(t, (&Supervisor{}).task(1, nil), merged, tip); err != nil {
		t.Fatal(err)
	}
}

// TestF7_RevertByItsName: a change is reverted by the name that its forge gives
// it: issues and merge requests count apart on GitLab.
func TestF7_RevertByItsName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number int64
		says   string
		is     bool
	}{
		{7, "Revert \"x\" (#9)\n\nReverts acme/shop#7", true},
		{7, "Revert \"x\" (#7)\n\nReverts acme/shop#6", false},
		{forge.MergeRequests + 7, "Revert \"x\"\n\nThis reverts merge request !7", true},
		{forge.MergeRequests + 7, "Revert \"x\"\n\nThis reverts merge request acme/tools/shop!7", true},
		{forge.MergeRequests + 7, "This reverts #7", false},
	} {
		r, merged, tip := chain(c.says)
		task := (&Supervisor{deps: Deps{Repo: r}}).task(1, nil)
		by, err := task.tracker.revertedBy(t.Context(), tip, forge.Change{Number: c.number, MergedOID: string(merged)}, merged, merged)
		if err != nil || (by != "") != c.is {
			t.Errorf("%d and %q: reverted by %q, %v", c.number, c.says, by, err)
		}
		h := savedSample(t, 0, false)
		saved, err := h.World.Save()
		must(t, err)
		saved.Beside.Changes = []world.SavedChange{{Number: c.number, Task: 1}}
		known, err := world.Restore(saved)
		must(t, err)
		found, err := (&Supervisor{world: known, mu: &sync.Mutex{}}).Reverted(t.Context(), []git.Commit{{OID: tip, Message: []byte(c.says)}})
		if err != nil || slices.Equal(found, []int64{1}) != c.is {
			t.Errorf("%d and %q: reverts %v, %v", c.number, c.says, found, err)
		}
	}
}
