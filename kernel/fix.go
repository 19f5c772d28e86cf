package kernel

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/writbot/writ/kernel/canon"
)

// Fix is the approval of a revision of delivered work: which command asked for it,
// and the list of exactly the comments that the builder gets. Its digest names the revision,
// as the digest of title and body names the first one; both lie in the seed pack. A comment
// that was edited, deleted or added since makes another list.
type Fix struct {
	Kind     string       `json:"kind"` // "fix"
	V        int64        `json:"v"`
	World    string       `json:"world_id"`
	Task     int64        `json:"task_id"`
	Command  FixCommand   `json:"command"`
	Comments []FixComment `json:"comments"` // sorted by their ids, see [CompareComments]
}

// FixCommand is the act that asks for the revision.
type FixCommand struct {
	Act    string       `json:"act"`         // id of the act on the forge
	Author int64        `json:"author_id"`   // account's number
	Text   canon.Digest `json:"text_digest"` // of the text behind the command, "" for none
}

// FixComment is one comment of the list.
type FixComment struct {
	ID     string       `json:"id"`        // see [CommentID]
	Author int64        `json:"author_id"` // account's number
	Digest canon.Digest `json:"digest"`    // of its raw bytes
	Place  *Place       `json:"place"`     // null: of the change as a whole
}

// Place is what a comment points at.
type Place struct {
	Path   string `json:"path"`
	Start  int64  `json:"start"` // first line, from 1; 0 for the whole file
	End    int64  `json:"end"`   // last line, included
	Side   Side   `json:"side"`
	Commit string `json:"commit"` // that it was said of
}

// Side says of which file lines are.
type Side string

// The sides of a change.
const (
	SideNew Side = "new" // the file as the change leaves it
	SideOld Side = "old" // the file as it was before
)

const (
	// KindFix is the kind of a [Fix].
	KindFix = "fix"
	// FixVersion is the version of its shape.
	FixVersion = 1
	// MaxFixComments is how many comments one revision takes. More are refused as a whole:
	// nobody would know which of them the builder was told.
	MaxFixComments = 50
	// MaxFixBytes bounds the raw bytes of the comments of one revision, in sum.
	MaxFixBytes = 64 << 10
	// maxFixLine is beyond the lines of any file that is read.
	maxFixLine = 10_000_000
	maxFixPath = 4096 // bytes
)

// commentKinds are those of the ids of comments, in the order of a list.
var commentKinds = []string{"comment", "line", "review"}

// CommentID names a comment of a change: its kind, for a forge counts each by itself, a
// colon, and the forge's number of it.
func CommentID(kind string, number int64) string { return kind + ":" + strconv.FormatInt(number, 10) }

// readCommentID is the place of an id's kind in the order, and its number; ok is false for
// what [CommentID] doesn't write.
func readCommentID(id string) (kind int, number int64, ok bool) {
	word, digits, _ := strings.Cut(id, ":")
	number, err := strconv.ParseInt(digits, 10, 64)
	kind = slices.Index(commentKinds, word)
	return kind, number, err == nil && kind >= 0 && number > 0 && CommentID(word, number) == id
}

// CompareComments is the order of a list: by kind, then by number.
func CompareComments(a, b FixComment) int {
	kindA, a1, _ := readCommentID(a.ID)
	kindB, b1, _ := readCommentID(b.ID)
	return cmp.Or(cmp.Compare(kindA, kindB), cmp.Compare(a1, b1), strings.Compare(a.ID, b.ID))
}

// Fault says in words why a place is none that a file of a repository can have; "" where it
// is one. Whoever wrote the comment chose all of it.
func (p Place) Fault() string {
	odd := func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }
	switch {
	case p.Path == "" || len(p.Path) > maxFixPath || strings.ContainsFunc(p.Path, odd):
		return "Its path is empty, too long, or has characters that no path may have."
	case path.IsAbs(p.Path) || path.Clean(p.Path) != p.Path || p.Path == "." || p.Path == ".." || strings.HasPrefix(p.Path, "../"):
		return "Its path is none inside the repository."
	case (p.Start == 0) != (p.End == 0) || p.Start < 0 || p.End < p.Start || p.End > maxFixLine:
		return "Its lines are none of a file."
	case p.Side != SideNew && p.Side != SideOld:
		return "It isn't known on which side of the change it stands."
	case !isCommit(p.Commit):
		return "It isn't known of which commit it was said."
	}
	return ""
}

// isCommit reports whether a word is the id of an object.
func isCommit(s string) bool {
	const sha1, sha256 = 40, 64
	return (len(s) == sha1 || len(s) == sha256) && strings.Trim(s, "0123456789abcdef") == ""
}

