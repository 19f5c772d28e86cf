package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/writbot/writ/cmd/internal/treetest"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/github/githubtest"
	"github.com/writbot/writ/forge/local/localtest"
)

// installer follows docs/install-github.md.
type installer struct {
	t        *testing.T
	p        *githubtest.Place
	dir      string // where the reader's terminal is
	listen   string // in place of the page's, which others may use
	web      string // GitHub's address: another site than that of set-up's page
	source   string // the repository that is cloned
	b        *browser
	tty      *terminal
	setup    *exec.Cmd
	said     *output
	serving  *exec.Cmd
	log      *output
	issue    string // its text
	began    time.Time
	took     []string
	lastStep time.Time
}

// publicURL is the page's.
const publicURL = "https://writ.example.org"

// TestInstall_GitHub: who follows docs/install-github.md has a finished task at
// its end. Everything that the page has its reader do is done here.
func TestInstall_GitHub(t *testing.T) {
	t.Parallel()
	held, err := githubtest.Describe(githubtest.Enterprise)
	if err != nil {
		t.Fatal(err)
	}
	r := &installer{t: t, dir: t.TempDir(), listen: localtest.FreeAddress(t), source: checkout(t)}
	r.p = githubtest.Start(t).Place(t, githubtest.Options{Enterprise: true, Held: held})
	r.web = strings.Replace(r.p.GitURL, "127.0.0.1", "localhost", 1)
	r.b = openBrowser(t)
	r.b.do(chromedp.Navigate(r.web+"/login"), chromedp.SendKeys("#login", r.p.Owner.Login), chromedp.Click("#sign-in"), chromedp.WaitVisible("#dashboard"))
	r.began = time.Now()
	r.lastStep = r.began
	follow(t, filepath.Join("..", "..", "docs", "install-github.md"), []performed{
		{"sh", "git clone ", r.build},
		{"sh", "bin/writ setup github --repo", r.beginSetup},
		{"item", "Open the link.", r.openLink},
		{"item", "Click **Go on at github.com**.", r.makeApp},
		{"item", "Click **Install the App**", r.install},
		{"yaml", "server:", r.configuration},
		{"nginx", "location /hooks/ {", r.proxy},
		{"sh", "set -a; . ", r.serve},
		{"item", "File an issue", func(string) {}}, // with the text that follows
		{"md", "Say hello", func(text string) { r.issue = text }},
		{"item", "Set the label **writ**", r.task},
		{"sh", "bin/writ setup github --onboard", r.contract},
		{"sh", "bin/writ setup github --repo", r.byHand},
	})
	t.Logf("from the clone to the first finished task: %s", strings.Join(r.took, ", "))
}

// lap notes how long a part took.
func (r *installer) lap(part string) {
	now := time.Now()
	r.took = append(r.took, fmt.Sprintf("%s %.1f s", part, now.Sub(r.lastStep).Seconds()))
	r.lastStep = now
}

// checkout is the source as it is here, as a repository that can be cloned.
func checkout(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "writ")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin"):
			return fs.SkipDir
		case name == ".git": // a worktree's: it leads to the repository that it belongs to
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(treetest.Source(t, path))
		if os.IsNotExist(err) {
			return nil // somebody's temporary file
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, to, "init", "--quiet", "--initial-branch=main")
	gittest.Git(t, to, "add", "--all")
	gittest.Git(t, to, "commit", "--quiet", "--message", "source")
	return to
}

// here is a text of the page with the places of this test.
func (r *installer) here(text string) string {
	return strings.NewReplacer(
		"https://github.com/writbot/writ", r.source, "github.com", strings.TrimPrefix(r.web, "http://"),
		"setup github", "setup github --url "+r.web, "acme/shop", r.p.Repo.String(), "127.0.0.1:8714", r.listen,
		"--app-id 12345", fmt.Sprintf("--app-id %d", r.p.App.ID),
	).Replace(text)
}

// shell is a block in the reader's terminal; its last command takes the shell's
// place, so that a signal reaches it.
func (r *installer) shell(text string) *exec.Cmd {
	text = strings.TrimSpace(r.here(text))
	at := strings.LastIndex(text, "\n") + 1
	if strings.HasPrefix(text[at:], "bin/writ") {
		text = text[:at] + "exec " + text[at:]
	}
	cmd := exec.CommandContext(context.WithoutCancel(r.t.Context()), "sh", "-c", "set -e\n"+text)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	return cmd
}

// types types a block and waits for its end.
func (r *installer) types(text string) string {
	r.t.Helper()
	out, err := r.shell(text).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v\n%s\n%s", err, text, out)
	}
	return string(out)
}

func (r *installer) build(text string) {
	if err := dependOnSources(); err != nil {
		r.t.Fatal(err)
	}
	r.types(text)
	r.dir = filepath.Join(r.dir, "writ") // where its cd led
	r.lap("clone and build")
}

