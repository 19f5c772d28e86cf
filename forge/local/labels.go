package local

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge"
)

// plainColor is what a label gets that nobody chose a colour for.
const plainColor = "ededed"

var colorForm = lazyregexp.New(`^[0-9a-fA-F]{6}$`)

func checkLabel(l forge.Label) error {
	if strings.TrimSpace(l.Name) == "" || len(l.Name) > maxLabel || strings.ContainsFunc(l.Name, unicode.IsControl) {
		return refuse(forge.Invalid, "a label's name is one line of 1 to %d bytes", maxLabel)
	}
	if !colorForm().MatchString(l.Color) {
		return refuse(forge.Invalid, "a label's colour is six hexadecimal digits, not %q", l.Color)
	}
	return nil
}

// EnsureLabels is forge.Labels.
func (c *Client) EnsureLabels(ctx context.Context, r forge.Repo, labels []forge.Label) error {
	return c.in(ctx, r, writes(forge.Write, "make labels in "+r.String()), func(x *session, in scope) error {
		for _, l := range labels {
			if err := x.ensureLabel(in, l); err != nil {
				return err
			}
		}
		return nil
	})
}

func (x *session) ensureLabel(in scope, l forge.Label) error {
	if l.Color == "" {
		l.Color = plainColor
	}
	if err := checkLabel(l); err != nil {
		return err
	}
	return x.do(`INSERT INTO labels (repo, name, color, description) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		in.ID, l.Name, strings.ToLower(l.Color), l.Description)
}

// Labels lists what a repository offers, by name.
func (c *Client) Labels(ctx context.Context, r forge.Repo) (out []forge.Label, err error) {
	err = c.in(ctx, r, reads("list the labels of "+r.String()), func(x *session, in scope) error {
		out, err = x.labels(in.ID)
		return err
	})
	return out, err
}

func (x *session) labels(repo int64) (out []forge.Label, err error) {
	err = x.each(func(scan func(...any) error) error {
		var l forge.Label
		err := scan(&l.Name, &l.Color, &l.Description)
		out = append(out, l)
		return err
	}, `SELECT name, color, description FROM labels WHERE repo = ? ORDER BY name`, repo)
	return out, err
}

// AddLabel is forge.Labels. A label that isn't there is made for those who may
// write, and refused to others.
func (c *Client) AddLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	return c.inItem(ctx, r, number, writes(forge.Triage, "label"), func(x *session, in scope, it itemRow) error {
		offered, err := x.labels(in.ID)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(offered, func(l forge.Label) bool { return l.Name == label }) {
			if in.may < forge.Write {
				return refuse(forge.Invalid, "there is no label %q, and %s may not make one", label, in.by.Login)
			}
			if err := x.ensureLabel(in, forge.Label{Name: label}); err != nil {
				return err
			}
		}
		n, err := x.exec(`INSERT INTO item_labels (item, name) VALUES (?, ?) ON CONFLICT DO NOTHING`, it.ID, label)
		if err != nil || n == 0 {
			return err
		}
		return x.event(in, it, forge.EventLabeled, label)
	})
}

// RemoveLabel is forge.Labels.
func (c *Client) RemoveLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	return c.inItem(ctx, r, number, writes(forge.Triage, "unlabel"), func(x *session, in scope, it itemRow) error {
		n, err := x.exec(`DELETE FROM item_labels WHERE item = ? AND name = ?`, it.ID, label)
		if err != nil || n == 0 {
			return err
		}
		return x.event(in, it, forge.EventUnlabeled, label)
	})
}
