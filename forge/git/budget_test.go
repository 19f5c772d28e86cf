package git

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// incompressible are files of so many bytes, which a pack can't make much smaller.
func incompressible(n, size int) (files map[string]string, ids []OID) {
	files = map[string]string{}
	for i := range n {
		b := make([]byte, size/2)
		_, _ = rand.Read(b) // it never fails
		text := hex.EncodeToString(b)
		files[fmt.Sprint("f", i)], ids = text, append(ids, HashBlob([]byte(text)))
	}
	return files, ids
}

func discard(OID, []byte) error { return nil }

// TestJ5_Budget: fetches that are each within the limits don't come to more together
// than their budget, and what is over it is no fault of the repository's.
func TestJ5_Budget(t *testing.T) {
	s := onHTTP(t)
	files, ids := incompressible(4, 60_000)
	at := gittest.Commit(t, s.dir, "refs/heads/main", "", files)
	for name, b := range map[string]func() *Budget{
		"received": func() *Budget { return NewBudget(100_000, 1<<30) },
		"inflated": func() *Budget { return NewBudget(1<<30, 200_000) },
	} {
		t.Run(name, func(t *testing.T) {
			r, ctx := s.open(t), b().On(t.Context())
			var err error
			n := 0
			for ; n < len(ids) && err == nil; n++ {
				err = r.Blobs(ctx, ids[n:n+1], discard)
			}
			wantCode(t, err, CodeBudget)
			if n < 2 || Lasting(err) {
				t.Errorf("the fetch %d: %v", n, err)
			}
			for _, ctx := range []context.Context{t.Context(), Unbudgeted(ctx), b().On(ctx)} {
				if err := r.Blobs(ctx, ids[len(ids)-1:], discard); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("refs", func(t *testing.T) {
		for i := range 50 {
			gittest.Git(t, s.dir, "update-ref", fmt.Sprint("refs/heads/", i), at)
		}
		r, ctx := s.open(t), NewBudget(10_000, 1<<30).On(t.Context())
		var err error
		for i := 0; i < 10 && err == nil; i++ {
			_, err = r.Refs(ctx)
		}
		wantCode(t, err, CodeBudget)
	})
}

// TestJ5_Pool: what all repositories hold of what is being received is bounded, one
// has at most half of it, and all of it comes back.
func TestJ5_Pool(t *testing.T) {
	s := onHTTP(t)
	files, ids := incompressible(2, 60_000)
	at := gittest.Commit(t, s.dir, "refs/heads/main", "", files)
	pool := NewPool(PoolDisk, 270_000)   // a fetch of one file holds its pack and the file: 90,000 bytes
	within := func(which ...int) error { // each fetches while those before it do
		repos := map[int]*Repo{}
		for _, i := range which {
			if repos[i] == nil {
				repos[i] = openAt(t, Endpoint{URL: s.http.URL}, Options{Pool: pool})
			}
		}
		var dive func(depth int) error
		dive = func(depth int) error {
			if depth == len(which) {
				return nil
			}
			return repos[which[depth]].Blobs(t.Context(), ids[depth%2:depth%2+1], func(OID, []byte) error { return dive(depth + 1) })
		}
		return dive(0)
	}
	for range 2 { // what was held before came back
		if err := within(0, 1); err != nil {
			t.Errorf("two repositories: %v", err)
		}
		wantCode(t, within(0, 0), CodeBudget)
		wantCode(t, within(0, 1, 2), CodeBudget)
	}
	if pool.memory.left != 270_000 || pool.disk.left != PoolDisk {
		t.Errorf("%d and %d bytes are left", pool.memory.left, pool.disk.left)
	}
	tiny := openAt(t, Endpoint{URL: s.http.URL}, Options{Pool: NewPool(PoolDisk, 900)})
	_, err := tiny.Tree(t.Context(), OID(at))
	wantCode(t, err, CodeBudget)
}

// TestJ5_PoolDisk: a pack in a temporary file counts as such, and no longer as memory.
func TestJ5_PoolDisk(t *testing.T) {
	r := openAt(t, Endpoint{URL: gittest.NewBare(t)}, Options{Pool: NewPool(2*(spoolMemory+1<<20), PoolMemory)})
	s := r.newSpool()
	block := []byte(strings.Repeat("x", 1<<20))
	var err error
	n := 0
	for ; n < 30 && err == nil; n++ {
		_, err = s.Write(block)
	}
	wantCode(t, err, CodeBudget)
	if n != 18 || r.pool.memory.left != r.pool.memory.all || r.pool.disk.left != 0 {
		t.Errorf("at the block %d: %+v", n, r.pool)
	}
	s.close()
	if r.pool.disk.left != r.pool.disk.all {
		t.Errorf("%d bytes of files came back", r.pool.disk.left)
	}
}
