package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/forge/worldtest"
)

// walk is three issues on their way from the label to the merge: one changes a guarded path,
// one is reviewed and revised, and one is revised after it was completed. Its methods are the
// steps.
type walk struct {
	*forgeSite
	by      hands
	v       *server
	gate    string // the builder of the guarded path waits for this file
	number  int64  // of the change that is revised
	late    int64  // issue that is revised after it was completed; 0 while it isn't filed
	commits []string
}

// The issues of a walk, by their numbers.
const (
	guardedIssue int64 = 1 + iota
	revisedIssue
)

const walkTerms = "version: 1\nclose_on: merged\nchecks: [{name: test, run: ['true']}]\npaths: {guarded: [ci.txt]}\n" +
	"budgets: {attempts: 30, interruptions: 100, retry_backoff: 0s, retry_backoff_max: 0s}\n"

// hands are what the maintainer acts with.
type hands interface {
	label(issue int64)
	unlabel(issue int64)
	comment(issue int64, body string)
	commentOn(c forge.Change, body string)
	review(c forge.Change, at forge.ReviewPlace, body string)
	merge(c forge.Change)
	// look looks at what the pages say after a step, among it something on an issue.
	look(step string, issue int64, says string)
}

// byAPI are hands that use the forge's API.
type byAPI struct{ *forgeSite }

func (h byAPI) label(issue int64) { h.approve(issue) }

func (h byAPI) unlabel(issue int64) {
	h.must(h.Maintainer.RemoveLabel(h.t.Context(), h.Repo, issue, worldtest.Label))
}

func (h byAPI) comment(issue int64, body string) { h.says(issue, body) }

func (h byAPI) commentOn(c forge.Change, body string) { h.says(c.Number, body) }

func (h byAPI) review(c forge.Change, at forge.ReviewPlace, body string) {
	h.must(h.Maintainer.ReviewAt(h.t.Context(), h.Repo, c.Number, at, body))
}

func (h byAPI) merge(c forge.Change) { h.Merge(h.t, c, worldtest.ByMerge) }

func (byAPI) look(string, int64, string) {}

// asksFor is the text of an issue that asks a builder for a file of its own.
func asksFor(name string) string {
	return strings.ReplaceAll(localtest.Asks(name), "out.txt", name+".txt")
}

// issues are those that are filed.
func (w *walk) issues() []int64 {
	if w.late == 0 {
		return []int64{guardedIssue, revisedIssue}
	}
	return []int64{guardedIssue, revisedIssue, w.late}
}

func newWalk(s *forgeSite, by hands) *walk {
	w := &walk{forgeSite: s, by: by, gate: filepath.Join(s.dir, "gate", "open")}
	s.must(os.MkdirAll(filepath.Dir(w.gate), 0o755))
	s.contract(walkTerms)
	s.server = ", builds: 1"
	s.builders = `ci: {argv: [sh, -c, 'until test -e /gate/open; do sleep 0.1; done; echo deploy > ci.txt'], ro: ['` + filepath.Dir(w.gate) + `:/gate']}
  w: {argv: [sh, -c, 'if test -f w.txt; then echo again >> w.txt; else echo hello > w.txt; fi']}
  late: {argv: [sh, -c, 'echo late >> late.txt']}`
	for _, name := range []string{"ci", "w"} {
		s.file("Write "+name, asksFor(name))
	}
	return w
}

// TestI17_LabelToMerge: label, reaction, queue, status, a guarded path refused and accepted,
// review, fix, moved base, refresh and merge on GitHub and GitLab, and with close_on: verified a fix
// after the issue was closed, with a kill -9 between each two, and others in the middle of
// what is revised, delivered or refreshed. What people say while
// no server runs is found by the sweep. Nothing is done twice: after each death the builders
// that were started are counted, the comments, changes and closings. The embedded forge's
// walk is TestI17_LabelToMergeInABrowser.
func TestI17_LabelToMerge(t *testing.T) {
	onForges(t, func(_ *testing.T, s *forgeSite) { newWalk(s, byAPI{s}).walk() }, "github", "gitlab")
}

