package gitlabtest

import (
	"slices"
	"time"
)

// Access levels, as GitLab numbers them.
const (
	Minimal    = 5
	Guest      = 10
	Planner    = 15
	Reporter   = 20
	Developer  = 30
	Maintainer = 40
	Owner      = 50
)

// Visibilities.
const (
	Private  = "private"
	Internal = "internal"
	Public   = "public"
)

// data is everything that the server knows. Its fields are exported for gob,
// which copies it for a replica that lags.
type data struct {
	LastID   int64
	Last     time.Time
	Users    map[int64]*User
	Tokens   map[string]*token
	Groups   map[string]*group
	Projects map[int64]*project
}

func (d *data) id() int64 {
	d.LastID++
	return d.LastID
}

// User is an account.
type User struct {
	ID       int64
	Username string
	State    string // active, blocked, banned, deactivated …
	Bot      bool
}

type token struct {
	Value   string
	ID      int64
	Name    string
	User    int64
	Scopes  []string
	Expires time.Time
	Revoked bool
}

type member struct {
	Level    int
	Expires  time.Time // the zero time: never
	Awaiting bool
}

type group struct {
	ID      int64
	Path    string
	Members map[int64]member
	Labels  []*label
}

// share invites a group's members, up to a level.
type share struct {
	Group string
	Max   int
}

type project struct {
	ID            int64
	Namespace     string // a/b
	Name          string
	Description   string
	DefaultBranch string
	Visibility    string
	Archived      bool
	ForkedFrom    int64
	Created       time.Time
	Members       map[int64]member
	Shares        []share
	Labels        []*label
	Items         []*item
	LastIID       map[string]int64
	Statuses      []*status
	Hooks         []*hook
	Protected     []*Protected
	PushRule      *PushRule // nil for none
	NoIssues      bool      // they are switched off
	NoMerges      bool      // merge requests are
	MergeMethod   string    // "": MergeCommits
}

func (p *project) path() string { return p.Namespace + "/" + p.Name }

// find returns an issue or merge request by its number, nil if there is none.
func (p *project) find(kind string, iid int64) *item {
	at := slices.IndexFunc(p.Items, func(i *item) bool { return i.Kind == kind && i.IID == iid })
	if at < 0 {
		return nil
	}
	return p.Items[at]
}

type label struct {
	ID          int64
	Name        string
	Color       string // with #
	Description string
	Group       string // of a group's label
	Created     time.Time
}

// The kinds of items.
const (
	anIssue = "issue"
	aMerge  = "merge_request"
)

// item is an issue or a merge request.
type item struct {
	Kind         string
	ID, IID      int64
	Title        string
	Description  string
	State        string // opened, closed, merged
	Author       int64
	Labels       []string
	Confidential bool
	Locked       bool
	MovedTo      int64
	Type         string // task, incident …; "": issue
	Created      time.Time
	Updated      time.Time
	Closed       time.Time
	ClosedBy     int64
	Edited       time.Time
	EditedBy     int64

	LabelEvents []*labelEvent
	StateEvents []*stateEvent
	Notes       []*note
	Awards      []*award

	// Of merge requests.
	Source, Target string
	SourceProject  int64
	SHA            string
	MergeSHA       string
	SquashSHA      string
	MergedBy       int64
	MergedAt       time.Time
}

type labelEvent struct {
	ID     int64
	User   int64
	At     time.Time
	Action string
	Label  label
}

type stateEvent struct {
	ID    int64
	User  int64
	At    time.Time
	State string
}

type note struct {
	ID       int64
	Body     string
	Author   int64
	System   bool
	Internal bool
	Created  time.Time
	Updated  time.Time
	Edited   time.Time // zero: never
	EditedBy int64
	Awards   []*award
	Position []byte // JSON, as it was sent; nil: of no place
	Resolved bool
}

type award struct {
	ID   int64
	Name string
	User int64
	At   time.Time
}

type status struct {
	ID          int64
	SHA         string
	Ref         string
	Name        string
	State       string
	Description string
	TargetURL   string
	Author      int64
	At          time.Time
}

type hook struct {
	ID         int64
	URL        string
	Name       string
	Token      string
	Signing    string // whsec_…
	SSL        bool
	Events     map[string]bool // push_events, issues_events …
	Created    time.Time
	Failures   int
	Until      time.Time // left alone until then
	Disabled   string    // by whatever made it so, in GitLab's words; "": see Until
	Deliveries []*hookEvent
}

// hookEvent is one delivery, as the hook's page shows it.
type hookEvent struct {
	ID      int64
	Trigger string
	Headers map[string]string
	Body    []byte
	Status  string
	At      time.Time
}
