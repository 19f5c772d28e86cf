package approval

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Act is what somebody did on the issue.
type Act struct {
	Verb   Verb
	Actor  forge.User
	Ref    int64        // of its event or comment
	At     int64        // Unix milliseconds, by the forge's clock
	Digest canon.Digest // the text that it names or shows; "" where it doesn't
	Text   string       // of a retry: what the next dispatch is told
}

// ID names the act for ever: its time, where it stands and its number there.
func (a Act) ID() string {
	if a.Verb == "" {
		return ""
	}
	place := "comment"
	switch {
	case a.byLabel():
		place = "event"
	case a.Verb == Closed:
		place = closing
	}
	return fmt.Sprintf("%d/%s:%d", a.At, place, a.Ref)
}

// IsLabel reports whether an id is of an act that set or took off the label.
func IsLabel(id string) bool { return strings.Contains(id, "/event:") }

// closing is where an act stands that closed the issue, in its id.
const closing = "closing"

// IsClosing reports whether an id is of an act that closed the issue.
func IsClosing(id string) bool { return strings.Contains(id, "/"+closing+":") }

func (a Act) byLabel() bool { return a.Verb == Labeled || a.Verb == Unlabeled }

// takesBack reports whether nothing before the act counts any more.
func (a Act) takesBack() bool { return a.Verb == Stop || a.anybodys() }

// anybodys reports whether the forge alone decides who may do so: the label taken off and
// the issue closed take back whoever did it.
func (a Act) anybodys() bool { return a.Verb == Unlabeled || a.Verb == Closed }

// acts are those of the issue, the newest first. Where two bear the same time and
// nothing says which came first, the one that takes back did not come first.
func (f Facts) acts() []Act {
	var out []Act
	for _, e := range f.History {
		a := Act{Actor: e.Actor, Ref: e.ID, At: e.At.UnixMilli(), Digest: canon.Digest(e.Digest)}
		switch ours := e.Label == f.Trigger.Label; {
		case e.Kind == forge.EventLabeled && ours:
			a.Verb = Labeled
		case e.Kind == forge.EventUnlabeled && ours:
			a.Verb = Unlabeled
		case e.Kind == forge.EventClosed && ClassOf(e.Actor, f.Self, f.Trigger) == ByPerson:
			a.Verb = Closed
		default:
			continue
		}
		out = append(out, a)
	}
	for _, c := range f.Comments {
		cmd, ok := ParseCommand(c.Body)
		if !ok || !cmd.act() || edited(c) && cmd.Verb != Stop {
			continue
		}
		out = append(out, Act{Verb: cmd.Verb, Actor: c.Author, Ref: c.ID, At: cmd.said(c), Digest: cmd.Digest, Text: cmd.Text})
	}
	out = f.stoppedFor(out)
	slices.SortStableFunc(out, func(a, b Act) int {
		if c := cmp.Compare(a.At, b.At); c != 0 {
			return c
		}
		if a.byLabel() == b.byLabel() && a.Verb != Closed && b.Verb != Closed {
			return cmp.Compare(a.Ref, b.Ref)
		}
		return cmp.Compare(rank(a), rank(b))
	})
	slices.Reverse(out)
	return f.unexplained(out)
}

// said is when a comment said its command, Unix milliseconds. A stop that was edited,
// or edited in, counts from the edit: whether it was a stop before, nobody can tell.
func (c Command) said(in forge.Comment) int64 {
	if c.Verb == Stop && in.UpdatedAt.After(in.CreatedAt) {
		return in.UpdatedAt.UnixMilli()
	}
	return in.CreatedAt.UnixMilli()
}

// stoppedFor puts the stop that was seen in the place of what its comment says now, if
// it is there at all: what was taken back stays so.
func (f Facts) stoppedFor(list []Act) []Act {
	var a Act
	if _, err := fmt.Sscanf(f.Stopped, "%d/comment:%d", &a.At, &a.Ref); err != nil {
		return list
	}
	a.Verb, a.Actor = Stop, forge.User{Login: "somebody whose comment is gone"}
	for _, c := range f.Comments {
		if c.ID == a.Ref {
			a.Actor = c.Author
		}
	}
	list = slices.DeleteFunc(list, func(x Act) bool { return x.Ref == a.Ref && !x.byLabel() })
	return append(list, a)
}

