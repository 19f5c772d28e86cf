package setup

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/cmd/internal/config"
)

// wantKept looks at everything that a set-up leaves.
func wantKept(t *testing.T, g *GitHub) {
	t.Helper()
	info, err := os.Stat(g.Dir)
	ok(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v", info.Mode())
	}
	entries, err := os.ReadDir(g.Dir)
	ok(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		info, err := e.Info()
		ok(t, err)
		if info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	if diff := cmp.Diff([]string{githubKeyFile, githubHookFile, EnvFile, ConfigFile}, names); diff != "" {
		t.Error(diff)
	}
	cfg, err := config.Load(g.path(ConfigFile))
	ok(t, err)
	want := config.Default().Forges.GitHub
	want.AppID, want.Repositories = 77, []string{"acme/shop"}
	if diff := cmp.Diff(want, cfg.Forges.GitHub); diff != "" || cfg.Server.StateDir != filepath.Join(g.Dir, "state") || cfg.Builders["default"].Argv[2] != g.Builder[2] {
		t.Errorf("configuration %+v\n%s", cfg, diff)
	}
	env, err := ReadEnv(g.path(EnvFile))
	ok(t, err)
	for name, want := range map[string]string{"WRIT_GITHUB_PRIVATE_KEY": "the-key", "WRIT_GITHUB_HOOK_SECRET": "the-hook-secret"} {
		got, err := config.SecretText(func(n string) string { return env[n] }, name)
		if err != nil || got != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

// TestSetup_Recovers: wherever a process dies between GitHub's answer and the
// last file, the next one has everything.
func TestSetup_Recovers(t *testing.T) {
	app := kept{ID: 77, Slug: "writ-acme", Page: "https://github.com/apps/writ-acme", Key: "the-key\n", HookSecret: "the-hook-secret"}
	order := []string{githubKeyFile, githubHookFile, EnvFile, ConfigFile}
	for died, name := range order {
		g := newDesk(t).g
		stop := g.path(name)
		ok(t, os.Mkdir(stop, 0o700)) // it comes as far as this
		if err := g.keep(app); err == nil {
			t.Errorf("%s was written over", stop)
		}
		ok(t, os.Remove(stop))
		later := &GitHub{Dir: g.Dir} // nobody gives the flags again
		recovered, err := later.Recover()
		if err != nil || !recovered {
			t.Errorf("after %d files: %v, %v", died, recovered, err)
		}
		wantKept(t, g)
		if id, err := later.App(); err != nil || id != 77 {
			t.Errorf("the App's number is %d, %v", id, err)
		}
	}
}

// TestSetup_NothingIsOverwritten: what lies there stays, and is said; the rest
// isn't lost.
func TestSetup_NothingIsOverwritten(t *testing.T) {
	g := newDesk(t).g
	path := filepath.Join(g.Dir, ConfigFile)
	ok(t, os.WriteFile(path, []byte("mine\n"), 0o600))
	var e *Error
	if err := g.keep(kept{ID: 77, Slug: "s", Key: "the-key\n"}); !errors.As(err, &e) || !strings.Contains(e.Text, path) {
		t.Errorf("error %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "mine\n" {
		t.Errorf("it has become %q, %v", data, err)
	}
	if !Exists(g.path(githubMadeFile)) {
		t.Error("what GitHub gave is gone")
	}
	link := filepath.Join(g.Dir, "link")
	ok(t, os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), link))
	if err := Keep(link, []byte("x")); err == nil {
		t.Error("a link was followed")
	}
	if _, err := g.Make(t.Context()); !errors.As(err, &e) || !strings.Contains(e.Remedy, "--config") {
		t.Errorf("a second App is begun over the first: %v", err)
	}
}

// TestSetup_OpenFiles: what others may read is refused, with what to type.
func TestSetup_OpenFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	ok(t, os.Mkdir(dir, 0o700))
	ok(t, os.Chmod(dir, 0o750))
	var e *Error
	if err := MakeDir(dir); !errors.As(err, &e) || !strings.HasPrefix(e.Remedy, "chmod 700 "+dir) {
		t.Errorf("directory: %v", err)
	}
	key := filepath.Join(dir, "key")
	ok(t, os.WriteFile(key, []byte("k"), 0o600))
	ok(t, os.Chmod(key, 0o640))
	g := newDesk(t).g
	if err := g.Link(t.Context(), 5, key, ""); !errors.As(err, &e) || !strings.HasPrefix(e.Remedy, "chmod 600 "+key) {
		t.Errorf("key: %v", err)
	}
	if Exists(g.path(EnvFile)) {
		t.Error("something was written")
	}
}

// TestSetup_NothingCanBeKept: a directory in which no file can be is found out
// before GitHub gives a key once.
func TestSetup_NothingCanBeKept(t *testing.T) {
	var e *Error
	if err := MakeDir("/proc/self/fd"); !errors.As(err, &e) || !strings.Contains(e.Text, "No file can be kept") || e.Remedy == "" {
		t.Errorf("a directory that takes no files: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "d")
	ok(t, MakeDir(dir))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("trying left %v, %v", left, err)
	}
}

// TestSetup_OtherForgesFiles: the directory of another forge's set-up isn't taken
// for an App's.
func TestSetup_OtherForgesFiles(t *testing.T) {
	g := newDesk(t).g
	ok(t, Keep(g.path(EnvFile), []byte("WRIT_GITLAB_TOKEN_FILE=/x\n")))
	var e *Error
	if _, err := g.Make(t.Context()); !errors.As(err, &e) || !strings.Contains(e.Text, "another forge") || !strings.Contains(e.Remedy, "--dir") {
		t.Errorf("%v", err)
	}
}

// TestSetup_WrongKey: number and key that don't belong together leave nothing in
// the way of those that do.
func TestSetup_WrongKey(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(srv.Close)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	ok(t, err)
	g := newDesk(t).g
	g.At.URL, g.PublicURL = srv.URL, ""
	key := filepath.Join(t.TempDir(), "key")
	var e *Error
	for _, text := range []string{"no key\n", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}))} {
		ok(t, os.WriteFile(key, []byte(text), 0o600))
		if err := g.Link(t.Context(), 5, key, ""); !errors.As(err, &e) || !strings.Contains(e.Remedy, "Nothing was written") {
			t.Errorf("key: %v", err)
		}
	}
	if Exists(g.path(EnvFile)) || Exists(g.path(ConfigFile)) {
		t.Error("something was written")
	}
}

