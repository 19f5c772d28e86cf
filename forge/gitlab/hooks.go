package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
)

// Hook is a webhook of a project, as far as GitLab shows it: never its secrets.
type Hook struct {
	ID       int64     `json:"id"`
	URL      string    `json:"url"`
	State    string    `json:"alert_status"` // executable, or disabled in one of two ways
	Until    time.Time `json:"disabled_until"`
	Secret   bool      `json:"token_present"`         // false, too, of a GitLab that doesn't sign
	Signed   bool      `json:"signing_token_present"` // see EnsureHook
	Verifies bool      `json:"enable_ssl_verification"`

	Push   bool `json:"push_events"`
	Issues bool `json:"issues_events"`
	Notes  bool `json:"note_events"`
	Merges bool `json:"merge_requests_events"`
}

// Missing are the events, in the words of GitLab's page, that the hook isn't told
// of and writ needs.
func (k Hook) Missing() (out []string) {
	for _, e := range []struct {
		has  bool
		word string
	}{{k.Push, "Push events"}, {k.Issues, "Issues events"}, {k.Notes, "Comments"}, {k.Merges, "Merge request events"}} {
		if !e.has {
			out = append(out, e.word)
		}
	}
	return out
}

// HookSpec is a hook to have. Secret goes out as X-Gitlab-Token; Signing, which
// is whsec_ and 32 bytes in base64, signs each delivery.
type HookSpec struct {
	URL, Secret, Signing string
	Insecure             bool // the receiver's certificate is not verified
}

// hookBody is what the library's types lack a part of.
type hookBody struct {
	URL     string `json:"url"`
	Secret  string `json:"token,omitempty"`
	Signing string `json:"signing_token,omitempty"`
	Verify  bool   `json:"enable_ssl_verification"`

	Push               bool `json:"push_events"`
	Issues             bool `json:"issues_events"`
	ConfidentialIssues bool `json:"confidential_issues_events"`
	Notes              bool `json:"note_events"`
	ConfidentialNotes  bool `json:"confidential_note_events"`
	Merges             bool `json:"merge_requests_events"`
}

// Hooks lists a project's hooks. It needs the role Maintainer, as all about hooks.
func (h *Host) Hooks(ctx context.Context, r forge.Repo) ([]Hook, error) {
	w := reading("list the hooks of %s", r)
	return collect(w, func(o gitlab.ListOptions) ([]Hook, *gitlab.Response, error) {
		return list[Hook](ctx, h, w, fmt.Sprintf("projects/%d/hooks", r.ID), o)
	})
}

func list[T any](ctx context.Context, h *Host, w how, path string, o gitlab.ListOptions) ([]T, *gitlab.Response, error) {
	var out []T
	res, err := h.ask(ctx, w, http.MethodGet, path, &o, &out)
	return out, res, err
}

// EnsureHook makes a hook with that URL, or sets the one that is there: doing it
// again makes no second. A GitLab that can't sign leaves the signing token out
// without a word; that is Conflict here, and the hook is there without one.
func (h *Host) EnsureHook(ctx context.Context, r forge.Repo, spec HookSpec) (Hook, error) {
	all, err := h.Hooks(ctx, r)
	if err != nil {
		return Hook{}, err
	}
	w := editing("set up the hook of %s", r)
	method, path := http.MethodPost, fmt.Sprintf("projects/%d/hooks", r.ID)
	if at := slices.IndexFunc(all, func(k Hook) bool { return k.URL == spec.URL }); at >= 0 {
		method, path = http.MethodPut, fmt.Sprintf("%s/%d", path, all[at].ID)
	}
	var out Hook
	_, err = h.ask(ctx, w, method, path, &hookBody{
		URL: spec.URL, Secret: spec.Secret, Signing: spec.Signing, Verify: !spec.Insecure,
		Push: true, Issues: true, ConfidentialIssues: true, Notes: true, ConfidentialNotes: true, Merges: true,
	}, &out)
	if err == nil && spec.Signing != "" && !out.Signed {
		err = w.refuse(forge.Conflict, "this GitLab doesn't sign its deliveries: use a secret token, or a newer GitLab")
	}
	return out, err
}

// HookDelivery is a delivery that GitLab remembers, for seven days.
type HookDelivery struct {
	ID      int64  `json:"id"`
	Trigger string `json:"trigger"`
	Status  string `json:"response_status"` // of HTTP, or "internal error"
}

// maxDeliveries is how many a caller is shown; who wants more looks at GitLab's page.
const maxDeliveries = 20

// FailedDeliveries are the newest ones that weren't answered with success, the
// newest first. It needs GitLab 17.3; before, it is NotFound.
func (h *Host) FailedDeliveries(ctx context.Context, r forge.Repo, hook int64) ([]HookDelivery, error) {
	w := reading("list the deliveries of a hook of %s", r)
	var out []HookDelivery
	err := pages(w, func(o gitlab.ListOptions) ([]HookDelivery, *gitlab.Response, error) {
		return list[HookDelivery](ctx, h, w, fmt.Sprintf("projects/%d/hooks/%d/events", r.ID, hook), o)
	}, func(d HookDelivery) error {
		if !strings.HasPrefix(d.Status, "2") && !strings.HasPrefix(d.Status, "3") {
			out = append(out, d)
		}
		if len(out) == maxDeliveries {
			return errFound
		}
		return nil
	})
	if len(out) == maxDeliveries {
		err = nil
	}
	return out, err
}

// Redeliver sends a delivery again.
func (h *Host) Redeliver(ctx context.Context, r forge.Repo, hook, delivery int64) error {
	w := editing("send a delivery of %s again", r)
	path := fmt.Sprintf("projects/%d/hooks/%d/events/%d/resend", r.ID, hook, delivery)
	_, err := h.ask(ctx, w, http.MethodPost, path, nil, nil)
	return err
}
