package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/cmd/internal/doctor"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server/servertest"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel/canon"
)

const strongSecret = "WRIT_LOCAL_HOOK_SECRET=0123456789abcdef0123456789abcdef"

// examined is what `writ doctor --json` said.
type examined struct {
	OK     bool
	Checks []doctor.Check
}

func (p *forgePlace) doctor(want int, args ...string) (out examined) {
	p.T.Helper()
	exit, text := p.cli(append([]string{"doctor", "--json", "--time", servertest.Patience.String(), "--config", p.Config()}, args...)...)
	if err := json.Unmarshal([]byte(text), &out); err != nil || exit != want || out.OK != (want == problem.ExitDone) {
		p.T.Fatalf("writ doctor ends with %d (%v), want %d:\n%s", exit, err, want, text)
	}
	return out
}

func (e examined) find(t *testing.T, name string) doctor.Check {
	t.Helper()
	i := slices.IndexFunc(e.Checks, func(c doctor.Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no check %s in %v", name, e.Checks)
	}
	return e.Checks[i]
}

// snapshot are the digests of the files in a directory, but for what SQLite keeps
// for its readers.
func snapshot(t *testing.T, dir string) map[string]canon.Digest {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	out := map[string]canon.Digest{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-shm") || strings.HasSuffix(e.Name(), "-wal") {
			continue
		}
		data, _ := os.ReadFile(filepath.Join(dir, e.Name())) // nothing, of a directory
		out[e.Name()] = canon.Sum(data)
	}
	return out
}

// TestDoctor_BesideAServer: while writ serves, everything is looked at, nothing
// fails, the server goes on, and neither store nor repository is changed.
func TestDoctor_BesideAServer(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.More = ", intake: poll, poll: 1s"
	p.Serve()
	p.UntilReady()
	refs := gittest.Git(t, p.Store.GitDir(p.Repo.ID), "for-each-ref")
	got := p.doctor(problem.ExitDone)
	for _, c := range got.Checks {
		if c.Status == doctor.Failed {
			t.Errorf("%s %s failed: %s", c.Name, c.Subject, c.Detail)
		}
	}
	for name, detail := range map[string]string{
		doctor.NameServer: "is ready", doctor.NameStateRefs: "signed state commit", doctor.NameAtomic: "at once",
		doctor.NameLedger: "1 verified", doctor.NameKey: "SHA256:", doctor.NameAccount: "writ-bot", doctor.NameStore: "sound",
	} {
		if c := got.find(t, name); c.Status != doctor.OK || !strings.Contains(c.Detail, detail) {
			t.Errorf("%s is %s: %s", name, c.Status, c.Detail)
		}
	}
	if now := gittest.Git(t, p.Store.GitDir(p.Repo.ID), "for-each-ref"); now != refs {
		t.Errorf("the repository's refs are\n%s\nand were\n%s", now, refs)
	}
	n := p.File("default")
	p.Approve(n)
	p.Until("a task to be completed after it", func() bool { return p.Head(n) == "completed" })
}

// TestDoctor_WithoutAServer: nothing is written into a state directory that
// nobody uses, and none is made.
func TestDoctor_WithoutAServer(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Env = append(p.Env, strongSecret)
	got := p.doctor(problem.ExitDone)
	if c := got.find(t, doctor.NameStateDir); c.Status != doctor.Warning {
		t.Errorf("a directory that isn't there yet: %s: %s", c.Status, c.Detail)
	}
	if _, err := os.Lstat(p.State()); err == nil {
		t.Fatal("the state directory was made")
	}
	s := p.Serve()
	p.Until("the server to have made what it makes", func() bool {
		exit, _ := p.cli("healthz", "--config", p.Config())
		_, err := os.Stat(filepath.Join(p.State(), installation.Workspaces))
		return exit == problem.ExitDone && err == nil
	})
	if s.End() != problem.ExitDone {
		t.Fatal("the server ended badly")
	}
	before := snapshot(t, p.State())
	got = p.doctor(problem.ExitDone)
	if c := got.find(t, doctor.NameServer); c.Status != doctor.Skipped {
		t.Errorf("no server runs: %s: %s", c.Status, c.Detail)
	}
	if d := cmp.Diff(before, snapshot(t, p.State())); d != "" {
		t.Errorf("the state directory holds other files or bytes (-before +after):\n%s", d)
	}
}

