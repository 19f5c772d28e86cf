package main

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/forge/git/gittest"
)

// The numbers that the ordinary suite is too short for.
var (
	branchRounds = flag.Int("branch-rounds", 6, "rounds of eight clones that race for one branch")
	branchKills  = flag.Int("branch-kills", 8, "runs that are killed at a random moment")
)

// ticker starts the program in a clone.
func ticker(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = dir
	cmd.Env = append(gittest.Env(), envMain+"=1", envRace+"="+endAtOnce, "MARKER="+os.Getenv("MARKER"))
	return cmd
}

// branchHub is a bare repository with commands on main.
func branchHub(t testing.TB, commands map[string]string) (dir, url string) {
	t.Helper()
	dir = gittest.NewBare(t)
	url = gittest.ServeHTTP(t, dir).URL
	work := filepath.Join(t.TempDir(), "work")
	gittest.Git(t, "/", "init", "-q", "-b", "main", work)
	for name, script := range commands {
		path := filepath.Join(work, ".aynig", "command", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		gittest.WriteProgram(t, path, "#!/bin/sh\nset -e\n"+script+"\n")
	}
	gittest.Git(t, work, "add", "-A")
	gittest.Git(t, work, "commit", "-q", "-m", "commands")
	gittest.Git(t, work, "push", "-q", dir, "main")
	return dir, url
}

// branchEvent puts a state on a branch.
func branchEvent(t testing.TB, dir, branch, state string) {
	t.Helper()
	oid := gittest.GitInput(t, dir, "t\n\naynig-state: "+state+"\n", "commit-tree", "main^{tree}", "-p", "main", "-F", "-")
	gittest.Git(t, dir, "update-ref", "refs/heads/"+branch, oid)
}

func executions(t testing.TB, marker string) int {
	t.Helper()
	data, err := os.ReadFile(marker)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

// TestA48_EightRunnersOneExecution: eight processes at once, in a clone each over
// smart HTTP, and in one clone without a remote: each round has one execution.
func TestA48_EightRunnersOneExecution(t *testing.T) {
	t.Parallel()
	const runners = 8
	for _, mode := range []string{"remote", "local"} {
		t.Run(mode, func(t *testing.T) {
			marker := filepath.Join(t.TempDir(), "marker")
			hub, url := branchHub(t, map[string]string{"build": "echo $AYNIG_RUN_ID >> " + marker + "\n\"$WRIT\" state set done"})
			dirs := make([]string, runners)
			args := []string{"tick", "--branch", "job", "--current-branch", "include"}
			truth := hub
			for i := range dirs {
				if dirs[i] = dirs[0]; i == 0 || mode == "remote" {
					dirs[i] = filepath.Join(t.TempDir(), "clone")
					gittest.Git(t, "/", "clone", "-q", "-c", "core.filesRefLockTimeout=20000", url, dirs[i])
				}
			}
			if mode == "remote" {
				args = append(args, "--remote", "origin")
			} else {
				truth = dirs[0]
			}
			for round := range *branchRounds {
				branchEvent(t, truth, "job", "build")
				exits := make([]int, runners)
				said := make([]string, runners)
				var wg sync.WaitGroup
				for i, dir := range dirs {
					wg.Go(func() {
						cmd := ticker(t, dir, args...)
						out, _ := cmd.CombinedOutput() // its status is looked at
						exits[i], said[i] = cmd.ProcessState.ExitCode(), string(out)
					})
				}
				wg.Wait()
				if n := executions(t, marker); n != round+1 {
					t.Fatalf("round %d: %d executions; exits %v\n%s", round, n, exits, strings.Join(said, "\n"))
				}
				done := 0
				for _, e := range exits {
					switch e {
					case problem.ExitDone:
						done++
					case problem.ExitLost, problem.ExitHeld, problem.ExitIdle:
					default:
						t.Errorf("round %d: exits %v\n%s", round, exits, strings.Join(said, "\n"))
					}
				}
				if done != 1 {
					t.Errorf("round %d: %d runners say that they did it: %v", round, done, exits)
				}
			}
			gittest.Git(t, truth, "fsck", "--strict")
		})
	}
}

// TestK2_KilledAtAnyMoment: kill -9 of the runner, at a random moment: the branch ends
// in the command's state, with one completion.
func TestK2_KilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	hub, url := branchHub(t, map[string]string{
		"build":   `for n in 1 2 3; do "$WRIT" lease renew >/dev/null; done; "$WRIT" state set done`,
		"stalled": `"$WRIT" state set "$AYNIG_TRAILER_WRIT_ORIGIN_STATE"`,
	})
	slots := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i := range *branchKills {
		seed := int64(i)
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			killOnce(t, hub, url, seed)
		})
	}
	wg.Wait()
	gittest.Git(t, hub, "fsck", "--strict")
}

// longestRun is about what a whole tick takes here, on a busy machine.
const longestRun = 600 * time.Millisecond

