package approval

import (
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Facts is everything that a judgement rests on.
type Facts struct {
	Trigger  contract.Trigger
	Self     forge.User // the account that writ acts as
	Target   Target
	Issue    forge.Issue
	Digest   canon.Digest    // of the issue's title and body as they are now
	History  []forge.Event   // oldest first
	Comments []forge.Comment // oldest first
	Rows     []Row           // in any order
	// Talk is the conversation of the delivered change, where that was read. Of commands
	// [Fix] alone counts there.
	Talk        []forge.Comment
	EditHistory bool // History lists every edit of title and body
	// Permissions are live answers of the forge, by account; see [Needs].
	Permissions map[int64]forge.Permission
	// Remembered is how many of them were not asked for this judgement: answers of
	// a moment ago about accounts that may not, and that have done nothing since.
	Remembered int
	// Prior is the id of the act that the task was claimed on, "" for none.
	Prior string
	// Live is the id of the act that a live run rests on, "" where none is live. What took
	// it back ends that run, though somebody approved anew since.
	Live string
	// Stopped is the id of the newest stop that was seen to count, "" for none: it
	// counts for good.
	Stopped string
	// TurnedDown are the comments whose commands writ has answered with a no: an acceptance
	// among them never counts, whatever its author may do by now.
	TurnedDown kernel.Answered
	// Earlier is the approval that the task was last claimed on, where this
	// installation's ledger holds it; zero for none.
	Earlier kernel.Approval
}

// Target is the place that the issue is in.
type Target struct {
	Wanted  forge.Repo        // as configured: its id is its identity
	Found   *forge.Repository // as it is now; nil where it is gone or hidden
	Allowed bool              // by the operator's allow-list
}

// RowKind says of which act a row is evidence.
type RowKind string

// The kinds of rows.
const (
	ByLabel   RowKind = "label"
	ByComment RowKind = "comment"
)

// Row is what the signed payload of an event said: who did something, and the
// text as it was then.
type Row struct {
	Kind   RowKind
	Actor  int64        // account id of the payload's sender
	Ref    int64        // comment's id with ByComment, 0 with ByLabel
	Label  string       // with ByLabel
	Digest canon.Digest // of the payload's title and body
	At     int64        // of the act by the payload, Unix milliseconds
}

// rowSlackMs is how far the times of a label's event and payload may lie apart:
// both are of the forge's clock, some round to seconds.
const rowSlackMs = 2_000
