package git

import (
	"compress/zlib"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// objectCache keeps fetched objects, in memory or in a directory of loose
// objects. It holds objects only, never refs: what an id names can't change.
//
// What is in memory is of two generations. What is asked for again is of the
// young one. When that holds half of what may be kept, or is as old as cachedFor
// and can be read from the directory again, it becomes the old one, and what the
// old one held is dropped.
type objectCache struct {
	dir   string
	limit int64 // bytes of one object
	keep  int64 // bytes in memory
	now   func() time.Time

	mu         sync.Mutex
	young, old map[OID]rawObject
	size       int64     // of the young ones, in bytes
	since      time.Time // the young generation began
}

// cachedFor is for how long what is also in the directory is kept in memory at
// least: what a finished task left there is read once.
const cachedFor = time.Minute

func newObjectCache(dir string, l Limits) *objectCache {
	return &objectCache{dir: dir, limit: l.Object, keep: l.Cached, now: time.Now, young: map[OID]rawObject{}, since: time.Now()}
}

func (c *objectCache) get(oid OID) (rawObject, bool) {
	o, ok := c.recall(oid)
	if ok || c.dir == "" {
		return o, ok
	}
	f, err := os.Open(c.path(oid))
	if err != nil {
		return rawObject{}, false
	}
	defer f.Close()
	kind, data, err := readLoose(f, c.limit)
	// A file that does not hash to its name is a miss: it will be fetched again.
	if err != nil || hashObject(kind, data) != oid {
		return rawObject{}, false
	}
	o = rawObject{oid, kind, data}
	c.remember(o)
	return o, true
}

func (c *objectCache) path(oid OID) string {
	return filepath.Join(c.dir, string(oid[:2]), string(oid[2:]))
}

func (c *objectCache) recall(oid OID) (rawObject, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn(0)
	o, ok := c.young[oid]
	if !ok {
		if o, ok = c.old[oid]; ok {
			c.add(o)
		}
	}
	return o, ok
}

// remember keeps an object in memory.
func (c *objectCache) remember(o rawObject) {
	if n := int64(len(o.data)); n > maxCachedObject || n > c.keep/2 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(o)
}

func (c *objectCache) add(o rawObject) {
	if _, ok := c.young[o.oid]; ok {
		return
	}
	c.turn(int64(len(o.data)))
	c.young[o.oid] = o
	c.size += int64(len(o.data))
}

// turn begins a generation where the young one has no room for n bytes, or is
// old.
func (c *objectCache) turn(n int64) {
	full := c.size+n > c.keep/2
	aged := c.dir != "" && c.now().Sub(c.since) >= cachedFor
	if full || aged {
		c.old, c.young = c.young, map[OID]rawObject{}
		c.size, c.since = 0, c.now()
	}
}

// put keeps an object. A directory that can't be written costs time, not safety.
func (c *objectCache) put(o rawObject) {
	c.remember(o)
	if c.dir == "" {
		return
	}
	if _, err := os.Stat(c.path(o.oid)); errors.Is(err, fs.ErrNotExist) {
		_ = c.write(o)
	}
}

func (c *objectCache) write(o rawObject) error {
	dir := filepath.Dir(c.path(o.oid))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "tmp-")
	if err != nil {
		return err
	}
	z, _ := zlib.NewWriterLevel(f, zlib.BestSpeed) // the level is valid
	_, err = fmt.Fprintf(z, "%s %d\x00%s", o.kind, len(o.data), o.data)
	err = errors.Join(err, z.Close(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.path(o.oid))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	return err
}
