package git

import (
	"bytes"
	"fmt"
	"testing"
)

// What is kept in memory stays below its bound, and what was dropped is a miss.
func TestCache_Bound(t *testing.T) {
	c := newObjectCache("", Limits{Cached: 10 << 10}.orDefaults())
	for i := range 100 {
		c.put(rawObject{oid: OID(fmt.Sprintf("%040x", i)), data: bytes.Repeat([]byte{1}, 1<<10)})
		if c.size > 10<<10 || int64(len(c.mem))<<10 != c.size {
			t.Fatalf("after %d objects %d bytes are kept, in %d objects", i+1, c.size, len(c.mem))
		}
	}
	if _, ok := c.get(OID(fmt.Sprintf("%040x", 0))); ok {
		t.Error("the first object is still there")
	}
	if _, ok := c.get(OID(fmt.Sprintf("%040x", 99))); !ok {
		t.Error("the last object is gone")
	}
}
