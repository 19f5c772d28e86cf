package forgetest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// Fake is a forge in memory: accounts, repositories without git, issues with
// their history, changes. It enforces permissions and tells the truth; lies are
// told by [Faults] around one of its accounts. It is safe for concurrent use.
type Fake struct {
	now func() time.Time

	mu     sync.Mutex
	lastID int64 // of everything that has an id
	users  map[int64]forge.User
	repos  map[int64]*fakeRepo

	deliveries []Delivery
}

type fakeRepo struct {
	about    forge.Repository
	lastItem int64
	items    map[int64]*item
	labels   map[string]forge.Label
	grants   map[int64]forge.Permission
	branches map[string]string // name to commit
	commits  map[string]bool
	checks   map[string][]forge.Check
}

// item is an issue, or a change, which has an issue's number and comments.
type item struct {
	issue    forge.Issue
	events   []forge.Event
	comments []*forge.Comment
	reacted  map[int64][]forge.Reaction // by comment, 0 for the issue itself, of anybody
	change   *forge.Change
	reviews  []*forge.ReviewComment // at places
}

// NewFake makes a forge without accounts or repositories. now is its clock.
func NewFake(now func() time.Time) *Fake {
	return &Fake{now: now, users: map[int64]forge.User{}, repos: map[int64]*fakeRepo{}}
}

// AddUser makes an account.
func (f *Fake) AddUser(login string, kind forge.Kind) *Account {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := forge.User{ID: f.id(), Login: login, Kind: kind}
	f.users[u.ID] = u
	return &Account{f: f, User: u}
}

// AddRepo makes a public repository whose default branch is main.
func (f *Fake) AddRepo(owner, name string) forge.Repo {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := forge.Repo{ID: f.id(), Owner: owner, Name: name}
	f.repos[r.ID] = &fakeRepo{
		about: forge.Repository{Repo: r, DefaultBranch: "main", URL: "https://forge.example/" + r.String()},
		items: map[int64]*item{}, labels: map[string]forge.Label{}, grants: map[int64]forge.Permission{},
		branches: map[string]string{}, commits: map[string]bool{}, checks: map[string][]forge.Check{},
	}
	return r
}

// ChangeRepo lets act change what the forge says of a repository: its name,
// whether it is archived, private, a fork.
func (f *Fake) ChangeRepo(r forge.Repo, act func(*forge.Repository)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	about := &f.repos[r.ID].about
	act(about)
	about.ID = r.ID
}

// RemoveRepo deletes a repository.
func (f *Fake) RemoveRepo(r forge.Repo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.repos, r.ID)
}

// Grant sets what an account may do in a repository.
func (f *Fake) Grant(r forge.Repo, user int64, p forge.Permission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.repos[r.ID].grants[user] = p
}

// noCommit is the id that stands for no object.
const noCommit = "0000000000000000000000000000000000000000"

// SetBranch makes or moves a branch, as somebody's push; "" as the commit
// removes it. An open change from it moves along.
func (f *Fake) SetBranch(r forge.Repo, by forge.User, branch, oid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	repo := f.repos[r.ID]
	if oid == "" {
		delete(repo.branches, branch)
		return
	}
	old := repo.branches[branch]
	if old == "" {
		old = noCommit
	}
	repo.branches[branch], repo.commits[oid] = oid, true
	f.tell(repo.about, by, forge.Payload{Event: forge.PayloadPush, Ref: "refs/heads/" + branch, Before: old, After: oid})
	for _, it := range repo.items {
		if it.change != nil && it.change.Head == branch && it.change.State == forge.ChangeOpen {
			it.change.HeadOID = oid
		}
	}
}

// Checks returns the checks of a commit.
func (f *Fake) Checks(r forge.Repo, oid string) []forge.Check {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.repos[r.ID].checks[oid])
}

// Reactions returns how an account of anybody's answered to a comment, sorted.
func (f *Fake) Reactions(r forge.Repo, comment int64) []forge.Reaction {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []forge.Reaction
	for _, it := range f.repos[r.ID].items {
		out = append(out, it.reacted[comment]...)
	}
	slices.Sort(out)
	return out
}

// IssueReactions returns how an account of anybody's answered to an issue, sorted.
func (f *Fake) IssueReactions(r forge.Repo, number int64) []forge.Reaction {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.repos[r.ID].items[number].reacted[0])
	slices.Sort(out)
	return out
}

// Labels returns the names of the labels that a repository offers, sorted.
func (f *Fake) Labels(r forge.Repo) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.repos[r.ID].labels))
}

// Scene is a forge with one repository and the people that most tests need.
type Scene struct {
	*Fake
	Repo   forge.Repo
	Bot    *Faults  // of an account that may write
	Robot  *Account // the same account, without faults
	Owner  *Account // may administer
	Triage *Account // may triage
	Reader *Account // may read, as everybody
}

// NewScene sets the scene.
func NewScene(now func() time.Time) *Scene {
	f := NewFake(now)
	s := &Scene{
		Fake: f, Repo: f.AddRepo("acme", "shop"), Robot: f.AddUser("writ-bot", forge.Bot),
		Owner: f.AddUser("ana", forge.Person), Triage: f.AddUser("tom", forge.Person), Reader: f.AddUser("rita", forge.Person),
	}
	s.Bot = Wrap(s.Robot)
	f.Grant(s.Repo, s.Robot.ID, forge.Write)
	f.Grant(s.Repo, s.Owner.ID, forge.Admin)
	f.Grant(s.Repo, s.Triage.ID, forge.Triage)
	f.SetBranch(s.Repo, s.Owner.User, "main", CommitID("main"))
	return s
}

// CommitID makes up a commit's id from a word.
func CommitID(word string) string {
	const digits = 40
	sum := sha256.Sum256([]byte(word))
	return hex.EncodeToString(sum[:])[:digits]
}

// id counts. The lock is held.
func (f *Fake) id() int64 {
	f.lastID++
	return f.lastID
}

// fail is the one way in which the fake refuses.
func fail(reason forge.Reason, format string, args ...any) error {
	return &forge.Error{Reason: reason, Op: fmt.Sprintf(format, args...), Err: errors.New("the fake forge refuses")}
}

// permission is what an account may do. The lock is held.
func (r *fakeRepo) permission(user int64) forge.Permission {
	p, granted := r.grants[user]
	if !granted && !r.about.Private {
		return forge.Read
	}
	return p
}

// event appends to an item's history and tells it. The lock is held.
func (f *Fake) event(about forge.Repository, it *item, by forge.User, kind forge.EventKind, label string) error {
	digest, err := kernel.ApprovalDigest(it.issue.Title, it.issue.Body)
	if err != nil {
		return &forge.Error{Reason: forge.Invalid, Op: "history", Err: err}
	}
	now := f.now()
	it.issue.UpdatedAt = now
	it.events = append(it.events, forge.Event{
		ID: f.id(), Kind: kind, Actor: by, Label: label, At: now, Digest: string(digest),
	})
	f.tellItem(about, it, by, string(kind), label)
	return nil
}