func (w *walk) walk() {
	w.v = w.serve()
	for _, step := range []struct {
		name     string
		does     func()
		builders int // that were started until then
		issue    int64
		says     string // on its page
	}{
		{"label and reaction", w.label, 1, revisedIssue, "👀"},
		{"queue", w.queue, 2, revisedIssue, "waits for its turn"}, // the builder that was killed is started again
		{"status", w.status, 4, guardedIssue, "/writ accept sha256:"},
		{"guarded path refused", w.refuse, 4, guardedIssue, "task.stopped"},
		{"built again", w.retry, 5, guardedIssue, "/writ accept sha256:"},
		{"guarded path accepted", w.accept, 5, guardedIssue, "waits for the merge"},
		{"review", w.review, 5, revisedIssue, "waits for the merge"},
		{"fix", w.fix, 6, revisedIssue, "by the revision"}, // one that is cut off goes on with its sealed work
		{"moved base", w.moveBase, 6, guardedIssue, "task 1 completed"},
		{"refresh", w.refresh, 6, revisedIssue, "waits for the merge"},
		{"merge", w.merge, 6, revisedIssue, "task 2 completed"},
		{"completed", w.complete, 7, 0, ""},
		{"fix after the end", w.fixLate, 8, 0, ""},
		{"merge after the end", w.mergeLate, 8, 0, ""},
	} {
		step.does()
		w.by.look(step.name, step.issue, step.says)
		w.v.kill()
		if got := w.started(); got != step.builders {
			w.t.Fatalf("after %s %d builders were started, want %d", step.name, got, step.builders)
		}
		w.wantOnce(step.name)
		w.v = w.serve()
	}
	w.v.end()
	for _, n := range w.issues() {
		results := 1
		if n == w.late {
			results++
		}
		if got := w.closings(n); got != 1 || count(w.states(n), "completed") != results {
			w.t.Errorf("#%d was closed %d times, after %v", n, got, w.states(n))
		}
		w.replays(n)
	}
	writ(w.t, nil, "verify", "--state-dir", w.statePath()).want(w.t, 0)
}

// wantOnce fails if a task has more than one status comment, any answer in words, or another
// change than before.
func (w *walk) wantOnce(after string) {
	w.t.Helper()
	for _, n := range w.issues() {
		if all := w.said(n, ""); len(all) > 1 || len(all) != len(w.said(n, "task:")) {
			w.t.Errorf("after %s #%d says %q", after, n, all)
		}
	}
	if w.number != 0 && w.change(revisedIssue).Number != w.number {
		w.t.Errorf("after %s the change is %d, and was %d", after, w.change(revisedIssue).Number, w.number)
	}
}

// again kills the server, has something happen while none runs, and starts the next one.
func (w *walk) again(meanwhile func()) {
	w.t.Helper()
	w.v.kill()
	meanwhile()
	w.v = w.serve()
}

// label approves the one issue, whose builder works from then on, and the other one, which is
// answered at once. The label is taken off after the kill: who comes first after a start is
// nobody's promise.
func (w *walk) label() {
	w.by.label(guardedIssue)
	w.until("the builder works", func() bool { return w.started() == 1 })
	w.by.label(revisedIssue)
	w.until("the label is answered", func() bool { return slices.Equal(w.Reactions(w.t, revisedIssue), []string{"eyes"}) })
	w.v.kill()
	w.by.unlabel(revisedIssue)
}

// queue approves the other issue once the builder works again, so that there is no slot for
// it.
func (w *walk) queue() {
	off := time.Now()
	w.until("the builder works again", func() bool { return w.started() == 2 })
	w.until("another second", func() bool { return time.Now().Unix() > off.Unix() }) // GitHub tells no finer
	w.by.label(revisedIssue)
	w.until("it says why it waits", func() bool {
		return strings.Contains(w.report(revisedIssue), "waits for its turn") && strings.Contains(w.report(revisedIssue), "All build slots of the server are in use.")
	})
	var q struct {
		Waiting []struct {
			Task  int64 `json:"task_id"`
			Place int64
			Why   string
		}
	}
	w.until("its look is over", func() bool { // one that takes some seconds waits for the server meanwhile
		w.must(json.Unmarshal([]byte(writ(w.t, w.all(), "queue", "--state-dir", w.statePath(), "--json").want(w.t, 0).stdout), &q))
		return len(q.Waiting) != 1 || q.Waiting[0].Why != "server"
	})
	if len(q.Waiting) != 1 || q.Waiting[0].Task != revisedIssue || q.Waiting[0].Place != 1 || q.Waiting[0].Why != "slots" {
		w.t.Errorf("the queue is %+v", q)
	}
	if got := w.Reactions(w.t, revisedIssue); !slices.Equal(got, []string{"eyes"}) {
		w.t.Errorf("the label is answered %v", got)
	}
}

