package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/writbot/writ/compliance/report"
)

// Display is what a person sees while a task runs: plain lines, and on a
// terminal one live line below them.
type Display struct {
	mu       sync.Mutex
	w        io.Writer
	redactor *report.Redactor
	width    int // of the terminal, 0 off one
	started  time.Time
	phase    string
	last     string // of the builder's output
	shown    bool   // the live line stands there
}

// redrawEvery keeps the live line's clock going without a flicker.
const redrawEvery = time.Second

// NewDisplay looks at what it writes to.
func NewDisplay(w io.Writer, r *report.Redactor, dumb bool) *Display {
	d := &Display{w: w, redactor: r, started: time.Now()}
	if f, ok := w.(*os.File); ok && !dumb && term.IsTerminal(int(f.Fd())) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 20 {
			d.width = width
		}
	}
	return d
}

// Live keeps the live line's clock going until stop is called, which takes the
// line away.
func (d *Display) Live() (stop func()) {
	if d.width == 0 {
		return func() {}
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(redrawEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				d.mu.Lock()
				d.draw()
				d.mu.Unlock()
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-done
		d.mu.Lock()
		d.clear()
		d.mu.Unlock()
	}
}

// Progress tells a step. It stays.
func (d *Display) Progress(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase, d.last = d.clean(line), ""
	d.clear()
	fmt.Fprintln(d.w, "writ: "+d.phase)
	d.draw()
}

// Tail shows a line of the builder's or a check's output: the newest one on a
// terminal, all of them elsewhere.
func (d *Display) Tail(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = d.clean(line)
	if d.width == 0 {
		fmt.Fprintln(d.w, "  | "+d.last)
		return
	}
	d.draw()
}

// Write takes whole lines of the log.
func (d *Display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	for line := range strings.Lines(string(p)) {
		fmt.Fprintln(d.w, "writ: "+d.clean(line))
	}
	d.draw()
	return len(p), nil
}

// clean makes one harmless line of a text.
func (d *Display) clean(s string) string {
	s = report.Clean(d.redactor.String(s))
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\t' }), " ")
}

func (d *Display) clear() {
	if d.shown {
		fmt.Fprint(d.w, "\r\x1b[K")
		d.shown = false
	}
}

// draw shows the live line: time, step, newest output, cut to the width.
func (d *Display) draw() {
	if d.width == 0 || d.phase == "" {
		return
	}
	line := fmt.Sprintf("%s  %s", time.Since(d.started).Truncate(time.Second), d.phase)
	if d.last != "" {
		line += "  " + d.last
	}
	if utf8.RuneCountInString(line) >= d.width {
		line = string([]rune(line)[:d.width-2]) + "…"
	}
	fmt.Fprint(d.w, "\r\x1b[K"+line)
	d.shown = true
}
