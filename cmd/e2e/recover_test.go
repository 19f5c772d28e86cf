package e2e

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// shortLease is a configuration under which a dead holder is soon taken over.
const shortLease = "lease: {seconds: 5, grace: 0s, margin: 1s, skew: 1s}\n"

// killedMidBuild starts a build and kills the supervising process with -9 while
// the builder runs.
func killedMidBuild(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	var seen strings.Builder
	for lines.Scan() {
		seen.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "BUILDING") {
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, stderr)
			_ = cmd.Wait() // killed, as wanted
			return
		}
	}
	t.Fatalf("the builder never ran:\n%s", seen.String())
}

// A process is killed in the middle of its build. The same state directory goes
// on at once; the attempt isn't counted.
func TestK4_KilledMidBuildGoesOn(t *testing.T) {
	repo := newRepo(t, map[string]string{"README": "hi\n"})
	issue := write(t, t.TempDir(), "issue.md", task("Say hello", "out.txt"))
	state := filepath.Join(t.TempDir(), "state")
	args := func(builder string) []string {
		return []string{"task", "run", "--json", "--repo", repo, "--issue", issue, "--state-dir", state, "--builder", builder}
	}
	killedMidBuild(t, args("sh -c 'echo BUILDING; sleep 60'")...)
	r := writ(t, nil, args("sh -c 'echo hello > out.txt'")...).want(t, 0).report(t)
	if r.Attempts != 1 {
		t.Errorf("attempts %d, want 1: an interruption is no attempt", r.Attempts)
	}
	writ(t, nil, "verify", "--state-dir", state).want(t, 0)
}

// The state directory is lost with the process. Another one takes the dead lease
// over once it has seen it unchanged for its time. Nobody vouches for an unlisted
// key: what it left is looked at by a person first. Where the lost key is listed,
// the other one finishes the task, and the repository alone vouches for what is
// done.
func TestK9_AnotherStateDirectoryFinishes(t *testing.T) {
	repo := newRepo(t, map[string]string{"README": "hi\n"})
	dir := t.TempDir()
	issue := write(t, dir, "issue.md", task("Say hello", "out.txt"))
	config := write(t, dir, "writ.yaml", shortLease)
	args := func(state, builder string) []string {
		return []string{"task", "run", "--json", "--repo", repo, "--issue", issue, "--config", config,
			"--state-dir", filepath.Join(dir, state), "--builder", builder}
	}
	killedMidBuild(t, args("lost", "sh -c 'echo BUILDING; sleep 60'")...)
	key := lostKey(t, filepath.Join(dir, "lost"))
	other := args("other", "sh -c 'echo hello > out.txt'")
	if r := untilFree(t, other).want(t, 14).report(t); !slices.Equal(r.Codes, []string{"lease.untrusted"}) {
		t.Errorf("above an unlisted lease: %+v", r)
	}
	write(t, dir, "writ.yaml", shortLease+"trusted_runners: ['"+key+"']\n")
	if r := untilFree(t, other).want(t, 0).report(t); r.FinalState != "completed" || r.Attempts != 1 {
		t.Errorf("report %+v", r)
	}
	verified := writ(t, nil, "verify", repo, "--task", "1").want(t, 0)
	if !strings.Contains(verified.stdout, "SHA256:") {
		t.Errorf("verify names no key:\n%s", verified.stdout)
	}
	if got := gittest.Git(t, repo, "show", "refs/heads/writ/change/1:out.txt"); got != "hello" {
		t.Errorf("out.txt is %q", got)
	}
}

// lostKey takes a state directory away and returns its public key, which the
// operator has from `writ key`.
func lostKey(t *testing.T, state string) string {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(state, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(key))
}

// untilFree calls the program until nobody else holds the task. The runs are
// one-shot: what each has seen adds up.
func untilFree(t *testing.T, args []string) (a answer) {
	t.Helper()
	for range 200 {
		if a = writ(t, nil, args...); a.exit != 13 {
			break
		}
	}
	return a
}
