package supervisor

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// unlike are the parts of a status comment that differ from one run of a test to the
// next.
var unlike = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{40}\b|\b[0-9a-f]{12}…|sha256:[0-9a-f]{64}|SHA256:[A-Za-z0-9+/]{43}`)

const (
	diskFull = `echo "fatal: write error: No space left on device" >&2; exit 1`
	noText   = `while read old new ref; do git cat-file -e $new:seed_pack.json 2>/dev/null && { echo "push protection: the text has a secret" >&2; exit 1; }; done; exit 0`
)

// onBranches is a hook that takes state refs and does something to other branches.
func onBranches(do string) string {
	return `while read old new ref; do case $ref in refs/heads/*) ` + do + `;; esac; done; exit 0`
}

// TestG6_EachStateHasAHead: what the status comment says of a task in each state, as a
// maintainer reads it.
func TestG6_EachStateHasAHead(t *testing.T) {
	t.Parallel()
	waits := func(f *forged, hook string) {
		gittest.Hook(f.t, f.bare, "pre-receive", hook)
		for range 40 {
			if st := f.tick(); st.Decision.Standing == kernel.StandDue {
				break
			}
			f.exec.finish()
		}
		f.tellAll()
	}
	outage := func(f *forged, hook string) {
		gittest.Hook(f.t, f.bare, "pre-receive", hook)
		f.outlast(time.Hour)
	}
	fails := func(f *forged) { f.exec.build = failing }
	for name, c := range map[string]struct {
		change func(*forged)
		to     func(*forged)
	}{
		"running":          {nil, func(f *forged) { f.reach(kernel.ActionDispatch); f.tellAll() }},
		"rule-claim":       {nil, func(f *forged) { waits(f, noText) }},
		"rule-result":      {nil, func(f *forged) { waits(f, noBranches) }},
		"rule-no-words":    {nil, func(f *forged) { waits(f, onBranches("exit 1")) }},
		"outage-claim":     {nil, func(f *forged) { outage(f, diskFull) }},
		"outage-result":    {nil, func(f *forged) { outage(f, onBranches(diskFull)) }},
		"completed":        {nil, func(f *forged) { f.drive() }},
		"retry-pending":    {fails, func(f *forged) { f.drive() }},
		"blocked":          {func(f *forged) { fails(f); f.place.terms = "version: 1\nbudgets: {attempts: 1}\n" }, func(f *forged) { f.drive() }},
		"awaits-the-merge": {func(f *forged) { f.place.terms = mergeTerms }, func(f *forged) { f.drive() }},
		"refused":          {func(f *forged) { f.place.terms = "version: 1\nmode: observe\n" }, func(f *forged) { f.drive() }},
		"stopped":          {func(f *forged) { f.exec.hold = true }, func(f *forged) { f.reach(kernel.ActionDispatch); f.ask(kernel.RequestStop); f.drive() }},
		"halted": {func(f *forged) { f.exec.hold = true }, func(f *forged) {
			f.reach(kernel.ActionDispatch)
			must(f.t, f.sup.Halt(f.t.Context(), 1, "local:0:ana", "look at the log first"))
			f.drive()
		}},
		"repair": {nil, func(f *forged) {
			f.reach(kernel.ActionClaim)
			gittest.Commit(f.t, f.bare, stateRef, f.ref(stateRef), map[string]string{"note": "hi\n"})
			f.drive()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTold(t, func(f *forged) {
				if f.place.cfg.RunnerID = "host/writ"; c.change != nil {
					c.change(f)
				}
			})
			c.to(f)
			list := f.marked("task")
			if len(list) != 1 {
				t.Fatalf("%d status comments", len(list))
			}
			golden(t, filepath.Join("testdata", "heads", name+".md"), unlike.ReplaceAllString(list[0].Body, "ID"))
		})
	}
}

var update = flag.Bool("update", false, "rewrite the goldens")

// golden compares with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("it isn't %s, but\n%s", path, strings.TrimSpace(got))
	}
}
