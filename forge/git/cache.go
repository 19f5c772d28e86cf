package git

import (
	"sync"
	"time"
)

// objectCache keeps fetched objects in memory. It holds objects only, never refs: what an
// id names can't change.
//
// They are of two generations. What is asked for again is of the young one. When that
// holds half of what may be kept, or is as old as cachedFor, it becomes the old one, and
// what the old one held is dropped. So what nobody asks for is dropped, too, at the latest
// when something else is asked for after twice that time: what a finished task left there
// is read once.
type objectCache struct {
	keep int64 // bytes
	now  func() time.Time

	mu         sync.Mutex
	young, old map[OID]rawObject
	size       int64     // of the young ones, in bytes
	since      time.Time // the young generation began
}

const cachedFor = time.Minute

func newObjectCache(l Limits) *objectCache {
	return &objectCache{keep: l.Cached, now: time.Now, young: map[OID]rawObject{}, since: time.Now()}
}

func (c *objectCache) get(oid OID) (rawObject, bool) {
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

func (c *objectCache) put(o rawObject) {
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

// turn begins a generation where the young one has no room for n bytes, or is old.
func (c *objectCache) turn(n int64) {
	if c.size+n > c.keep/2 || c.now().Sub(c.since) >= cachedFor {
		c.old, c.young = c.young, map[OID]rawObject{}
		c.size, c.since = 0, c.now()
	}
}
