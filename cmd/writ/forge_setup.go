package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/executor/supervisor"
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
			return f.with(ctx, local.Options{}, func(s *local.Store) error {
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
			return f.with(ctx, local.Options{}, func(s *local.Store) error {
				u, err := s.UserByLogin(ctx, args[0])
				if err != nil {
					return err
				}
				if file != "" && exists(file) {
					return isThere(file)
				}
				token, err := s.NewToken(ctx, u.ID)
				if err != nil {
					return err
				}
				if file == "" {
					fmt.Fprintln(a.stdout, token) // once: the forge keeps its hash
					return nil
				}
				if err := writeSecret(file, token); err != nil {
					return err
				}
				a.print("wrote a token of %s to %s\n", u.Login, file)
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "write it to this file, which only you can read, instead of printing it")
	return cmd
}

func (a *app) forgeRepo(f *forgeFlags) *cobra.Command {
	var from string
	var private bool
	var grants []string
	cmd := &cobra.Command{
		Use:   "repo OWNER/NAME",
		Short: "Make a repository, or say who may do what in one that is there",
		Args:  cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return f.with(ctx, local.Options{}, func(s *local.Store) error {
				return a.makeRepo(ctx, s, args[0], from, private, grants)
			})
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "directory whose files are the first commit, .git left out")
	cmd.Flags().BoolVar(&private, "private", false, "only those with a permission may read it")
	cmd.Flags().StringArrayVar(&grants, "grant", nil, "LOGIN=PERMISSION (read, triage, write, maintain, admin); may be repeated")
	return cmd
}

// makeRepo makes a repository that isn't there, and grants.
func (a *app) makeRepo(ctx context.Context, s *local.Store, full, from string, private bool, grants []string) error {
	owner, name, ok := strings.Cut(full, "/")
	if !ok {
		return problem.Usage("%q is no repository: give OWNER/NAME.", full)
	}
	may := map[int64]forge.Permission{}
	var first forge.User // who makes the first commit
	for i, g := range grants {
		login, word, _ := strings.Cut(g, "=")
		p, err := forge.ParsePermission(word)
		if err != nil {
			return problem.Usage("--grant %s: %s.", g, err.Error())
		}
		u, err := s.UserByLogin(ctx, login)
		if err != nil {
			return err
		}
		may[u.ID] = p
		if i == 0 {
			first = u
		}
	}
	r, err := repoNamed(ctx, s, full)
	if err == nil && (from != "" || private) {
		return &problem.Error{Exit: problem.ExitOther, Text: "The repository " + full + " is there already, and was left as it is.", Remedy: "Only --grant changes one that is there."}
	}
	if err != nil {
		spec := local.RepoSpec{Owner: owner, Name: name, Private: private, Author: first}
		if from != "" && len(grants) == 0 {
			return problem.Usage("--from needs a --grant: its first account makes the first commit.")
		}
		if from != "" {
			if spec.Files, err = filesBelow(from); err != nil {
				return err
			}
		}
		if r, err = s.CreateRepo(ctx, spec); err != nil {
			return err
		}
		a.print("made the repository %s, with %s\n", r.Repo, report.Counted(len(spec.Files), "file"))
	}
	for id, p := range may {
		if err := s.Grant(ctx, r.ID, id, p); err != nil {
			return err
		}
	}
	return nil
}

// Limits of a first commit. What is larger comes by git push.
const (
	maxFirstFiles = 10_000
	maxFirstBytes = 64 << 20 // together
)

// filesBelow reads the regular files of a directory, .git left out.
func filesBelow(dir string) (map[string][]byte, error) {
	files, left := map[string][]byte{}, int64(maxFirstBytes)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		data, err := installation.ReadLimited(path, left)
		if left -= int64(len(data)); err != nil || len(files) >= maxFirstFiles {
			return errors.Join(err, errors.New("it is too much for a first commit; make the repository empty and push"))
		}
		name, err := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = data
		return err
	})
	if err != nil {
		return nil, &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be taken over: %s.", dir, err.Error())}
	}
	return files, nil
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
			return a.addHook(ctx, f, args[0], file)
		}),
	}
	cmd.Flags().StringVar(&file, "secret-file", "", "file of the secret that signs; made, for you alone, if it isn't there")
	return cmd
}

