package housekeeping

import (
	"strings"
	"testing"
)

// maxLines is the length of a Go file beyond which a reader loses the thread.
const maxLines = 400

// longFiles may be longer, each for its reason.
var longFiles = map[string]string{
	"compliance/scope/verify_test.go": "the hostile trees of S1 to S18, a table in the order of the cases",
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
