package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/report"
)

// TestF3_Display: what a builder prints can neither steer the terminal nor
// show a secret.
func TestF3_Display(t *testing.T) {
	var b bytes.Buffer
	d := NewDisplay(&b, report.NewRedactor([]string{"canary-123456"}), false)
	d.Tail("a\x1b[2Jb\rc canary-123456\u202ed")
	d.Progress("two\nlines canary-123456")
	fmt.Fprint(d, "level=WARN msg=\"x canary-123456\"\n")
	got := b.String()
	if strings.Contains(got, "canary") || strings.ContainsAny(got, "\x1b\r\u202e") || strings.Count(got, "\n") != 3 {
		t.Errorf("%q", got)
	}
}

// TestDisplay_LiveLine: on a terminal there is one line below, which goes.
func TestDisplay_LiveLine(t *testing.T) {
	var b bytes.Buffer
	d := NewDisplay(&b, report.NewRedactor(nil), false)
	d.width = 40
	stop := d.Live()
	d.Progress("builder started")
	d.Tail(strings.Repeat("long ", 50))
	stop()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\r\x1b[K"), "\r\x1b[K")
	if last := []rune(lines[len(lines)-1]); len(last) >= d.width || !strings.HasSuffix(b.String(), "\r\x1b[K") {
		t.Errorf("%q", b.String())
	}
}
