package git

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// sized is an object of a KiB, with the number in its id.
func sized(n int) rawObject {
	return rawObject{oid: OID(fmt.Sprintf("%040x", n)), kind: objBlob, data: bytes.Repeat([]byte{1}, 1<<10)}
}

// What is kept in memory stays below its bound, and what was dropped is a miss.
func TestCache_Bound(t *testing.T) {
	c := newObjectCache(Limits{Cached: 10 << 10}.orDefaults())
	for i := range 100 {
		c.put(sized(i))
		if n := len(c.young) + len(c.old); n > 10 || int64(len(c.young))<<10 != c.size {
			t.Fatalf("after %d objects %d are kept, %d bytes of them young", i+1, n, c.size)
		}
	}
	if _, ok := c.get(sized(0).oid); ok {
		t.Error("the first object is still there")
	}
	if _, ok := c.get(sized(99).oid); !ok {
		t.Error("the last object is gone")
	}
	large := rawObject{oid: sized(100).oid, data: make([]byte, 6<<10)}
	if c.put(large); len(c.young) == 0 {
		t.Error("an object that is too large to be kept drops the others")
	}
	if _, ok := c.get(large.oid); ok {
		t.Error("an object of more than half of what may be kept is kept")
	}
}

// TestCache_Age: what nobody asks for leaves the memory, and what somebody asks for stays.
func TestCache_Age(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newObjectCache(Limits{}.orDefaults())
	c.now, c.since = func() time.Time { return now }, now
	c.put(sized(1))
	c.put(sized(2))
	for range 3 {
		now = now.Add(cachedFor)
		if _, ok := c.get(sized(1).oid); !ok {
			t.Error("what is used has left the memory")
		}
	}
	if _, ok := c.get(sized(2).oid); ok {
		t.Error("what nobody used is in memory")
	}
}
