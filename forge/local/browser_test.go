package local

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/writbot/writ/forge"
)

// chromium finds the browser. Without one the page is not tested, and that is a
// failure.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium: run `make setup`, or install your system's package of that name")
	return ""
}

// startBrowser opens a window of a fresh profile. What it says in
// alerts is kept: nothing on the page opens one.
func startBrowser(t *testing.T) (context.Context, func() []string) {
	t.Helper()
	flags := []chromedp.ExecAllocatorOption{chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1100, 900)}
	for _, name := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "hide-scrollbars",
	} {
		flags = append(flags, chromedp.Flag(name, true))
	}
	const limit = 10 * time.Minute // far above what it takes, below TEST_TIMEOUT of the Makefile
	deadline, cancelDeadline := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	alloc, cancelAlloc := chromedp.NewExecAllocator(deadline, flags...)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // closes the window and waits for the process
		cancel()
		cancelAlloc()
		cancelDeadline()
	})
	var mu sync.Mutex
	var alerts []string
	ok(t, chromedp.Listen(ctx, func(event any) {
		if e, is := event.(*page.EventJavascriptDialogOpening); is {
			mu.Lock()
			defer mu.Unlock()
			alerts = append(alerts, e.Message)
		}
	}))
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(alerts)
	}
}

func run(ctx context.Context, t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for n, step := range steps {
		limited, cancel := context.WithTimeout(ctx, patience)
		err := chromedp.Do(limited, step)
		cancel()
		if err != nil {
			body, _ := chromedp.Run(ctx, chromedp.Text("body")) // for the message
			t.Fatalf("step %d: %v; the page says:\n%s", n, err, body)
		}
	}
}

// shows waits until a part of the page says something.
func shows(id, text string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(`//*[@id="` + id + `"][contains(., "` + text + `")]`)
}

// picture keeps a picture of the page in the directory WRIT_SCREENSHOTS, if set.
func picture(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if dir := os.Getenv("WRIT_SCREENSHOTS"); dir != "" {
		png := must[[]byte](t)(chromedp.Run(ctx, chromedp.FullScreenshot(100)))
		ok(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
	}
}

// TestBrowser_TheLoopIsSeen: a person files and approves an issue in a real
// browser, sees the bot's comment come and change without loading the page
// again, keeps what is being typed, merges, and nothing that the bot wrote runs.
func TestBrowser_TheLoopIsSeen(t *testing.T) {
	w := newWorld(t)
	srv := w.serve(t)
	token := w.token(t, w.owner)
	ctx, alerts := startBrowser(t)
	var tracked atomic.Int64
	tracker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { tracked.Add(1) }))
	defer tracker.Close()

	run(ctx, t,
		chromedp.Navigate(srv.URL+"/-/login"),
		chromedp.SendKeys("#token", token+kb.Enter), chromedp.WaitVisible("#repos"))
	picture(ctx, t, "repos")
	run(ctx, t, chromedp.Click("#repos a"), chromedp.WaitVisible("#issues"), chromedp.Click("a.primary"), chromedp.WaitVisible("#title"))
	const text = "Add subtracts.\n\n```writ\nallowed_files: [calc/**]\nexpected_outcome: \"`go test ./calc` passes\"\n```\n"
	run(ctx, t, chromedp.SendKeys("#title", "Add fails on negative numbers"), chromedp.SetValue("#body", text),
		chromedp.Click("main .buttons button"), chromedp.WaitVisible("#approve"))
	if i := must[forge.Issue](t)(w.bot.Issue(t.Context(), w.repo, 1)); i.Body != text || i.Author.ID != w.owner.user.ID {
		t.Errorf("filed %+v, want the text %q", i, text)
	}
	run(ctx, t, chromedp.Click("#approve"), chromedp.WaitVisible("#timeline .labeled"))
	events := must[[]forge.Event](t)(w.bot.History(t.Context(), w.repo, 1))
	if len(events) != 1 || events[0].Label != "writ" || events[0].Actor.ID != w.owner.user.ID {
		t.Errorf("history %+v, want the approval by the owner", events)
	}

	run(ctx, t, chromedp.SendKeys(`textarea[name="body"]`, "half a thou"))
	c := must[forge.Comment](t)(w.bot.AddComment(t.Context(), w.repo, 1, "⏳ **claimed**, building in the sandbox"))
	run(ctx, t, shows("timeline", "building in the sandbox"))
	ok(t, w.bot.React(t.Context(), w.repo, c.ID, forge.ReactionDone))
	ok(t, w.bot.EditComment(t.Context(), w.repo, c.ID, strings.ReplaceAll(report, "http://tracker.example", tracker.URL)))
	run(ctx, t, shows("timeline", "1 file changed"))
	ok(t, w.bot.SetState(t.Context(), w.repo, 1, forge.Closed))
	run(ctx, t, shows("headline", "closed"))
	run(ctx, t, shows("side", "Reopen"))
	typed := must[string](t)(chromedp.Run(ctx, chromedp.Value(`textarea[name="body"]`)))
	if typed != "half a thou" {
		t.Errorf("what was being typed became %q", typed)
	}
	ok(t, w.owner.EditIssue(t.Context(), w.repo, 1, "Add fails on negative numbers", strings.Replace(text, "subtracts", "subtracts, always", 1)))
	run(ctx, t, shows("timeline", "edited the text"))
	picture(ctx, t, "issue")

	seeChange(ctx, t, w, srv.URL)
	if said := alerts(); len(said) > 0 || tracked.Load() > 0 {
		t.Errorf("what the bot wrote said %q and asked for %d files elsewhere", said, tracked.Load())
	}
}

