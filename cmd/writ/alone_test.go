package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// leftBehind is the state directory of a server that has ended, with a ledger of
// each world, and word of the repositories that are named.
func leftBehind(t *testing.T, repos map[string]string, worlds ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	in, err := openInstallation(t.Context(), config.Default(), dir, lastUse{Server: true}, slog.New(slog.DiscardHandler))
	must(t, err)
	defer in.Close()
	for _, w := range worlds {
		l, err := in.store.World(t.Context(), w)
		must(t, err)
		must(t, l.Start(t.Context(), kernel.Genesis{Contract: canon.Sum(nil), Kernel: kernel.Version(), Builders: []string{defaultBuilder}, MaxPaths: worldPaths, MaxDepth: worldDepth}, 1))
	}
	for w, url := range repos {
		must(t, in.dir.remember(w, w, url))
	}
	return dir
}

// TestM2_ActsWhereNoServerRuns: halt and resume work from what the state
// directory knows, of the world that is named; what it doesn't know is said, and
// nothing is recorded by halves.
func TestM2_ActsWhereNoServerRuns(t *testing.T) {
	bare := filepath.Join(t.TempDir(), "b.git")
	gittest.Git(t, t.TempDir(), "init", "-q", "--bare", "-b", "main", bare)
	dir := leftBehind(t, map[string]string{"local/o/b": bare}, "local/o/a", "local/o/b")
	var p forgePlace
	p.t = t
	act := func(exit int, says string, args ...string) {
		t.Helper()
		p.want(exit, says, append([]string{"task"}, append(args, "--state-dir", dir)...)...)
	}
	several := "has several worlds: give --world, one of local/o/a, local/o/b"
	act(exitUsage, several, "resume", "3", "--config", anyConfig(t))
	act(exitDone, "task 3 is halted", "halt", "3", "--world", "local/o/a", "--reason", "no")
	act(exitDone, "task 3 is halted", "halt", "3", "--world", "local/o/b", "--reason", "not this one")
	act(exitUsage, "has no world local/o/c; it has local/o/a, local/o/b", "halt", "3", "--world", "local/o/c")
	act(exitUsage, "has no world local/o/c", "stop", "3", "--world", "local/o/c")
	act(exitDone, "nothing was stopped", "stop", "3", "--world", "local/o/b")
	act(exitUsage, "doesn't say where the repository of local/o/a is", "resume", "3", "--world", "local/o/a")
	act(exitUsage, "doesn't say where the repository of local/o/a is", "show", "3", "--world", "local/o/a")
	act(exitDone, ": not this one\n  nothing of it is done until `writ task resume 3`", "show", "3", "--world", "local/o/b")
	act(exitDone, "the server takes it up when it starts", "resume", "3", "--world", "local/o/b")
	if _, out := p.cli("task", "show", "3", "--state-dir", dir, "--world", "local/o/b"); strings.Contains(out, "halted here") {
		t.Errorf("after the resume: %s", out)
	}
	p.want(exitDone, "verified", "verify", "--state-dir", dir)
	if opened, err := openState(dir, false); err != nil || !opened.lastUse().Server {
		t.Errorf("the directory is no server's any more: %v", err)
	}
	none := leftBehind(t, nil)
	p.want(exitUsage, "Nothing was recorded", "task", "halt", "3", "--state-dir", none)
	one := leftBehind(t, nil, "local/o/a")
	p.want(exitDone, "task 3 is halted", "task", "halt", "3", "--state-dir", one)
	p.want(exitUsage, "doesn't say where", "task", "resume", "3", "--state-dir", one)
}

