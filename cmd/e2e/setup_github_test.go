package e2e

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/forge/github/githubtest"
	"github.com/writbot/writ/forge/local/localtest"
)

// operator calls `writ setup github` for a place, and is the person who clicks.
type operator struct {
	t *testing.T
	p *githubtest.Place
	v *githubtest.Visitor
}

// begins starts a set-up and returns its link. The rest of what it says, and how
// it ends, comes later.
func (o *operator) begins(args ...string) (link string, ends func() answer, interrupt func()) {
	o.t.Helper()
	cmd, a := command(o.t, nil, append([]string{"setup", "github", "--url", o.p.GitURL, "--repo", o.p.Repo.String()}, args...)...)
	said := &output{}
	cmd.Stdout = said
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	localtest.Until(o.t, time.Minute, "the link", func() bool { return setupLink.MatchString(said.String()) })
	return setupLink.FindString(said.String()), func() answer {
		a.exit = ended(o.t, cmd.Wait())
		a.stdout = said.String()
		return *a
	}, func() { _ = cmd.Process.Signal(syscall.SIGINT) }
}

// gets loads an address of the page.
func (o *operator) gets(address string) (status int, body string) {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	res, err := o.v.HTTP.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

var (
	formAction   = regexp.MustCompile(`<form method="post" action="([^"]+)"`)
	formManifest = regexp.MustCompile(`name="manifest" value="([^"]+)"`)
)

// clicks goes through the page and GitHub's, and returns the last page.
func (o *operator) clicks(link, name string) string {
	o.t.Helper()
	if status, _ := o.gets(link); status != http.StatusSeeOther {
		o.t.Fatalf("the link answers %d", status)
	}
	base, _, _ := strings.Cut(link, "/start")
	_, body := o.gets(base + "/")
	to, err := url.Parse(html.UnescapeString(formAction.FindStringSubmatch(body)[1]))
	if err != nil {
		o.t.Fatal(err)
	}
	back := o.v.MakeApp(o.t, to.RequestURI(), html.UnescapeString(formManifest.FindStringSubmatch(body)[1]), name)
	status, body := o.gets(back.String())
	if status != http.StatusOK {
		o.t.Fatalf("%d: %s", status, body)
	}
	if status, _ := o.gets(base + "/"); status != 0 && status != http.StatusGone {
		o.t.Errorf("the page still answers, %d", status)
	}
	return body
}

// TestSetup_GitHubGoesOn: set-up that was ended, or waits in vain, goes on where
// it stood, with one App and an operator's own configuration left as it is.
func TestSetup_GitHubGoesOn(t *testing.T) {
	t.Parallel()
	p := githubtest.Start(t).Place(t, githubtest.Options{Enterprise: true})
	o := &operator{t, p, p.Visit(t, p.Owner)}
	dir := filepath.Join(t.TempDir(), "my own")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const own = "# mine\nserver: {intake: poll}\n"
	config := write(t, dir, "own.yaml", own)

	_, ends, interrupt := o.begins("--config", config)
	interrupt()
	if a := ends(); a.exit != 1 || !strings.Contains(a.stderr, "nothing is left over") {
		t.Errorf("ended before GitHub was asked: %+v", a)
	}
	link, ends, _ := o.begins("--config", config, "--wait", "0")
	o.clicks(link, "Writ of an operator")
	a := ends().want(t, 14)
	if !strings.Contains(a.stdout, "Add this to "+config) || !strings.Contains(a.stdout, "repositories: ["+p.Repo.String()+"]") || !strings.Contains(a.stderr, "/github-apps/writ-of-an-operator/installations/new") {
		t.Errorf("it says %+v", a)
	}
	for name, there := range map[string]bool{"github-app.pem": true, "writ.env": true, "github-hook.secret": false, "github-app.json": false, "writ.yaml": false} {
		info, err := os.Stat(filepath.Join(dir, name))
		if (err == nil) != there || err == nil && info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if again := "writ setup github --config '" + config + "' --repo " + p.Repo.String() + " --url " + p.GitURL; !strings.Contains(a.stderr, again) {
		t.Errorf("what is to be called isn't %s: %s", again, a.stderr)
	}
	key, err := os.ReadFile(filepath.Join(dir, "github-app.pem"))
	if err != nil {
		t.Fatal(err)
	}
	again := []string{"setup", "github", "--url", p.GitURL, "--repo", p.Repo.String(), "--config", config, "--wait", "0"}
	writ(t, nil, again...).want(t, 14)
	o.v.Install(t, "writ-of-an-operator", p.Repo.String())
	done := writ(t, nil, again...).want(t, 0)
	if !strings.Contains(done.stdout, "holds what it needs and nothing else") || strings.Contains(a.stdout+a.stderr+done.stdout, strings.Split(string(key), "\n")[1]) {
		t.Errorf("it says %s", done.stdout)
	}
	if data, err := os.ReadFile(config); err != nil || string(data) != own {
		t.Errorf("the operator's file is %q, %v", data, err)
	}
	if made := p.AppsMade(t); made != 1 {
		t.Errorf("%d Apps were made", made)
	}
}

// TestSetup_GitHubRefuses: what can't work is said, with what to do, before
// anything is made.
func TestSetup_GitHubRefuses(t *testing.T) {
	t.Parallel()
	p := githubtest.Start(t).Place(t, githubtest.Options{Enterprise: true})
	dir := t.TempDir()
	key := write(t, dir, "app.pem", string(p.App.Key))
	other := p.Another(t, "elsewhere").String()
	call := func(exit int, says string, args ...string) {
		t.Helper()
		env := []string{"WRIT_GITHUB_PRIVATE_KEY=of another set-up in this shell"}
		a := writ(t, env, append([]string{"setup", "github", "--url", p.GitURL}, args...)...)
		if a.exit != exit || !strings.Contains(a.stdout+a.stderr, says) {
			t.Errorf("%v: %+v, want %d and %q", args, a, exit, says)
		}
	}
	repo := p.Repo.String()
	call(2, "--repo OWNER/NAME", "--dir", filepath.Join(dir, "a"))
	call(2, "ssh -L", "--repo", repo, "--listen", "0.0.0.0:0", "--dir", filepath.Join(dir, "b"))
	call(2, "after --", "--repo", repo, "sh")
	call(2, "go together", "--repo", repo, "--app-id", "5")
	call(1, "Nothing was written", "--repo", repo, "--app-id", "5", "--private-key-file", key, "--dir", filepath.Join(dir, "c"))
	call(14, "isn't installed on "+other, "--repo", other, "--app-id", fmt.Sprint(p.App.ID), "--private-key-file", key, "--dir", filepath.Join(dir, "c"))
	call(2, "is not among the repositories", "--repo", repo, "--dir", filepath.Join(dir, "c"))
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	call(1, "chmod 600", "--repo", repo, "--app-id", fmt.Sprint(p.App.ID), "--private-key-file", key, "--dir", filepath.Join(dir, "e"))
}
