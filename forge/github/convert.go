package github

import (
	"strings"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
)

func repository(r *api.Repository) forge.Repository {
	return forge.Repository{
		Repo:          forge.Repo{ID: r.GetID(), Owner: r.GetOwner().GetLogin(), Name: r.GetName()},
		DefaultBranch: r.GetDefaultBranch(), Private: r.GetPrivate(),
		Archived: r.GetArchived() || r.GetDisabled(), Fork: r.GetFork(), URL: r.GetHTMLURL(),
	}
}

// personType is the type of the accounts of people. Everything else, also what
// GitHub may think of later, is no person.
const personType = "User"

// botSuffix ends the logins of apps; no person can have it.
const botSuffix = "[bot]"

// ghost is the login that GitHub shows for accounts that are gone.
const ghost = "ghost"

func user(u *api.User) forge.User {
	if u == nil {
		return forge.User{Login: ghost, Kind: forge.Bot}
	}
	out := forge.User{ID: u.GetID(), Login: u.GetLogin(), Kind: forge.Bot}
	if u.GetType() == personType && !strings.HasSuffix(u.GetLogin(), botSuffix) {
		out.Kind = forge.Person
	}
	return out
}

func issue(i *api.Issue) forge.Issue {
	out := forge.Issue{
		Number: int64(i.GetNumber()), ID: i.GetID(), Title: i.GetTitle(), Body: i.GetBody(), State: forge.State(i.GetState()),
		Author: user(i.User), Locked: i.GetLocked(), IsChange: i.IsPullRequest(), UpdatedAt: i.GetUpdatedAt().Time, URL: i.GetHTMLURL(),
	}
	for _, l := range i.Labels {
		out.Labels = append(out.Labels, l.GetName())
	}
	return out
}

func comment(c *api.IssueComment) forge.Comment {
	return forge.Comment{
		ID: c.GetID(), Author: user(c.User), Body: c.GetBody(),
		CreatedAt: c.GetCreatedAt().Time, UpdatedAt: c.GetUpdatedAt().Time, URL: c.GetHTMLURL(),
	}
}

// change reads a pull request. Its merge_commit_sha is a trial merge until
// merged_at is set.
func change(p *api.PullRequest) forge.Change {
	out := forge.Change{
		Number: int64(p.GetNumber()), Title: p.GetTitle(), Body: p.GetBody(), Head: p.GetHead().GetRef(), Base: p.GetBase().GetRef(),
		HeadOID: p.GetHead().GetSHA(), State: forge.ChangeOpen, Draft: p.GetDraft(), Author: user(p.User), URL: p.GetHTMLURL(),
	}
	switch {
	case p.MergedAt != nil:
		out.State, out.MergedOID = forge.ChangeMerged, p.GetMergeCommitSHA()
	case p.GetState() == string(forge.Closed):
		out.State = forge.ChangeClosed
	}
	return out
}
