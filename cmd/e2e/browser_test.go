package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browser is a headless Chromium with a profile of its own.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// openBrowser starts one. Without a Chromium the test fails.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no Chromium: run `make setup`, or install your system's package of that name")
	}
	flags := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1100, 900)}
	for _, name := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "hide-scrollbars",
	} {
		flags = append(flags, chromedp.Flag(name, true))
	}
	const limit = 20 * time.Minute // far above what it takes, below TEST_TIMEOUT of the Makefile
	deadline, cancelDeadline := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	alloc, cancelAlloc := chromedp.NewExecAllocator(deadline, flags...)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // closes the window and waits for the process
		cancel()
		cancelAlloc()
		cancelDeadline()
	})
	// The window lives as long as the context of the first step.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	return &browser{t, ctx}
}

// do does one thing after another. None takes longer than patience.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for n, step := range steps {
		limited, cancel := context.WithTimeout(b.ctx, patience)
		err := chromedp.Do(limited, step)
		cancel()
		if err != nil {
			b.t.Fatalf("step %d: %v; the page says:\n%s", n, err, b.text())
		}
	}
}

// text is what the page says.
func (b *browser) text() string {
	limited, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, _ := chromedp.Run(limited, chromedp.Text("body")) // for messages and searches
	return text
}

// click clicks the button or link that says so.
func (b *browser) click(words string) {
	b.t.Helper()
	b.do(chromedp.Click(`//*[self::button or self::a][contains(., "` + words + `")]`))
}

// choose ticks the box whose label says so.
func (b *browser) choose(words string) {
	b.t.Helper()
	b.do(chromedp.Click(`//label[contains(., "` + words + `")]//input`))
}

// until waits for an element.
func (b *browser) until(selector string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(selector))
}

// pictures is the directory for pictures of the pages, "" where none are wanted.
func pictures() string { return os.Getenv("WRIT_SCREENSHOTS") }

// picture keeps the page, wide and narrow, where pictures are wanted.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := pictures()
	if dir == "" {
		return
	}
	for _, size := range []struct {
		name  string
		width int64
	}{{"wide", 1100}, {"narrow", 360}} {
		const height = 800
		b.do(chromedp.EmulateViewport(size.width, height))
		png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+"-"+size.name+".png"), png, 0o600)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	b.do(chromedp.ResetViewport())
}