// status lets the builder end: the one task waits for somebody to accept its path, and has no
// branch, the other one waits for its merge.
func (w *walk) status() {
	w.must(os.WriteFile(w.gate, nil, 0o600))
	w.awaitsPaths()
	w.awaitsMerge("built")
	c := w.change(revisedIssue)
	if w.number = c.Number; !strings.Contains(w.report(revisedIssue), c.URL) {
		w.t.Errorf("the status has no link to %s:\n%s", c.URL, w.report(revisedIssue))
	}
	w.until("the change is checked", func() bool { return w.checked(w.commits[0], forge.CheckPassed) })
}

// awaitsMerge waits until the other task is delivered with another commit than before, and
// its status says so. What was cut off is put back, and done again.
func (w *walk) awaitsMerge(after string) {
	w.t.Helper()
	w.until("it waits for the merge, "+after, func() bool {
		change := w.trailer(revisedIssue, "writ-change") // a lease has none
		return w.head(revisedIssue) == "waiting" && change != "" && !slices.Contains(w.commits, change) &&
			strings.Contains(w.report(revisedIssue), "waits for the merge") && strings.Contains(w.report(revisedIssue), change)
	})
	w.commits = append(w.commits, w.trailer(revisedIssue, "writ-change"))
}

// accepts is the line that accepts a guarded path, as a status comment has it.
var accepts = regexp.MustCompile(`/writ accept sha256:[0-9a-f]{64}`)

// awaitsPaths waits until the one task waits for its guarded path and says so, and returns
// the line that accepts it.
func (w *walk) awaitsPaths() (line string) {
	w.t.Helper()
	w.until("it waits for its path", func() bool {
		line = accepts.FindString(w.report(guardedIssue))
		return w.trailer(guardedIssue, "writ-waiting-for") == "paths" && line != "" && strings.Contains(w.report(guardedIssue), "+deploy")
	})
	w.wantNoBranch()
	return line
}

func (w *walk) wantNoBranch() {
	w.t.Helper()
	if oid := gittest.RefOID(w.GitDir, fmt.Sprintf("refs/heads/writ/change/%d", guardedIssue)); oid != "" {
		w.t.Errorf("its branch is at %s", oid)
	}
}

// refuse has somebody accept the path who may not, and the maintainer turn it down.
func (w *walk) refuse() {
	w.turnsAway(guardedIssue, w.awaitsPaths())
	w.by.comment(guardedIssue, "/writ reject")
	w.until("it is turned down", func() bool {
		return w.trailer(guardedIssue, "writ-waiting-for") == "approval" && strings.Contains(w.report(guardedIssue), "task.stopped")
	})
	w.wantNoBranch()
}

// turnsAway has the reader say something on an issue, and waits until that is refused.
func (w *walk) turnsAway(issue int64, body string) {
	w.t.Helper()
	c, err := w.Reader.AddComment(w.t.Context(), w.Repo, issue, body)
	w.must(err)
	w.until("the reader is refused", func() bool {
		got := w.CommentReactions(w.t, issue, c.ID)
		return len(got) == 1 && (got[0] == "-1" || got[0] == "thumbsdown")
	})
}

func (w *walk) retry() {
	w.by.comment(guardedIssue, "/writ retry")
	w.awaitsPaths()
}

// accept is said while no server runs, and the next one dies before it has delivered.
func (w *walk) accept() {
	line := w.awaitsPaths()
	w.again(func() { w.by.comment(guardedIssue, line); w.serveUntil("result:recorded") })
	w.until("it is delivered", func() bool {
		return w.trailer(guardedIssue, "writ-waiting-for") == "merge" && strings.Contains(w.report(guardedIssue), "waits for the merge")
	})
	if got := gittest.Git(w.t, w.GitDir, "show", w.trailer(guardedIssue, "writ-change")+":ci.txt"); got != "deploy" {
		w.t.Errorf("delivered was %q", got)
	}
}

// review comments on a line of the change, which by itself moves nothing.
func (w *walk) review() {
	at := forge.ReviewPlace{Path: "w.txt", Start: 1, End: 1, Commit: w.commits[0]}
	w.by.review(w.change(revisedIssue), at, "Say it again.")
	if got := w.trailer(revisedIssue, "writ-change"); got != w.commits[0] {
		w.t.Errorf("HEAD delivers %q", got)
	}
}

