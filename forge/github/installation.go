package github

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// Installation is what an App was given for a repository.
type Installation struct {
	ID          int64
	App         string            // its slug
	Suspended   bool              // by the owner, or by GitHub
	Permissions map[string]string // GitHub's names to read, write or admin
	Events      []string          // that the App is told of
}

// Needed are the permissions that writ's acts need, as an App's manifest names
// them.
func Needed() map[string]string {
	return map[string]string{"metadata": "read", "issues": "write", "pull_requests": "write", "contents": "write", "checks": "write"}
}

// Events are those that the App must be told of, as its manifest names them. Of
// its installations GitHub tells every App.
func Events() []string {
	return []string{"check_run", "check_suite", "issue_comment", "issues", "pull_request", "pull_request_review", "pull_request_review_comment", "push", "repository"}
}

// Held asks what the App was given for a repository. With a personal token there
// is no installation: Unauthorized.
func (h *Host) Held(ctx context.Context, r forge.Repo) (Installation, error) {
	op := "ask what the App may do in " + r.String()
	if h.key == nil {
		return Installation{}, &forge.Error{Reason: forge.Unauthorized, Op: op}
	}
	ctx = transport.With(ctx, transport.Call{Op: op, Account: appAccount, Live: true})
	found, _, err := h.api(h.asApp()).Apps.FindRepositoryInstallation(ctx, r.Owner, r.Name)
	if err != nil {
		return Installation{}, fail(op, transport.Read, err)
	}
	if found.GetID() <= 0 {
		return Installation{}, fail(op, transport.Read, odd("an installation without an id"))
	}
	out := Installation{ID: found.GetID(), App: found.GetAppSlug(), Suspended: found.SuspendedAt != nil, Events: found.Events}
	// The library has a field for each permission; by their names is how they are
	// asked for and shown.
	b, err := json.Marshal(found.GetPermissions())
	if err == nil {
		err = json.Unmarshal(b, &out.Permissions)
	}
	return out, fail(op, transport.Read, err)
}

// Missing are the needed permissions that the installation lacks, with what is
// needed of each.
func (i Installation) Missing() map[string]string {
	out := map[string]string{}
	for name, need := range Needed() {
		if has := i.Permissions[name]; has != need && has != "write" && has != "admin" {
			out[name] = need
		}
	}
	return out
}

// Unheard are the needed events that the App isn't told of there. Those of checks
// GitHub sends to whoever may write checks, ticked or not.
func (i Installation) Unheard() (out []string) {
	for _, e := range Events() {
		if given := strings.HasPrefix(e, "check_") && i.Permissions["checks"] == "write"; !given && !slices.Contains(i.Events, e) {
			out = append(out, e)
		}
	}
	return out
}
