package approval

import (
	"cmp"
	"slices"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// maxRequests bounds about how many accounts the forge is asked for one refresh or revision.
const maxRequests = 10

// requests are the unedited comments that ask by a command for something with delivered work, came after an
// act or are another one, that no stop took back, and that nobody has settled or answered with
// a no, the newest first.
func (f Facts) requests(verb Verb, said []forge.Comment, after, again string, settled func(comment int64) bool) []Act {
	var out []Act
	since := f.AnewSince()
	for _, c := range said {
		cmd, ok := ParseCommand(c.Body)
		a := Act{Verb: verb, Actor: c.Author, Ref: c.ID, At: c.CreatedAt.UnixMilli(), Text: cmd.Text}
		if !ok || cmd.Verb != verb || cmd.Fault != "" || edited(c) || c.Author.ID == 0 || settled(c.ID) || f.TurnedDown.Has(c.ID) {
			continue
		}
		if (kernel.NewerAct(a.ID(), after) || a.ID() == again) && kernel.NewerAct(a.ID(), since) {
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b Act) int { return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.Ref, a.Ref)) })
	return out[:min(len(out), maxRequests)]
}

// unheard are the accounts among those of acts whose permission nobody asked for yet.
func (f Facts) unheard(list []Act) []int64 {
	var out []int64
	for _, a := range list {
		if f.unknown(a) && !slices.Contains(out, a.Actor.ID) {
			out = append(out, a.Actor.ID)
		}
	}
	return out
}

// newestOf is the first of acts by somebody who could approve; zero where there is none.
func (f Facts) newestOf(list []Act) Act {
	for _, a := range list {
		if f.mayNot(a) == nil {
			return a
		}
	}
	return Act{}
}

// Refreshers are the accounts whose live permission decides whether somebody who may asks
// for a refresh, after the act that asked last, or by it again. Ask, and put the answers
// into Permissions.
func Refreshers(f Facts, after, again string, settled func(comment int64) bool) []int64 {
	return f.unheard(f.requests(Refresh, f.Comments, after, again, settled))
}

// RefreshAsked is the newest act after one, or another one again, that asks for a refresh,
// by somebody who could approve, and that nobody has settled; zero where there is none.
func RefreshAsked(f Facts, after, again string, settled func(comment int64) bool) Act {
	return f.newestOf(f.requests(Refresh, f.Comments, after, again, settled))
}
