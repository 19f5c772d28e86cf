package git

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// TestF7_NewCommits: what a push brought is read at once, with what it merged; what
// was there before isn't, and where there is too much one can go on.
func TestF7_NewCommits(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		commit := func(ref, parent, file string) OID {
			return OID(gittest.Commit(t, s.dir, ref, parent, map[string]string{file: "x"}))
		}
		first := commit("refs/heads/main", "", "a")
		before := commit("refs/heads/main", string(first), "b")
		side := commit("refs/heads/side", string(before), "s")
		next := commit("refs/heads/main", string(before), "c")
		tree := strings.TrimSpace(gittest.Git(t, s.dir, "rev-parse", string(next)+"^{tree}"))
		tip := OID(strings.TrimSpace(gittest.Git(t, s.dir, "-c", "user.name=ana", "-c", "user.email=ana@example.com",
			"commit-tree", tree, "-p", string(next), "-p", string(side), "-m", "merge")))
		for name, oid := range map[string]OID{"main": tip, "before": before, "first": first, "next": next} {
			gittest.Git(t, s.dir, "update-ref", "refs/heads/"+name, string(oid))
		}
		r := s.open(t)
		reads := func(from, not, want []OID, most int) (rest []OID) {
			t.Helper()
			got, rest, err := r.Log(t.Context(), from, not, most)
			if err != nil {
				t.Fatal(err)
			}
			var oids []OID
			for _, c := range got {
				oids = append(oids, c.OID)
			}
			slices.Sort(oids)
			slices.Sort(want)
			if !slices.Equal(oids, want) {
				t.Errorf("read %v, want %v", oids, want)
			}
			return rest
		}
		if rest := reads([]OID{tip}, []OID{before}, []OID{tip, next, side}, 100); rest != nil {
			t.Errorf("left are %v", rest)
		}
		reads([]OID{tip}, []OID{tip}, nil, 100)
		reads([]OID{tip}, nil, []OID{tip, next, side, before, first}, 100)
		reads([]OID{before}, []OID{tip}, nil, 1)
		reads([]OID{first, next}, []OID{side}, []OID{next}, 100)
		reads([]OID{tip}, []OID{side}, []OID{tip, next}, 100)                                    // they left before it
		reads([]OID{side}, []OID{OID(strings.Repeat("a", 40))}, []OID{side, before, first}, 100) // forced over
	})
}

// TestF7_AnOldBranch: what is there already isn't read again for a branch that left it
// long before.
func TestF7_AnOldBranch(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		var b strings.Builder
		commit := func(ref, from string, day int) {
			b.WriteString("commit refs/heads/" + ref + "\ncommitter a <a@example.com> " + strconv.Itoa(1_700_000_000+day*86_400) + " +0000\ndata 1\nx\n" + from)
		}
		for i := range 20 {
			commit("main", "", 3*i)
			if i == 4 {
				commit("side", "from refs/heads/main\n", 58)
			}
		}
		gittest.GitInput(t, s.dir, b.String(), "fast-import", "--quiet")
		side := OID(gittest.RefOID(s.dir, "refs/heads/side"))
		got, rest, err := s.open(t).Log(t.Context(), []OID{side}, []OID{OID(gittest.RefOID(s.dir, "refs/heads/main"))}, 100)
		if err != nil || len(got) != 1 || got[0].OID != side || rest != nil {
			t.Errorf("%d commits, left %v, %v", len(got), rest, err)
		}
	})
}

// TestF7_MoreCommitsThanOneAnswer: history beyond the depth of one answer is gone on
// with, and ends where it is known.
func TestF7_MoreCommitsThanOneAnswer(t *testing.T) {
	s := onHTTP(t)
	var b strings.Builder
	const n = 2*logDepth + 10
	for i := range n {
		b.WriteString("commit refs/heads/main\ncommitter a <a@example.com> " + strconv.Itoa(1_700_000_000+i) + " +0000\ndata 1\nx\n")
	}
	gittest.GitInput(t, s.dir, b.String(), "fast-import", "--quiet")
	r := s.open(t)
	tip, known := OID(gittest.RefOID(s.dir, "refs/heads/main")), OID(strings.TrimSpace(gittest.Git(t, s.dir, "rev-parse", "main~"+strconv.Itoa(logDepth+5))))
	for name, c := range map[string]struct {
		not  []OID
		most int
		want int
		left bool
	}{
		"all": {nil, 10 * n, n, false}, "since": {[]OID{known}, 10 * n, logDepth + 5, false}, "bounded": {nil, 10, logDepth, true},
	} {
		got, rest, err := r.Log(t.Context(), []OID{tip}, c.not, c.most)
		if err != nil || len(got) != c.want || (rest != nil) != c.left {
			t.Errorf("%s: %d commits, want %d, left %v, %v", name, len(got), c.want, rest, err)
		}
		if c.left {
			if more, _, err := r.Log(t.Context(), rest, nil, 10*n); err != nil || len(more) != n-logDepth {
				t.Errorf("%s: then %d commits, %v", name, len(more), err)
			}
		}
	}
}
