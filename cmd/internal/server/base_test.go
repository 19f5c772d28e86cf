package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
	"github.com/writbot/writ/webhook/inbox"
)

// onBase adds a commit to the base, straight into the repository, of which no hook
// tells.
func (p *serverPlace) onBase(message string) {
	p.T.Helper()
	bare := p.Store.GitDir(p.Repo.ID)
	out := gittest.Git(p.T, bare, "-c", "user.name=ana", "-c", "user.email=ana@example.com", "commit-tree", "main^{tree}", "-p", "main", "-m", message)
	gittest.Git(p.T, bare, "update-ref", "refs/heads/main", strings.TrimSpace(out))
}

// TestF7_RevertOnTheBase: work that is reverted on the base is put back open,
// though nobody told of the push, nor of the merge before it, and nothing changed on
// the issue. A person's closing then stands.
func TestF7_RevertOnTheBase(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]bool{"told of the merge": true, "told of nothing": false} {
		t.Run(name, func(t *testing.T) {
			p := newServerPlace(t)
			s := p.Serve()
			n := p.File("default")
			p.Approve(n)
			p.Until("the issue is closed", func() bool { return p.Issue(n).State == forge.Closed })
			p.Until("it is left alone", func() bool { return p.Metric("writ_tasks_running") == 0 && p.Metric("writ_schedule_due") == 0 })
			if !told {
				must(t, p.Store.ForgetHook(t.Context(), "http://"+p.Hook+"/hooks/local"))
			}
			change, err := p.Maintainer.FindChange(t.Context(), p.Repo, "writ/change/1", "")
			must(t, err)
			change, err = p.Maintainer.MergeChange(t.Context(), p.Repo, change.Number)
			must(t, err)
			says := func(words string) bool {
				return slices.ContainsFunc(p.BotComments(n), func(body string) bool { return strings.Contains(body, words) })
			}
			if told {
				p.Until("it says that the change is merged", func() bool { return says("its change is merged") })
			}
			p.onBase("Revert \"Say hello\"\n\nThis reverts commit " + change.MergedOID + ".")
			p.Until("it is put back open", func() bool { return p.Issue(n).State == forge.Open && says("its change was reverted") })
			p.Until("the base was looked through", func() bool { return strings.Contains(s.Log.String(), "revert work") })
			must(t, p.Maintainer.SetState(t.Context(), p.Repo, n, forge.Closed))
			p.onBase("Once more\n\nThis reverts commit " + change.MergedOID + ".")
			p.Until("it is looked at again", func() bool { return strings.Count(s.Log.String(), "revert work") > 1 })
			p.Until("it is left alone", func() bool { return p.Metric("writ_tasks_running") == 0 && p.Metric("writ_schedule_due") == 0 })
			if p.Issue(n).State != forge.Closed {
				t.Error("a person's closing doesn't stand")
			}
		})
	}
}

// TestF7_PushIsAHint: a delivery that tells of a push to a branch has that world's
// base looked at.
func TestF7_PushIsAHint(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	in := following{accepting{}, s.stored}
	for world, want := range map[string]int{"": 0, "local/o/n": 1} {
		_, err := in.Accept(t.Context(), webhook.Delivery{Hook: "local", Event: webhook.Event{Pushed: world}})
		must(t, err)
		if got := s.bases["local"].take(); len(got) != want {
			t.Errorf("a push to %q: %v", world, got)
		}
	}
}

