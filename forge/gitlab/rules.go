package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
)

// Protection is a protected branch, or a pattern of several.
type Protection struct {
	Name      string        `json:"name"` // * stands for any text
	Push      []AccessLevel `json:"push_access_levels"`
	ForcePush bool          `json:"allow_force_push"`
}

// AccessLevel is who may: everybody from a level up, or one account, group or key.
type AccessLevel struct {
	Level int   `json:"access_level"`
	User  int64 `json:"user_id"`
	Group int64 `json:"group_id"`
	Key   int64 `json:"deploy_key_id"`
}

// Covers reports whether it is about a branch.
func (p Protection) Covers(branch string) bool {
	parts := strings.Split(p.Name, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	whole, err := regexp.Compile("^" + strings.Join(parts, ".*") + "$")
	return err == nil && whole.MatchString(branch)
}

// Admits reports whether an account of a level may push. Of groups that were
// named nothing is known here: their members count as admitted by nobody.
func (p Protection) Admits(user int64, level int) bool {
	for _, a := range p.Push {
		switch {
		case a.Key != 0 || a.Group != 0:
		case a.User != 0:
			if a.User == user {
				return true
			}
		case a.Level > 0 && level >= a.Level:
			return true
		}
	}
	return false
}

// Protections lists a project's protected branches. GitLab may keep them from
// who is no Maintainer: Forbidden.
func (h *Host) Protections(ctx context.Context, r forge.Repo) ([]Protection, error) {
	w := reading("list the protected branches of %s", r).live()
	return collect(w, func(o gitlab.ListOptions) ([]Protection, *gitlab.Response, error) {
		return list[Protection](ctx, h, w, fmt.Sprintf("projects/%d/protected_branches", r.ID), o)
	})
}

// PushRules are what a project asks of every commit that is pushed. Patterns are
// RE2; "" asks nothing.
type PushRules struct {
	Message      string `json:"commit_message_regex"`
	NotMessage   string `json:"commit_message_negative_regex"`
	Branch       string `json:"branch_name_regex"`
	Email        string `json:"author_email_regex"`
	Members      bool   `json:"member_check"`           // authors are accounts of this GitLab
	Committer    bool   `json:"commit_committer_check"` // the committer is who pushes
	Signed       bool   `json:"reject_unsigned_commits"`
	SignedOff    bool   `json:"reject_non_dco_commits"`
	FileName     string `json:"file_name_regex"`
	FileSizeMiB  int64  `json:"max_file_size"`
	NoSecrets    bool   `json:"prevent_secrets"`
	SameNameUser bool   `json:"commit_committer_name_check"`
}

// PushRules reads them. Where there are none, or GitLab has no such thing
// without a licence, it is NotFound; who may not see them gets that too, or
// Forbidden.
func (h *Host) PushRules(ctx context.Context, r forge.Repo) (out PushRules, err error) {
	var got *PushRules
	_, err = h.ask(ctx, reading("read the push rules of %s", r).live(), http.MethodGet, fmt.Sprintf("projects/%d/push_rule", r.ID), nil, &got)
	if got != nil {
		out = *got // null is none
	}
	return out, err
}

// Level is an account's access level in a project, in GitLab's numbers; 0 for
// none.
func (h *Host) Level(ctx context.Context, r forge.Repo, user int64) (int, error) {
	var m member
	_, err := h.ask(ctx, reading("read the membership of account %d in %s", user, r).live(), http.MethodGet,
		fmt.Sprintf("projects/%d/members/all/%d", r.ID, user), nil, &m)
	if forge.IsReason(err, forge.NotFound) {
		return 0, nil
	}
	if err != nil || m.ID != user || m.State != active || m.ExpiresAt != nil && !h.cfg.Now().Before(time.Time(*m.ExpiresAt)) {
		return 0, err
	}
	return m.AccessLevel, nil
}
