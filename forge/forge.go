package forge

import (
	"context"
	"strconv"
	"time"
)

// Repo names a repository. ID is the forge's own number and the identity; owner
// and name may change under it.
type Repo struct {
	ID    int64
	Owner string
	Name  string
}

// String is owner/name.
func (r Repo) String() string { return r.Owner + "/" + r.Name }

// Repository is what a forge says of a repository now.
type Repository struct {
	Repo
	DefaultBranch string
	Private       bool
	Archived      bool
	Fork          bool
	URL           string // its page
}

// Kind says what an account is.
type Kind string

// The kinds of accounts.
const (
	Person Kind = "person"
	Bot    Kind = "bot" // an app, a bot user, a project access token
)

// User is an account. ID is its identity; a login may be taken over by another.
type User struct {
	ID    int64
	Login string
	Kind  Kind
}

// Permission is what an account may do in a repository, in the contract's words.
// Forges with other words are mapped by their adapter.
type Permission int

// Permissions, each including those before it.
const (
	None Permission = iota
	Read
	Triage
	Write
	Maintain
	Admin
)

// State is whether an issue is open.
type State string

// The states of an issue.
const (
	Open   State = "open"
	Closed State = "closed"
)

// Issue is an issue as it is now.
type Issue struct {
	Number    int64
	ID        int64 // the forge's own number of it, across repositories
	Title     string
	Body      string // raw Markdown
	State     State
	Author    User
	Labels    []string
	Locked    bool
	IsChange  bool      // a pull or merge request, under the number of the change
	CreatedAt time.Time // with ID it tells the issue from all others that have or had its number
	UpdatedAt time.Time
	URL       string
}

// EventKind is what happened to an issue.
type EventKind string

// The events that matter here; an adapter leaves others out.
const (
	EventLabeled     EventKind = "labeled"
	EventUnlabeled   EventKind = "unlabeled"
	EventClosed      EventKind = "closed"
	EventReopened    EventKind = "reopened"
	EventEdited      EventKind = "edited" // title or body
	EventTransferred EventKind = "transferred"
)

// Event is one entry of an issue's history.
type Event struct {
	ID    int64 // grows with time in one issue
	Kind  EventKind
	Actor User
	Label string // of labeled and unlabeled
	At    time.Time
	// Digest is the approval digest of title and raw body as they stood after
	// the event, where the forge knows them; "" elsewhere.
	Digest string
}

// Comment is a comment on an issue or change.
type Comment struct {
	ID        int64
	Author    User
	Body      string
	CreatedAt time.Time
	// UpdatedAt is when its text was last edited, CreatedAt where it never was. A
	// forge may know that of commands only; of other texts it is never too early.
	UpdatedAt time.Time
	URL       string
}

// ChangeState is how far a change has come.
type ChangeState string

// The states of a change.
const (
	ChangeOpen   ChangeState = "open"
	ChangeMerged ChangeState = "merged"
	ChangeClosed ChangeState = "closed" // unmerged
)

// MergeRequests is beyond every number of an issue: GitLab counts issues and merge
// requests apart, so the merge request !9 is the change MergeRequests+9.
const MergeRequests = 1_000_000_000

// ChangeName is a change as people write it: #9, or !9 for a merge request.
func ChangeName(number int64) string {
	if number > MergeRequests {
		return "!" + strconv.FormatInt(number-MergeRequests, 10)
	}
	return "#" + strconv.FormatInt(number, 10)
}

// ChangeNumber is the number of a change that [ChangeName] names, 0 for any other name.
func ChangeNumber(name string) int64 {
	if name == "" {
		return 0
	}
	n, err := strconv.ParseInt(name[1:], 10, 64)
	if name[0] == '!' {
		n += MergeRequests
	}
	if err != nil || n < 1 || ChangeName(n) != name {
		return 0
	}
	return n
}

// Change is a pull or merge request.
type Change struct {
	Number    int64
	Title     string
	Body      string
	Head      string // branch, without refs/heads/
	Base      string
	HeadOID   string
	MergedOID string // the commit on the base that holds it, once merged
	State     ChangeState
	Draft     bool
	Author    User
	URL       string
}

