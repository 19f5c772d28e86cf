package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/localforge"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
)

// forgeFlags are those of all commands of the embedded forge.
type forgeFlags struct{ localforge.Dir }

func (a *app) forgeCommand() *cobra.Command {
	var f forgeFlags
	cmd := group("forge", "Set up and serve the embedded forge of this machine")
	cmd.Long = `Forge is a small forge in a directory: accounts, repositories over git, issues,
pull requests and signed webhooks, for this machine alone. With it writ serve can
be tried without an account anywhere. Whoever can write to the directory is its
administrator.`
	cmd.PersistentFlags().StringVar(&f.Path, "dir", "forge", "directory of the forge")
	cmd.AddCommand(a.forgeInit(&f), a.forgeUser(&f), a.forgeToken(&f), a.forgeRepo(&f), a.forgeHook(&f),
		a.forgeServe(&f), a.forgeIssue(&f), a.forgeEdit(&f), a.forgeLabel(&f), a.forgeUnlabel(&f), a.forgeComment(&f), a.forgeShow(&f))
	return cmd
}

func (a *app) forgeInit(f *forgeFlags) *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Make an empty forge", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			err := f.Init(ctx)
			if err == nil {
				a.print("made an empty forge in %s\n", f.Path)
			}
			return err
		}),
	}
}

func (a *app) forgeServe(f *forgeFlags) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve its git and its page, and send its webhooks", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return f.Serve(ctx, a.Process, listen, func(url string, hooks []local.Hook) {
				a.print("The forge is at %s until Ctrl-C. It tells %s.\n", url, toldNames(hooks))
			})
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", localforge.DefaultListen, "address and port, of this machine's own loopback")
	return cmd
}

func toldNames(hooks []local.Hook) string {
	if len(hooks) == 0 {
		return "nobody: there is no hook yet"
	}
	names := make([]string, len(hooks))
	for i, h := range hooks {
		names[i] = h.URL
	}
	return strings.Join(names, ", ")
}

func (a *app) forgeUser(f *forgeFlags) *cobra.Command {
	var bot bool
	cmd := &cobra.Command{
		Use: "user LOGIN", Short: "Make an account", Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			kind := forge.Person
			if bot {
				kind = forge.Bot
			}
			return f.With(ctx, local.Options{}, func(s *local.Store) error {
				u, err := s.CreateUser(ctx, args[0], kind)
				if err == nil {
					a.print("made the %s %s\n", u.Kind, u.Login)
				}
				return err
			})
		}),
	}
	cmd.Flags().BoolVar(&bot, "bot", false, "the account is a program's, such as writ's own")
	return cmd
}

func (a *app) forgeToken(f *forgeFlags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "token LOGIN",
		Short: "Make a token: what the page's login, git's password and writ itself ask for",
		Args:  cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			u, token, err := f.Token(ctx, args[0], file)
			switch {
			case err != nil:
				return err
			case file == "":
				fmt.Fprintln(a.stdout, token) // once: the forge keeps its hash
			default:
				a.print("wrote a token of %s to %s\n", u.Login, file)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "write it to this file, which only you can read, instead of printing it")
	return cmd
}

func (a *app) forgeRepo(f *forgeFlags) *cobra.Command {
	var w localforge.Wanted
	cmd := &cobra.Command{
		Use:   "repo OWNER/NAME",
		Short: "Make a repository, or say who may do what in one that is there",
		Args:  cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			w.Name = args[0]
			return f.With(ctx, local.Options{}, func(s *local.Store) error {
				return localforge.MakeRepo(ctx, s, w, func(r forge.Repository, files int) {
					a.print("made the repository %s, with %s\n", r.Repo, report.Counted(files, "file"))
				})
			})
		}),
	}
	cmd.Flags().StringVar(&w.From, "from", "", "directory whose files are the first commit, .git left out")
	cmd.Flags().BoolVar(&w.Private, "private", false, "only those with a permission may read it")
	cmd.Flags().StringArrayVar(&w.Grants, "grant", nil, "LOGIN=PERMISSION (read, triage, write, maintain, admin); may be repeated")
	return cmd
}

func (a *app) forgeHook(f *forgeFlags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "hook URL --secret-file FILE",
		Short: "Have a server told of what happens, by signed webhooks",
		Args:  cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			if file == "" {
				return problem.Usage("--secret-file is missing: name the file that holds, or is to hold, the secret that signs.")
			}
			made, err := f.AddHook(ctx, a.Process, args[0], file)
			if made {
				a.print("wrote a new secret to %s\n", file)
			}
			if err == nil {
				a.print("%s is told from the next start of writ forge serve\n", args[0])
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&file, "secret-file", "", "file of the secret that signs; made, for you alone, if it isn't there")
	return cmd
}

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