// hookEntry is a hook as the forge's directory keeps it. The secret isn't there.
type hookEntry struct {
	URL        string `json:"url"`
	SecretFile string `json:"secret_file"`
}

func (f *forgeFlags) hooksFile() string { return filepath.Join(f.dir, "hooks.json") }

// faultHooksRead is where a command has read the hooks and not written them yet.
const faultHooksRead supervisor.Point = "forge.hooks.read"

// lockHooks waits until nobody else changes the file of hooks: two commands at
// once would each write what it read before the other.
func (f *forgeFlags) lockHooks() (unlock func(), err error) {
	path := f.hooksFile() + ".lock"
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX); err == nil {
			return func() { _ = file.Close() }, nil // the lock goes with it
		}
		_ = file.Close() // the error that matters is the other one
	}
	return nil, &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be locked: %s.", path, problem.Cause(err)), Remedy: "Check that the forge's directory is yours and on a local disk."}
}

// entries are the hooks that were set.
func (f *forgeFlags) entries() (list []hookEntry, err error) {
	const most = 64 << 10
	data, err := installation.ReadLimited(f.hooksFile(), most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be read: %s.", f.hooksFile(), problem.Cause(err))}
	}
	return list, nil
}

// hooks are the same with their secrets.
func (f *forgeFlags) hooks() ([]local.Hook, error) {
	list, err := f.entries()
	if err != nil {
		return nil, err
	}
	var out []local.Hook
	for _, e := range list {
		secret, err := config.Secret(func(name string) string {
			if name == "HOOK_FILE" {
				return e.SecretFile
			}
			return ""
		}, "HOOK")
		if err != nil {
			return nil, &problem.Error{Exit: problem.ExitOther, Text: "The secret in " + e.SecretFile + " can't be read.", Remedy: "Set the hook again: writ forge hook " + e.URL + " --secret-file FILE."}
		}
		out = append(out, local.Hook{URL: e.URL, Secret: []byte(secret)})
	}
	return out, nil
}

// addHook notes a hook for the next start of the forge: the process that serves
// it is the only one that sends.
func (a *app) addHook(ctx context.Context, f *forgeFlags, address, file string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return problem.Usage("The hook's address must be a URL such as http://127.0.0.1:8714/hooks/local, without credentials.")
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	return f.with(ctx, local.Options{}, func(*local.Store) error {
		unlock, err := f.lockHooks()
		if err != nil {
			return err
		}
		defer unlock()
		list, err := f.entries()
		if err != nil {
			return err
		}
		if !exists(path) {
			if err := writeSecret(path, rand.Text()+rand.Text()); err != nil {
				return err
			}
			a.print("wrote a new secret to %s\n", file)
		}
		a.Reach(faultHooksRead)
		list = slices.DeleteFunc(list, func(e hookEntry) bool { return e.URL == address })
		data, err := json.MarshalIndent(append(list, hookEntry{address, path}), "", "  ")
		if err != nil {
			return err
		}
		if err := installation.ReplaceFile(f.hooksFile(), append(data, '\n')); err != nil {
			return err
		}
		a.print("%s is told from the next start of writ forge serve\n", address)
		return nil
	})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func isThere(path string) error {
	return &problem.Error{Exit: problem.ExitOther, Text: path + " is there already and was left as it is.", Remedy: "Name another file, or remove it first."}
}

// writeSecret writes a secret that nobody else can read, to a new file.
func writeSecret(path, secret string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return isThere(path)
	}
	if err != nil {
		return &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be written: %s.", path, problem.Cause(err))}
	}
	_, err = f.WriteString(secret + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}
