package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
)

// onIssue is a command that acts on an issue as somebody.
func (a *app) onIssue(f *forgeFlags, cmd *cobra.Command, act func(ctx context.Context, c *local.Client, r forge.Repository, n int64, arg string) error) *cobra.Command {
	var login string
	cmd.Args = cobra.ExactArgs(3)
	cmd.Flags().StringVar(&login, "as", "", "account that acts")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		n, err := installation.ArgNumber(args[1])
		if err != nil {
			return err
		}
		return f.As(ctx, login, args[0], func(c *local.Client, r forge.Repository) error { return act(ctx, c, r, n, args[2]) })
	})
	return cmd
}

func (a *app) forgeUnlabel(f *forgeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unlabel OWNER/NAME NUMBER LABEL --as LOGIN",
		Short: "Take a label off an issue; the contract's one takes its approval back",
	}
	return a.onIssue(f, cmd, func(ctx context.Context, c *local.Client, r forge.Repository, n int64, label string) error {
		i, err := c.Issue(ctx, r.Repo, n)
		if err == nil && !slices.Contains(i.Labels, label) {
			a.print("%s#%d doesn't have the label %s, so nobody is told\n", r.String(), n, label)
			return nil
		}
		if err != nil {
			return err
		}
		return c.RemoveLabel(ctx, r.Repo, n, label)
	})
}

func (a *app) forgeComment(f *forgeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "comment OWNER/NAME NUMBER TEXT --as LOGIN",
		Short: "Comment on an issue, such as '/writ explain'",
	}
	return a.onIssue(f, cmd, func(ctx context.Context, c *local.Client, r forge.Repository, n int64, text string) error {
		_, err := c.AddComment(ctx, r.Repo, n, strings.TrimSpace(text))
		return err
	})
}

func (a *app) forgeEdit(f *forgeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit OWNER/NAME NUMBER FILE.md --as LOGIN",
		Short: "Replace an issue's title and text by those of a Markdown file",
	}
	return a.onIssue(f, cmd, func(ctx context.Context, c *local.Client, r forge.Repository, n int64, path string) error {
		title, body, err := readIssue(path)
		if err != nil {
			return err
		}
		return c.EditIssue(ctx, r.Repo, n, title, body)
	})
}
