package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// Rule is a rule of a ruleset that is in force for a branch.
type Rule struct {
	Type    string // in GitHub's words: pull_request, required_signatures, …
	Ruleset int64
	Source  string // owner/name, or the organisation, whose ruleset it is
	// Bypass says that GitHub lets us past the ruleset always. It is false, too,
	// where GitHub doesn't say so.
	Bypass bool
	// AfterCreation says that it doesn't count for the push that makes a branch.
	AfterCreation bool
	Pattern       Pattern // of a rule whose type ends in _pattern
}

// Pattern is what a rule asks of a text.
type Pattern struct {
	Operator string // starts_with, ends_with, contains, regex
	Text     string
	Negate   bool // it must not be so
}

// Admits reports whether a text keeps it. Known is false where nobody can say:
// an operator of a later day, an expression that only GitHub reads.
func (p Pattern) Admits(text string) (admits, known bool) {
	var is bool
	switch p.Operator {
	case "starts_with":
		is = strings.HasPrefix(text, p.Text)
	case "ends_with":
		is = strings.HasSuffix(text, p.Text)
	case "contains":
		is = strings.Contains(text, p.Text)
	case "regex":
		re, err := regexp.Compile(p.Text)
		if err != nil {
			return false, false
		}
		is = re.MatchString(text)
	default:
		return false, false
	}
	return is != p.Negate, true
}

// Rules lists the rules in force for a branch, which needn't be there. Rulesets
// are all that GitHub shows to who may not administer the repository: what a
// branch protection of the older kind asks can't be seen. A private repository
// whose plan has no rulesets has no rules.
func (h *Host) Rules(ctx context.Context, r forge.Repo, branch string) (out []Rule, err error) {
	a := act{op: fmt.Sprintf("read the rules for %s of %s", branch, r), scope: toRead, live: true}
	err = h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		out = nil
		if err := at.rules(ctx, branch, &out); unpaid(err) {
			return nil
		} else if err != nil {
			return err
		}
		bypass := map[int64]bool{}
		for i := range out {
			id := out[i].Ruleset
			if _, asked := bypass[id]; !asked {
				bypass[id] = at.bypasses(ctx, id)
			}
			out[i].Bypass = bypass[id]
		}
		return nil
	})
	return out, err
}

// unpaid reports whether GitHub refuses since the owner's plan lacks a feature: it
// has no word for that but its sentence.
func unpaid(err error) bool {
	var s *transport.StatusError
	return errors.As(err, &s) && s.Status == http.StatusForbidden && strings.HasPrefix(s.Words, "Upgrade to GitHub")
}

// rules are asked for as they are: the library refuses those that it doesn't know.
func (at spot) rules(ctx context.Context, branch string, out *[]Rule) error {
	return pages(func(o *api.ListOptions) (*api.Response, error) {
		path := fmt.Sprintf("repos/%s/%s/rules/branches/%s?per_page=%d&page=%d", at.owner, at.name, url.PathEscape(branch), o.PerPage, max(o.Page, 1))
		req, err := at.NewRequest(http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		var some []struct {
			Type    string `json:"type"`
			Ruleset int64  `json:"ruleset_id"`
			Source  string `json:"ruleset_source"`
			With    struct {
				Operator      string `json:"operator"`
				Pattern       string `json:"pattern"`
				Negate        bool   `json:"negate"`
				AfterCreation bool   `json:"do_not_enforce_on_create"`
			} `json:"parameters"`
		}
		res, err := at.Do(ctx, req, &some)
		for _, one := range some {
			if one.Type == "" {
				return nil, odd("a rule without a type")
			}
			*out = append(*out, Rule{
				Type: one.Type, Ruleset: one.Ruleset, Source: one.Source, AfterCreation: one.With.AfterCreation,
				Pattern: Pattern{one.With.Operator, one.With.Pattern, one.With.Negate},
			})
		}
		return res, err
	})
}

// bypasses asks whether GitHub lets us past a ruleset; what it doesn't show
// counts as no.
func (at spot) bypasses(ctx context.Context, ruleset int64) bool {
	req, err := at.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/rulesets/%d", at.owner, at.name, ruleset), nil)
	if err != nil {
		return false
	}
	var about struct {
		May string `json:"current_user_can_bypass"`
	}
	_, err = at.Do(ctx, req, &about)
	return err == nil && (about.May == "always" || about.May == "exempt")
}
