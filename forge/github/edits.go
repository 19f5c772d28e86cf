package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// The edits of a text are in GitHub's GraphQL API alone; go-github has none, and
// one question needs no library.
const editsQuery = `query($owner: String!, $name: String!, $number: Int!, $before: String) {
  repository(owner: $owner, name: $name) {
    databaseId
    issue(number: $number) {
      title body lastEditedAt includesCreatedEdit
      userContentEdits(last: 100, before: $before) {
        pageInfo { hasPreviousPage startCursor }
        nodes { editedAt deletedAt diff editor { __typename login ... on User { databaseId } ... on Bot { databaseId } } }
      }
    }
  }
}`

// texts are an issue's text and its versions, all of one moment.
type texts struct {
	title, body string
	versions    []version // oldest first; the first is the original if there are others
}

// version is the body from a time on.
type version struct {
	at       time.Time
	by       forge.User
	body     string
	unknown  bool // GitHub no longer shows it
	original bool
}

type editsAnswer struct {
	Data struct {
		Repository *struct {
			DatabaseID int64 `json:"databaseId"`
			Issue      *struct {
				Title, Body         string
				LastEditedAt        *time.Time
				IncludesCreatedEdit bool
				UserContentEdits    *struct {
					PageInfo struct {
						HasPreviousPage bool
						StartCursor     string
					}
					Nodes []editNode
				}
			}
		}
	}
	Errors []graphError
}

// graphError is an error in an answer.
type graphError struct{ Type, Message string }

type editNode struct {
	EditedAt  time.Time
	DeletedAt *time.Time
	Diff      *string
	Editor    *struct {
		Typename   string `json:"__typename"`
		Login      string
		DatabaseID int64 `json:"databaseId"`
	}
}

// maxEditPages bounds how often one text may have been edited, in hundreds.
const maxEditPages = 20

// askTexts reads them. The path of the question is beside the REST API's.
func (at spot) askTexts(ctx context.Context, h *Host, number int64) (texts, error) {
	var out texts
	var before *string
	for range maxEditPages {
		var a editsAnswer
		if err := at.ask(ctx, h, editsQuery, map[string]any{"owner": at.owner, "name": at.name, "number": number, "before": before}, &a); err != nil {
			return out, err
		}
		repo := a.Data.Repository
		switch {
		// A part that can't be shown is null beside an error: no edits then doesn't
		// mean that there were none.
		case len(a.Errors) > 0 || repo == nil || repo.Issue == nil || repo.Issue.UserContentEdits == nil:
			return out, answerError("issue", a.Errors)
		case repo.DatabaseID != at.about.ID:
			return out, &forge.Error{Reason: forge.NotFound, Err: errors.New("another repository has the name now")}
		}
		i := repo.Issue
		if before == nil {
			out.title, out.body = i.Title, i.Body
		}
		page := make([]version, 0, len(i.UserContentEdits.Nodes)+len(out.versions))
		for _, n := range i.UserContentEdits.Nodes {
			if n.EditedAt.IsZero() || n.Editor != nil && n.Editor.DatabaseID < 0 {
				return out, odd("an edit without a time, or by an account that can't be")
			}
			page = append(page, n.version())
		}
		out.versions = append(page, out.versions...)
		info := i.UserContentEdits.PageInfo
		if !info.HasPreviousPage {
			if len(out.versions) > 0 {
				out.versions[0].original = i.IncludesCreatedEdit
			} else if at := i.LastEditedAt; at != nil { // edited, and not shown how
				out.versions = []version{{at: *at, unknown: true, by: forge.User{Login: ghost, Kind: forge.Bot}}}
			}
			return out, nil
		}
		if info.StartCursor == "" || before != nil && *before == info.StartCursor {
			return out, odd("the edits' pages lead nowhere")
		}
		before = &info.StartCursor
	}
	return out, &forge.Error{Reason: forge.Invalid, Err: errors.New("the issue was edited too often for its history to be read")}
}

func (n editNode) version() version {
	v := version{at: n.EditedAt, unknown: n.DeletedAt != nil || n.Diff == nil, by: forge.User{Login: ghost, Kind: forge.Bot}}
	if n.Diff != nil {
		v.body = *n.Diff
	}
	if e := n.Editor; e != nil {
		v.by = forge.User{ID: e.DatabaseID, Login: e.Login, Kind: forge.Bot}
		if e.Typename == personType {
			v.by.Kind = forge.Person
		}
	}
	return v
}

// ask makes the question. It is a read, though a POST, and has an allowance of
// its own.
func (at spot) ask(ctx context.Context, h *Host, query string, variables map[string]any, into any) error {
	call := transport.CallOf(ctx)
	call.Lane, call.Bucket = transport.Read, call.Account+" graphql"
	req, err := at.NewRequest(http.MethodPost, h.at.graphql.String(), map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	_, err = at.Do(transport.With(ctx, call), req, into)
	return err
}

// answerError is why there is no such thing: GraphQL answers 200 to everything.
func answerError(what string, list []graphError) *forge.Error {
	e := &forge.Error{Reason: forge.NotFound, Err: fmt.Errorf("GitHub shows no such %s", what)}
	for _, one := range list {
		switch one.Type {
		case "NOT_FOUND":
		case "FORBIDDEN", "INSUFFICIENT_SCOPES":
			e.Reason = forge.Forbidden
		case "RATE_LIMITED":
			e.Reason, e.RetryAfter = forge.Limited, time.Minute
		default:
			e.Reason = forge.Unavailable
		}
	}
	return e
}
