package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// envelope is what of a record is needed beside its bytes.
type envelope struct {
	kind kernel.Kind
	task int64
	time int64
	body []byte
	link bool // prev fits
}

// plain reads a record as this writ writes them, from the end: what must be the
// same is compared as bytes, and only the body is scanned, which makes a
// verification a third faster. It takes nothing that read would refuse; what it
// doesn't take, read decides, with a reason.
func (c *checker) plain(raw []byte) (e envelope, ok bool) {
	if c.tree.size == 0 || len(raw) > MaxRecordBytes {
		return e, false
	}
	p := parts{rest: raw, ok: true}
	p.cutPrefix(`{"body":`)
	p.cut([]byte("}"))
	p.cut(c.world)
	p.cutText(`,"v":1,"world_id":`)
	e.time = p.number(`,"time":`)
	e.task = p.number(`,"task":`)
	seq := p.number(`,"seq":`)
	p.word(`,"run_id":`)
	p.cut(c.prev[:])
	p.cutText(`,"prev":`)
	kind := p.word(`,"kind":`)
	p.cut(c.instance)
	p.cutText(`,"instance":`)
	if !p.ok || seq != c.tree.size || !e.setKind(kind) {
		return e, false
	}
	e.body, e.link = p.rest, true
	// The body is an object, one level deeper than as a document of its own.
	limits := canon.Limits{MaxBytes: MaxRecordBytes, MaxDepth: canon.DefaultMaxDepth - 1}
	return e, canon.Check(p.rest, limits, nil) == nil
}

// parts takes a record apart from its end; ok becomes false and stays so.
type parts struct {
	rest []byte
	ok   bool
}

func (p *parts) cutPrefix(text string) {
	if p.ok = p.ok && len(p.rest) >= len(text) && string(p.rest[:len(text)]) == text; p.ok {
		p.rest = p.rest[len(text):]
	}
}

func (p *parts) cutText(text string) {
	n := len(p.rest) - len(text)
	if p.ok = p.ok && n >= 0 && string(p.rest[n:]) == text; p.ok {
		p.rest = p.rest[:n]
	}
}

func (p *parts) cut(part []byte) {
	if p.ok = p.ok && bytes.HasSuffix(p.rest, part); p.ok {
		p.rest = p.rest[:len(p.rest)-len(part)]
	}
}

// number takes a canonical number of zero or more after its name.
func (p *parts) number(name string) (n int64) {
	const maxDigits = 15 // all that have so many are below 2^53
	end, i := len(p.rest), len(p.rest)
	for scale := int64(1); i > 0 && end-i < maxDigits && isDigit(p.rest[i-1]); scale *= 10 {
		i--
		n += int64(p.rest[i]-'0') * scale
	}
	if digits := end - i; !p.ok || digits == 0 || digits > 1 && p.rest[i] == '0' {
		p.ok = false
		return 0
	}
	p.rest = p.rest[:i]
	p.cutText(name)
	return n
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// word takes a string after its name, quotes and all. Strings with anything but
// printable ASCII, or with a quote or an escape, are left to read.
func (p *parts) word(name string) []byte {
	end := len(p.rest) - 1
	if !p.ok || end < 0 || p.rest[end] != '"' {
		p.ok = false
		return nil
	}
	i := end
	for i > 0 && isWord(p.rest[i-1]) {
		i--
	}
	if i == 0 || p.rest[i-1] != '"' {
		p.ok = false
		return nil
	}
	word := p.rest[i-1 : end+1]
	p.rest = p.rest[:i-1]
	p.cutText(name)
	return word
}

func isWord(b byte) bool { return b >= ' ' && b <= '~' && b != '"' && b != '\\' }

// members of a record's envelope in canonical order.
const (
	memberBody = iota
	memberInstance
	memberKind
	memberPrev
	memberRun
	memberSeq
	memberTask
	memberTime
	memberVersion
	memberWorld
	memberCount
)

// memberName gives the name of the i-th member.
func memberName(i int) string {
	switch i {
	case memberBody:
		return "body"
	case memberInstance:
		return "instance"
	case memberKind:
		return "kind"
	case memberPrev:
		return "prev"
	case memberRun:
		return "run_id"
	case memberSeq:
		return "seq"
	case memberTask:
		return "task"
	case memberTime:
		return "time"
	case memberVersion:
		return "v"
	case memberWorld:
		return "world_id"
	}
	return ""
}

// read takes the envelope apart and compares what must be the same in each
// record of the chain.
func (c *checker) read(raw []byte) (e envelope, err error) {
	i := 0
	err = canon.Check(raw, canon.Limits{MaxBytes: MaxRecordBytes}, func(name, value []byte) error {
		if i >= memberCount || string(name) != memberName(i) {
			return breaks("its members are not those of a record")
		}
		i++
		return c.member(&e, i-1, value)
	})
	if err != nil {
		var b *broken
		if errors.As(err, &b) {
			return e, b
		}
		return e, breaks("it is not a canonical record: %v", err)
	}
	if i != memberCount {
		return e, breaks("its members are not those of a record")
	}
	return e, nil
}

func (c *checker) member(e *envelope, i int, v []byte) error {
	switch i {
	case memberBody:
		e.body = v
	case memberInstance:
		return same(v, &c.instance, "instance")
	case memberKind:
		if !e.setKind(v) {
			return breaks("its kind is not known")
		}
	case memberPrev:
		want := c.prev[:]
		if c.tree.size == 0 {
			want = []byte(`""`)
		}
		e.link = bytes.Equal(v, want)
	case memberRun:
		if v[0] != '"' {
			return breaks("run_id is not a string")
		}
	case memberSeq:
		return c.sequence(v, e.link)
	case memberTask:
		return number(v, "task", &e.task)
	case memberTime:
		return number(v, "time", &e.time)
	case memberVersion:
		if string(v) != strconv.Itoa(kernel.RecordVersion) {
			return breaks("its version is %s; this writ knows %d only", v, kernel.RecordVersion)
		}
	case memberWorld:
		return same(v, &c.world, "world")
	}
	return nil
}

// same compares a member with what the chain has; the first record's counts if
// nothing else was expected.
func same(v []byte, want *[]byte, what string) error {
	if *want == nil && v[0] == '"' {
		*want = bytes.Clone(v)
	}
	if !bytes.Equal(v, *want) {
		return breaks("it belongs to another %s", what)
	}
	return nil
}

// setKind reports whether v, a JSON value, is a known kind.
func (e *envelope) setKind(v []byte) bool {
	if v[0] != '"' {
		return false
	}
	e.kind = kernel.Kind(v[1 : len(v)-1])
	_, ok := e.kind.Class()
	return ok
}

// sequence compares seq with the place. The number before, on a record that
// doesn't follow the one there, is a second record of that number.
func (c *checker) sequence(v []byte, link bool) error {
	var seq int64
	if err := number(v, "seq", &seq); err != nil {
		return err
	}
	switch want := c.tree.size; {
	case seq > want:
		return breaks("it is missing: record %d is in its place", seq)
	case seq < want:
		return &broken{reason: fmt.Sprintf("record %d stands here again", seq), twice: seq == want-1 && !link}
	}
	return nil
}

// number reads a whole number of zero or more; canonical form is settled.
func number(v []byte, name string, out *int64) error {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 0 {
		return breaks("%s is not a number of zero or more", name)
	}
	*out = n
	return nil
}