// ValidateFix lists what is wrong with a list; an empty list means that it is whole and
// written in its one form. Each fault is `execution.dispatch.malformed`.
func ValidateFix(f Fix) []Violation {
	var out []Violation
	need := func(ok bool, field, format string, args ...any) {
		if !ok {
			out = append(out, one(CodeDispatchMalformed, field, format, args...)...)
		}
	}
	need(f.Kind == KindFix && f.V == FixVersion, "fix", "Its kind or version is not known.")
	need(f.World != "" && f.Task > 0, "fix", "It names no task.")
	need(NewerAct(f.Command.Act, "") && f.Command.Author > 0, "command", "The command that asks for it isn't named.")
	need(f.Command.Text == "" || f.Command.Text.Valid(), "command", "The digest of its text is none.")
	need(f.Comments != nil && len(f.Comments) <= MaxFixComments, "comments", "It has %d comments; at most %d are taken.", len(f.Comments), MaxFixComments)
	need(len(f.Comments) > 0 || f.Command.Text != "", "comments", "It has neither a comment nor a text.")
	for n, c := range f.Comments {
		_, _, ok := readCommentID(c.ID)
		need(ok && c.Author > 0 && c.Digest.Valid(), c.ID, "A comment without id, author or digest.")
		need(n == 0 || CompareComments(f.Comments[n-1], c) < 0, c.ID, "The list is out of order, or names a comment twice.")
		if c.Place != nil {
			fault := c.Place.Fault()
			need(fault == "", c.ID, "%s", fault)
		}
	}
	return out
}

// FixDigest names a revision. A list that isn't whole has none.
func FixDigest(f Fix) (canon.Digest, error) {
	if bad := ValidateFix(f); len(bad) > 0 {
		return "", fmt.Errorf("the list of comments can't be approved: %s: %s", bad[0].Subject, bad[0].Detail)
	}
	return canon.Hash(f)
}

// Revision is what a claim that revises delivered work was made from, beside the issue. It
// lies in the seed pack, whose base is then the delivered commit: scope is judged against
// that, and the whole diff against Origin has to be within the scope as well.
type Revision struct {
	Fix    Fix    `json:"fix"`
	Fixes  string `json:"fixes"`         // run whose delivered result it goes on from
	Origin string `json:"origin_commit"` // that the work was first delivered on
	Text   string `json:"text"`          // behind the command: one line, without hidden characters
	// Said is what the comments of the list say, in its order.
	Said []Said `json:"said"`
	// Earlier are the ids of the comments of the revisions before, whose results were
	// accepted, sorted as a list is.
	Earlier []string `json:"earlier"`
}

// Said is one comment as the builder is told it.
type Said struct {
	Author string   `json:"author"` // what people call the account; it decides nothing
	Body   string   `json:"body"`   // raw
	Prose  string   `json:"prose"`
	Cuts   int64    `json:"cuts"`  // things that the prose leaves out
	Shown  *Excerpt `json:"shown"` // what it points at, null for nothing
}

// Excerpt is what a place holds, rendered from git: never the forge's own rendering.
type Excerpt struct {
	Commit string `json:"commit"` // that it was read from
	Blob   string `json:"blob"`   // "" where the commit has no such file
	First  int64  `json:"first"`  // number of the first line that is shown
	Text   string `json:"text"`   // its lines, with what can't be seen spelled out
	Note   string `json:"note"`   // why lines are left out, "" where none are
}

// ValidateRevision lists what is wrong with a revision: list, texts and comments must be of one
// another.
func ValidateRevision(r Revision) []Violation {
	out := ValidateFix(r.Fix)
	need := func(ok bool, field, format string, args ...any) {
		if !ok {
			out = append(out, one(CodeDispatchMalformed, field, format, args...)...)
		}
	}
	need(r.Fixes != "", "fixes", "It isn't said whose result it goes on from.")
	need(isCommit(r.Origin), "origin_commit", "The base that the work was first delivered on is missing.")
	text := canon.Digest("")
	if r.Text != "" {
		text = canon.Sum([]byte(r.Text))
	}
	need(text == r.Fix.Command.Text, "text", "It is not the text that was approved.")
	need(len(r.Said) == len(r.Fix.Comments), "said", "It says %d comments, the list has %d.", len(r.Said), len(r.Fix.Comments))
	sum := 0
	for n, s := range r.Said[:min(len(r.Said), len(r.Fix.Comments))] {
		c := r.Fix.Comments[n]
		sum += len(s.Body)
		need(canon.Sum([]byte(s.Body)) == c.Digest, c.ID, "It is not the comment that was approved.")
		need(strings.TrimSpace(s.Prose) != "", c.ID, "Nothing of it is told.")
		need((s.Shown == nil) == (c.Place == nil), c.ID, "What it points at is missing, or isn't its own.")
	}
	need(sum <= MaxFixBytes, "said", "The comments have %d bytes; at most %d are taken.", sum, MaxFixBytes)
	need(r.Earlier != nil && slices.IsSortedFunc(r.Earlier, func(a, b string) int { return CompareComments(FixComment{ID: a}, FixComment{ID: b}) }), "earlier", "The comments of earlier revisions are out of order.")
	for _, c := range r.Fix.Comments {
		need(!slices.Contains(r.Earlier, c.ID), c.ID, "An earlier revision was for it.")
	}
	return out
}

