package lease

import (
	"bytes"
	"strings"
)

// Trailer is one `Key: Value` line of a message's trailer block. Git compares
// keys without regard to case, so the key is kept as written.
type Trailer struct {
	Key   string
	Value string // unfolded, without surrounding white space
}

// Message is a commit message taken apart.
type Message struct {
	// Title is the first paragraph without its line end. It is for people;
	// nothing in this package looks into it.
	Title string
	// Body is the prompt: what stands between the title's blank line and the
	// blank line before the trailer block, bytes unchanged.
	Body string
	// Trailers are the trailers that git finds, in their order.
	Trailers []Trailer
}

// Values returns every value of key in the order of the message. Keys are
// compared as git does, without regard to ASCII case.
func (m Message) Values(key string) []string {
	var vs []string
	for _, t := range m.Trailers {
		if sameKey(t.Key, key) {
			vs = append(vs, t.Value)
		}
	}
	return vs
}

// Get returns the value of key if the message has it exactly once.
func (m Message) Get(key string) (string, bool) {
	vs := m.Values(key)
	if len(vs) != 1 {
		return "", false
	}
	return vs[0], true
}

// sameKey compares two keys as git does. Keys are ASCII, so folding is safe.
func sameKey(a, b string) bool { return strings.EqualFold(a, b) }

// Parse takes a commit message apart. Its trailers are exactly those that
// `git interpret-trailers --parse --no-divider` prints for the full message
// under git's default configuration; the package comment says what that means.
// It never fails: a message without trailers has none. Time and space are
// linear in the message.
func Parse(message []byte) Message {
	// Git reads a message as a C string: behind a NUL there is nothing.
	if i := bytes.IndexByte(message, 0); i >= 0 {
		message = message[:i]
	}
	lines := splitLines(message)
	title := titleLines(lines)
	head := joinLines(lines[:title])
	crlf := strings.HasSuffix(head, "\r\n")
	m := Message{Title: trimLineEnd(head, crlf)}
	start, end, found := trailerBlock(lines, title)
	if found {
		m.Trailers = parseBlock(lines[start:end])
	}
	m.Body = bodyOf(lines, title, start, found, crlf)
	return m
}

// bodyOf returns the bytes between the blank line that ends the title and the
// blank line before the trailer block, or the end of the message.
func bodyOf(lines []string, title, start int, found, crlf bool) string {
	from, to := title+1, len(lines)
	if found {
		to = start - 1 // the block's blank line isn't the body's
	}
	if from >= to {
		return ""
	}
	return trimLineEnd(joinLines(lines[from:to]), crlf)
}

// trimLineEnd takes one line end off. A carriage return belongs to it only in
// a message whose lines end in CRLF.
func trimLineEnd(s string, crlf bool) string {
	t := strings.TrimSuffix(s, "\n")
	if crlf && len(t) < len(s) {
		t = strings.TrimSuffix(t, "\r")
	}
	return t
}

// splitLines cuts a message after each newline; the last line may have none.
func splitLines(message []byte) []string {
	lines := strings.SplitAfter(string(message), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func joinLines(lines []string) string { return strings.Join(lines, "") }
