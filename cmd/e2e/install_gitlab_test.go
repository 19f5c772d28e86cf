package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/gitlab"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/local/localtest"
)

// labInstaller follows docs/install-gitlab.md.
type labInstaller struct {
	t           *testing.T
	lab         *gitlabtest.Server
	project     int64
	max         gitlabtest.User // who reads the page
	client      forge.Client    // as max
	repo        forge.Repo
	dir         string // where the reader's terminal is
	listen      string // in place of the page's, which others may use
	source      string // the repository that is cloned
	token, mine string
	tty         *terminal
	shown       chan string // what the terminal has shown of what was typed
	said, log   *output
	setup       *exec.Cmd
	proxied     atomic.Pointer[string] // where the proxy passes deliveries on to
	issue       string                 // its text
	began, last time.Time
	took        []string
}

// TestInstall_GitLab: who follows docs/install-gitlab.md has a finished task at
// its end. Everything that the page has its reader do is done here; deliveries
// are signed.
func TestInstall_GitLab(t *testing.T) {
	t.Parallel()
	r := &labInstaller{t: t, dir: t.TempDir(), listen: localtest.FreeAddress(t), source: checkout(t), said: &output{}, log: &output{}}
	r.lab = gitlabtest.New(t, gitlabtest.Options{Network: r.carry})
	r.project = r.lab.AddProject("acme/tools", "shop")
	r.max = r.lab.AddUser("max")
	r.lab.SetMember(r.project, r.max.ID, gitlabtest.Maintainer)
	h, err := gitlab.New(t.Context(), gitlab.Config{URL: r.lab.URL, Token: r.lab.Token(r.max.ID), Proxy: "none", Limits: gitlab.Limits{WriteInterval: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	r.repo = r.lab.Repo(r.project)
	r.client = h.Client(r.repo)
	r.began = time.Now()
	r.last = r.began
	follow(t, filepath.Join("..", "..", "docs", "install-gitlab.md"), []performed{
		{"sh", "git clone ", r.build},
		{"item", "Writ's own: ", r.ownToken},
		{"item", "One of yours", r.myToken},
		{"sh", "bin/writ setup gitlab --url", r.beginSetup},
		{"item", "Paste writ's token.", func(string) { r.answers("The token (", r.token) }},
		{"item", "Paste yours.", func(string) { r.answers("needs a Maintainer", r.mine) }},
		{"item", "Press Enter", r.endSetup},
		{"yaml", "server:", r.configuration},
		{"nginx", "location /hooks/ {", r.proxy},
		{"sh", "set -a; . ", r.serve},
		{"item", "File an issue", func(string) {}}, // with the text that follows
		{"md", "Say hello", func(text string) { r.issue = text }},
		{"item", "Set the label **writ**", r.task},
		{"sh", "bin/writ setup gitlab --onboard", r.contract},
		{"sh", "bin/writ setup gitlab --dir", r.unattended},
	})
	t.Logf("from the clone to the first finished task: %s", strings.Join(r.took, ", "))
}

// carry is the way from GitLab through the reader's proxy.
func (r *labInstaller) carry(d gitlabtest.Delivery) []gitlabtest.Delivery {
	to := r.proxied.Load()
	if to == nil {
		return nil
	}
	if d.Header.Get("webhook-signature") == "" {
		r.t.Errorf("the %s isn't signed", d.Event)
	}
	d.URL = strings.Replace(d.URL, publicURL, *to, 1)
	return []gitlabtest.Delivery{d}
}

// lap notes how long a part took.
func (r *labInstaller) lap(part string) {
	now := time.Now()
	r.took = append(r.took, fmt.Sprintf("%s %.1f s", part, now.Sub(r.last).Seconds()))
	r.last = now
}

// here is a text of the page with the places of this test.
func (r *labInstaller) here(text string) string {
	return strings.NewReplacer(
		"https://github.com/writbot/writ", r.source, "https://gitlab.example.org", r.lab.URL, "127.0.0.1:8714", r.listen, "/home/you/writ", r.dir,
	).Replace(text)
}

// shell is a block in the reader's terminal; its last command takes the shell's
// place, so that a signal reaches it. Nothing is asked of the network.
func (r *labInstaller) shell(text string) *exec.Cmd {
	text = strings.TrimSpace(r.here(text))
	at := strings.LastIndex(text, "\n") + 1
	if strings.HasPrefix(text[at:], "bin/writ") {
		text = text[:at] + "exec " + text[at:]
	}
	cmd := exec.CommandContext(context.WithoutCancel(r.t.Context()), "sh", "-c", "set -e\n"+text)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HTTPS_PROXY=http://127.0.0.1:9")
	return cmd
}

// types types a block and waits for its end.
func (r *labInstaller) types(text string) string {
	r.t.Helper()
	out, err := r.shell(text).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v\n%s\n%s", err, text, out)
	}
	r.hides(string(out))
	return string(out)
}

// hides fails if one of the secrets is in a text.
func (r *labInstaller) hides(text string) {
	r.t.Helper()
	key, _ := os.ReadFile(filepath.Join(r.dir, "writ-server", "gitlab-hook-acme-tools-shop.key")) // it may not be there yet
	for _, secret := range []string{r.token, r.mine, strings.TrimSpace(string(key))} {
		if secret != "" && strings.Contains(text, secret) {
			r.t.Error("a secret is shown")
		}
	}
}

func (r *labInstaller) build(text string) {
	if err := dependOnSources(); err != nil {
		r.t.Fatal(err)
	}
	cmd := r.shell(text)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return kv == "HTTPS_PROXY=http://127.0.0.1:9" }) // for modules
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s\n%s", err, text, out)
	}
	r.dir = filepath.Join(r.dir, "writ") // where its cd led
	r.lap("clone and build")
}

