package git

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/internal/pkt"
)

// listed is a list of refs as a server of either version gives it.
func listed(prefix string, n int) []byte {
	id := strings.Repeat("1", 40)
	var b []byte
	for i := range n {
		b = pkt.Append(b, "%s %s\n", id, fmt.Sprint(prefix, i))
	}
	return append(b, "0000"...)
}

// TestJ5_Refs: a server that lists branches without end is refused before they fill
// the memory; what isn't asked for isn't kept, and doesn't count.
func TestJ5_Refs(t *testing.T) {
	heads := []string{"refs/heads/"}
	for name, read := range map[string]func(b []byte) (Refs, error){
		"version 2": func(b []byte) (Refs, error) { return readLsRefs(bytes.NewReader(b), heads) },
		"version 0": func(b []byte) (Refs, error) {
			a, err := readAdvert(bytes.NewReader(b), heads)
			if err != nil {
				return Refs{}, err
			}
			return a.refs, nil
		},
	} {
		if refs, err := read(listed("refs/heads/", maxRefs)); err != nil || len(refs.byName) != maxRefs {
			t.Errorf("%s: %d refs, %v", name, len(refs.byName), err)
		}
		if _, err := read(listed("refs/heads/", maxRefs+1)); CodeOf(err) != CodeTooLarge {
			t.Errorf("%s: %v", name, err)
		}
		if refs, err := read(listed("refs/pull/", maxRefs+1)); err != nil || len(refs.byName) > 0 {
			t.Errorf("%s: others: %d refs, %v", name, len(refs.byName), err)
		}
	}
}