// report is a bot's comment, with what a builder's output could smuggle in.
const report = "✅ **Completed.** 1 file changed.\n\n| check | result |\n|---|---|\n| test | passed in 1.2 s |\n\n" +
	"![pixel](http://tracker.example/p.png) <script>alert('ran')</script><img src=http://tracker.example/q.png onerror=alert(1)>\n" +
	"<!-- writ:report run=0198 -->\n"

// seeChange looks at a change and merges it.
func seeChange(ctx context.Context, t *testing.T, w *world, base string) {
	t.Helper()
	oid := w.branch(t, "writ/change/1", "main", map[string]string{
		"README.md": "# Shop\n", "calc/add.go": "package calc\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n",
		"calc/add_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, -1) != 1 {\n\t\tt.Error(\"no\")\n\t}\n}\n",
	})
	must[forge.Change](t)(w.bot.OpenChange(t.Context(), w.repo, forge.Change{Title: "Add: handle negative numbers", Body: "For #1.", Head: "writ/change/1"}))
	ok(t, w.bot.SetCheck(t.Context(), w.repo, oid, forge.Check{Name: "writ", State: forge.CheckPassed, Summary: "verified: changed ⊆ allowed", Detail: "- `test` passed"}))
	run(ctx, t, chromedp.Navigate(base+"/acme/shop/changes"), chromedp.WaitVisible("#changes a"))
	picture(ctx, t, "changes")
	run(ctx, t, chromedp.Click("#changes a"), chromedp.WaitVisible("#merge"))
	run(ctx, t, shows("files", "return a + b"))
	run(ctx, t, chromedp.Click("#side details summary"))
	picture(ctx, t, "change")
	run(ctx, t, chromedp.Click("#merge"))
	run(ctx, t, shows("headline", "merged"))
	if got := w.git(t, "rev-parse", "main"); got != oid {
		t.Errorf("main is %s after the merge, want %s", got, oid)
	}
	run(ctx, t, chromedp.Navigate(base+"/acme/shop/issues?state=closed"), chromedp.WaitVisible("#issues a"))
	picture(ctx, t, "issues")
}
