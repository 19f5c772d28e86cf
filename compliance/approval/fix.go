package approval

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/instruction"
	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const (
	// maxReviewers bounds of how many accounts the comments of a revision may be: each
	// is asked about at every look.
	maxReviewers = 20
	// maxLeftOut bounds the comments that are listed with the reason why they don't count.
	maxLeftOut = 50
)

// Review is what people said of a delivered change, and what of it may count.
type Review struct {
	World     string
	Delivered string   // commit that was verified, which the change's branch is
	Pushed    int64    // when that was pushed, Unix milliseconds
	Covered   []string // ids of the comments that earlier revisions were for
	Said      []forge.ReviewComment
}

// fixers are the [Facts.requests] for a revision, on the change or the issue.
func (f Facts) fixers(r Review, after, again string, settled func(comment int64) bool) []Act {
	said := slices.Clone(f.Comments)
	for _, c := range r.Said {
		if c.Kind == forge.ReviewTalk {
			said = append(said, c.Comment)
		}
	}
	return f.requests(Fix, said, after, again, settled)
}

// Fixers are the accounts whose live permission decides whether somebody who may asks for a
// revision, after the act that asked last, or by it again. Ask, and put the answers
// into Permissions.
func Fixers(f Facts, r Review, after, again string, settled func(comment int64) bool) []int64 {
	return f.unheard(f.fixers(r, after, again, settled))
}

// FixAsked is the newest act after one, or another one again, that asks for a further
// revision, by somebody who could approve, and that nobody has settled; zero where there is
// none.
func FixAsked(f Facts, r Review, after, again string, settled func(comment int64) bool) Act {
	return f.newestOf(f.fixers(r, after, again, settled))
}

// FixStands reports whether an act that asks for a revision is there as it was, by somebody
// who could approve now.
func FixStands(f Facts, r Review, act string) bool {
	none := func(int64) bool { return false }
	return slices.ContainsFunc(f.fixers(r, act, act, none), func(a Act) bool { return a.ID() == act && f.mayNot(a) == nil })
}

// remarks are the comments that could be a reviewer's, each once: neither writ's own nor
// commands. What the forge lists twice is of no certain text, and both are in the list.
func (f Facts) remarks(r Review) []forge.ReviewComment {
	var out []forge.ReviewComment
	for _, c := range r.Said {
		if _, command := ParseCommand(c.Body); !command && f.own(Act{Actor: c.Author}) == nil {
			out = append(out, c)
		}
	}
	return out
}

func commentID(c forge.ReviewComment) string { return kernel.CommentID(string(c.Kind), c.ID) }

// Reviewers are the accounts whose live permission decides which comments count. Ask about
// each anew, and put the answers into Permissions: what was heard before counts for nothing.
func Reviewers(f Facts, r Review) []int64 {
	var out []int64
	for _, c := range f.remarks(r) {
		if f.unfit(r, c) == "" && !slices.Contains(out, c.Author.ID) {
			out = append(out, c.Author.ID)
		}
	}
	return out[:min(len(out), maxReviewers+1)]
}

// Revision is what a command comes to.
type Revision struct {
	Fix  kernel.Fix
	Text string        // behind the command
	Said []kernel.Said // of the list, in its order; what each points at isn't rendered yet
	// Left are the comments that don't count, and why: a violation's subject is the
	// comment's id.
	Left []kernel.Violation
	// Faults are why there is no revision.
	Faults []kernel.Violation
}

