package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server/servertest"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// leftBehind is the state directory of a server that has ended, with a ledger of
// each world, and word of the repositories that are named.
func leftBehind(t *testing.T, repos map[string]string, worlds ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	in, err := installation.Open(t.Context(), config.Default(), dir, installation.Use{Server: true}, slog.New(slog.DiscardHandler))
	must(t, err)
	defer in.Close()
	for _, w := range worlds {
		l, err := in.Store.World(t.Context(), w)
		must(t, err)
		must(t, l.Start(t.Context(), kernel.Genesis{Contract: canon.Sum(nil), Kernel: kernel.Version(), Builders: []string{installation.DefaultBuilder}, MaxPaths: installation.WorldPaths, MaxDepth: installation.WorldDepth}, 1))
	}
	for w, url := range repos {
		must(t, in.Dir.Remember(w, w, url))
	}
	return dir
}

// TestM2_ActsWhereNoServerRuns: halt and resume work from what the state
// directory knows, of the world that is named; what it doesn't know is said, and
// nothing is recorded by halves.
func TestM2_ActsWhereNoServerRuns(t *testing.T) {
	t.Parallel()
	bare := filepath.Join(t.TempDir(), "b.git")
	gittest.Git(t, t.TempDir(), "init", "-q", "--bare", "-b", "main", bare)
	dir := leftBehind(t, map[string]string{"local/o/b": bare}, "local/o/a", "local/o/b")
	p := forgePlace{&servertest.Place{T: t}}
	act := func(exit int, says string, args ...string) {
		t.Helper()
		p.want(exit, says, append([]string{"task"}, append(args, "--state-dir", dir)...)...)
	}
	several := "has several worlds: give --world, one of local/o/a, local/o/b"
	act(problem.ExitUsage, several, "resume", "3", "--config", anyConfig(t))
	act(problem.ExitDone, "task 3 is halted", "halt", "3", "--world", "local/o/a", "--reason", "no")
	act(problem.ExitDone, "task 3 is halted", "halt", "3", "--world", "local/o/b", "--reason", "not this one")
	act(problem.ExitUsage, "has no world local/o/c; it has local/o/a, local/o/b", "halt", "3", "--world", "local/o/c")
	act(problem.ExitUsage, "has no world local/o/c", "stop", "3", "--world", "local/o/c")
	act(problem.ExitDone, "nothing was stopped", "stop", "3", "--world", "local/o/b")
	act(problem.ExitUsage, "doesn't say where the repository of local/o/a is", "resume", "3", "--world", "local/o/a")
	act(problem.ExitUsage, "doesn't say where the repository of local/o/a is", "show", "3", "--world", "local/o/a")
	act(problem.ExitDone, ": not this one\n  nothing of it is done until `writ task resume 3`", "show", "3", "--world", "local/o/b")
	act(problem.ExitDone, "the server takes it up when it starts", "resume", "3", "--world", "local/o/b")
	if _, out := p.cli("task", "show", "3", "--state-dir", dir, "--world", "local/o/b"); strings.Contains(out, "halted here") {
		t.Errorf("after the resume: %s", out)
	}
	p.want(problem.ExitDone, "verified", "verify", "--state-dir", dir)
	if opened, err := installation.OpenDir(dir, false); err != nil || !opened.LastUse().Server {
		t.Errorf("the directory is no server's any more: %v", err)
	}
	none := leftBehind(t, nil)
	p.want(problem.ExitUsage, "Nothing was recorded", "task", "halt", "3", "--state-dir", none)
	one := leftBehind(t, nil, "local/o/a")
	p.want(problem.ExitDone, "task 3 is halted", "task", "halt", "3", "--state-dir", one)
	p.want(problem.ExitUsage, "doesn't say where", "task", "resume", "3", "--state-dir", one)
}

