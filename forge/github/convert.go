package github

import (
	"fmt"
	"strings"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
)

// odd is an answer of success that has something which no such answer can have: a
// null in a list, an id that nothing has, a word for no state. Nothing of it is
// believed, and it is asked for again later, as if there had been none.
func odd(format string, args ...any) error {
	return fmt.Errorf("the answer can't be used: "+format, args...)
}

// readEach reads the entries of a page.
func readEach[F, T any](page []*F, read func(*F) (T, error), tell func(T)) error {
	for n, one := range page {
		if one == nil {
			return odd("entry %d of the list is null", n)
		}
		v, err := read(one)
		if err != nil {
			return err
		}
		tell(v)
	}
	return nil
}

func repository(r *api.Repository) (forge.Repository, error) {
	if r.GetID() <= 0 || r.GetOwner().GetLogin() == "" || r.GetName() == "" {
		return forge.Repository{}, odd("a repository without id, owner or name")
	}
	return forge.Repository{
		Repo:          forge.Repo{ID: r.GetID(), Owner: r.GetOwner().GetLogin(), Name: r.GetName()},
		DefaultBranch: r.GetDefaultBranch(), Private: r.GetPrivate(),
		Archived: r.GetArchived() || r.GetDisabled(), Fork: r.GetFork(), URL: r.GetHTMLURL(),
	}, nil
}

// personType is the type of the accounts of people. Everything else, also what
// GitHub may think of later, is no person.
const personType = "User"

// botSuffix ends the logins of apps; no person can have it.
const botSuffix = "[bot]"

// ghost is the login that GitHub shows for accounts that are gone.
const ghost = "ghost"

func user(u *api.User) (forge.User, error) {
	if u == nil {
		return forge.User{Login: ghost, Kind: forge.Bot}, nil
	}
	if u.GetID() <= 0 || u.GetLogin() == "" {
		return forge.User{}, odd("an account without id or login")
	}
	out := forge.User{ID: u.GetID(), Login: u.GetLogin(), Kind: forge.Bot}
	if u.GetType() == personType && !strings.HasSuffix(u.GetLogin(), botSuffix) {
		out.Kind = forge.Person
	}
	return out, nil
}

func issue(i *api.Issue) (forge.Issue, error) {
	author, err := user(i.User)
	state := forge.State(i.GetState())
	switch {
	case err != nil:
		return forge.Issue{}, err
	case i.GetID() <= 0 || i.GetNumber() <= 0 || state != forge.Open && state != forge.Closed:
		return forge.Issue{}, odd("an issue without id, number or state")
	case i.GetCreatedAt().IsZero() || i.GetUpdatedAt().IsZero():
		return forge.Issue{}, odd("issue %d has no time", i.GetNumber())
	}
	out := forge.Issue{
		Number: int64(i.GetNumber()), ID: i.GetID(), Title: i.GetTitle(), Body: i.GetBody(), State: state,
		Author: author, Locked: i.GetLocked(), IsChange: i.IsPullRequest(),
		CreatedAt: i.GetCreatedAt().Time, UpdatedAt: i.GetUpdatedAt().Time, URL: i.GetHTMLURL(),
	}
	for _, l := range i.Labels {
		if l.GetName() == "" {
			return forge.Issue{}, odd("a label of issue %d has no name", i.GetNumber())
		}
		out.Labels = append(out.Labels, l.GetName())
	}
	return out, nil
}

func label(l *api.Label) (forge.Label, error) {
	if l.GetName() == "" {
		return forge.Label{}, odd("a label has no name")
	}
	return forge.Label{Name: l.GetName(), Color: l.GetColor(), Description: l.GetDescription()}, nil
}

func comment(c *api.IssueComment) (forge.Comment, error) {
	author, err := user(c.User)
	if err != nil {
		return forge.Comment{}, err
	}
	if c.GetID() <= 0 || c.GetCreatedAt().IsZero() || c.GetUpdatedAt().IsZero() {
		return forge.Comment{}, odd("a comment without id or time")
	}
	return forge.Comment{
		ID: c.GetID(), Author: author, Body: c.GetBody(),
		CreatedAt: c.GetCreatedAt().Time, UpdatedAt: c.GetUpdatedAt().Time, URL: c.GetHTMLURL(),
	}, nil
}

// change reads a pull request. Its merge_commit_sha is a trial merge until
// merged_at is set.
func change(p *api.PullRequest) (forge.Change, error) {
	author, err := user(p.User)
	if err != nil {
		return forge.Change{}, err
	}
	if s := forge.State(p.GetState()); p.GetNumber() <= 0 || s != forge.Open && s != forge.Closed || p.GetHead().GetRef() == "" || p.GetBase().GetRef() == "" {
		return forge.Change{}, odd("a pull request without number, state or branches")
	}
	out := forge.Change{
		Number: int64(p.GetNumber()), Title: p.GetTitle(), Body: p.GetBody(), Head: p.GetHead().GetRef(), Base: p.GetBase().GetRef(),
		HeadOID: p.GetHead().GetSHA(), State: forge.ChangeOpen, Draft: p.GetDraft(), Author: author, URL: p.GetHTMLURL(),
	}
	switch {
	case p.MergedAt != nil:
		out.State, out.MergedOID = forge.ChangeMerged, p.GetMergeCommitSHA()
	case p.GetState() == string(forge.Closed):
		out.State = forge.ChangeClosed
	}
	return out, nil
}
