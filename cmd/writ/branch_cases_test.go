package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// servedHub is a hub that is served once more, with faults, and a clone of it.
func servedHub(t *testing.T, commands map[string]string) (hub, dir string, srv *gittest.HTTP) {
	t.Helper()
	hub, _ = branchHub(t, commands)
	srv = gittest.ServeHTTP(t, hub)
	dir = filepath.Join(t.TempDir(), "clone")
	gittest.Git(t, "/", "clone", "-q", srv.URL, dir)
	return hub, dir, srv
}

// untilState has a watching tick go on with a branch whose leases last a second, until
// a push leaves it in a state.
func untilState(t *testing.T, hub, dir, state string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pushes")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	gittest.Hook(t, hub, "post-receive", "cat > "+path)
	cmd := ticker(t, dir, "tick", "--remote", "origin", "--branch", "job", "--watch", "--interval", "1s", "--lease-seconds", "1", "--grace", "0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it is running
		_ = cmd.Wait()
	}()
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		oid := strings.Fields(lines.Text())[1]
		if strings.Contains(gittest.Git(t, hub, "log", "-1", "--format=%B", oid), "aynig-state: "+state) {
			return
		}
	}
	t.Fatal("the pipe ended")
}

// killedAtItsPush starts a tick and kills it as its first push arrives, before or after
// the server acts on that.
func killedAtItsPush(t *testing.T, dir string, srv *gittest.HTTP, acts bool) {
	t.Helper()
	runner := make(chan *os.Process, 1)
	srv.Set(gittest.OnPush(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			if acts {
				next.ServeHTTP(httptest.NewRecorder(), req)
			}
			_ = (<-runner).Kill() // it waits for the answer
			panic(http.ErrAbortHandler)
		})
	}))
	cmd := ticker(t, dir, "tick", "--remote", "origin", "--branch", "job", "--lease-seconds", "1", "--grace", "0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	runner <- cmd.Process
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("it wasn't killed: %v", err)
	}
	srv.Set(nil)
}

// TestK1_KilledBeforeTheLeasePush: there is no lease, and the next tick begins anew.
func TestK1_KilledBeforeTheLeasePush(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "marker")
	hub, dir, srv := servedHub(t, map[string]string{"build": "echo x >> " + marker + "\n\"$WRIT\" state set done"})
	branchEvent(t, hub, "job", "build")
	at := gittest.RefOID(hub, "refs/heads/job")
	killedAtItsPush(t, dir, srv, false)
	if got := gittest.RefOID(hub, "refs/heads/job"); got != at {
		t.Fatalf("HEAD is %s", got)
	}
	if out, err := ticker(t, dir, "tick", "--remote", "origin", "--branch", "job").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := executions(t, marker); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// TestK2_KilledBehindTheLeasePush: the lease stands and nothing runs. It ends, and is
// taken over.
func TestK2_KilledBehindTheLeasePush(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "marker")
	hub, dir, srv := servedHub(t, map[string]string{
		"build": "echo x >> " + marker + "\n\"$WRIT\" state set done", "stalled": `"$WRIT" state set "$AYNIG_TRAILER_WRIT_ORIGIN_STATE"`,
	})
	branchEvent(t, hub, "job", "build")
	killedAtItsPush(t, dir, srv, true)
	if got := gittest.Git(t, hub, "log", "-1", "--format=%B", "job"); !strings.Contains(got, "aynig-state: working") {
		t.Fatalf("HEAD says %q", got)
	}
	untilState(t, hub, dir, "done")
	if n := executions(t, marker); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// TestK3_KilledAsTheCommandBegins: what got away from the command's group pushes later,