// TestK12_BaseMoves: a base that no run can use keeps a task from being claimed,
// and its issue says where it is bad, in one comment that stays as it is. A push
// that mends it, of which no hook tells, has the task done, also where the server
// was started anew between the two.
func TestK12_BaseMoves(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"one process": false, "a new one": true} {
		t.Run(name, func(t *testing.T) {
			p := newServerPlace(t)
			bare := p.Store.GitDir(p.Repo.ID)
			good := gittest.Git(t, bare, "rev-parse", "main^{tree}")
			bad := gittest.RawTree(t, bare, gittest.TreeEntry{Mode: "100644", Name: "lost.txt", OID: strings.Repeat("1", 40)})
			gittest.CommitTree(t, bare, "refs/heads/main", bad)
			s := p.Serve()
			n := p.File("default")
			p.Approve(n)
			said := func() []string {
				return slices.DeleteFunc(p.BotComments(n), func(body string) bool { return !strings.Contains(body, "lost.txt") })
			}
			p.Until("the issue says what is wrong", func() bool { return len(said()) == 1 })
			if again {
				s.End()
				s = p.Serve()
				p.Until("it serves", func() bool { return strings.Contains(s.Log.String(), "msg=serving") })
			}
			p.Until("it is left alone", func() bool { return p.Metric("writ_tasks_running") == 0 && p.Metric("writ_schedule_due") == 0 })
			if head := p.Head(n); head != "" || len(p.BotComments(n)) != 1 {
				t.Fatalf("HEAD says %q, the issue %q", head, p.BotComments(n))
			}
			gittest.CommitTree(t, bare, "refs/heads/main", good)
			p.Until("the issue is closed", func() bool { return p.Issue(n).State == forge.Closed })
			if p.Head(n) != "completed" {
				t.Errorf("HEAD says %q", p.Head(n))
			}
		})
	}
}

// TestK12_MovedBaseWakesTasks: the commit for which nothing was claimed keeps the
// tasks of its repository asleep, and any other one wakes all of them, once.
func TestK12_MovedBaseWakesTasks(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	w := s.worlds.open()[0]
	key := inbox.Key{World: w.World, Task: 5}
	must(t, s.inbox.Mark(t.Context(), []inbox.Key{key}, time.Now().Add(time.Hour).UnixMilli()))
	due := func() int {
		t.Helper()
		_, err := s.lookAtBase(t.Context(), w)
		must(t, err)
		list, err := s.inbox.Due(t.Context(), time.Now().UnixMilli(), 10)
		must(t, err)
		return len(list)
	}
	base, err := w.sup.Base(t.Context())
	must(t, err)
	must(t, s.inbox.SetCursor(t.Context(), w.World, termsCursor, string(base.Terms)))
	must(t, s.inbox.SetCursor(t.Context(), w.World, unusableCursor, string(base.Tip)))
	if n := due(); n != 0 {
		t.Fatalf("%d tasks are due while the base stands", n)
	}
	p.onBase("Mended")
	if n := due(); n != 1 {
		t.Errorf("%d tasks are due once it moves", n)
	}
	if noted, err := s.inbox.Cursor(t.Context(), w.World, unusableCursor); err != nil || noted != "" {
		t.Errorf("still noted is %q, %v", noted, err)
	}
}

// terms puts a contract onto the base, straight into the repository, of which no hook
// tells.
func (p *serverPlace) terms(contract string) {
	p.T.Helper()
	bare := p.Store.GitDir(p.Repo.ID)
	gittest.Commit(p.T, bare, "refs/heads/main", gittest.RefOID(bare, "refs/heads/main"), map[string]string{"README": "hi", ".writ/contract.yaml": contract})
}

