package housekeeping

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
)

// TestA44_NothingMerges: merging is the forge's and its people's. No role of a
// forge has a merge, and no adapter calls one.
func TestA44_NothingMerges(t *testing.T) {
	for c, i := reflect.TypeFor[forge.Client](), 0; i < c.NumMethod(); i++ {
		if name := c.Method(i).Name; strings.Contains(name, "Merge") {
			t.Errorf("forge.Client can %s", name)
		}
	}
	files := 0
	for _, dir := range []string{"github", "gitlab"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", "forge", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			files++
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"PullRequests.Merge", "AcceptMergeRequest", "EnablePullRequestAutoMerge", "/merge\""} {
				if strings.Contains(string(data), call) {
					t.Errorf("%s has %s", path, call)
				}
			}
		}
	}
	if files < 10 {
		t.Errorf("only %d files were looked at", files)
	}
}