// ownToken makes the token as the page says: the words in bold are the page's of
// GitLab.
func (r *labInstaller) ownToken(text string) {
	words := bold.FindAllStringSubmatch(text, -1)
	if words[1][1] != "Developer" {
		r.t.Fatalf("the page wants the role %s", words[1][1])
	}
	_, r.token = r.lab.ProjectToken(r.project, gitlabtest.Developer, words[2][1])
	r.lab.Expire(r.token, time.Now().AddDate(1, 0, 0))
}

func (r *labInstaller) myToken(text string) {
	r.mine = r.lab.Token(r.max.ID, bold.FindAllStringSubmatch(text, -1)[1][1])
	r.lab.Expire(r.mine, time.Now().AddDate(0, 0, 1))
}

func (r *labInstaller) beginSetup(text string) {
	r.tty, r.shown = openTerminal(r.t), make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(r.tty.person) // it ends with an error when the program's side is closed
		r.shown <- string(text)
	}()
	r.setup = r.shell(text)
	r.setup.Stdin, r.setup.Stdout, r.setup.Stderr = r.tty.program, r.said, r.said
	if err := r.setup.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if r.setup != nil {
			_ = r.setup.Process.Kill()
			_ = r.setup.Wait() // it was killed
			r.t.Logf("setup said:\n%s", r.said)
		}
	})
}

// answers waits for a question and types the answer.
func (r *labInstaller) answers(question, answer string) {
	r.t.Helper()
	localtest.Until(r.t, time.Minute, "the question: "+question, func() bool { return strings.Contains(r.said.String(), question) })
	r.tty.types(r.t, answer)
}

func (r *labInstaller) endSetup(string) {
	r.answers("[y/N]", "")
	err := r.setup.Wait()
	if r.setup = nil; err != nil {
		r.t.Fatalf("setup ended with %v:\n%s", err, r.said)
	}
	for _, says := range []string{"made as max", "/hooks/gitlab, signed", "state-refs", "writ serve --config"} {
		if !strings.Contains(r.said.String(), says) {
			r.t.Errorf("setup doesn't say %q:\n%s", says, r.said)
		}
	}
	if err := r.tty.program.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.hides(r.said.String() + <-r.shown)
	r.lap("set-up")
}