// TestI8_ContractMended: a task that the contract refused is done once the contract is
// mended, though nobody tells of the push and nothing changes on the issue; also where
// the server was started anew between the two.
func TestI8_ContractMended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contract string
		code     kernel.Code
		again    bool
	}{
		"mode observe":         {"version: 1\nmode: observe\n", kernel.CodeObserveOnly, false},
		"invalid":              {"version: 99\n", kernel.CodeGovernanceInvalid, false},
		"no such base":         {"version: 1\nbase: gone\n", kernel.CodeGovernanceInvalid, false},
		"mode observe anew":    {"version: 1\nmode: observe\n", kernel.CodeObserveOnly, true},
		"runners without writ": {"version: 1\nrunners: ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGaXgVzBd1kEUeZ8dHlHJmVVmCOKjFOVgtqWXzhSHYbG']\n", kernel.CodeAuthority, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newServerPlace(t)
			p.terms(c.contract)
			s := p.Serve()
			n := p.File("default")
			p.Approve(n)
			still := func() bool { return p.Metric("writ_tasks_running") == 0 && p.Metric("writ_schedule_due") == 0 }
			refused := func() bool {
				return strings.Contains(s.Log.String(), "standing=refused") && strings.Contains(s.Log.String(), string(c.code))
			}
			p.Until("it is refused and left alone", func() bool { return refused() && still() })
			if c.again {
				s.End()
			}
			p.terms("version: 1\nmode: govern\n")
			if c.again {
				p.Serve()
			}
			p.Until("it is done", func() bool { return p.Head(n) == "completed" })
		})
	}
}

// TestI8_MovedContractWakesTasks: another contract than the one under which the tasks of
// a repository were looked at makes them due, once; commits that leave it alone don't.
func TestI8_MovedContractWakesTasks(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	w := s.worlds.open()[0]
	key := inbox.Key{World: w.World, Task: 5}
	due := func() int {
		t.Helper()
		_, err := s.lookAtBase(t.Context(), w)
		must(t, err)
		list, err := s.inbox.Due(t.Context(), time.Now().UnixMilli(), 10)
		must(t, err)
		for _, d := range list {
			ticket, _, err := s.inbox.Take(t.Context(), d.Key)
			must(t, err)
			must(t, s.inbox.Done(t.Context(), ticket, time.Now().Add(time.Hour).UnixMilli()))
		}
		return len(list)
	}
	must(t, s.inbox.Mark(t.Context(), []inbox.Key{key}, time.Now().Add(time.Hour).UnixMilli()))
	for _, step := range []struct {
		what string
		do   func()
		want int
	}{
		{"the first look", func() {}, 1},
		{"nothing changed", func() {}, 0},
		{"a commit without it", func() { p.onBase("More") }, 0},
		{"a contract", func() { p.terms("version: 1\nmode: observe\n") }, 1},
		{"another commit", func() { p.onBase("More") }, 0},
		{"it is mended", func() { p.terms("version: 1\nmode: govern\n") }, 1},
		{"it names a base that isn't there", func() { p.terms("version: 1\nbase: later\n") }, 1},
		{"which is made", func() { gittest.Git(t, p.Store.GitDir(p.Repo.ID), "branch", "later", "main") }, 1},
		{"and that again", func() {}, 0},
	} {
		step.do()
		if got := due(); got != step.want {
			t.Errorf("%s: %d tasks are due", step.what, got)
		}
	}
}

// TestK12_BuilderMended: a task that lacked its builder is done once that is there: when
// the configuration is read again, by itself where only the machine was mended, and at
// a start.
func TestK12_BuilderMended(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"reload", "machine", "start"} {
		t.Run(name, func(t *testing.T) {
			p := newServerPlace(t)
			tools := filepath.Join(p.Root, "tools")
			named := "  later: {argv: [sh, -c, 'echo hello > out.txt'], ro: ['" + tools + "']}\n"
			if name == "machine" {
				p.Builders = named
			} else {
				must(t, os.Mkdir(tools, 0o755))
			}
			s := p.Serve()
			n := p.File("later")
			p.Approve(n)
			p.Until("it is refused and left alone", func() bool {
				return strings.Contains(s.Log.String(), "standing=refused codes=["+string(kernel.CodeEnvBuilder)+"]") &&
					p.Metric("writ_tasks_running") == 0 && p.Metric("writ_schedule_due") == 0
			})
			switch p.Builders = named; name {
			case "reload":
				p.Config()
			case "machine":
				must(t, os.Mkdir(tools, 0o755))
			case "start":
				s.End()
				p.Serve()
			}
			p.Until("it is done", func() bool { return p.Head(n) == "completed" })
		})
	}
}

