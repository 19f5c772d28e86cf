package local

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/writbot/writ/forge"
)

// text is a field of a form. Browsers send line ends as CR LF, whatever was typed.
func (v *visit) text(name string) string { return unixLines(v.r.PostForm.Get(name)) }

// unixLines undoes what a form does to line ends.
func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// file files an issue.
func (v *visit) file() error {
	f, err := v.repo()
	if err != nil {
		return err
	}
	i, err := v.client.FileIssue(v.r.Context(), f.Repo.Repo, v.text("title"), v.text("body"))
	if err != nil {
		return err
	}
	return v.back(fmt.Sprintf("/%s/issues/%d", f.Repo.Repo, i.Number))
}

// act does what a button of an issue's or change's page says.
func (v *visit) act() error {
	f, err := v.repo()
	if err != nil {
		return err
	}
	n, err := v.number()
	if err != nil {
		return err
	}
	if err := v.button(f.Repo.Repo, n); err != nil {
		return err
	}
	return v.back(v.r.URL.Path)
}

func (v *visit) button(r forge.Repo, n int64) error {
	ctx, c := v.r.Context(), v.client
	switch act := v.r.PostForm.Get("act"); act {
	case "comment":
		_, err := c.AddComment(ctx, r, n, v.text("body"))
		return err
	case "review":
		at, err := v.place()
		if err != nil {
			return err
		}
		return c.ReviewAt(ctx, r, n, at, v.text("body"))
	case "edit":
		return c.EditIssue(ctx, r, n, v.text("title"), v.text("body"))
	case "label":
		return c.AddLabel(ctx, r, n, v.text("label"))
	case "unlabel":
		return c.RemoveLabel(ctx, r, n, v.text("label"))
	case "close":
		return c.SetState(ctx, r, n, forge.Closed)
	case "reopen":
		return c.SetState(ctx, r, n, forge.Open)
	case "merge":
		_, err := c.MergeChange(ctx, r, n)
		return err
	case "close-change":
		return c.CloseChange(ctx, r, n)
	default:
		return refuse(forge.Invalid, "%q is no act", act)
	}
}

// place reads the place that a form names. One line alone is the only one.
func (v *visit) place() (at forge.ReviewPlace, err error) {
	form := v.r.PostForm
	at = forge.ReviewPlace{Path: form.Get("path"), Old: form.Get("old") != "", Commit: form.Get("commit")}
	for _, line := range []struct {
		name string
		to   *int64
	}{{"start", &at.Start}, {"end", &at.End}} {
		if word := form.Get(line.name); word != "" {
			if *line.to, err = strconv.ParseInt(word, 10, 64); err != nil {
				return at, refuse(forge.Invalid, "a line has a number")
			}
		}
	}
	if at.End == 0 {
		at.End = at.Start
	}
	if at.Start == 0 {
		at.Start = at.End
	}
	return at, nil
}