func (r *installer) beginSetup(text string) {
	r.tty, r.said = openTerminal(r.t), &output{}
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

var setupLink = regexp.MustCompile(`http://127\.0\.0\.1:\d+/start\?token=\S+`)

func (r *installer) openLink(string) {
	localtest.Until(r.t, time.Minute, "the link", func() bool { return setupLink.MatchString(r.said.String()) })
	r.b.do(chromedp.Navigate(setupLink.FindString(r.said.String())), chromedp.WaitVisible("#create"))
	r.b.picture("setup-ask")
}

// bold are the words of an item that stand on buttons.
var bold = regexp.MustCompile(`\*\*(.+?)\*\*`)

func (r *installer) makeApp(text string) {
	words := bold.FindAllStringSubmatch(r.here(text), -1)
	r.b.click(words[0][1])
	r.b.until("#name")
	r.b.click(words[1][1])
	r.b.until("#made")
	r.b.picture("setup-made")
}

func (r *installer) install(text string) {
	words := bold.FindAllStringSubmatch(r.here(text), -1)
	r.b.click(words[0][1])
	r.b.until("form")
	r.b.choose(r.p.Repo.String())
	r.b.click(words[1][1])
	r.b.until("#installed")
	localtest.Until(r.t, 2*time.Minute, "the question", func() bool { return strings.Contains(r.said.String(), "[y/N]") })
	r.tty.types(r.t, "") // Enter
	err := r.setup.Wait()
	if r.setup = nil; err != nil {
		r.t.Fatalf("setup ended with %v:\n%s", err, r.said)
	}
	for _, says := range []string{"permissions", "state-refs", "writ serve --config"} {
		if !strings.Contains(r.said.String(), says) {
			r.t.Errorf("setup says nothing of %s:\n%s", says, r.said)
		}
	}
	r.lap("set-up")
}

// configuration compares what the page shows with what was written.
func (r *installer) configuration(text string) {
	path := filepath.Join(r.dir, "writ-server", "writ.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	got := regexp.MustCompile(`app_id: \d+`).ReplaceAllString(string(data), "app_id: 12345")
	want := strings.NewReplacer("/home/you/writ", r.dir, "acme/shop", r.p.Repo.String(), "  github:\n", "  github:\n    url: \""+r.web+"\"\n").Replace(text)
	if got != want {
		r.t.Errorf("the page shows\n%s\nand the file is\n%s", want, got)
	}
	// Another port than the page's, which somebody may have on this machine.
	if err := os.WriteFile(path, []byte(r.here(string(data))), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

var proxyPass = regexp.MustCompile(`proxy_pass (\S+);`)

func (r *installer) proxy(text string) {
	r.p.Route(r.t, publicURL, proxyPass.FindStringSubmatch(r.here(text))[1])
}

func (r *installer) serve(text string) {
	r.log = &output{}
	r.serving = r.shell(text)
	r.serving.Stdout, r.serving.Stderr = r.log, r.log
	if err := r.serving.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = r.serving.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := r.serving.Wait(); err != nil || r.t.Failed() {
			r.t.Errorf("writ serve ended with %v:\n%s", err, r.log)
		}
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
func (r *installer) task(text string) {
	reader, maintainer := r.p.As(r.t, r.p.Reader), r.p.As(r.t, r.p.Maintainer)
	i, err := reader.FileIssue(r.t.Context(), r.p.Repo, "Say hello", r.issue)
	if err == nil {
		err = maintainer.AddLabel(r.t.Context(), r.p.Repo, i.Number, bold.FindStringSubmatch(text)[1])
	}
	if err != nil {
		r.t.Fatal(err)
	}
	localtest.Until(r.t, 3*time.Minute, "the issue is closed and labelled", func() bool {
		now, err := maintainer.Issue(r.t.Context(), r.p.Repo, i.Number)
		return err == nil && now.State == forge.Closed && slices.Contains(now.Labels, "writ:completed")
	})
	r.lap("task")
	r.took = append(r.took, fmt.Sprintf("all of it %.1f s", time.Since(r.began).Seconds()))
	change, err := maintainer.FindChange(r.t.Context(), r.p.Repo, fmt.Sprintf("writ/change/%d", i.Number), "")
	if err != nil || change.State != forge.ChangeOpen {
		r.t.Errorf("the change %+v, %v", change, err)
	}
	if got := gittest.Git(r.t, r.p.GitDir, "show", change.HeadOID+":out.txt"); got != "hello" {
		r.t.Errorf("out.txt says %q", got)
	}
}

// contract opens the pull request of the contract.
func (r *installer) contract(text string) {
	out := r.types(text)
	change, err := r.p.As(r.t, r.p.Maintainer).FindChange(r.t.Context(), r.p.Repo, "writ/onboard", "")
	if err != nil || change.State != forge.ChangeOpen || !strings.Contains(gittest.Git(r.t, r.p.GitDir, "show", change.HeadOID+":.writ/contract.yaml"), "mode: observe") {
		r.t.Errorf("the change %+v, %v\n%s", change, err, out)
	}
}

// byHand gives set-up the App that the place has had from the beginning.
func (r *installer) byHand(text string) {
	write(r.t, r.dir, "app.pem", string(r.p.App.Key))
	write(r.t, r.dir, "hook.secret", "a-secret-that-is-long-enough\n")
	r.p.Hear(r.t, github.Events())
	out := r.types(text)
	if !strings.Contains(out, "The App "+r.p.Slug) || strings.Contains(out, "a-secret-that") {
		r.t.Errorf("it says\n%s", out)
	}
}
