package gateway

import (
	"encoding/json"
	"strings"
)

// Bounds of what a picker keeps, in bytes of one value or name, and in open objects and
// lists.
const (
	maxPicked     = 256
	maxPickedPath = 4
)

// picker reads JSON of any size as it streams by, and keeps one value at a time. It tells
// of those near the top: a path through a list has an empty name in it, and what a model
// writes is text. A reader that pulls, as jsontext's does, would need a goroutine beside each
// answer.
type picker struct {
	take func(path, value string, isText bool)

	open  []byte   // the closing bytes of what is open
	names []string // of the members that are being read, one for each that is open
	buf   []byte
	long  bool // buf isn't the whole value

	text, escaped, word bool // it is inside of a text, behind a backslash, inside of a number or a word
	named               bool // the name of the member has been read
	bad                 bool // it isn't JSON, or too deep
}

// reset begins another document.
func (p *picker) reset() {
	*p = picker{take: p.take, open: p.open[:0], names: p.names[:0], buf: p.buf[:0]}
}

func (p *picker) eat(c byte) {
	switch {
	case p.bad:
		return
	case p.text:
		p.inText(c)
		return
	case c == '"':
		p.text, p.buf, p.long = true, p.buf[:0], false
		return
	case strings.IndexByte(" \t\r\n,:{}[]", c) < 0:
		if !p.word {
			p.word, p.buf, p.long = true, p.buf[:0], false
		}
		p.keep(c)
		return
	}
	if p.word {
		p.word = false
		p.value(string(p.buf), false)
	}
	p.structure(c)
}

func (p *picker) inText(c byte) {
	switch {
	case p.escaped:
		p.escaped = false
	case c == '\\':
		p.escaped = true
	case c == '"':
		p.text = false
		p.endText()
		return
	}
	p.keep(c)
}

func (p *picker) keep(c byte) {
	if p.long = p.long || len(p.buf) == maxPicked; !p.long {
		p.buf = append(p.buf, c)
	}
}

func (p *picker) endText() {
	var text string
	if json.Unmarshal([]byte(`"`+string(p.buf)+`"`), &text) != nil || p.long {
		text = ""
	}
	if n := len(p.open); n > 0 && p.open[n-1] == '}' && !p.named {
		p.names[n-1] = text
		return
	}
	p.value(text, true)
}

// value tells of a value whose place is wanted.
func (p *picker) value(value string, isText bool) {
	if len(p.open) > 0 && len(p.open) <= maxPickedPath && p.named && !p.long {
		p.take(strings.Join(p.names, "."), value, isText)
	}
}

func (p *picker) structure(c byte) {
	n := len(p.open)
	switch c {
	case '{', '[':
		if n == maxDepth {
			p.bad = true
			return
		}
		p.open, p.names = append(p.open, c+2), append(p.names, "") // the closing bytes are two behind
		p.named = false
	case '}', ']':
		if n == 0 || p.open[n-1] != c {
			p.bad = true
			return
		}
		p.open, p.names = p.open[:n-1], p.names[:n-1]
		p.named = true // that of what is open still
	case ':':
		p.named = true
	case ',':
		p.named = n > 0 && p.open[n-1] == ']'
	}
}

// lines reads a stream of server-sent events, and gives the picker what is in them.
type lines struct {
	picker *picker
	field  []byte // of the line, as far as it has been read; "data:" at most
	at     int    // bytes of the line
	data   bool   // it is a line of data
	cr     bool   // the byte before was a carriage return
}

func (l *lines) eat(c byte) {
	const data = "data:"
	after := l.cr
	l.cr = c == '\r'
	switch {
	case c == '\n' && after: // the second half of one end
	case c == '\n' || c == '\r':
		if l.at == 0 {
			l.picker.reset() // the event ends
		} else if l.data {
			l.picker.eat('\n')
		}
		l.field, l.at, l.data = l.field[:0], 0, false
	case l.data:
		l.picker.eat(c)
	default:
		if l.at++; l.at <= len(data) {
			l.field = append(l.field, c)
			l.data = string(l.field) == data
		}
	}
}
