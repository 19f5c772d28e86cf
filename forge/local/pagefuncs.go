package local

import (
	"bytes"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/yuin/goldmark"

	"github.com/writbot/writ/forge"
)

// functions are what templates may call.
func functions() template.FuncMap {
	md := newMarkdown()
	return template.FuncMap{
		"markdown": func(text string) template.HTML { return markdown(md, text) },
		"when":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"shown":    shown,
		"short":    func(oid string) string { return shorten(oid, shortOID) },
		"digest":   func(d string) string { return shorten(strings.TrimPrefix(d, "sha256:"), shortDigest) },
		"op":       opClass,
		"sign":     func(op byte) string { return string(rune(op)) },
		"face":     face,
		"initial":  func(u forge.User) string { return strings.ToUpper(u.Login[:min(1, len(u.Login))]) },
		"may":      atLeast,
		"verb":     verb,
		"mark":     checkMark,
		"label":    func(name, class string) labelView { return labelView{name, class} },
	}
}

// markdown renders a text. What it returns is the only text on the page that
// isn't escaped by the template.
func markdown(md goldmark.Markdown, said string) template.HTML {
	var b bytes.Buffer
	if err := md.Convert([]byte(said), &b); err != nil {
		return template.HTML("<pre>" + template.HTMLEscapeString(said) + "</pre>")
	}
	return template.HTML(b.String())
}

// shown is a line of somebody's text in which controls, and what turns the reading
// direction or can't be seen, stand as escapes: a title must not pass for another one.
// Parts of emoji stay.
func shown(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp) || strings.ContainsRune("\u200b\u2060\ufeff\u00ad", r) || r >= 0xe0000 && r <= 0xe007f {
			fmt.Fprintf(&b, "\\u{%x}", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

const (
	shortOID    = 10
	shortDigest = 12
)

// labelView is a label as the parts draw it.
type labelView struct{ Name, Class string }

func shorten(s string, n int) string { return s[:min(n, len(s))] }

func digits(n int64) string { return strconv.FormatInt(n, 10) }

func atLeast(have forge.Permission, need string) (bool, error) {
	p, err := forge.ParsePermission(need)
	return have >= p, err
}

func opClass(op byte) string {
	switch op {
	case '+':
		return "added"
	case '-':
		return "deleted"
	case '@':
		return "part"
	}
	return "same"
}

// face is a reaction as a character.
func face(r forge.Reaction) string {
	switch r {
	case forge.ReactionSeen:
		return "👀"
	case forge.ReactionDone:
		return "🚀"
	case forge.ReactionRefused:
		return "👎"
	case forge.ReactionConfused:
		return "😕"
	}
	return string(r)
}

// verb says what an event was.
func verb(kind string) string {
	switch forge.EventKind(kind) {
	case forge.EventLabeled:
		return "added the label"
	case forge.EventUnlabeled:
		return "removed the label"
	case forge.EventClosed:
		return "closed this"
	case forge.EventReopened:
		return "reopened this"
	case forge.EventEdited:
		return "edited the text"
	case forge.EventTransferred:
		return "transferred this"
	case eventMerged:
		return "merged this"
	}
	return kind
}

func checkMark(s forge.CheckState) string {
	switch s {
	case forge.CheckPassed:
		return "✓"
	case forge.CheckFailed:
		return "✗"
	}
	return "…"
}

// hueClass is the style sheet's class nearest to a colour. Colours come as
// classes because the page's policy allows no inline style.
func hueClass(color string) string {
	n, err := strconv.ParseUint(color, 16, 32)
	if err != nil {
		return "hue-grey"
	}
	const sectors, degrees = 12, 360
	r, g, b := float64(n>>16&0xff), float64(n>>8&0xff), float64(n&0xff)
	top, low := max(r, g, b), min(r, g, b)
	spread := top - low
	const grey = 24 // of 255: less colour than that is none
	if spread < grey {
		return "hue-grey"
	}
	var hue float64
	switch top {
	case r:
		hue = 60 * (g - b) / spread
	case g:
		hue = 60*(b-r)/spread + 120
	default:
		hue = 60*(r-g)/spread + 240
	}
	sector := (int(hue+degrees+degrees/sectors/2) % degrees) / (degrees / sectors)
	return fmt.Sprintf("hue-%d", sector)
}