// and in vain: HEAD is somebody else's by then, and one result is accepted.
func TestK3_KilledAsTheCommandBegins(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	goOn, ended := filepath.Join(work, "go"), filepath.Join(work, "ended")
	for _, pipe := range []string{goOn, ended, filepath.Join(work, "away")} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := fmt.Sprintf(`
if mkdir %[1]s/first 2>/dev/null; then
  git commit -q --allow-empty -m orphan -m "aynig-state: orphan"
  orphan=$(git rev-parse HEAD) clone=$(git rev-parse --path-format=absolute --git-common-dir)
  setsid sh -c 'echo > %[1]s/away; read -r _ < %[1]s/go; cd /; git --git-dir="$1" push -q origin "$0:$2"; echo $? > %[1]s/ended' "$orphan" "$clone" "$AYNIG_BRANCH" &
  read -r _ < %[1]s/away # it is in a session of its own, and dies with nobody
  kill -9 $PPID
  sleep 1000
fi
"$WRIT" state set done`, work)
	hub, dir, _ := servedHub(t, map[string]string{"build": build, "stalled": `"$WRIT" state set "$AYNIG_TRAILER_WRIT_ORIGIN_STATE"`})
	branchEvent(t, hub, "job", "build")
	cmd := ticker(t, dir, "tick", "--remote", "origin", "--branch", "job", "--lease-seconds", "1", "--grace", "0")
	if err := cmd.Run(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("it wasn't killed: %v", err)
	}
	untilState(t, hub, dir, "done")
	head := gittest.RefOID(hub, "refs/heads/job")
	if err := os.WriteFile(goOn, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if status, err := os.ReadFile(ended); err != nil || strings.TrimSpace(string(status)) == "0" {
		t.Errorf("the orphan's push: %s, %v", status, err)
	}
	if got := gittest.RefOID(hub, "refs/heads/job"); got != head {
		t.Errorf("HEAD is %s", got)
	}
}

// TestG1_RemoteURLs: a remote whose URL would have git run a program is refused.
func TestG1_RemoteURLs(t *testing.T) {
	t.Parallel()
	hub, dir, _ := servedHub(t, map[string]string{"build": `"$WRIT" state set done`})
	branchEvent(t, hub, "job", "build")
	canary := filepath.Join(t.TempDir(), "canary")
	for _, url := range []string{"ext::sh -c touch% " + canary, "--upload-pack=touch " + canary, "-oProxyCommand=touch " + canary + ":x", "fd::3", "ssh://-oProxyCommand=x/y"} {
		gittest.Git(t, dir, "config", "remote.odd.url", url)
		out, err := ticker(t, dir, "tick", "--remote", "odd").CombinedOutput()
		if _, absent := os.Lstat(canary); absent == nil || err == nil {
			t.Errorf("%s: executed: %v, %v\n%s", url, absent == nil, err, out)
		}
	}
}

// TestG2_HostileBranch: a working tree of a branch that somebody else pushed runs
// nothing of it, fetches nothing for it, and writes nowhere else.
func TestG2_HostileBranch(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var connections atomic.Int32
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			connections.Add(1)
			_ = c.Close() // nobody is answered
		}
	}()
	hub, dir, _ := servedHub(t, map[string]string{"build": `[ -f README ]; "$WRIT" state set done`})
	canary := filepath.Join(t.TempDir(), "canary")
	run, address := "touch "+canary, l.Addr().String()
	branchFiles(t, hub, "job", "t\n\naynig-state: build\n", map[string]string{
		"100644 .gitmodules":         fmt.Sprintf("[submodule \"a\"]\n\tpath = \"sub\\r\"\n\turl = http://%s/x.git\n\tupdate = !%s\n", address, run),
		"160000 sub\r":               strings.Repeat("1", 40),
		"100644 .gitattributes":      "* filter=lfs diff=lfs merge=lfs\n*.txt filter=evil\n",
		"100644 .gitconfig":          "[filter \"evil\"]\n\tsmudge = " + run + "\n[core]\n\tfsmonitor = " + run + "\n\thooksPath = hooks\n",
		"100644 .lfsconfig":          fmt.Sprintf("[lfs]\n\turl = http://%s/lfs\n", address),
		"100644 big.bin":             "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 1\n",
		"120000 Link":                ".git/hooks",
		"100755 link/post-commit":    "#!/bin/sh\n" + run + "\n",
		"100755 hooks/post-checkout": "#!/bin/sh\n" + run + "\n",
		"120000 out":                 canary,
		"100644 a.txt":               "x\n",
		"100644 README":              "hi\n",
	})
	for k, v := range map[string]string{
		"uploadpack.advertiseBundleURIs": "true", "bundle.version": "1", "bundle.mode": "all", "bundle.one.uri": "http://" + address + "/bundle",
	} {
		gittest.Git(t, hub, "config", k, v)
	}
	if out, err := ticker(t, dir, "tick", "--remote", "origin", "--branch", "job").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Lstat(canary); err == nil || connections.Load() != 0 {
		t.Errorf("something of the branch was executed: %v; connections elsewhere: %d", err == nil, connections.Load())
	}
	if hooks, _ := filepath.Glob(filepath.Join(dir, ".git", "hooks", "post-commit")); len(hooks) != 0 {
		t.Errorf("written: %q", hooks)
	}
}

// branchFiles puts an event on a branch with files that are named by mode and path.
func branchFiles(t *testing.T, hub, branch, message string, files map[string]string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter A <a@example.com> 1700000000 +0000\ndata %d\n%s\nfrom refs/heads/main\n", branch, len(message), message)
	for name, text := range files {
		mode, path, _ := strings.Cut(name, " ")
		if mode == "160000" {
			fmt.Fprintf(&b, "M 160000 %s %q\n", text, path)
			continue
		}
		fmt.Fprintf(&b, "M %s inline %q\ndata %d\n%s\n", mode, path, len(text), text)
	}
	gittest.GitInput(t, hub, b.String(), "fast-import", "--quiet", "--force")
}
