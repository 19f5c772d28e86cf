package gitlab

import (
	"context"
	"net/http"
	"slices"
	"strings"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
)

// EnsureLabels is forge.Labels. A label of a group above counts.
func (h *Host) EnsureLabels(ctx context.Context, r forge.Repo, labels []forge.Label) error {
	all, err := h.Labels(ctx, r)
	if err != nil {
		return err
	}
	for _, l := range labels {
		if slices.ContainsFunc(all, func(other forge.Label) bool { return other.Name == l.Name }) {
			continue
		}
		w := editing("make the label %s in %s", l.Name, r)
		if err := w.label(l.Name); err != nil {
			return err
		}
		o := &gitlab.CreateLabelOptions{Name: ptr(l.Name), Color: ptr("#" + l.Color), Description: ptr(l.Description)}
		if _, _, err := h.api.Labels.CreateLabel(int(r.ID), o, w.in(ctx)); err != nil && !answered(err, http.StatusConflict, "already exists") {
			return w.err(err)
		}
	}
	return nil
}

// Labels lists what a project offers, the labels of the groups above it included.
func (h *Host) Labels(ctx context.Context, r forge.Repo) (out []forge.Label, err error) {
	w := reading("list labels of %s", r)
	err = pages(w, func(o gitlab.ListOptions) ([]*gitlab.Label, *gitlab.Response, error) {
		return h.api.Labels.ListLabels(int(r.ID), &gitlab.ListLabelsOptions{ListOptions: o}, w.in(ctx))
	}, func(l *gitlab.Label) error {
		out = append(out, forge.Label{Name: l.Name, Color: strings.TrimPrefix(l.Color, "#"), Description: l.Description})
		return nil
	})
	return out, err
}

// label refuses a name that GitLab would read as something else: at a comma as
// two labels, and without the white space around it.
func (w how) label(name string) error {
	if name == "" || strings.Contains(name, ",") || strings.TrimSpace(name) != name {
		return w.refuse(forge.Invalid, "a label of GitLab's has no comma and no white space around it")
	}
	return nil
}

// AddLabel is forge.Labels.
func (h *Host) AddLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	w := editing("label %s#%d with %s", r, number, label)
	if err := w.label(label); err != nil {
		return err
	}
	i, err := h.update(ctx, w, r, number, &gitlab.UpdateIssueOptions{AddLabels: &gitlab.LabelOptions{label}})
	if err == nil && !slices.Contains(i.Labels, label) {
		return w.ignored("the label isn't there")
	}
	return err
}

// RemoveLabel is forge.Labels.
func (h *Host) RemoveLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	w := editing("take the label %s off %s#%d", label, r, number)
	if err := w.label(label); err != nil {
		return err
	}
	i, err := h.update(ctx, w, r, number, &gitlab.UpdateIssueOptions{RemoveLabels: &gitlab.LabelOptions{label}})
	if err == nil && slices.Contains(i.Labels, label) {
		return w.ignored("the label is still there")
	}
	return err
}