// fix is said in the conversation of the change while no server runs, and the next one dies
// once the builder has ended.
func (w *walk) fix() {
	w.again(func() {
		w.by.commentOn(w.change(revisedIssue), "/writ fix below")
		w.serveUntil("seal:done")
	})
	w.awaitsMerge("revised")
	if parent := strings.TrimSpace(gittest.Git(w.t, w.GitDir, "rev-parse", w.commits[1]+"^")); parent != w.commits[0] {
		w.t.Errorf("the revision stands on %s, want %s", parent, w.commits[0])
	}
	if told := gittest.Git(w.t, w.GitDir, "show", w.ref(revisedIssue)+":dispatch.json"); !strings.Contains(told, "Say it again.") || !strings.Contains(told, "below") {
		w.t.Errorf("the builder was told %s", told)
	}
}

// moveBase merges what was accepted, so that the other change stands on an older base.
func (w *walk) moveBase() {
	w.by.merge(w.change(guardedIssue))
	w.mergedAs(guardedIssue, true)
}

// refresh is said while no server runs, and the next one dies before it has pushed what came
// of it.
func (w *walk) refresh() {
	w.again(func() { w.by.comment(revisedIssue, "/writ refresh"); w.serveUntil("result:recorded") })
	w.awaitsMerge("refreshed")
	main := gittest.RefOID(w.GitDir, "refs/heads/main")
	if parent := strings.TrimSpace(gittest.Git(w.t, w.GitDir, "rev-parse", w.commits[2]+"^")); parent != main {
		w.t.Errorf("refreshed it stands on %s, want %s", parent, main)
	}
	if got := gittest.Git(w.t, w.GitDir, "show", w.commits[2]+":w.txt"); strings.TrimSpace(got) != "hello\nagain" {
		w.t.Errorf("refreshed it says %q", got)
	}
}

func (w *walk) merge() {
	w.by.merge(w.change(revisedIssue))
	w.mergedAs(revisedIssue, true)
}

// complete has the contract close issues once their work is verified, and an issue of that
// kind done.
func (w *walk) complete() {
	w.Commit(w.t, map[string]string{
		"README": "hi\n", "ci.txt": "deploy\n", "w.txt": "hello\nagain\n",
		".writ/contract.yaml": strings.Replace(walkTerms, "close_on: merged", "close_on: verified", 1),
	})
	w.late = w.file("Write late", asksFor("late"))
	w.by.label(w.late)
	w.completed("built")
}

// completed waits until the late issue is, with another commit than before.
func (w *walk) completed(after string) {
	w.t.Helper()
	change := ""
	w.until("it is completed, "+after, func() bool {
		change = w.trailer(w.late, "writ-change")
		return change != "" && w.done(w.late) && !slices.Contains(w.commits, change) && strings.Contains(w.report(w.late), change)
	})
	w.commits = append(w.commits, change)
}

// fixLate is said in the conversation of the change of a completed task that the server has
// looked at since it ended, and whose description somebody wrote anew.
func (w *walk) fixLate() {
	c := w.change(w.late)
	w.must(w.Maintainer.EditChange(w.t.Context(), w.Repo, c.Number, c.Title, "It is late."))
	w.turnsAway(w.late, "/writ fix mine")
	w.by.commentOn(w.change(w.late), "/writ fix and say it again")
	built := w.commits[len(w.commits)-1]
	w.completed("revised")
	revised := w.commits[len(w.commits)-1]
	if parent := strings.TrimSpace(gittest.Git(w.t, w.GitDir, "rev-parse", revised+"^")); parent != built {
		w.t.Errorf("the revision stands on %s, want %s", parent, built)
	}
	if got := w.change(w.late); got.Number != c.Number || got.HeadOID != revised || got.Body != "It is late." {
		w.t.Errorf("the change is %+v", got)
	}
}

// mergeLate merges what is completed already, which the status comment says afterwards.
func (w *walk) mergeLate() {
	w.by.merge(w.change(w.late))
	w.until("it says that it is merged", func() bool {
		return strings.Contains(w.report(w.late), "its change is merged") && strings.Contains(w.report(w.late), "merged_as_verified: `true`")
	})
}
