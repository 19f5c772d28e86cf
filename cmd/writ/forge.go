package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
)

// forgeListen is where the embedded forge listens unless it is told otherwise.
const forgeListen = "127.0.0.1:8715"

// forgeFlags are those of all commands of the embedded forge.
type forgeFlags struct{ dir string }

func (a *app) forgeCommand() *cobra.Command {
	var f forgeFlags
	cmd := group("forge", "Set up and serve the embedded forge of this machine")
	cmd.Long = `Forge is a small forge in a directory: accounts, repositories over git, issues,
pull requests and signed webhooks, for this machine alone. With it writ serve can
be tried without an account anywhere. Whoever can write to the directory is its
administrator.`
	cmd.PersistentFlags().StringVar(&f.dir, "dir", "forge", "directory of the forge")
	cmd.AddCommand(a.forgeInit(&f), a.forgeUser(&f), a.forgeToken(&f), a.forgeRepo(&f), a.forgeHook(&f),
		a.forgeServe(&f), a.forgeIssue(&f), a.forgeEdit(&f), a.forgeLabel(&f), a.forgeUnlabel(&f), a.forgeComment(&f), a.forgeShow(&f))
	return cmd
}

func (a *app) forgeInit(f *forgeFlags) *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Make an empty forge", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if err := installation.PathFlag("dir", f.dir); err != nil {
				return err
			}
			if _, err := os.Lstat(f.file()); !errors.Is(err, fs.ErrNotExist) {
				return &problem.Error{Exit: problem.ExitOther, Text: "There is a forge in " + f.dir + " already, and it was left as it is.", Remedy: "Give another --dir."}
			}
			s, err := local.Open(ctx, local.Options{Dir: f.dir})
			if err != nil {
				return wire.FailedForge(f.dir, err)
			}
			a.print("made an empty forge in %s\n", f.dir)
			return s.Close()
		}),
	}
}

func (f *forgeFlags) file() string { return filepath.Join(f.dir, "forge.db") }

// with opens the forge for one command. It can be served meanwhile.
func (f *forgeFlags) with(ctx context.Context, o local.Options, do func(*local.Store) error) error {
	if err := installation.PathFlag("dir", f.dir); err != nil {
		return err
	}
	if _, err := os.Stat(f.file()); err != nil {
		return &problem.Error{Exit: problem.ExitOther, Text: "There is no forge in " + f.dir + ".", Remedy: "Name its directory with --dir, or make one: writ forge init --dir DIR."}
	}
	o.Dir = f.dir
	s, err := local.Open(ctx, o)
	if err != nil {
		return wire.FailedForge(f.dir, err)
	}
	return errors.Join(do(s), s.Close())
}

// repoNamed finds a repository by its owner and name.
func repoNamed(ctx context.Context, s *local.Store, name string) (forge.Repository, error) {
	all, err := s.Repositories(ctx)
	for _, r := range all {
		if err == nil && strings.EqualFold(r.String(), name) {
			return r, nil
		}
	}
	if err == nil {
		err = &problem.Error{Exit: problem.ExitOther, Text: "The forge has no repository " + name + ".", Remedy: "Make it: writ forge repo OWNER/NAME."}
	}
	return forge.Repository{}, err
}

func (a *app) forgeServe(f *forgeFlags) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve its git and its page, and send its webhooks", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return a.serveForge(ctx, f, listen)
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", forgeListen, "address and port, of this machine's own loopback")
	return cmd
}

// serveForge is `writ forge serve`.
func (a *app) serveForge(ctx context.Context, f *forgeFlags, listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return problem.Usage("--listen must be an address of this machine's loopback and a port, such as %s: the forge speaks without TLS.", forgeListen)
	}
	hooks, err := f.hooks()
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return problem.BadAddress(listen, err, "--listen")
	}
	defer l.Close()
	url := "http://" + l.Addr().String()
	for _, h := range hooks {
		a.HideValues([]string{string(h.Secret)})
	}
	log := slog.New(slog.NewTextHandler(&wire.LockedLines{W: a.Stderr}, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: a.Clean}))
	return f.with(ctx, local.Options{URL: url, Hooks: hooks, Logger: log}, func(s *local.Store) error {
		handler, err := s.Handler()
		if err != nil {
			return err
		}
		a.print("The forge is at %s until Ctrl-C. It tells %s.\n", url, toldNames(hooks))
		return serveUntil(ctx, l, handler)
	})
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

// Limits of the forge's server. A push of a large repository takes a while.
const (
	forgeHeadTime  = 10 * time.Second
	forgeIdleTime  = 2 * time.Minute
	forgeCloseTime = 5 * time.Second
)

// serveUntil serves until ctx ends, and then what is in hand for a moment more.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: forgeHeadTime, IdleTimeout: forgeIdleTime}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgeCloseTime)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return srv.Close() // who still waits is cut off; what was done is on disk
	}
	return nil
}