// lookedAgain has the server look at what tasks of a world lack, and fails unless so
// many of its tasks are due, which it then takes as done.
func lookedAgain(t *testing.T, s *server, w *served, what string, want int) {
	t.Helper()
	must(t, s.lookAtLacking(t.Context(), w))
	list, err := s.inbox.Due(t.Context(), time.Now().UnixMilli(), 10)
	must(t, err)
	if len(list) != want {
		t.Errorf("%s: %d tasks are due", what, len(list))
	}
	for _, d := range list {
		ticket, _, err := s.inbox.Take(t.Context(), d.Key)
		must(t, err)
		must(t, s.inbox.Done(t.Context(), ticket, time.Now().Add(time.Hour).UnixMilli()))
	}
}

// TestK12_LackingIsWatched: tasks that lack their builder are left alone while it is
// missing, and due once it is there; of those of the process before nobody knows which
// they are, and all tasks of the repository are due, once.
func TestK12_LackingIsWatched(t *testing.T) {
	p := newServerPlace(t)
	tools := filepath.Join(p.Root, "tools")
	p.Builders = "  later: {argv: [sh, -c, 'echo hello > out.txt'], ro: ['" + tools + "']}\n"
	s := p.server()
	w := s.worlds.open()[0]
	key := inbox.Key{World: w.World, Task: 5}
	st := supervisor.Status{Intake: &supervisor.Intake{Spec: kernel.TaskSpec{Builder: "later"}}}
	st.Decision.Standing, st.Decision.Codes = kernel.StandRefused, []kernel.Code{kernel.CodeEnvBuilder}
	must(t, s.inbox.Mark(t.Context(), []inbox.Key{key}, time.Now().Add(time.Hour).UnixMilli()))
	due := func(what string, want int) {
		t.Helper()
		lookedAgain(t, s, w, what, want)
	}
	s.noteLacking(t.Context(), key, st)
	due("it is missing", 0)
	must(t, os.Mkdir(tools, 0o755))
	due("it is there", 1)
	s.lacking.note(key, refusedFor{})
	due("another process", 1)
	due("and that again", 0)
}

// TestK12_PreflightIsWatched: a task that was refused since the preflight of its builder
// failed is left alone while that fails, and due once it passes.
func TestK12_PreflightIsWatched(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	w := s.worlds.open()[0]
	x := builder.New(builder.Config{Sandbox: s.process.Sandbox(s.in), WorkDir: t.TempDir(), Limits: s.cfg.Limits.Sandbox(), Builders: map[string]builder.Builder{
		"fails": {Kind: "acp", Argv: []string{"false"}}, "passes": {Kind: "acp", Argv: []string{"git"}},
	}})
	t.Cleanup(x.Close)
	s.now().executor = x
	key := inbox.Key{World: w.World, Task: 5}
	must(t, s.inbox.Mark(t.Context(), []inbox.Key{key}, time.Now().Add(time.Hour).UnixMilli()))
	for name, want := range map[string]int{"fails": 0, "passes": 1} {
		st := supervisor.Status{Intake: &supervisor.Intake{Spec: kernel.TaskSpec{Builder: name}}}
		st.Decision.Standing, st.Decision.Codes = kernel.StandRefused, []kernel.Code{kernel.CodeEnvBuilderFailed}
		s.noteLacking(t.Context(), key, st)
		lookedAgain(t, s, w, name, want)
	}
}