// TestSetup_EnvIsRead: the file of variables means the same to a shell and to us.
func TestSetup_EnvIsRead(t *testing.T) {
	for _, path := range []string{"/etc/writ/app.pem", "/home/a b/app.pem", "/x/$HOME/`id`/\"q\"", "/ü/app.pem"} {
		text, err := envText([]variable{{"A_FILE", path}, {"B_FILE", "/b"}})
		ok(t, err)
		file := filepath.Join(t.TempDir(), EnvFile)
		ok(t, Keep(file, text))
		env, err := ReadEnv(file)
		ok(t, err)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `set -a; . "$0"; printf '%s|%s' "$A_FILE" "$B_FILE"`, file).Output()
		if err != nil || string(out) != path+"|/b" || env["A_FILE"] != path {
			t.Errorf("%q is read as %q and %q, %v", path, out, env["A_FILE"], err)
		}
	}
	if _, err := envText([]variable{{"A", "/it's"}}); err == nil {
		t.Error("a quote was written into quotes")
	}
}

// TestSetup_ConfigIsRead: whatever the builder's words are, the file says them.
func TestSetup_ConfigIsRead(t *testing.T) {
	for _, argv := range [][]string{{"gofmt", "-w", "."}, {"sh", "-c", "echo 'a: b' > \"x y\" # no\nexit"}, {"true"}, {"no", "-no", "--x", "-", "--", "1", "~", "- x", "ü", "{}", "-.inf"}} {
		g := GitHub{Dir: "/srv/it is/here: now", Repositories: []string{"acme/shop", "123/456"}, Builder: argv}
		cfg, err := config.Parse(ConfigFile, g.config(5))
		if err != nil {
			t.Errorf("%v\n%s", err, g.config(5))
			continue
		}
		if diff := cmp.Diff(argv, cfg.Builders["default"].Argv); diff != "" || cfg.Forges.GitHub.Repositories[1] != "123/456" || cfg.Server.Intake != config.IntakePoll {
			t.Errorf("%s\n%s", diff, g.config(5))
		}
	}
}
