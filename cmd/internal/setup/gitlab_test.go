package setup_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/setup"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// TestGitLab: a token is enough. Secrets are kept from others, the configuration
// is one that writ takes, and the hook is tried. A second call changes nothing.
func TestGitLab(t *testing.T) {
	for name, row := range map[string]struct {
		o    gitlabtest.Options
		file string
	}{
		"signs":       {gitlabtest.Options{}, "gitlab-hook-acme-tools-shop.key"},
		"doesn't":     {gitlabtest.Options{NoSigning: true}, "gitlab-hook-acme-tools-shop.secret"},
		"below /path": {gitlabtest.Options{Path: "/lab"}, "gitlab-hook-acme-tools-shop.key"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, row.o, gitlabtest.Maintainer)
			said := l.run()
			files := l.files()
			if len(files) != 4 || strings.TrimSpace(files["gitlab.token"]) != l.g.At.Token || files[row.file] == "" || strings.Contains(said, strings.TrimSpace(files[row.file])) {
				t.Errorf("kept %v\n%s", files, said)
			}
			c := l.configured()
			if f := c.Forges.GitLab; f.URL != l.URL || !slices.Equal(f.Repositories, l.g.Projects) || len(f.HookKeys)+len(f.HookSecrets) != 0 || len(f.Hooks) != 1 || !f.Hooks[0].Covers("acme/tools/shop") || len(c.Builders) != 1 {
				t.Errorf("%+v", f)
			}
			hooks := l.hooks()
			if len(hooks) != 1 || hooks[0].URL != l.listener.URL+"/hooks/gitlab" || hooks[0].Signed == row.o.NoSigning || hooks[0].Secret != row.o.NoSigning || !hooks[0].Verifies {
				t.Errorf("hooks %+v", hooks)
			}
			l.serves()
			before := len(l.Requests())
			again := l.run()
			if !strings.Contains(again, "writ took it") {
				t.Errorf("the hook wasn't tried, or its secret isn't the one that was kept: %s", again)
			}
			if !maps(files, l.files()) || len(l.hooks()) != 1 {
				t.Error("the second call changed something")
			}
			for _, w := range l.writes(before) {
				if !(strings.HasPrefix(w, "PUT ") && strings.Contains(w, "/hooks/")) && !strings.HasSuffix(w, "/test/push_events") {
					t.Errorf("the second call made %s", w)
				}
			}
		})
	}
}

