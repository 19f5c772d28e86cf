package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/internal/transport"
)

// EnsureLabels is forge.Labels. GitHub compares their names without case.
func (c *client) EnsureLabels(ctx context.Context, r forge.Repo, labels []forge.Label) error {
	op := "make labels in " + r.String()
	all, err := c.labels(ctx, r, op)
	if err != nil {
		return err
	}
	for _, l := range labels {
		if slices.ContainsFunc(all, func(other forge.Label) bool { return strings.EqualFold(other.Name, l.Name) }) {
			continue
		}
		if err := c.makeLabel(ctx, r, op, l); err != nil {
			return err
		}
	}
	return nil
}

// Labels lists what a repository offers.
func (c *client) Labels(ctx context.Context, r forge.Repo) ([]forge.Label, error) {
	return c.labels(ctx, r, "list the labels of "+r.String())
}

func (c *client) labels(ctx context.Context, r forge.Repo, op string) (out []forge.Label, err error) {
	err = c.h.do(ctx, r, act{op: op, scope: toRead}, func(ctx context.Context, at spot) error {
		out = nil
		return pages(func(o *api.ListOptions) (*api.Response, error) {
			got, res, err := at.Issues.ListLabels(ctx, at.owner, at.name, o)
			if err != nil {
				return nil, err
			}
			return res, readEach(got, label, func(l forge.Label) { out = append(out, l) })
		})
	})
	return out, err
}

func (c *client) makeLabel(ctx context.Context, r forge.Repo, op string, l forge.Label) error {
	return c.h.do(ctx, r, act{op: op, scope: toTalk, lane: transport.Edit}, func(ctx context.Context, at spot) error {
		made := &api.Label{Name: &l.Name, Color: &l.Color, Description: &l.Description}
		_, _, err := at.Issues.CreateLabel(ctx, at.owner, at.name, made)
		if status(err) != http.StatusUnprocessableEntity {
			return err
		}
		// Somebody may have made it in between.
		if _, _, err := at.Issues.GetLabel(ctx, at.owner, at.name, url.PathEscape(l.Name)); err == nil {
			return nil
		}
		return err
	})
}

// AddLabel is forge.Labels.
func (c *client) AddLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	a := act{op: onItem("label", r, number), scope: toTalk, lane: transport.Edit}
	return c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		// The library sends a bare list, which GitHub no longer describes.
		path := fmt.Sprintf("repos/%s/%s/issues/%d/labels", at.owner, at.name, number)
		req, err := at.NewRequest(http.MethodPost, path, map[string][]string{"labels": {label}})
		if err == nil {
			_, err = at.Do(ctx, req, nil)
		}
		return err
	})
}

// RemoveLabel is forge.Labels. GitHub answers alike for a label that the issue
// lacks and for an issue that is gone, so the issue is looked at.
func (c *client) RemoveLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	a := act{op: onItem("take a label off", r, number), scope: toTalk, lane: transport.Edit}
	err := c.h.do(ctx, r, a, func(ctx context.Context, at spot) error {
		// The library puts the name into the path as it is.
		_, err := at.Issues.RemoveLabelForIssue(ctx, at.owner, at.name, itemNumber(number), url.PathEscape(label))
		return err
	})
	if !forge.IsReason(err, forge.NotFound) {
		return err
	}
	_, err = c.Issue(ctx, r, number)
	return err
}
