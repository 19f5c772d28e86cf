package builder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
)

// countReads counts how often each blob is delivered.
func countReads(b *bed) func() map[string]int {
	var mu sync.Mutex
	n := map[string]int{}
	blobs := b.base.Blobs
	b.base.Blobs = func(ctx context.Context, ids []string, f func(string, []byte) error) error {
		return blobs(ctx, ids, func(id string, data []byte) error {
			mu.Lock()
			n[id]++
			mu.Unlock()
			return f(id, data)
		})
	}
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		out := map[string]int{}
		for id, c := range n {
			out[id] = c
		}
		return out
	}
}

// manyFiles is a base of n files, some with equal bytes.
func manyFiles(n, size int) executor.Base {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("d%02d/f%04d", i%17, i)] = strings.Repeat(fmt.Sprintf("%07d\n", i-i%10/9), size/8)
	}
	return baseOf(files)
}

// TestFeed_BoundedMemory reads a base that is many times larger than what may
// be held, in the order of a layout and in none, with two workers.
func TestFeed_BoundedMemory(t *testing.T) {
	t.Parallel()
	const size, limit = 4 << 10, 64 << 10
	base := manyFiles(500, size)
	orders := map[string]func([]scope.Entry){
		"as laid out": func(list []scope.Entry) { slices.SortFunc(list, byDir) },
		"backwards":   slices.Reverse[[]scope.Entry],
		"random": func(list []scope.Entry) {
			r := rand.New(rand.NewPCG(1, 2))
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		},
	}
	for name, order := range orders {
		f := newFeed(base)
		f.limit = limit
		list := entries(base.Files)
		order(list)
		f.hold()
		var peak int64
		var wg sync.WaitGroup
		var mu sync.Mutex
		for half := range 2 {
			wg.Go(func() {
				for i := half; i < len(list); i += 2 {
					data, err := f.get(t.Context(), list[i].OID)
					if err != nil || scope.BlobID(data) != list[i].OID {
						t.Errorf("%s: %s: %v", name, list[i].Path, err)
						return
					}
					f.mu.Lock()
					mu.Lock()
					peak = max(peak, f.held)
					mu.Unlock()
					f.mu.Unlock()
				}
			})
		}
		wg.Wait()
		if peak > limit+size {
			t.Errorf("%s: %d bytes were held, %d are allowed", name, peak, limit)
		}
		f.release()
		if f.held != 0 || len(f.have) != 0 || f.size() < 500*size*8/10 {
			t.Errorf("%s: %d bytes are held after use; the size is %d", name, f.held, f.size())
		}
	}
}

// TestFeed_LargeBase builds a base of 72 MiB, larger than the window: laid out, without a
// spare tree, and the runner lays out its own.
func TestFeed_LargeBase(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.base = manyFiles(80, 1<<20)
	o := b.build(b.job(script("mkdir -p calc; echo x > calc/x; git status --porcelain -uno; git log --format=%s")))
	if codes(o) != "" || o.Result.Stdout.Tail != "base of the task\n" {
		t.Errorf("codes %q, git: %s%s", codes(o), o.Result.Stdout.Tail, o.Result.Stderr.Tail)
	}
	b.local.stock.busy.Wait()
	if n := len(b.local.stock.ready); n != 0 {
		t.Errorf("%d spare trees of a large base", n)
	}
	if c := b.check(o, shCheck("c", "test -e calc/x && test -e d00/f0000")); len(c.Violations) != 0 {
		t.Errorf("check: %v", c.Violations)
	}
}

func TestFeed_Failures(t *testing.T) {
	t.Parallel()
	base := manyFiles(3, 8)
	f := newFeed(base)
	if _, err := f.get(t.Context(), "no such id"); err == nil {
		t.Error("a blob that is not of the base was found")
	}
	boom := errors.New("boom")
	f.base.Blobs = func(context.Context, []string, func(string, []byte) error) error { return boom }
	if _, err := f.get(t.Context(), base.Files[0].ID); !errors.Is(err, boom) {
		t.Errorf("err = %v", err)
	}
	f.base.Blobs = func(context.Context, []string, func(string, []byte) error) error { return nil }
	if _, err := f.get(t.Context(), base.Files[0].ID); err == nil {
		t.Error("a blob that never came was found")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.get(ctx, base.Files[0].ID); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}