func maps(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// TestGitLab_Tries: what became of the sample is said as it is.
func TestGitLab_Tries(t *testing.T) {
	l := newLab(t, gitlabtest.Options{}, gitlabtest.Maintainer)
	l.answer.Store(http.StatusUnauthorized)
	if said := l.run(); !strings.Contains(said, "was answered 401") {
		t.Error(said)
	}
	l.listener.Close()
	if said := l.run(); !strings.Contains(said, "no writ answers") {
		t.Error(said)
	}
}

// TestGitLab_SetupByADeveloper: who can't make hooks says what to do by hand and goes on;
// a Maintainer's token, given beside, makes them and isn't kept.
func TestGitLab_SetupByADeveloper(t *testing.T) {
	l := newLab(t, gitlabtest.Options{}, gitlabtest.Developer)
	said := l.run()
	for _, word := range []string{l.URL + "/acme/tools/shop/-/hooks", l.listener.URL + "/hooks/gitlab", "gitlab-hook-acme-tools-shop.secret", "Merge request events", "--maintainer-token-file"} {
		if !strings.Contains(said, word) {
			t.Errorf("it doesn't say %s: %s", word, said)
		}
	}
	files := l.files()
	if len(l.hooks()) != 0 || len(files) != 4 || files["gitlab-hook-acme-tools-shop.secret"] == "" {
		t.Errorf("%v", files)
	}
	l.configured()
	maja := l.AddUser("max")
	l.SetMember(l.project, maja.ID, gitlabtest.Maintainer)
	l.g.Maintainer = l.Token(maja.ID)
	said = l.run()
	if hooks := l.hooks(); len(hooks) != 1 || !hooks[0].Secret || !maps(files, l.files()) {
		t.Errorf("%+v\n%s", hooks, said)
	}
	l.serves()
	if said := l.run(); !strings.Contains(said, "writ took it") {
		t.Error(said)
	}
}

// TestGitLab_Refuses: what would not work later is said at once, with what to do.
func TestGitLab_Refuses(t *testing.T) {
	l := newLab(t, gitlabtest.Options{}, gitlabtest.Maintainer)
	good := l.g
	with := func(says string, spoil func()) {
		t.Helper()
		l.g = good
		spoil()
		l.refused(says)
	}
	with("No project", func() { l.g.Projects = nil })
	with("would be wrong", func() { l.g.Projects = []string{"shop"} })
	with("--public-url", func() { l.g.PublicURL = "http://writ.example.org" })
	with("doesn't know the token", func() { l.g.At.Token = "glpat-wrong" })
	with("no GitLab at that address", func() { l.g.At.URL = l.listener.URL })
	with("isn't there", func() { l.g.Projects = []string{"acme/tools/none"} })
	user := l.AddUser("u")
	with("writ needs api", func() { l.g.At.Token = l.Token(user.ID, "read_api") })
	with("needs the role Developer", func() { l.g.At.Token = l.Token(user.ID) })
	with("Others may", func() { l.must(os.MkdirAll(l.g.Dir, 0o700)); l.must(os.Chmod(l.g.Dir, 0o755)) })
	l.must(os.Chmod(l.g.Dir, 0o700))
	if len(l.files()) > 0 || len(l.hooks()) > 0 {
		t.Errorf("something was made: %v", l.files())
	}
	file := filepath.Join(t.TempDir(), "token")
	l.must(os.WriteFile(file, []byte(good.At.Token), 0o644))
	with("Others may read", func() { l.g.TokenFile = file })
	l.g = good
	l.run()
	_, other := l.ProjectToken(l.project, gitlabtest.Maintainer)
	with("another token", func() { l.g.At.Token = other })
	l.ChangeProject(l.project, gitlabtest.ProjectChange{Archived: true})
	with("archived", func() {})
}

// TestGitLab_KeepsWhatIsThere: an operator's configuration is never rewritten;
// what it lacks is said.
func TestGitLab_KeepsWhatIsThere(t *testing.T) {
	l := newLab(t, gitlabtest.Options{}, gitlabtest.Maintainer)
	l.run()
	mine := "server: {state_dir: /srv/writ}\nforges: {gitlab: {repositories: [acme/other]}}\n"
	path := filepath.Join(l.g.Dir, setup.ConfigFile)
	l.must(os.WriteFile(path, []byte(mine), 0o600))
	said := l.run()
	if files := l.files(); files[setup.ConfigFile] != mine || !strings.Contains(said, "left "+path) || !strings.Contains(said, "repositories: [acme/tools/shop]") || !strings.Contains(said, "hooks:") {
		t.Errorf("%s\n%s", files[setup.ConfigFile], said)
	}
	l.must(os.WriteFile(filepath.Join(l.g.Dir, setup.EnvFile), []byte("MINE=1\n"), 0o600))
	if said := l.run(); !strings.Contains(said, "it should have: WRIT_GITLAB_TOKEN_FILE=") || l.files()[setup.EnvFile] != "MINE=1\n" {
		t.Error(said)
	}
}

// TestGitLab_HookOfAnother: the hook of another set-up isn't taken over unless
// that is said. Each project's hook has a secret of its own, which is replaced once.
func TestGitLab_HookOfAnother(t *testing.T) {
	l := newLab(t, gitlabtest.Options{}, gitlabtest.Maintainer)
	l.run()
	l.serves()
	l.g.Dir = filepath.Join(t.TempDir(), "other")
	l.refused("its secret isn't in")
	l.g.Rotate = true
	l.run()
	first := l.files()["gitlab-hook-acme-tools-shop.key"]
	l.g.Rotate = false
	if said := l.run(); !strings.Contains(said, "was answered 401") { // by the old secret
		t.Error(said)
	}
	more := l.AddProject("acme/tools", "site")
	bot, token := l.ProjectToken(more, gitlabtest.Maintainer)
	l.SetMember(l.project, bot.ID, gitlabtest.Maintainer)
	l.g.At.Token, l.g.Projects, l.g.Rotate = token, append(l.g.Projects, "acme/tools/site"), true
	l.must(os.WriteFile(filepath.Join(l.g.Dir, "gitlab.token"), []byte(token+"\n"), 0o600))
	said := l.run()
	files := l.files()
	if strings.Count(said, "made a new secret") != 1 || files["gitlab-hook-acme-tools-shop.key"] == first || files["gitlab-hook-acme-tools-shop.key.old"] != first {
		t.Error(said)
	}
	if other := files["gitlab-hook-acme-tools-site.key"]; other == "" || other == files["gitlab-hook-acme-tools-shop.key"] {
		t.Errorf("the secrets of two projects: %v", files)
	}
	l.must(os.Remove(filepath.Join(l.g.Dir, setup.ConfigFile)))
	l.must(os.Remove(filepath.Join(l.g.Dir, setup.EnvFile)))
	l.serves()
	l.g.Rotate = false
	if said := l.run(); strings.Count(said, "writ took it") != 2 {
		t.Error(said)
	}
	hooks := l.configured().Forges.GitLab.Hooks
	if len(hooks) != 2 || !slices.Equal(hooks[0].Projects, l.g.Projects[:1]) || !slices.Equal(hooks[1].Projects, l.g.Projects[1:]) || hooks[0].Key == hooks[1].Key {
		t.Errorf("%+v", hooks)
	}
}

// TestGitLab_Asks: a person is asked for a Maintainer's token once, where it is
// needed; without one it goes on.
func TestGitLab_Asks(t *testing.T) {
	l := newLab(t, gitlabtest.Options{}, gitlabtest.Developer)
	maja := l.AddUser("maja")
	l.SetMember(l.project, maja.ID, gitlabtest.Maintainer)
	asked, answer := 0, ""
	l.g.Ask = func(_ context.Context, question string) (string, error) {
		asked++
		if !strings.Contains(question, "acme/tools/shop") {
			t.Errorf("it asks %q", question)
		}
		return answer, nil
	}
	if said := l.run(); !strings.Contains(said, "Add new webhook") || asked != 1 {
		t.Errorf("asked %d times: %s", asked, said)
	}
	answer = l.Token(maja.ID)
	if said := l.run(); len(l.hooks()) != 1 || asked != 2 || strings.Contains(said, answer) {
		t.Errorf("asked %d times: %s", asked, said)
	}
	for name, text := range l.files() {
		if strings.Contains(text, answer) {
			t.Errorf("%s holds the Maintainer's token", name)
		}
	}
	// Going on with what is there leaves the hooks alone, and needs no Maintainer.
	before, files := len(l.Requests()), l.files()
	l.g.PublicURL, l.g.KeepHooks = "", true
	said := l.run()
	if w := l.writes(before); len(w) > 0 || asked != 2 || !maps(files, l.files()) || strings.Contains(said, "it should have") {
		t.Errorf("%v\n%s", w, said)
	}
}

// TestGitLab_Poll: without an address there is no hook, and the configuration
// says so.
func TestGitLab_Poll(t *testing.T) {
	l := newLab(t, gitlabtest.Options{}, gitlabtest.Developer)
	l.g.PublicURL = ""
	said := l.run()
	if c := l.configured(); c.Server.Intake != config.IntakePoll || len(l.hooks()) > 0 || len(l.files()) != 3 || !strings.Contains(said, "/writ approve") {
		t.Errorf("%s\n%v", said, l.files())
	}
}

// TestGitLab_StateRefs: where state refs live is written where it isn't the default.
func TestGitLab_StateRefs(t *testing.T) {
	for refs, says := range map[string]bool{"": false, config.RefsHidden: false, config.RefsHeads: true} {
		l := newLab(t, gitlabtest.Options{}, gitlabtest.Developer)
		l.g.PublicURL, l.g.Refs = "", refs
		l.run()
		if c := l.configured(); (c.Refs == config.RefsHeads) != says || strings.Contains(l.files()[setup.ConfigFile], "refs:") != says {
			t.Errorf("%q: %s", refs, l.files()[setup.ConfigFile])
		}
	}
}

// TestGitLab_OwnAuthority: a GitLab with a certificate of its own, and a personal
// token, which is warned of.
func TestGitLab_OwnAuthority(t *testing.T) {
	l := newLab(t, gitlabtest.Options{TLS: true, Path: "/lab"}, gitlabtest.Maintainer)
	user := l.AddUser("max")
	l.SetMember(l.project, user.ID, gitlabtest.Owner)
	l.g.At.Token = l.Token(user.ID)
	l.refused("can't be reached")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	l.must(os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.HTTP.Certificate().Raw}), 0o600))
	l.g.At.CAFile = ca
	said := l.run()
	if c := l.configured(); c.Forges.GitLab.CAFile != ca || !strings.Contains(said, "token is a person's") {
		t.Errorf("%+v\n%s", c.Forges.GitLab, said)
	}
}

// TestGitLab_FileOfTheToken: the operator's own file is named, and not copied.
func TestGitLab_FileOfTheToken(t *testing.T) {
	l := newLab(t, gitlabtest.Options{}, gitlabtest.Maintainer)
	l.g.TokenFile = filepath.Join(t.TempDir(), "token")
	l.must(os.WriteFile(l.g.TokenFile, []byte(l.g.At.Token+"\n"), 0o600))
	l.Expire(l.g.At.Token, time.Now().Add(24*time.Hour))
	said := l.run()
	for name, text := range l.files() {
		if strings.Contains(text, l.g.At.Token) {
			t.Errorf("%s holds the token", name)
		}
	}
	if !strings.Contains(l.files()[setup.EnvFile], l.g.TokenFile) || !strings.Contains(said, "soon:") {
		t.Errorf("%v\n%s", l.files(), said)
	}
	l.configured()
}