// TestK12_PreflightNoteIsLogged: what a preflight couldn't find out is told to the log, for its
// builder's tasks are claimed.
func TestK12_PreflightNoteIsLogged(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	dir := t.TempDir()
	gittest.WriteProgram(t, filepath.Join(dir, "agent"), "#!/bin/sh\necho 0.0.1\n")
	agent := builder.Builder{Kind: "claude-code", Argv: []string{"/opt/agent/agent"}, ReadOnly: []sandbox.Mount{{Source: dir, Target: "/opt/agent"}}}
	x := builder.New(builder.Config{Sandbox: s.process.Sandbox(s.in), WorkDir: t.TempDir(), Limits: s.cfg.Limits.Sandbox(), Builders: map[string]builder.Builder{"noted": agent}})
	t.Cleanup(x.Close)
	g := s.now()
	g.executor, g.cfg.Builders = x, map[string]config.Builder{"noted": {}}
	var out strings.Builder
	s.log = slog.New(slog.NewTextHandler(&out, nil))
	if s.sayWhatLacks(t.Context()); strings.Count(out.String(), "builder=noted note=\"Tested is ") != 1 {
		t.Errorf("the log:\n%s", out.String())
	}
}

// TestE8_BaseTroubleIsLoggedOnce: a base that can't be looked through is told to the log when
// that begins or changes, and not with each sweep.
func TestE8_BaseTroubleIsLoggedOnce(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	w := s.worlds.open()[0]
	must(t, s.inbox.Mark(t.Context(), []inbox.Key{{World: w.World, Task: 5}}, time.Now().Add(time.Hour).UnixMilli()))
	var out strings.Builder
	s.log = slog.New(slog.NewTextHandler(&out, nil))
	turns, bare := s.newTurns(s.bases["local"]), p.Store.GitDir(p.Repo.ID)
	var told sync.Map
	tip := gittest.RefOID(bare, "refs/heads/main")
	for i, there := range []bool{false, false, true, false, false} {
		if there {
			gittest.Git(t, bare, "update-ref", "refs/heads/main", tip)
		} else if gittest.RefOID(bare, "refs/heads/main") != "" {
			gittest.Git(t, bare, "update-ref", "-d", "refs/heads/main")
		}
		turns.hints.add([]string{w.World})
		s.lookAtBases(t.Context(), turns, &told)
		if n, want := strings.Count(out.String(), "could not be looked through"), 1+i/3; n != want {
			t.Errorf("after look %d the log says so %d times, want %d:\n%s", i+1, n, want, out.String())
		}
	}
}

// TestE8_MissingBaseInReadyz: a base branch that isn't there is named as that, and nobody is
// sent to the server's disk.
func TestE8_MissingBaseInReadyz(t *testing.T) {
	err := unable(supervisor.Outage{Cause: kernel.CodeEnvRepository, Words: `the base branch "main" isn't there`, Tries: 3, Tasks: 1})
	text := newServerPlace(t).server().inWords(err).Error()
	if problem.Explain(err).Code != kernel.CodeEnvRepository || !strings.Contains(text, `the base branch "main" isn't there`) || strings.Contains(text, "disk") {
		t.Errorf("it says %s", text)
	}
}

// TestE8_TriesInReadyz: a first try that is still unanswered is no failed one.
func TestE8_TriesInReadyz(t *testing.T) {
	for tries, want := range map[int]string{0: ", with the first try still unanswered; 1 task waits", 1: ", after 1 try; 1 task waits", 3: ", after 3 tries; 1 task waits"} {
		if text := unable(supervisor.Outage{Silent: true, Tries: tries, Tasks: 1}).Error(); !strings.Contains(text, want) {
			t.Errorf("%d tries: it says %s", tries, text)
		}
	}
}

