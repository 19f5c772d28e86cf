package server

import (
	"testing"

	"github.com/writbot/writ/cmd/internal/wire"
)

func TestServe_CacheIsDivided(t *testing.T) {
	for n, want := range map[int]int64{0: 64 << 20, 1: 64 << 20, 4: 64 << 20, 16: 16 << 20, 50: 256 << 20 / 50, 1000: 4 << 20} {
		s := &generation{forges: []*wire.Forge{{Repositories: make([]string, n/2)}, {Repositories: make([]string, n-n/2)}}}
		if got := s.cachedEach(); got != want {
			t.Errorf("%d repositories: %d bytes each, want %d", n, got, want)
		}
	}
}
