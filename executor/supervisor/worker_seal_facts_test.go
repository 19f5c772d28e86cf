package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// witness sees to it that what was sealed stays what its bytes say: the facts of the
// request in flight, at each of its writes, and each body that it wrote. Every test's
// ledger has one.
type witness struct {
	kept map[int64][]kernel.Draft
}

// strayed are the bodies that were written to after they were sealed.
var strayed struct {
	sync.Mutex
	list []string
}

func strays() []string {
	strayed.Lock()
	defer strayed.Unlock()
	return slices.Clone(strayed.list)
}

// see is called under the lock that the tasks' requests are settled under. The bodies
// of a task's last request are compared when its next one begins.
func (w *witness) see(drafts []kernel.Draft) {
	if w.kept == nil {
		w.kept = map[int64][]kernel.Draft{}
	}
	for _, d := range drafts {
		if _, ok := d.Body.(canon.Sealed); !ok {
			continue
		}
		if d.Kind == kernel.KindObservation {
			for _, last := range w.kept[d.Task] {
				w.compare(d.Task, string(last.Kind), last.Body.(canon.Sealed).Bytes(), last.Body.(canon.Sealed).Value())
			}
			w.kept[d.Task] = nil
		}
		w.kept[d.Task] = append(w.kept[d.Task], d)
	}
}

// look compares the facts of a request at each of its appends.
func (w *witness) look(t *Task, c *cycle, what string) {
	if c != nil && what == "append" {
		w.compare(t.number, "facts", c.sealed.Bytes(), c.facts)
	}
}

func (w *witness) compare(task int64, what string, sealed []byte, value any) {
	now, err := canon.Marshal(value)
	if err == nil && bytes.Equal(now, sealed) {
		return
	}
	strayed.Lock()
	defer strayed.Unlock()
	strayed.list = append(strayed.list, fmt.Sprintf("task %d, %s: sealed were\n%s\nnow it is (%v)\n%s", task, what, sealed, err, now))
}

func (l evidenceLedger) Write(ctx context.Context, now int64, drafts ...kernel.Draft) ([]kernel.SealedRecord, error) {
	l.seen.see(drafts)
	return l.Ledger.Write(ctx, now, drafts...)
}

// sealedFacts fails the whole run of tests where one of them wrote to what was sealed.
func sealedFacts(code int) int {
	if list := strays(); len(list) > 0 {
		fmt.Fprintf(os.Stderr, "R7: written to after it was sealed, %d times; first:\n%s\n", len(list), list[0])
		return 1
	}
	return code
}

// TestR7_FactsStayAsSealed: nobody writes to the facts between the submission of a request
// and its settling record, whatever the request does: a build, a result, a retry, a
// comment on the issue, a merge. What is decided on is what is recorded.
func TestR7_FactsStayAsSealed(t *testing.T) {
	t.Parallel()
	f := newTold(t, func(f *forged) { f.place.terms = mergeTerms })
	f.drive()
	f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
	f.drive()
	f.shows("task 1 completed", kernel.LabelCompleted, false)
	n := 0
	for _, list := range f.seen.kept {
		n += len(list)
	}
	if n == 0 {
		t.Error("the ledger's witness saw no sealed body")
	}
	b := newBench(t, newRepo(t), func(b *bench) { b.exec.build = failing })
	b.reach(kernel.ActionResult)
	if list := strays(); len(list) > 0 {
		t.Errorf("written to after it was sealed: %s", strings.Join(list, "\n"))
	}

	said := map[string]string{"kind": "observation"}
	body, err := canon.Seal(said)
	must(t, err)
	said["kind"] = "another"
	w := witness{kept: map[int64][]kernel.Draft{1: {{Kind: kernel.KindObservation, Body: body}}}}
	w.see([]kernel.Draft{{Kind: kernel.KindObservation, Task: 1, Body: canon.Sealed{}}})
	strayed.Lock()
	defer strayed.Unlock()
	if len(strayed.list) == 0 {
		t.Error("the witness doesn't notice a body that isn't its bytes")
	}
	strayed.list = nil
}
