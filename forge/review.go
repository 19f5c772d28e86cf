package forge

import "context"

// ReviewKind says in what way something was said of a change. A forge counts the ids of
// each kind by themselves.
type ReviewKind string

// The kinds of review comments.
const (
	ReviewTalk    ReviewKind = "comment" // in the conversation
	ReviewLine    ReviewKind = "line"    // at a place of a file
	ReviewSummary ReviewKind = "review"  // of a review as a whole
)

// ReviewComment is what somebody said of a change. What a person doesn't see is left out:
// drafts, what the forge itself wrote, what is for fewer people than the change.
//
// CreatedAt is when it could first be read by others. UpdatedAt is when its text was last
// edited, CreatedAt where it never was, and zero where the forge doesn't tell; it is never
// too early.
type ReviewComment struct {
	Comment
	Kind     ReviewKind
	Resolved bool         // somebody said that it is settled, as far as the forge tells
	Place    *ReviewPlace // nil: the change as a whole
}

// ReviewPlace is what a comment points at, as the forge has it: whoever wrote the comment
// chose it, so that nothing of it is safe. Lines count from 1; a comment on a whole file
// has none. The forge's own rendering of the place is nowhere here.
type ReviewPlace struct {
	Path       string
	Start, End int64  // both included; equal for one line, 0 for the whole file
	Old        bool   // the lines are those of the file before the change
	Commit     string // that it was said of: head of the change then
}

// Reviews reads what people said of a change.
type Reviews interface {
	// ReviewComments lists it, oldest first; NotFound where the number is no change's.
	ReviewComments(ctx context.Context, r Repo, change int64) ([]ReviewComment, error)
}
