package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/localforge"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server/servertest"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel"
)

// typist types what a page of the manual says, in a directory of its own.
type typist struct {
	t      *testing.T
	dir    string
	blocks []string
	ports  *strings.Replacer // of the page's addresses, which others may use
}

// fence is a block of commands.
var fence = regexp.MustCompile("(?ms)^(```+)sh\n(.*?)^```+\n")

func newTypist(t *testing.T, page string) *typist {
	t.Helper()
	data, err := os.ReadFile(page)
	must(t, err)
	y := &typist{t: t, dir: t.TempDir(), ports: strings.NewReplacer(
		"127.0.0.1:8714", localtest.FreeAddress(t), "127.0.0.1:8715", localtest.FreeAddress(t),
	)}
	for rest := string(data); ; {
		m := fence.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		open := rest[m[2]:m[3]]
		body, after, ok := strings.Cut(rest[m[4]:], "\n"+open+"\n")
		if !ok {
			t.Fatalf("a block of %s doesn't end", page)
		}
		y.blocks = append(y.blocks, body)
		rest = after
	}
	must(t, os.Symlink(os.Args[0], filepath.Join(y.dir, "writ")))
	return y
}

// command is a block as a shell runs it. Its last command takes the shell's
// place, so that a signal reaches it.
func (y *typist) command(ctx context.Context, block string) *exec.Cmd {
	text := "set -e\n" + y.ports.Replace(block) + "\n"
	if i := strings.LastIndex(strings.TrimSpace(text), "\n"); strings.Contains(text[i:], " serve") {
		text = text[:i+1] + "exec " + text[i+1:]
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir = filepath.Join(y.dir, "here")
	cmd.Env = append(os.Environ(), "PATH="+y.dir+":"+os.Getenv("PATH"), envMain+"=1", "PWD="+cmd.Dir,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

// types runs a block to its end and returns what it prints.
func (y *typist) types(block string) string {
	y.t.Helper()
	out, err := y.command(y.t.Context(), block).CombinedOutput()
	if err != nil {
		y.t.Fatalf("%v\n%s\n%s", err, block, out)
	}
	return string(out)
}

// leaves runs a block that goes on until the test ends, when it has to end well.
func (y *typist) leaves(block string) *servertest.Buffer {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := y.command(ctx, block)
	out := &servertest.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	must(y.t, cmd.Start())
	y.t.Cleanup(func() {
		cancel()
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != problem.ExitDone {
			y.t.Errorf("it ended with %v\n%s\n%s", err, block, out)
		} else if y.t.Failed() {
			y.t.Logf("%s\n%s", block, out)
		}
	})
	return out
}

// TestForge_TheManual types docs/local-forge.md: what it promises comes about.
func TestForge_TheManual(t *testing.T) {
	t.Parallel()
	y := newTypist(t, filepath.Join("..", "..", "docs", "local-forge.md"))
	if len(y.blocks) != 6 {
		t.Fatalf("the page has %d blocks", len(y.blocks))
	}
	must(t, os.Mkdir(filepath.Join(y.dir, "here"), 0o700))
	until := func(what string, holds func() bool) {
		t.Helper()
		localtest.Until(t, time.Minute, what, holds)
	}
	forge := y.leaves(y.blocks[0])
	until("the forge is served", func() bool { return strings.Contains(forge.String(), "The forge is at ") })
	writ := y.leaves(y.blocks[1])
	until("writ serves", func() bool { return strings.Contains(writ.String(), "msg=serving") })
	y.types(y.blocks[2])
	show, rest, _ := strings.Cut(y.blocks[3], "\n")
	until("the issue is closed", func() bool {
		shown := y.types(show)
		return strings.Contains(shown, "closed, by ana") && strings.Contains(shown, "writ:completed") && strings.Contains(shown, "task_final_state: `completed`")
	})
	if got := y.types(rest); got != "welcome\n" {
		t.Errorf("the change says %q", got)
	}
	y.types(y.blocks[4])
	second := strings.Replace(show, "shop 1", "shop 3", 1)
	until("the edit is seen", func() bool { return strings.Contains(y.types(second), "instruction.changed_after_approval") })
	if got := y.types(y.blocks[5]); !strings.Contains(got, "-- ana\n/writ explain\n") || strings.Contains(got, ", by ana, writ\n") {
		t.Errorf("the second issue is shown as %s", got)
	}
	until("the question is answered", func() bool { return strings.Contains(y.types(second), "why task 3 stands as it does") })
	for _, name := range []string{"ana.token", "writ.token", "hook.secret", "forge/forge.db", "forge/hooks.json"} {
		path := filepath.Join(y.dir, "here", name)
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		if secret, err := os.ReadFile(path); err == nil && len(secret) < 100 && strings.Contains(writ.String()+forge.String(), strings.TrimSpace(string(secret))) {
			t.Errorf("%s is in a log", name)
		}
	}
}

// TestForge_Refuses: what can't be done is said, and nothing is overwritten.
func TestForge_Refuses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "f")
	writ := func(want int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		exit := Main(append([]string{"forge", "--dir", dir}, args...), strings.NewReader(""), &out, &out, nil)
		if exit != want || !strings.Contains(out.String(), says) {
			t.Errorf("%v: exit %d: %s", args, exit, &out)
		}
	}
	writ(problem.ExitOther, "There is no forge", "user", "ana")
	writ(problem.ExitDone, "", "init")
	writ(problem.ExitOther, "already", "init")
	writ(problem.ExitDone, "", "user", "ana")
	writ(problem.ExitOther, "taken", "user", "ana")
	writ(problem.ExitOther, "not there", "token", "bob")
	writ(problem.ExitDone, "writ_local_", "token", "ana")
	token := filepath.Join(dir, "token")
	writ(problem.ExitDone, "", "token", "ana", "--file", token)
	writ(problem.ExitOther, "left as it is", "token", "ana", "--file", token)
	writ(problem.ExitUsage, "OWNER/NAME", "repo", "shop")
	writ(problem.ExitUsage, "--grant", "repo", "ana/shop", "--grant", "ana=king")
	writ(problem.ExitDone, "", "repo", "ana/shop", "--grant", "ana=admin")
	writ(problem.ExitOther, "Only --grant", "repo", "ana/shop", "--from", dir, "--grant", "ana=admin")
	writ(problem.ExitUsage, "http://", "hook", "ftp://x", "--secret-file", token)
	writ(problem.ExitUsage, "--secret-file", "hook", "http://127.0.0.1:1/hooks/local")
	writ(problem.ExitUsage, "loopback", "serve", "--listen", "0.0.0.0:8715")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	writ(problem.ExitOther, "environment.address.unavailable: The address "+taken.Addr().String()+" can't be listened on: address already in use.", "serve", "--listen", taken.Addr().String())
	writ(problem.ExitUsage, "--as", "label", "ana/shop", "1", "writ")
	writ(problem.ExitUsage, "The issue file none.md can't be read", "issue", "ana/shop", "none.md", "--as", "ana")
	writ(problem.ExitUsage, "Usage: writ forge label OWNER/NAME NUMBER LABEL --as LOGIN", "label", "ana/shop")
	writ(problem.ExitOther, "no repository", "show", "ana/none", "1")
	issue := filepath.Join(t.TempDir(), "1.md")
	must(t, os.WriteFile(issue, []byte("# Greet\n\nSay hello.\n"), 0o600))
	writ(problem.ExitDone, "filed", "issue", "ana/shop", issue, "--as", "ana")
	writ(problem.ExitDone, "", "label", "ana/shop", "1", "writ", "--as", "ana")
	writ(problem.ExitDone, "has the label writ already", "label", "ana/shop", "1", "writ", "--as", "ana")
	writ(problem.ExitDone, "", "unlabel", "ana/shop", "1", "writ", "--as", "ana")
	writ(problem.ExitDone, "doesn't have the label writ", "unlabel", "ana/shop", "1", "writ", "--as", "ana")
	writ(problem.ExitOther, "not there", "unlabel", "ana/shop", "9", "writ", "--as", "ana")
	must(t, os.WriteFile(issue, []byte("# Greet\n\nSay good day.\n"), 0o600))
	writ(problem.ExitDone, "", "edit", "ana/shop", "1", issue, "--as", "ana")
	writ(problem.ExitUsage, "can't be read", "edit", "ana/shop", "1", "none.md", "--as", "ana")
	writ(problem.ExitDone, "", "comment", "ana/shop", "1", "/writ help", "--as", "ana")
	writ(problem.ExitOther, "a comment is UTF-8", "comment", "ana/shop", "1", " ", "--as", "ana")
	writ(problem.ExitUsage, "--as is missing", "comment", "ana/shop", "1", "hello")
	writ(problem.ExitDone, "Say good day.\n\n-- ana\n/writ help\n", "show", "ana/shop", "1")
}

// TestForge_HooksAtOnce: of two hooks that are set at the same time none is lost.
// Each command waits, with the old list in its hands, until the other has come as
// far, which it can't, or for a moment.
func TestForge_HooksAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "f")
	const moment = 500 * time.Millisecond
	ctx, both := context.WithTimeout(t.Context(), moment)
	defer both()
	var arrived atomic.Int64
	forge := func(fault func(supervisor.Point), args ...string) {
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &out, nil)
		a.Fault = fault
		if exit := a.main(t.Context(), append([]string{"forge", "--dir", dir}, args...)); exit != problem.ExitDone {
			t.Errorf("exit %d: %s", exit, &out)
		}
	}
	forge(nil, "init")
	meet := func(supervisor.Point) {
		if arrived.Add(1) == 2 {
			both()
		}
		<-ctx.Done()
	}
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			forge(meet, "hook", fmt.Sprintf("http://127.0.0.1:%d/hooks/local", i+1), "--secret-file", filepath.Join(dir, "secret"))
		})
	}
	all.Wait()
	f := localforge.Dir{Path: dir}
	if list, err := f.Hooks(); err != nil || len(list) != 2 {
		t.Errorf("the hooks are %v: %v", list, err)
	}
}

// TestR4_ForgeOnAFullDisk: an embedded forge whose file system is full or read-only says a
// code and what helps.
func TestR4_ForgeOnAFullDisk(t *testing.T) {
	t.Parallel()
	for err, helps := range map[error]string{unix.ENOSPC: "Make room", unix.EDQUOT: "Make room", unix.EROFS: "remount,rw"} {
		var p *problem.Error
		if got := wire.FailedForge(t.TempDir(), fmt.Errorf("store: %w", err)); !errors.As(got, &p) || p.Code != kernel.CodeEnvStore || !strings.Contains(p.Remedy, helps) {
			t.Errorf("%v: %v", err, got)
		}
	}
	if got := wire.FailedForge("/x", os.ErrClosed); !errors.Is(got, os.ErrClosed) || errors.As(got, new(*problem.Error)) {
		t.Errorf("another error is %v", got)
	}
}