// TestDoctor_EachFault: what is wrong is a failed check with its remedy, the exit
// status says so, and what stands on it is skipped.
func TestDoctor_EachFault(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	got := p.doctor(problem.ExitRefused) // its secret is a short one
	if c := got.find(t, doctor.NameSecrets); c.Subject != "WRIT_LOCAL_TOKEN" || c.Status != doctor.OK {
		t.Errorf("the token is %s: %s", c.Status, c.Detail)
	}
	i := slices.IndexFunc(got.Checks, func(c doctor.Check) bool { return c.Subject == "WRIT_LOCAL_HOOK_SECRET" })
	if c := got.Checks[i]; c.Status != doctor.Failed || !strings.Contains(c.Remedy, "openssl rand") {
		t.Errorf("the secret is %s: %s (%s)", c.Status, c.Detail, c.Remedy)
	}
	p.Env = append(p.Env, strongSecret)
	got = p.doctor(problem.ExitRefused, "--repo", "o/other")
	if c := got.find(t, doctor.NameRepository); c.Status != doctor.Failed || !strings.Contains(c.Detail, "doesn't list it") {
		t.Errorf("an unlisted repository is %s: %s", c.Status, c.Detail)
	}
	p.Env = append(p.Env, "WRIT_LOCAL_TOKEN=wrong")
	got = p.doctor(problem.ExitRefused)
	if c := got.find(t, doctor.NameReach); c.Status != doctor.Failed || c.Remedy == "" {
		t.Errorf("a wrong token is %s: %s (%s)", c.Status, c.Detail, c.Remedy)
	}
	if c := got.find(t, doctor.NameRepository); c.Status != doctor.Skipped {
		t.Errorf("the repository behind a wrong token is %s: %s", c.Status, c.Detail)
	}
	must(t, os.WriteFile(filepath.Join(p.Root, "bad.yaml"), []byte("sandbx: none\nserver: {listen: x}\n"), 0o600))
	exit, text := p.cli("doctor", "--config", filepath.Join(p.Root, "bad.yaml"))
	if exit != problem.ExitRefused || !strings.Contains(text, "x failed   configuration") || !strings.Contains(text, "line 1, sandbx") || !strings.Contains(text, "server.listen") {
		t.Errorf("a bad configuration ends with %d:\n%s", exit, text)
	}
}

// TestDoctor_NoSecretIsShown: whatever is said, no secret is in it.
func TestDoctor_NoSecretIsShown(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	for _, args := range [][]string{{"doctor"}, {"doctor", "--json"}} {
		_, text := p.cli(append(args, "--config", p.Config())...)
		if strings.Contains(text, p.Token) || strings.Contains(text, localtest.Secret) {
			t.Errorf("a secret is shown:\n%s", text)
		}
	}
}

// TestDoctor_Interrupted: a signal doesn't kill it where it stands: it ends by
// itself, says that it was interrupted, blames nothing, and leaves no ref.
func TestDoctor_Interrupted(t *testing.T) {
	p := newForgePlace(t)
	p.Env = append(p.Env, strongSecret)
	program, err := exec.LookPath("git")
	must(t, err)
	dir := t.TempDir()
	script := "#!/bin/sh\ncase $* in *--version*) kill -INT $PPID ;; esac\nexec " + program + " \"$@\"\n"
	gittest.WriteProgram(t, filepath.Join(dir, "git"), script)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	exit, text := p.cli("doctor", "--config", p.Config())
	if exit != problem.ExitOther || !strings.Contains(text, "Interrupted") || strings.Contains(text, "x failed") {
		t.Errorf("a signal ends it with %d:\n%s", exit, text)
	}
	if refs := gittest.Git(t, p.Store.GitDir(p.Repo.ID), "for-each-ref", "refs/writ/"); refs != "" {
		t.Errorf("it left %s", refs)
	}
}