// FixRevision lists what the builder is to be told after a command: exactly the comments that
// count, and beside them why the others don't. Nothing is left out for its size: what is
// too much refuses the whole command, for nobody would know what the builder heard.
func FixRevision(f Facts, r Review, cmd Act) Revision {
	out := Revision{Text: cmd.Text, Fix: kernel.Fix{
		Kind: kernel.KindFix, V: kernel.FixVersion, World: r.World, Task: f.Issue.Number,
		Command: kernel.FixCommand{Act: cmd.ID(), Author: cmd.Actor.ID}, Comments: []kernel.FixComment{},
	}, Said: []kernel.Said{}, Left: []kernel.Violation{}, Faults: []kernel.Violation{}}
	if cmd.Text != "" {
		out.Fix.Command.Text = canon.Sum([]byte(cmd.Text))
	}
	said := map[string]kernel.Said{}
	bytes, left := 0, 0
	for _, c := range f.remarks(r) {
		why := f.unfit(r, c)
		if why == "" {
			if no := f.mayNot(Act{Verb: Fix, Actor: c.Author}); no != nil {
				why = no.Detail
			}
		}
		prose, cuts, bad := instruction.Comment(c.Body)
		if why == "" && len(bad) > 0 {
			why = bad[0].Detail
		}
		if why != "" {
			if left++; left <= maxLeftOut {
				out.Left = append(out.Left, kernel.Violation{Code: kernel.CodeReviewLeftOut, Subject: commentID(c), Detail: why})
			}
			continue
		}
		id := commentID(c)
		out.Fix.Comments = append(out.Fix.Comments, kernel.FixComment{ID: id, Author: c.Author.ID, Digest: canon.Sum([]byte(c.Body)), Place: placeOf(c)})
		said[id] = kernel.Said{Author: visible.Line(c.Author.Login), Body: c.Body, Prose: prose, Cuts: cuts}
		bytes += len(c.Body)
	}
	if left > maxLeftOut {
		out.Left = append(out.Left, kernel.Violation{Code: kernel.CodeReviewLeftOut, Detail: fmt.Sprintf("And %d more.", left-maxLeftOut)})
	}
	slices.SortFunc(out.Fix.Comments, kernel.CompareComments)
	for _, c := range out.Fix.Comments {
		out.Said = append(out.Said, said[c.ID])
	}
	fault := func(is bool, code kernel.Code, format string, args ...any) {
		if is {
			out.Faults = append(out.Faults, kernel.Violation{Code: code, Detail: fmt.Sprintf(format, args...)})
		}
	}
	fault(len(Reviewers(f, r)) > maxReviewers, kernel.CodeReviewTooLarge, "The comments are of more than %d people. Resolve those that are settled.", maxReviewers)
	fault(len(out.Fix.Comments) > kernel.MaxFixComments, kernel.CodeReviewTooLarge, "%d comments count, and at most %d are taken at once. Resolve those that are settled.", len(out.Fix.Comments), kernel.MaxFixComments)
	fault(bytes > kernel.MaxFixBytes, kernel.CodeReviewTooLarge, "The comments that count have %d bytes, and at most %d are taken at once. Nothing is cut silently: shorten them by writing them anew, or resolve some.", bytes, kernel.MaxFixBytes)
	fault(len(out.Fix.Comments) == 0 && cmd.Text == "", kernel.CodeReviewNothing, "No comment on the change counts, and the command says nothing itself.")
	if len(out.Faults) == 0 {
		out.Faults = append(out.Faults, kernel.ValidateFix(out.Fix)...)
	}
	return out
}

// unfit says in words why a comment doesn't count, whoever wrote it and may do what; "" where
// nothing speaks against it.
func (f Facts) unfit(r Review, c forge.ReviewComment) string {
	twice := 0
	for _, other := range r.Said {
		if other.Kind == c.Kind && other.ID == c.ID {
			twice++
		}
	}
	switch {
	case twice > 1:
		return "The forge lists it twice."
	case c.Author.ID == 0 || c.Author.Kind != forge.Person:
		return "Its author is no person, or is gone."
	case c.UpdatedAt.IsZero():
		return "The forge doesn't tell whether it was edited. Say it in a comment."
	case edited(c.Comment):
		return "It was edited, and whoever edited it need not be who wrote it. Write it anew."
	case c.Resolved:
		return "It is resolved."
	case slices.Contains(r.Covered, commentID(c)):
		return "An earlier revision was for it."
	case c.CreatedAt.UnixMilli() <= r.Pushed:
		return "It is older than what is delivered now."
	case !utf8.ValidString(c.Body):
		return "Its text is not valid UTF-8."
	}
	p := placeOf(c)
	switch {
	case p == nil:
		return ""
	case p.Fault() != "":
		return p.Fault()
	case scope.CheckPath(p.Path) != "":
		return scope.CheckPath(p.Path)
	case p.Commit != r.Delivered:
		return "It was said of another commit than the one that is delivered now."
	}
	return ""
}

// placeOf is where a comment points, nil for the change as a whole.
func placeOf(c forge.ReviewComment) *kernel.Place {
	if c.Place == nil {
		return nil
	}
	p := &kernel.Place{Path: c.Place.Path, Start: c.Place.Start, End: c.Place.End, Side: kernel.SideNew, Commit: c.Place.Commit}
	if c.Place.Old {
		p.Side = kernel.SideOld
	}
	return p
}
