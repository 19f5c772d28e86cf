package replay

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// counted counts what is asked of a repository beyond commits, and spoils commits.
type counted struct {
	Repo
	asked int
	spoil func(*git.Commit)
}

func (c *counted) Commit(ctx context.Context, oid git.OID) (git.Commit, error) {
	got, err := c.Repo.Commit(ctx, oid)
	if c.spoil != nil {
		c.spoil(&got)
	}
	return got, err
}

func (c *counted) Tree(ctx context.Context, oid git.OID) (git.Tree, error) {
	c.asked++
	return c.Repo.Tree(ctx, oid)
}

// TestJ3_Unsigned: behind a HEAD that nobody signed nothing is read, and it is named
// as what is wrong.
func TestJ3_Unsigned(t *testing.T) {
	s := newStage(t, testWorld, 1)
	s.play(1, true, nil)
	repo := &counted{Repo: s.repo, spoil: func(c *git.Commit) { c.Signature = nil }}
	r, err := VerifyTask(t.Context(), repo, stateRef, Options{})
	s.must(err)
	if repo.asked != 0 {
		t.Errorf("%d trees were asked for", repo.asked)
	}
	for _, w := range []string{r.Head, "of task 3", `by "writ" <writ@example.test>`} {
		if r.Head == "" || !strings.Contains(r.Checks[0].Detail, w) || strings.Contains(r.Plain(), "record ") {
			t.Errorf("who and what isn't named, %q:\n%s", w, r.Plain())
		}
	}
	if r.OK || len(r.Checks) != 1 || r.Checks[0].Name != "signature" || !strings.Contains(r.Checks[0].Detail, "it is not signed") || r.FirstBad != nil {
		t.Errorf("report:\n%s", r.Plain())
	}
}

// TestJ3_UnreadableRecords: a lying instance signs millions of lines that are no
// records. The first is named, and no memory is spent on the others.
func TestJ3_UnreadableRecords(t *testing.T) {
	x := completed(t)
	const size = 4 << 20
	x.pack[FileRecords] = []byte(strings.Repeat("\n", size))
	x.sign()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := x.verify()
	runtime.ReadMemStats(&after)
	if r.OK || r.FirstBad == nil || r.FirstBad.File != FileRecords {
		t.Errorf("report:\n%s", r.Plain())
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 16*size {
		t.Errorf("%d bytes were allocated for %d", n, size)
	}
}

// TestJ3_TooMuch: what a repository has read for one task ends somewhere, with its
// code.
func TestJ3_TooMuch(t *testing.T) {
	s := newStage(t, testWorld, 1)
	s.play(1, true, nil)
	refs, err := s.repo.Refs(t.Context(), stateRef)
	s.must(err)
	for name, size := range map[string]int64{"a commit": maxCommit + 1, "all of them": maxCommit} {
		repo := &counted{Repo: s.repo}
		r := reader{ctx: t.Context(), repo: repo}
		if size == maxCommit {
			r.size = maxRead - size
		}
		repo.spoil = func(c *git.Commit) { c.Raw = make([]byte, size) }
		err := r.read(refs.OID(stateRef))
		var e *Error
		if !errors.As(err, &e) || e.Code != kernel.CodeEvidenceTooLarge {
			t.Errorf("%s: %v", name, err)
		}
	}
}
