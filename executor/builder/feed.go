package builder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge/git"
)

const (
	// feedBytes is how much of a base is held in memory. Most repositories are
	// smaller than half of it and are then read once, however often they are laid
	// out. A base of a gigabyte costs this much, and its largest file.
	feedBytes = 64 << 20
	// feedBatch is how many blobs are asked for at once: a server answers each
	// request in one round trip.
	feedBatch = 4096
	// layBytes is what the files of a base may come to in a workspace: what a server may
	// send in one fetch. Few objects can stand for any number of files with their bytes.
	layBytes = git.DefaultMaxUnpacked
)

// errFull ends a batch that has reached feedBytes.
var errFull = errors.New("enough for now")

// feed hands out a base's blobs, reading ahead in the order in which a tree is
// laid out, in batches that fit in memory.
type feed struct {
	base  executor.Base
	limit int64
	room  int64            // that a layout may take
	order []string         // distinct ids in the order of their first use
	place map[string]int   // id → index in order
	files map[string]int64 // id → how many files it stands for
	tree  func() string    // the name of the base's layer

	mu    sync.Mutex
	step  int             // how many blobs are asked for at most
	seen  map[string]bool // was read in this use; not read ahead again
	have  map[string][]byte
	held  int64 // bytes in have
	total int64 // bytes of the blobs seen
	laid  int64 // bytes of the files that these stand for
	most  int64 // the largest total of any use
	users int
}

func newFeed(base executor.Base) *feed {
	list := entries(base.Files)
	slices.SortFunc(list, byDir)
	f := &feed{base: base, limit: feedBytes, room: layBytes, step: feedBatch, place: make(map[string]int, len(list)), files: make(map[string]int64, len(list)),
		seen: map[string]bool{}, have: map[string][]byte{}}
	f.tree = sync.OnceValue(func() string { return treeName(list) })
	for _, e := range list {
		f.files[e.OID]++
		if _, known := f.place[e.OID]; !known && e.Mode != scope.ModeGitlink {
			f.place[e.OID] = len(f.order)
			f.order = append(f.order, e.OID)
		}
	}
	return f
}

// treeName names a tree by all of its entries.
func treeName(list []scope.Entry) string {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b scope.Entry) int { return strings.Compare(a.Path, b.Path) })
	var all []byte
	for _, e := range list {
		all = fmt.Appendf(all, "%s %s %d\x00%s", e.Mode, e.OID, len(e.Path), e.Path)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:])
}

// byDir is the order of [scope.Materialise]: one directory after another.
func byDir(a, b scope.Entry) int {
	if c := strings.Compare(parent(a.Path), parent(b.Path)); c != 0 {
		return c
	}
	return strings.Compare(a.Path, b.Path)
}

func parent(path string) string {
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}

// hold and release bracket a use of the feed. Nothing is kept in memory between
// uses.
func (f *feed) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users++
}

func (f *feed) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most = max(f.most, f.total)
	if f.users--; f.users == 0 {
		f.seen, f.have, f.held, f.total, f.laid = map[string]bool{}, map[string][]byte{}, 0, 0, 0
	}
}

// size is what is known of the base's bytes: all of them once a tree of it was
// laid out.
func (f *feed) size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.most, f.total)
}

// get returns one blob.
func (f *feed) get(ctx context.Context, id string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if data, ok := f.have[id]; ok {
		return data, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, known := f.place[id]
	if !known {
		return nil, fmt.Errorf("blob %s is not of the base", id)
	}
	if err := f.readAhead(ctx, at); err != nil {
		return nil, err
	}
	if data, ok := f.have[id]; ok {
		return data, nil
	}
	// The batch was full before it came: alone it has room.
	if err := f.read(ctx, []string{id}); err != nil {
		return nil, err
	}
	if data, ok := f.have[id]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("blob %s is missing", id)
}

// readAhead reads the blob at an index and some behind it. One that can't be had
// fails the whole batch: then fewer are asked for at a time, down to the one, so
// that the failure is that of the blob which was asked for.
func (f *feed) readAhead(ctx context.Context, at int) error {
	for {
		ids := f.batch(at)
		ids = ids[:min(len(ids), f.step)]
		err := f.read(ctx, ids)
		switch {
		case err == nil:
			f.step = min(2*f.step, feedBatch)
			return nil
		case len(ids) == 1 || !git.Lasting(err):
			return err
		}
		f.step = len(ids) / 2
	}
}

// batch makes room and lists what to read: the blob at an index and what is
// likely to be wanted next. What lies before it was laid out already, but for
// the little that a slower worker has to read again.
func (f *feed) batch(at int) []string {
	ids := []string{f.order[at]}
	f.drop(f.limit/2, at)
	f.drop(f.limit, len(f.order))
	if f.seen[f.order[at]] {
		return ids
	}
	for _, id := range f.order[at+1:] {
		if len(ids) >= f.ahead() {
			break
		}
		if !f.seen[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// drop lets go of what stands before a place once more than so many bytes are
// held. Only who asks in another order than that of a layout makes it drop
// what lies ahead.
func (f *feed) drop(over int64, before int) {
	if f.held < over {
		return
	}
	for id, data := range f.have {
		if f.place[id] < before {
			delete(f.have, id)
			f.held -= int64(len(data))
		}
	}
}

// ahead is how many blobs of the size that was usual so far fit in memory.
func (f *feed) ahead() int {
	if len(f.seen) == 0 || f.total == 0 {
		return feedBatch
	}
	usual := max(f.total/int64(len(f.seen)), 1)
	return int(min(max((f.limit/2-f.held)/usual, 1), feedBatch))
}

// read takes in blobs until half of the memory is full, one at least. The other
// half is for those that come out of turn. One whose files would come to too much is
// refused before the first of them is written.
func (f *feed) read(ctx context.Context, ids []string) error {
	n := 0
	err := f.base.Blobs(ctx, ids, func(id string, data []byte) error {
		if n > 0 && f.held+int64(len(data)) > f.limit/2 {
			return errFull
		}
		if !f.seen[id] {
			if f.laid += int64(len(data)) * f.files[id]; f.laid > f.room {
				return &scope.TreeError{Reason: fmt.Sprintf("laid out, its files come to more than %d bytes", f.room)}
			}
		}
		n++
		if _, twice := f.have[id]; !twice {
			f.have[id] = data
			f.held += int64(len(data))
		}
		if !f.seen[id] {
			f.seen[id] = true
			f.total += int64(len(data))
		}
		return nil
	})
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}