// configuration compares what the page shows with what was written, and looks at
// who may read it.
func (r *labInstaller) configuration(text string) {
	server := filepath.Join(r.dir, "writ-server")
	entries, err := os.ReadDir(server)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			r.t.Errorf("others may read %s: %v %v", e.Name(), info.Mode(), err)
		}
	}
	path := filepath.Join(server, "writ.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	want := strings.NewReplacer("https://gitlab.example.org", `"`+r.lab.URL+`"`, "/home/you/writ", r.dir).Replace(text)
	got := strings.Replace(string(data), "url: "+r.lab.URL+"\n", `url: "`+r.lab.URL+"\"\n", 1)
	if got != want {
		r.t.Errorf("the page shows\n%s\nand the file is\n%s", want, got)
	}
	// Another port than the page's, which somebody may have on this machine.
	if err := os.WriteFile(path, []byte(r.here(string(data))), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *labInstaller) proxy(text string) {
	r.proxied.Store(&proxyPass.FindStringSubmatch(r.here(text))[1])
}

func (r *labInstaller) serve(text string) {
	cmd := r.shell(text)
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil || r.t.Failed() {
			r.t.Errorf("writ serve ended with %v:\n%s", err, r.log)
		}
		r.hides(r.log.String())
	})
	localtest.Until(r.t, time.Minute, "writ is ready", func() bool {
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.listen+"/readyz", nil)
		if err != nil {
			return false
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close() // nothing in it is wanted
		return res.StatusCode == http.StatusOK
	})
	r.lap("start")
}

// task files the issue, approves it, and waits for its end.
func (r *labInstaller) task(text string) {
	rita := r.lab.AddUser("rita")
	r.lab.SetMember(r.project, rita.ID, gitlabtest.Guest)
	n := r.lab.FileIssue(r.project, rita.ID, "Say hello", r.issue)
	if err := r.client.AddLabel(r.t.Context(), r.repo, n, bold.FindStringSubmatch(text)[1]); err != nil {
		r.t.Fatal(err)
	}
	localtest.Until(r.t, 3*time.Minute, "the issue is closed and labelled", func() bool {
		now, err := r.client.Issue(r.t.Context(), r.repo, n)
		return err == nil && now.State == forge.Closed && slices.Contains(now.Labels, "writ:completed")
	})
	r.lap("task")
	r.took = append(r.took, fmt.Sprintf("all of it %.1f s", time.Since(r.began).Seconds()))
	change, err := r.client.FindChange(r.t.Context(), r.repo, fmt.Sprintf("writ/change/%d", n), "")
	if err != nil || change.State != forge.ChangeOpen {
		r.t.Errorf("the change %+v, %v", change, err)
	}
	if got := gittest.Git(r.t, r.lab.GitDir(r.project), "show", change.HeadOID+":out.txt"); got != "hello" {
		r.t.Errorf("out.txt says %q", got)
	}
}

// contract opens the merge request of the contract.
func (r *labInstaller) contract(text string) {
	out := r.types(text)
	change, err := r.client.FindChange(r.t.Context(), r.repo, "writ/onboard", "")
	if err != nil || change.State != forge.ChangeOpen || !strings.Contains(gittest.Git(r.t, r.lab.GitDir(r.project), "show", change.HeadOID+":.writ/contract.yaml"), "mode: observe") {
		r.t.Errorf("the change %+v, %v\n%s", change, err, out)
	}
}

// unattended sets up once more, without a terminal and without a public address.
func (r *labInstaller) unattended(text string) {
	own := write(r.t, r.dir, "writ.token", r.token+"\n")
	out := r.types(text)
	data, err := os.ReadFile(filepath.Join(r.dir, "again", "writ.yaml"))
	if err != nil || !strings.Contains(string(data), "intake: poll") || !strings.Contains(out, "/writ approve") {
		r.t.Errorf("%v %s\n%s", err, data, out)
	}
	env, err := os.ReadFile(filepath.Join(r.dir, "again", "writ.env"))
	if err != nil || !strings.Contains(string(env), own) {
		r.t.Errorf("%v %s", err, env)
	}
}