func killOnce(t *testing.T, hub, url string, seed int64) {
	r := rand.New(rand.NewSource(seed))
	branch := fmt.Sprintf("job-%d", seed)
	dir := filepath.Join(t.TempDir(), branch)
	gittest.Git(t, "/", "clone", "-q", url, dir)
	truth, args := hub, []string{"tick", "--branch", branch, "--lease-seconds", "1", "--grace", "0", "--remote", "origin"}
	if seed%2 == 1 {
		truth, args = dir, args[:len(args)-2]
	}
	branchEvent(t, truth, branch, "build")
	var said []string
	for try := range 40 {
		cmd := ticker(t, dir, args...)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return
		}
		if try == 0 {
			timer := time.AfterFunc(time.Duration(r.Int63n(int64(longestRun))), func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
		_ = cmd.Wait() // it was killed, or its status says how it stands
		said = append(said, fmt.Sprint(cmd.ProcessState.ExitCode(), " ", out.String()))
		if strings.Contains(gittest.Git(t, truth, "log", "-1", "--format=%B", branch), "aynig-state: done") {
			break
		}
		<-time.After(300 * time.Millisecond) // the lease of a second has to end
	}
	log := gittest.Git(t, truth, "log", "--format=%B", branch)
	if n := len(regexp.MustCompile(`(?m)^aynig-state: done$`).FindAllString(log, -1)); n != 1 {
		t.Errorf("%s: %d completions:\n%s\n%s", branch, n, log, strings.Join(said, ""))
	}
}

// guide is the branch runner's.
var guide, _ = filepath.Abs(filepath.Join("..", "..", "docs", "branch-runner.md"))

// TestDocs_BranchRunnerGuide runs what the guide tells its reader to type, in order.
func TestDocs_BranchRunnerGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	script := "set -e\n"
	for _, block := range regexp.MustCompile("(?s)\n```sh\n(.*?)```\n").FindAllStringSubmatch(string(text), -1) {
		script += block[1]
	}
	bin := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(bin, "writ")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(gittest.Env(), envMain+"=1", envRace+"="+endAtOnce, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"command: .aynig/command/build", "job: done (build): HEAD is test", "job: done (release): HEAD is done", "One tea, please."} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestTick_Detached: the call returns when the command runs, and a process of its own
// judges what that leaves, after the call has ended.
func TestTick_Detached(t *testing.T) {
	t.Parallel()
	begun, goOn := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "go")
	for _, pipe := range []string{begun, goOn} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, url := branchHub(t, map[string]string{"build": "echo $PPID > " + begun + "\nread -r _ < " + goOn + "\n\"$WRIT\" state set done"})
	dir := filepath.Join(t.TempDir(), "clone")
	gittest.Git(t, "/", "clone", "-q", url, dir)
	branchEvent(t, dir, "job", "build")
	cmd := ticker(t, dir, "tick", "--detach", "--json")
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), `"status":"running"`) {
		t.Fatalf("%v\n%s", err, out)
	}
	runner, err := os.ReadFile(begun)
	if err != nil {
		t.Fatal(err)
	}
	ended := endOf(t, strings.TrimSpace(string(runner)))
	if err := os.WriteFile(goOn, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	ended()
	logs, _ := filepath.Glob(filepath.Join(dir, ".git", "writ", "tick-*.log"))
	if len(logs) != 1 {
		t.Fatalf("logs: %q", logs)
	}
	if text, err := os.ReadFile(logs[0]); err != nil || !strings.Contains(string(text), `"status":"done"`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// endOf returns a function that waits until a process that isn't a child has ended.
func endOf(t *testing.T, number string) func() {
	t.Helper()
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		defer unix.Close(fd)
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
				return
			}
		}
	}
}

// TestTick_ExitStatuses tell the cases apart, and --json says the same.
func TestTick_ExitStatuses(t *testing.T) {
	t.Parallel()
	_, url := branchHub(t, map[string]string{
		"good": `"$WRIT" state set done`, "bad": "exit 3", "nothing": "exit 0",
		"reserved": `"$WRIT" state set working && exit 9; "$WRIT" state set x --trailer aynig-run-id=y && exit 9; "$WRIT" state set done`,
	})
	dir := filepath.Join(t.TempDir(), "clone")
	gittest.Git(t, "/", "clone", "-q", url, dir)
	for _, c := range []struct {
		state, status string
		exit          int
	}{
		{"good", "done", 0}, {"bad", "failed", problem.ExitFailed}, {"nothing", "invalid", problem.ExitInvalid}, {"absent", "missing", problem.ExitMissing},
		{"waiting", "idle", problem.ExitIdle}, {"working", "held", problem.ExitHeld}, {"UPPER", "malformed", problem.ExitMalformed}, {"reserved", "done", 0},
	} {
		branchEvent(t, dir, "job", c.state)
		cmd := ticker(t, dir, "tick", "--branch", "job", "--json")
		out, _ := cmd.Output() // its status is looked at
		if got := cmd.ProcessState.ExitCode(); got != c.exit || !strings.Contains(string(out), `"status":"`+c.status+`"`) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s: exit %d, want %d\n%s", c.state, got, c.exit, out)
		}
	}
	for _, args := range [][]string{
		{"tick", "--branch", "["}, {"tick", "--current-branch", "x"}, {"tick", "--lease-seconds", "0"}, {"tick", "--jobs", "0"}, {"tick", "--role", "../x"},
		{"tick", "--remote", "--upload-pack=x"}, {"tick", "--wait", "--detach"}, {"lease", "renew"}, {"lease", "hold", "--", "true"}, {"state", "set", "working"}, {"state", "set", "x", "--trailer", "Aynig-State=y"},
	} {
		cmd := ticker(t, dir, args...)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != problem.ExitUsage {
			t.Errorf("%q: exit %d\n%s", args, cmd.ProcessState.ExitCode(), out)
		}
	}
}