// TestR1_LedgerThatBreaksItsWorldsRules: the chain of a ledger is sound, and what stands
// in it can't be: its first record that breaks a rule is named.
func TestR1_LedgerThatBreaksItsWorldsRules(t *testing.T) {
	dir := leftBehind(t, nil, "local/o/a")
	var p forgePlace
	p.t = t
	p.want(exitDone, "task 4 is halted", "task", "halt", "4", "--state-dir", dir)
	p.want(exitDone, "verified", "verify", "--state-dir", dir)
	in, err := openInstallation(t.Context(), config.Default(), dir, lastUse{Server: true}, slog.New(slog.DiscardHandler))
	must(t, err)
	l, err := in.store.World(t.Context(), "local/o/a")
	must(t, err)
	bad := l.Chain().Head.Seq + 1
	_, err = l.Write(t.Context(), l.Chain().Time, kernel.Draft{Kind: kernel.KindOperatorAct, Task: 3, Body: kernel.OperatorAct{
		Kind: string(kernel.KindOperatorAct), Act: kernel.ActResume, Actor: "alice", Reason: "go on", Epoch: 9}})
	must(t, err)
	in.Close()
	p.want(exitOther, fmt.Sprintf("ledger.corrupt: first bad record %d: it breaks a rule of its world: an act says whose it is, its key and its round", bad), "verify", "--state-dir", dir)
}

// TestActs_AnswersNameTheAct: what a running process answered is told as the act
// that was asked for, with the command that takes it back.
func TestActs_AnswersNameTheAct(t *testing.T) {
	for _, c := range []struct{ act, world, want string }{
		{kernel.ActStop, "", "task 3 was stopped; to go on, run it again or say `/writ run` on its issue\n"},
		{kernel.ActHalt, "", "task 3 is halted; `writ task resume 3` goes on\n"},
		{kernel.ActResume, "", "task 3 may go on\n"},
		{actPause, "", "everything is paused; `writ unpause` on the same state directory goes on\n"},
		{actPause, "local/o/a", "local/o/a is paused; `writ unpause --world local/o/a` on the same state directory goes on\n"},
		{actUnpause, "local/o/a", "the pause of local/o/a is over\n"},
	} {
		var out strings.Builder
		a := &app{process: &process{}, stdout: &out}
		r := request{Act: c.act, World: c.world, Task: 3}
		if c.act == actPause || c.act == actUnpause {
			must(t, a.tellPause(r, answer{OK: true}))
		} else {
			must(t, a.tellAnswer(r, answer{OK: true}))
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
	p := newForgePlace(t)
	s := p.serve()
	n := p.File("waits")
	p.Approve(n)
	p.until("the builder runs", func() bool { return p.head(n) == "working" })
	s.end()
	p.want(exitDone, "is halted", "task", "halt", fmt.Sprint(n), "--state-dir", p.state(), "--reason", "not yet")
	left := p.head(n)
	s = p.serve()
	other := p.File("default")
	p.Approve(other)
	p.finished(other)
	s.end()
	if head := p.head(n); head != left || head == "working" {
		t.Errorf("the halted task is %s, and was %s", head, left)
	}
	p.want(exitDone, "the server takes it up", "task", "resume", fmt.Sprint(n), "--state-dir", p.state(), "--config", p.config())
	must(t, os.WriteFile(p.gate(), nil, 0o600))
	p.serve()
	p.finished(n)
	if c := p.claims(n); c != 2 {
		t.Errorf("it was claimed %d times, once before the halt and once after", c)
	}
}

// TestStateDir_RemembersWorlds: uses add up, and one that names nothing leaves
// word of the one before.
func TestStateDir_RemembersWorlds(t *testing.T) {
	server := lastUse{Server: true, Refs: "writ"}.after(lastUse{})
	server = lastUse{Repos: map[string]string{"a": "http://a"}}.after(server)
	if !server.Server || server.Repos["a"] != "http://a" {
		t.Errorf("%+v", server)
	}
	run := lastUse{Repo: "/b", World: "b", Refs: "heads"}.after(server)
	if run.Server || run.Repo != "/b" || run.Repos["a"] != "http://a" || run.Repos["b"] != "/b" {
		t.Errorf("%+v", run)
	}
	if act := (lastUse{Task: 3, Refs: "writ"}).after(run); act.Repo != "/b" || act.Refs != "heads" || act.Task != 3 {
		t.Errorf("%+v", act)
	}
}
