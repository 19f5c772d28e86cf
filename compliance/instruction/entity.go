package instruction

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/internal/visible"
)

var (
	entity       = regexp.MustCompile(`&(?:#[xX][0-9A-Fa-f]{1,6}|#[0-9]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});`)
	entityInHTML = regexp.MustCompile(`&(?:#[xX][0-9A-Fa-f]{1,6}|#[0-9]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});?`)
)

// maxEntityBytes is longer than any entity that stands for part of an emoji.
const maxEntityBytes = 32

// checkEntities refuses characters that can't be seen and are written as
// "&#8203;" or by a name: the page shows nothing, the builder would read them.
func (p *page) checkEntities(s span, inHTML bool) {
	text := p.src[s.from:s.to]
	if p.hiding != nil || bytes.IndexByte(text, '&') < 0 {
		return
	}
	pattern := entity
	if inHTML {
		pattern = entityInHTML
	}
	var before rune
	at := 0
	for _, m := range pattern.FindAllIndex(text, -1) {
		if at < m[0] {
			before, _ = utf8.DecodeLastRune(text[at:m[0]])
		}
		at = m[1]
		written := string(text[m[0]:m[1]])
		read := html.UnescapeString(written)
		if !inHTML && (escaped(text[:m[0]]) || strings.HasSuffix(read, ";")) {
			continue
		}
		after, _ := utf8.DecodeRuneInString(html.UnescapeString(string(text[at:min(len(text), at+maxEntityBytes)])))
		for _, r := range read {
			if visible.Hidden(r) && !joins(r, before, after) && !strings.ContainsRune("\t\n\r", r) {
				p.fault(s.from+m[0], fmt.Sprintf("%s is U+%04X, which can't be seen.", written, r))
			}
			before = r
		}
	}
}

// escaped reports whether what follows b stands after a backslash that counts.
func escaped(b []byte) bool {
	return (len(b)-len(bytes.TrimRight(b, "\\")))%2 == 1
}
