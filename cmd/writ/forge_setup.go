package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/localforge"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
)

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