// TestR1_LedgerThatBreaksItsWorldsRules: the chain of a ledger is sound, and what stands
// in it can't be: its first record that breaks a rule is named.
func TestR1_LedgerThatBreaksItsWorldsRules(t *testing.T) {
	t.Parallel()
	dir := leftBehind(t, nil, "local/o/a")
	p := forgePlace{&servertest.Place{T: t}}
	p.want(problem.ExitDone, "task 4 is halted", "task", "halt", "4", "--state-dir", dir)
	p.want(problem.ExitDone, "verified", "verify", "--state-dir", dir)
	in, err := installation.Open(t.Context(), config.Default(), dir, installation.Use{Server: true}, slog.New(slog.DiscardHandler))
	must(t, err)
	l, err := in.Store.World(t.Context(), "local/o/a")
	must(t, err)
	bad := l.Chain().Head.Seq + 1
	_, err = l.Write(t.Context(), l.Chain().Time, kernel.Draft{Kind: kernel.KindOperatorAct, Task: 3, Body: kernel.OperatorAct{
		Kind: string(kernel.KindOperatorAct), Act: kernel.ActResume, Actor: "alice", Reason: "go on", Epoch: 9}})
	must(t, err)
	in.Close()
	p.want(problem.ExitOther, fmt.Sprintf("ledger.corrupt: first bad record %d: it breaks a rule of its world: an act says whose it is, its key and its round", bad), "verify", "--state-dir", dir)
}

// TestActs_AnswersNameTheAct: what a running process answered is told as the act
// that was asked for, with the command that takes it back.
func TestActs_AnswersNameTheAct(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ act, world, want string }{
		{kernel.ActStop, "", "task 3 was stopped; to go on, run it again or say `/writ run` on its issue\n"},
		{kernel.ActHalt, "", "task 3 is halted; `writ task resume 3` goes on\n"},
		{kernel.ActResume, "", "task 3 may go on\n"},
		{installation.ActPause, "", "everything is paused; `writ unpause` on the same state directory goes on\n"},
		{installation.ActPause, "local/o/a", "local/o/a is paused; `writ unpause --world local/o/a` on the same state directory goes on\n"},
		{installation.ActUnpause, "local/o/a", "the pause of local/o/a is over\n"},
	} {
		var out strings.Builder
		a := &app{Process: &wire.Process{}, stdout: &out}
		r := installation.Request{Act: c.act, World: c.world, Task: 3}
		if c.act == installation.ActPause || c.act == installation.ActUnpause {
			must(t, a.tellPause(r, installation.Answer{OK: true}))
		} else {
			must(t, a.tellAnswer(r, installation.Answer{OK: true}))
		}
		if out.String() != c.want {
			t.Errorf("%s: %q, not %q", c.act, &out, c.want)
		}
	}
}

// anyConfig is a configuration that says nothing of worlds.
func anyConfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "writ.yaml")
	must(t, os.WriteFile(path, []byte("refs: hidden\n"), 0o600))
	return path
}

// TestM2_HaltedWhileTheServerIsDown: a task that was halted while no server ran is
// not taken up by the next one; one that was resumed so, is.
func TestM2_HaltedWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	n := p.File("waits")
	p.Approve(n)
	p.Until("the builder runs", func() bool { return p.Head(n) == "working" })
	s.End()
	p.want(problem.ExitDone, "is halted", "task", "halt", fmt.Sprint(n), "--state-dir", p.State(), "--reason", "not yet")
	left := p.Head(n)
	s = p.Serve()
	other := p.File("default")
	p.Approve(other)
	p.finished(other)
	s.End()
	if head := p.Head(n); head != left || head == "working" {
		t.Errorf("the halted task is %s, and was %s", head, left)
	}
	p.want(problem.ExitDone, "the server takes it up", "task", "resume", fmt.Sprint(n), "--state-dir", p.State(), "--config", p.Config())
	must(t, os.WriteFile(p.Gate(), nil, 0o600))
	p.Serve()
	p.finished(n)
	if c := p.claims(n); c != 2 {
		t.Errorf("it was claimed %d times, once before the halt and once after", c)
	}
}

// TestStateDir_RemembersWorlds: uses add up, and one that names nothing leaves
// word of the one before.
func TestStateDir_RemembersWorlds(t *testing.T) {
	t.Parallel()
	server := installation.Use{Server: true, Refs: "writ"}.After(installation.Use{})
	server = installation.Use{Repos: map[string]string{"a": "http://a"}}.After(server)
	if !server.Server || server.Repos["a"] != "http://a" {
		t.Errorf("%+v", server)
	}
	run := installation.Use{Repo: "/b", World: "b", Refs: "heads"}.After(server)
	if run.Server || run.Repo != "/b" || run.Repos["a"] != "http://a" || run.Repos["b"] != "/b" {
		t.Errorf("%+v", run)
	}
	if act := (installation.Use{Task: 3, Refs: "writ"}).After(run); act.Repo != "/b" || act.Refs != "heads" || act.Task != 3 {
		t.Errorf("%+v", act)
	}
}
