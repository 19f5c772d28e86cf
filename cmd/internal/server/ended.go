package server

import (
	"sync"

	"github.com/writbot/writ/forge/git"
)

// ended remembers, for one repository and in memory, which state refs tell of a
// task that ended long ago, by the commit at HEAD. A look at each of them would
// use up what the forge allows; one exchange with git tells thousands apart.
type ended struct {
	mu    sync.Mutex
	heads map[int64]git.OID
}