// Delivers reports whether a change is rather the one that delivers a branch onto
// base than another one of that branch: it is onto base and the other isn't, or it
// is the newer one of two that are alike in this.
func (c Change) Delivers(other Change, base string) bool {
	if onto := c.Base == base; onto != (other.Base == base) {
		return onto
	}
	return c.Number > other.Number
}

// Check is the word on a commit that its page shows.
type Check struct {
	Name    string
	Summary string
	Detail  string // Markdown
	State   CheckState
}

// CheckState is a check's result.
type CheckState string

// The states of a check.
const (
	CheckRunning CheckState = "running"
	CheckPassed  CheckState = "passed"
	CheckFailed  CheckState = "failed"
)

// Reaction is an answer without words.
type Reaction string

// The reactions used, by the names most forges give them.
const (
	ReactionSeen     Reaction = "eyes"
	ReactionDone     Reaction = "rocket"
	ReactionRefused  Reaction = "-1"
	ReactionConfused Reaction = "confused"
)

// Repositories finds repositories.
type Repositories interface {
	// Repository reads a repository by its id; NotFound where it is gone or hidden.
	Repository(ctx context.Context, id int64) (Repository, error)
}

// Issues reads and moves issues.
type Issues interface {
	Issue(ctx context.Context, r Repo, number int64) (Issue, error)
	// ListIssues calls f for each issue and each change that was updated at or after
	// since, oldest update first. A change has [Issue.IsChange]; what is said in its
	// conversation updates it. An error of f ends it.
	ListIssues(ctx context.Context, r Repo, since time.Time, f func(Issue) error) error
	// History lists an issue's events, oldest first.
	History(ctx context.Context, r Repo, number int64) ([]Event, error)
	// SetState opens or closes an issue; doing it again changes nothing.
	SetState(ctx context.Context, r Repo, number int64, s State) error
}

// Comments reads and writes comments of issues and changes.
type Comments interface {
	// Comments lists them, oldest first.
	Comments(ctx context.Context, r Repo, number int64) ([]Comment, error)
	AddComment(ctx context.Context, r Repo, number int64, body string) (Comment, error)
	EditComment(ctx context.Context, r Repo, id int64, body string) error
	DeleteComment(ctx context.Context, r Repo, id int64) error
	// React adds a reaction of our own to a comment; doing it again changes nothing.
	React(ctx context.Context, r Repo, comment int64, with Reaction) error
	// ReactToIssue adds one to an issue itself; doing it again changes nothing.
	ReactToIssue(ctx context.Context, r Repo, number int64, with Reaction) error
}

// Labels sets labels one by one, so that none of anybody's is ever lost.
type Labels interface {
	// EnsureLabels makes the labels that the repository lacks.
	EnsureLabels(ctx context.Context, r Repo, labels []Label) error
	AddLabel(ctx context.Context, r Repo, number int64, label string) error
	// RemoveLabel takes a label off; one that isn't there is no error.
	RemoveLabel(ctx context.Context, r Repo, number int64, label string) error
}

// Label is a label that a repository offers.
type Label struct {
	Name        string
	Color       string // six hexadecimal digits
	Description string
}

// Identities says who somebody is and what he may do now.
type Identities interface {
	// Self is the account that this client acts as.
	Self(ctx context.Context) (User, error)
	// Permission is asked of the forge at each call; nothing is remembered. An
	// account that is gone has None, and no error.
	Permission(ctx context.Context, r Repo, user int64) (Permission, error)
}

// Changes delivers work.
type Changes interface {
	// FindChange returns the newest change from a branch onto base, or the newest
	// one from that branch where none is onto base; NotFound for none.
	FindChange(ctx context.Context, r Repo, head, base string) (Change, error)
	OpenChange(ctx context.Context, r Repo, c Change) (Change, error)
	EditChange(ctx context.Context, r Repo, number int64, title, body string) error
	// SetCheck sets a check on a commit, found again by its name.
	SetCheck(ctx context.Context, r Repo, oid string, c Check) error
}

// Client is everything an adapter does. Each call is made once: libraries'
// retries are off, and who calls decides about another try. An error of a write
// whose [Error].Applied is true may have come after the forge had done it.
type Client interface {
	Repositories
	Issues
	Comments
	Labels
	Identities
	Changes
	Reviews
}