// TestK12_WhatChecksLackIsNoted: a task that waits for what its checks lack is woken when
// the base moves, as one is that the base itself keeps from being claimed; one that waits
// for something else isn't.
func TestK12_WhatChecksLackIsNoted(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	w := s.worlds.open()[0]
	base, err := w.sup.Base(t.Context())
	must(t, err)
	st := supervisor.Status{Intake: &supervisor.Intake{BaseCommit: base.Tip}, Decision: kernel.Decision{Standing: kernel.StandWaiting}}
	st.Facts.Head = kernel.HeadFacts{OID: string(base.Tip), State: "waiting", Trust: kernel.TrustOwn, Format: kernel.StateFormat, Binding: kernel.BindHere, Seq: 3}
	for _, want := range []string{kernel.WaitApproval, kernel.WaitEnvironment} {
		st.Facts.Head.WaitingFor = want
		s.noteBase(t.Context(), w, st)
		noted, err := s.inbox.Cursor(t.Context(), w.World, unusableCursor)
		must(t, err)
		if (noted == string(base.Tip)) != (want == kernel.WaitEnvironment) {
			t.Errorf("waiting for %s: noted is %q", want, noted)
		}
	}
}

// TestK11_LackingUntilTheContractMoves: a program that is nowhere costs one builder. The
// issue says which one and where it is given, and once the contract asks for another, the
// work is done.
func TestK11_LackingUntilTheContractMoves(t *testing.T) {
	t.Parallel()
	p := newServerPlace(t)
	p.terms("version: 1\nchecks:\n  - {name: lint, run: [sh, -c, no-such-lint]}\n")
	s := p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("the issue says what is lacking", func() bool {
		return slices.ContainsFunc(p.BotComments(n), func(body string) bool {
			return strings.Contains(body, string(kernel.CodeLacksProgram)) && strings.Contains(body, "no-such-lint") && strings.Contains(body, ".writ/contract.yaml")
		})
	})
	p.Until("it is left alone", func() bool { return p.Metric("writ_tasks_running") == 0 && p.Metric("writ_schedule_due") == 0 })
	if n := strings.Count(s.Log.String(), "builder default started"); n != 1 || p.Head(1) != "waiting" {
		t.Errorf("%d builders were started, HEAD says %q", n, p.Head(1))
	}
	p.terms("version: 1\nchecks:\n  - {name: lint, run: [sh, -c, 'true']}\n")
	p.Until("the issue is closed", func() bool { return p.Issue(n).State == forge.Closed })
	if n := strings.Count(s.Log.String(), "builder default started"); n != 2 {
		t.Errorf("%d builders were started", n)
	}
}

// TestE1_MovedBaseWakesDelivered: where the contract has delivered work applied on a base
// that moved, a push there makes the tasks that wait for their merge due, once; elsewhere
// they are left alone.
func TestE1_MovedBaseWakesDelivered(t *testing.T) {
	for refresh, want := range map[string]int{"auto": 1, "manual": 0} {
		t.Run(refresh, func(t *testing.T) {
			p := newServerPlace(t)
			p.terms("version: 1\nclose_on: merged\nrefresh: " + refresh + "\n")
			s := p.Serve()
			n := p.File("default")
			p.Approve(n)
			p.Until("it waits for its merge", func() bool {
				return p.Head(n) == "waiting" && p.Metric("writ_tasks_running") == 0 && p.Metric("writ_schedule_due") == 0
			})
			s.End()
			looks := p.server()
			w := looks.worlds.open()[0]
			due := func() int {
				t.Helper()
				_, err := looks.lookAtBase(t.Context(), w)
				must(t, err)
				list, err := looks.inbox.Due(t.Context(), time.Now().UnixMilli(), 10)
				must(t, err)
				for _, d := range list {
					ticket, _, err := looks.inbox.Take(t.Context(), d.Key)
					must(t, err)
					must(t, looks.inbox.Done(t.Context(), ticket, time.Now().Add(time.Hour).UnixMilli()))
				}
				return len(list)
			}
			due() // this process hasn't looked at the contract yet
			if n := due(); n != 0 {
				t.Fatalf("%d tasks are due while the base stands", n)
			}
			p.onBase("Go on")
			if n := due(); n != want {
				t.Errorf("%d tasks are due once it moved, want %d", n, want)
			}
		})
	}
}
