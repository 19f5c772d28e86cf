// Package marker has the hidden lines by which writ finds its own texts again: comments
// on an issue, and the description of a change. They are HTML comments, which no forge
// shows:
//
//	<!-- writ:task:github.com/42:7 run=0190c5b2-7d1c-7c3e-8f5a-0d9b1a2c3d4e -->
//	<!-- writ:at:github.com/42:7 seq=12 -->
//	<!-- writ:doubt:github.com/42:7 -->
//	<!-- writ:waits:github.com/42:7 act=label:881 -->
//
// The first line of a text says of which kind it is, of which world and task, and of
// which run, or which comment it answers. The others may follow it, in this order, in a
// status comment.
//
// Anybody can write such a line. Only that of a text by writ's own account counts for
// more than a hint that some task should be looked at.
package marker

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/writbot/writ/kernel/lease"
)

// The kinds of texts.
const (
	Status  = "task"    // the status comment, and the description of a change
	Alert   = "alert"   // calls people to a task
	Answer  = "answer"  // answers a command
	Explain = "explain" // answers the newest command that asks for an explanation
)

const (
	begin = "<!-- writ:"
	end   = " -->"
	noRun = "none"

	// maxTask is the largest number that a record holds, see package canon.
	maxTask = 1<<53 - 1
	// maxSeq is the largest number of a state commit, as in its trailers: whoever may edit
	// a comment must not bring the task to the end of its numbers.
	maxSeq = lease.MaxCommitterSeconds
)

// Marker writes and finds the lines of one task.
type Marker struct {
	World string // without a line break
	Task  int64
}

// Line is the first line of a text of this kind. The run is that which it tells of, or the
// number of the comment that it answers; "" for none.
func (m Marker) Line(kind, run string) string {
	if run == "" {
		run = noRun
	}
	return fmt.Sprintf("%s%s:%s:%d run=%s%s\n", begin, kind, m.World, m.Task, run, end)
}

// Run is what the first line of a text of this kind was given by [Marker.Line]. It is not
// ok where the text is of another kind or task, or has no such line.
func (m Marker) Run(kind, text string) (run string, ok bool) {
	k, of, run, ok := parse(text)
	if !ok || k != kind || of != m {
		return "", false
	}
	return run, true
}

// Task is the task of a status comment or of a change's description, of whatever world; 0
// for another text.
func Task(text string) int64 {
	if kind, of, _, ok := parse(text); ok && kind == Status {
		return of.Task
	}
	return 0
}

// parse reads a text's first line, which [Marker.Line] would write the same.
func parse(text string) (kind string, of Marker, run string, ok bool) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	inside, begins := strings.CutPrefix(strings.TrimSpace(first), begin)
	inside, ends := strings.CutSuffix(inside, end)
	head, run, found := strings.Cut(inside, " run=")
	kind, head, named := strings.Cut(head, ":")
	colon := strings.LastIndexByte(head, ':')
	if !begins || !ends || !found || !named || run == "" || colon < 0 {
		return "", Marker{}, "", false
	}
	n, err := strconv.ParseInt(head[colon+1:], 10, 64)
	if err != nil || n <= 0 || n > maxTask || strconv.FormatInt(n, 10) != head[colon+1:] {
		return "", Marker{}, "", false
	}
	if run == noRun {
		run = ""
	}
	return kind, Marker{head[:colon], n}, run, true
}

// SeqLine names the state commit that a status comment tells of, by its number; "" for 0.
func (m Marker) SeqLine(seq int64) string {
	if seq == 0 {
		return ""
	}
	return m.line("at", " seq="+strconv.FormatInt(seq, 10))
}

// Seq is the number that the second line of a status comment names, 0 for none.
func (m Marker) Seq(text string) int64 {
	_, below, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line, _, _ := strings.Cut(below, "\n")
	digits, _ := m.value(line, "at", " seq=")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > maxSeq || strconv.FormatInt(n, 10) != digits {
		return 0
	}
	return n
}

// DoubtLine says of a text that the state was set back, or is nobody's: the text vouches
// for nothing that it tells of.
func (m Marker) DoubtLine() string { return m.line("doubt", "") }

// Doubts reports whether a status comment has that line.
func (m Marker) Doubts(text string) bool {
	_, doubts := m.below(text, 3, "doubt", "")
	return doubts
}

// WaitLine says of a text that it tells why the work waits that an act asks for. The act
// is without a line break.
func (m Marker) WaitLine(act string) string { return m.line("waits", " act="+act) }

// Waits is the act that such a line names, "" where a text has none.
func (m Marker) Waits(text string) string {
	act, _ := m.below(text, 4, "waits", " act=")
	return act
}

// line is a line that isn't a text's first one.
func (m Marker) line(kind, value string) string {
	return fmt.Sprintf("%s%s:%s:%d%s%s\n", begin, kind, m.World, m.Task, value, end)
}

// below finds such a line among the first ones of a text.
func (m Marker) below(text string, first int, kind, name string) (string, bool) {
	lines := strings.SplitN(strings.TrimSpace(text), "\n", first+1)
	for _, line := range lines[:min(len(lines), first)] {
		if value, ok := m.value(line, kind, name); ok {
			return value, true
		}
	}
	return "", false
}

func (m Marker) value(line, kind, name string) (string, bool) {
	prefix, _ := strings.CutSuffix(m.line(kind, name), end+"\n")
	value, begins := strings.CutPrefix(strings.TrimSpace(line), prefix)
	value, ends := strings.CutSuffix(value, end)
	if !begins || !ends || (value == "") != (name == "") {
		return "", false
	}
	return value, true
}
