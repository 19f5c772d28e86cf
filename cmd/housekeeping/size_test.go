package housekeeping

import (
	"strings"
	"testing"
)

// maxLines is where a Go file is no longer taken for one thing. What belongs together
// stands together: a helper that is used once is beside its caller, and files are
// split by what they are about, not by their length.
const maxLines = 900

// longFiles may be longer, each for its reason.
var longFiles = map[string]string{
	"executor/supervisor/drive.go":          "a drive from its start to its end: when it asks for what, how an act or an outage reaches it, when the issue is told",
	"executor/supervisor/observer_read.go":  "what the observer reads for one request, in the order in which it is read",
}

// TestSize_LongFilesHaveAReason keeps files short, and the list of exceptions too.
func TestSize_LongFilesHaveAReason(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range files(t, isGo) {
		lines := strings.Count(read(t, name), "\n")
		if lines <= maxLines {
			continue
		}
		seen[name] = true
		if longFiles[name] == "" {
			t.Errorf("%s has %d lines, more than %d: split it, or give the reason in longFiles", name, lines, maxLines)
		}
	}
	for name := range longFiles {
		if !seen[name] {
			t.Errorf("longFiles names %s, which is gone or short: delete the entry", name)
		}
	}
}
