package server

import (
	"slices"
	"time"
)

// hintPace is how often at most a world is swept because of hints: whoever can
// have a forge send them often must not have writ ask the forge as often.
const hintPace = 30 * time.Second

// pacer lets a world through once in hintPace. Who comes too early waits, and
// counts once however often it comes. It is of one goroutine.
type pacer struct {
	last map[string]time.Time
	late []string
}

func newPacer() *pacer { return &pacer{last: map[string]time.Time{}} }

// admit takes worlds that were hinted at, and returns those whose turn it is, and
// when the next one's comes; zero for none.
func (p *pacer) admit(worlds []string, now time.Time) (due []string, next time.Time) {
	for _, w := range worlds {
		if !slices.Contains(p.late, w) {
			p.late = append(p.late, w)
		}
	}
	p.late = slices.DeleteFunc(p.late, func(w string) bool {
		at := p.last[w].Add(hintPace)
		if !at.After(now) {
			due, p.last[w] = append(due, w), now
			return true
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
		return false
	})
	return due, next
}
