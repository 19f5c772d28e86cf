package builder

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
)

// unfolding is a base of one blob that stands for many files.
func unfolding(n, size int) executor.Base {
	files := map[string]string{"a": "small\n"}
	for i := range n {
		files[fmt.Sprintf("d/%04d", i)] = strings.Repeat("x", size)
	}
	return baseOf(files)
}

func is[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

// TestS16_BaseThatUnfolds: one object that stands for more files than a workspace may
// hold is refused before the first of them is written, as the base's own fault.
func TestS16_BaseThatUnfolds(t *testing.T) {
	t.Parallel()
	const n, size = 1000, 4 << 10
	b := newBed(t)
	b.base = unfolding(n, size)
	_ = b.job(script("true"))
	f := b.local.stock.feedOf(b.base)
	f.room = n*size - 1 // whichever of its blobs is asked for first
	written := 0
	b.local.stock.disk = func(need int64) bool {
		if need == size {
			written++
		}
		return true
	}
	vs, err := b.local.Survey(t.Context(), "default", b.base)
	if err != nil || len(vs) != 1 || vs[0].Code != kernel.CodeEnvBase || !strings.Contains(vs[0].Detail, "come to more than") {
		t.Errorf("%v, %v", vs, err)
	}
	if written != 0 {
		t.Errorf("%d files of it were about to be written", written)
	}
	f.room = n*size + 6
	if vs, err := b.local.Survey(t.Context(), "default", b.base); err != nil || len(vs) > 0 {
		t.Errorf("a base that fits: %v, %v", vs, err)
	}
	if fresh := newFeed(b.base); fresh.room != layBytes {
		t.Errorf("room for %d bytes", fresh.room)
	}
	f.hold()
	defer f.release()
	f.room = size
	if _, err := f.get(t.Context(), scope.BlobID([]byte(strings.Repeat("x", size)))); !is[*scope.TreeError](err) {
		t.Errorf("asked for: %v", err)
	}
}

// TestS16_BaseTakesNoReserve: a layout stops before it takes what is to stay free on the
// disk, which the ledger may be on, and what it wrote is taken away.
func TestS16_BaseTakesNoReserve(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *Config) { c.Limits.DiskReserveBytes = 1 << 60 })
	job := b.job(script("true"))
	_, err := b.local.Survey(t.Context(), "default", b.base)
	if e, ok := errors.AsType[*executor.Error](err); !ok || e.Code != kernel.CodeEnvDisk {
		t.Errorf("survey: %v", err)
	}
	if o := b.build(job); codes(o) != string(kernel.CodeEnvDisk) || o.Result.Exit.Cause != kernel.CauseStartFailed {
		t.Errorf("build: %q, exit %+v", codes(o), o.Result.Exit)
	}
}
