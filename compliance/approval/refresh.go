package approval

import (
	"slices"

	"github.com/writbot/writ/kernel"
)

// maxRefreshers bounds about how many accounts the forge is asked for one refresh.
const maxRefreshers = 10

// refreshers are the unedited comments that ask for a refresh, came after an act or are
// another one, and that nobody has settled or answered with a no, the newest first.
func (f Facts) refreshers(after, again string, settled func(comment int64) bool) []Act {
	var out []Act
	since := f.AnewSince()
	for _, c := range slices.Backward(f.Comments) {
		cmd, ok := ParseCommand(c.Body)
		a := Act{Verb: Refresh, Actor: c.Author, Ref: c.ID, At: c.CreatedAt.UnixMilli()}
		if ok && cmd.Verb == Refresh && cmd.Fault == "" && !edited(c) && c.Author.ID != 0 && (kernel.NewerAct(a.ID(), after) || a.ID() == again) && (since == "" || kernel.NewerAct(a.ID(), since)) && !settled(c.ID) && !f.TurnedDown.Has(c.ID) {
			out = append(out, a)
		}
	}
	return out[:min(len(out), maxRefreshers)]
}

// Refreshers are the accounts whose live permission decides whether somebody who may asks
// for a refresh, after the act that asked last, or by it again. Ask, and put the answers
// into Permissions.
func Refreshers(f Facts, after, again string, settled func(comment int64) bool) []int64 {
	var out []int64
	for _, a := range f.refreshers(after, again, settled) {
		if f.unknown(a) && !slices.Contains(out, a.Actor.ID) {
			out = append(out, a.Actor.ID)
		}
	}
	return out
}

// RefreshAsked is the newest act after one, or another one again, that asks for a refresh,
// by somebody who could approve, and that nobody has settled; zero where there is none.
func RefreshAsked(f Facts, after, again string, settled func(comment int64) bool) Act {
	for _, a := range f.refreshers(after, again, settled) {
		if f.mayNot(a) == nil {
			return a
		}
	}
	return Act{}
}