// Covered are the ids of the comments that a revision and those before it were for, sorted as
// a list is; of nil none.
func (r *Revision) Covered() []string {
	out := []string{}
	if r == nil {
		return out
	}
	out = append(out, r.Earlier...)
	for _, c := range r.Fix.Comments {
		out = append(out, c.ID)
	}
	slices.SortFunc(out, func(a, b string) int { return CompareComments(FixComment{ID: a}, FixComment{ID: b}) })
	return slices.Compact(out)
}

// FixFacts is what it takes to begin a revision of the delivered work at HEAD, where
// somebody asks for that by a command.
type FixFacts struct {
	Run    string       `json:"run_id"`      // whose result HEAD is
	Head   string       `json:"head_commit"` // the delivered commit, on which the builder works
	Digest canon.Digest `json:"digest"`      // of the [Fix], see [FixDigest]; "" where there is none
	Act    string       `json:"act"`         // id of the act on the forge
	Actor  string       `json:"actor"`       // account's number, a colon, and its name
	// Faults are why it can't be done.
	Faults []Violation `json:"faults"`
	// Left are the comments that don't count, and why: a violation's subject is the
	// comment's id. They keep nothing from being done.
	Left []Violation `json:"left"`
}

// wantsFix reports whether a revision of the delivered work at HEAD is asked for,
// and can be.
func (f Facts) wantsFix() bool {
	return f.Run == nil && f.Fix != nil && f.Fix.Digest.Valid() && f.Fix.Head != "" && len(f.Fix.Faults) == 0 && f.Delivered() && !f.Undone
}

// Fixable reports whether a claim may begin a revision: whoever approved the issue
// still may, its text is the approved one, contract and target allow a claim, what a
// run needs is there, the budgets pay it, it is due, and of one that goes on with sealed
// work the guarded paths are accepted. Where one of these doesn't hold the delivered work
// stays as it is.
func (f Facts) Fixable() bool {
	return f.wantsFix() && len(f.RefusesFix())+len(f.Environment)+len(budgetRule(f)) == 0 && f.againDue(f.Fix.Act) <= f.Now &&
		!f.FixLapsed() && !f.Paths.Held()
}

// FixLapsed reports whether a revision waited for its guarded paths, and there is nothing to
// deliver by now: its work is lost, or was made for another list or under other terms. It is
// built anew for nobody but who asks anew.
func (f Facts) FixLapsed() bool {
	return f.wantsFix() && !f.RefreshNext() && (f.heldFixGone() || f.heldFix() && f.Paths == nil)
}

// heldFix reports whether the revision that is asked for is the one that waits for its guarded
// paths.
func (f Facts) heldFix() bool { return f.asksAgain(f.Fix.Act) && f.Head.RefreshWaits == WaitPaths }

// heldFixGone reports whether there is no work of that which could be delivered.
func (f Facts) heldFixGone() bool {
	return f.heldFix() && (!f.sealedFor(f.Fix.Digest) || f.Sealed.Base != f.Fix.Head)
}

// ResumesFix reports whether a revision goes on with sealed work: one was cut off, after its
// builder had ended, that the very same act had asked for, with the same list, on the
// delivered commit as it is. Whoever asks anew has it built anew.
func (f Facts) ResumesFix() bool {
	return f.wantsFix() && !f.RefreshNext() && f.asksAgain(f.Fix.Act) && f.sealedFor(f.Fix.Digest) && f.Sealed.Base == f.Fix.Head
}

// RefusesFix is why no revision begins, which is answered in words. What only the host
// lacks is no such reason: it is waited for.
func (f Facts) RefusesFix() []Violation {
	var out []Violation
	if f.Fix != nil {
		out = append(out, f.Fix.Faults...)
	}
	return append(out, f.refusesAgain()...)
}