func rank(a Act) int {
	if a.takesBack() {
		return 1
	}
	return 0
}

// unexplained adds the label that nobody is known to have set: an issue template
// or the author gave it at the start. And a label that isn't there any more takes
// back, even if the history doesn't show it yet.
func (f Facts) unexplained(list []Act) []Act {
	at := slices.IndexFunc(list, Act.byLabel)
	there := slices.Contains(f.Issue.Labels, f.Trigger.Label)
	switch {
	case there && (at < 0 || list[at].Verb == Unlabeled):
		return append(list, Act{Verb: Labeled})
	case !there && at >= 0 && list[at].Verb == Labeled:
		return slices.Delete(list, at, at+1)
	}
	return list
}

// edited reports whether a comment isn't as its author wrote it: whoever edited it
// need not be who wrote it, so it is no command but a stop.
func edited(c forge.Comment) bool { return !c.UpdatedAt.IsZero() && !c.UpdatedAt.Equal(c.CreatedAt) }

// maxAskers bounds for how many accounts the forge is asked for one judgement.
// Strangers can't wear it out by commenting. Newest first they can't be passed
// over either, for one of them may be a maintainer who says stop; so whoever asks
// remembers those who may not (Remembered), and comes further the next time.
const maxAskers = 50

// Needs is the account whose live permission decides next; ok is false once
// nothing is missing, or too many were asked about: see [TooMany]. Ask, put the
// answer into Permissions, and ask again.
func Needs(f Facts) (account int64, ok bool) {
	account, ok = f.next()
	return account, ok && !f.spent()
}

// TooMany reports whether the judgement still turns on somebody about whom the
// forge is not to be asked any more this time.
func TooMany(f Facts) bool {
	_, more := f.next()
	return more && f.spent()
}

func (f Facts) spent() bool { return len(f.Permissions)-f.Remembered >= maxAskers }

// next is the account about whom nothing is known and that decides next.
func (f Facts) next() (account int64, ok bool) {
	list := f.acts()
	for i, a := range list {
		if f.unknown(a) {
			return a.Actor.ID, true
		}
		if f.mayNot(a) != nil {
			continue
		}
		for _, back := range f.sinceLive(list, i) {
			if f.unknown(back) {
				return back.Actor.ID, true
			}
			if f.mayNot(back) == nil {
				break
			}
		}
		return 0, false
	}
	return 0, false
}

// unknown reports whether an act turns on a permission that wasn't asked for yet.
func (f Facts) unknown(a Act) bool {
	_, known := f.Permissions[a.Actor.ID]
	return f.asked(a) && !known
}

// sinceLive are the acts that take back and came after the one that a live run rests on,
// where a newer approval, at the place i of the list, came after them: that is for another
// run. The newest are first.
func (f Facts) sinceLive(list []Act, i int) (out []Act) {
	if f.Live == "" || list[i].takesBack() || list[i].ID() == f.Live {
		return nil
	}
	for _, a := range list[i+1:] {
		if a.ID() == f.Live || a.At < kernel.ActTime(f.Live) {
			break
		}
		if a.takesBack() {
			out = append(out, a)
		}
	}
	return out
}

// AnewSince is the newest act of somebody who may that took back what was approved before it
// was approved anew; "" where the newest that counts takes back, or nothing did. What was asked
// or accepted before it isn't begun again by that approval.
func (f Facts) AnewSince() string {
	anew := false
	for _, a := range f.acts() {
		switch {
		case f.mayNot(a) != nil:
		case !a.takesBack():
			anew = true
		case anew:
			return a.ID()
		default:
			return ""
		}
	}
	return ""
}
