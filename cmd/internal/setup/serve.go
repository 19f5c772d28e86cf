package setup

import (
	"time"
)

// The limits of the page's server. A browser on this machine is quick.
const (
	headerTime  = 10 * time.Second
	closeTime   = 40 * time.Second // a code may be being traded, and counts once
	doneTime    = time.Second      // the last page has been sent
	headerBytes = 64 << 10
)
