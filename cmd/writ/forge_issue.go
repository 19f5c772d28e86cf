package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/localforge"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
)

func (a *app) forgeIssue(f *forgeFlags) *cobra.Command {
	var login string
	cmd := &cobra.Command{
		Use:   "issue OWNER/NAME FILE.md --as LOGIN",
		Short: "File an issue from a Markdown file, `# title` first",
		Args:  cobra.ExactArgs(2),
		RunE: a.do(func(ctx context.Context, args []string) error {
			title, body, err := readIssue(args[1])
			if err != nil {
				return err
			}
			return f.As(ctx, login, args[0], func(c *local.Client, r forge.Repository) error {
				i, err := c.FileIssue(ctx, r.Repo, title, body)
				if err == nil {
					a.print("filed %s#%d\n", r.Repo, i.Number)
				}
				return err
			})
		}),
	}
	cmd.Flags().StringVar(&login, "as", "", "account that files it")
	return cmd
}

func (a *app) forgeLabel(f *forgeFlags) *cobra.Command {
	var login string
	cmd := &cobra.Command{
		Use:   "label OWNER/NAME NUMBER LABEL --as LOGIN",
		Short: "Put a label on an issue; the contract says which one approves",
		Args:  cobra.ExactArgs(3),
		RunE: a.do(func(ctx context.Context, args []string) error {
			n, err := installation.ArgNumber(args[1])
			if err != nil {
				return err
			}
			return f.As(ctx, login, args[0], func(c *local.Client, r forge.Repository) error {
				i, err := c.Issue(ctx, r.Repo, n)
				if err == nil && slices.Contains(i.Labels, args[2]) {
					a.print("%s#%d has the label %s already, so nobody is told; writ forge unlabel takes it off\n", r.String(), n, args[2])
					return nil
				}
				return c.AddLabel(ctx, r.Repo, n, args[2])
			})
		}),
	}
	cmd.Flags().StringVar(&login, "as", "", "account that sets it")
	return cmd
}

func (a *app) forgeShow(f *forgeFlags) *cobra.Command {
	var login string
	cmd := &cobra.Command{
		Use: "show OWNER/NAME NUMBER", Short: "Show an issue with its labels and comments", Args: cobra.ExactArgs(2),
		RunE: a.do(func(ctx context.Context, args []string) error {
			n, err := installation.ArgNumber(args[1])
			if err != nil {
				return err
			}
			return f.With(ctx, local.Options{}, func(s *local.Store) error {
				r, err := localforge.Named(ctx, s, args[0])
				if err != nil {
					return err
				}
				c := s.As(forge.User{}) // may read what is public
				if login != "" {
					if c, err = localforge.Client(ctx, s, login); err != nil {
						return err
					}
				}
				return a.showIssue(ctx, c, r, n)
			})
		}),
	}
	cmd.Flags().StringVar(&login, "as", "", "account that looks, where the repository is private")
	return cmd
}

// showIssue prints an issue.
func (a *app) showIssue(ctx context.Context, c *local.Client, r forge.Repository, n int64) error {
	i, err := c.Issue(ctx, r.Repo, n)
	if err != nil {
		return err
	}
	comments, err := c.Comments(ctx, r.Repo, n)
	if err != nil {
		return err
	}
	a.print("%s#%d %s\n%s, by %s", r.Repo, i.Number, i.Title, i.State, i.Author.Login)
	if len(i.Labels) > 0 {
		a.print(", %s", strings.Join(i.Labels, ", "))
	}
	a.print("\n\n%s\n", strings.TrimSpace(i.Body))
	for _, one := range comments {
		a.print("\n-- %s\n%s\n", one.Author.Login, strings.TrimSpace(one.Body))
	}
	return nil
}
