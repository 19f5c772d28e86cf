package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/server/servertest"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

// TestG6_RulesAreTriedAgain: tasks whose push a rule refuses are left at their pace by
// the sweeps, are due when another configuration is in force, and after a start, and those
// of a world are shown with the server's words until none is left.
func TestG6_RulesAreTriedAgain(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	w := s.worlds.open()[0]
	st := supervisor.Status{}
	st.Decision.Violations = []kernel.Violation{{Code: kernel.CodePushRefused, Detail: "refs/heads/writ/change/5: declined\npolicy 7: bots may not make branches."}}
	st.Decision.Codes = []kernel.Code{kernel.CodePushRefused}
	keys := []inbox.Key{{World: w.World, Task: 5}, {World: w.World, Task: 6}}
	must(t, s.inbox.Mark(t.Context(), keys, time.Now().Add(time.Hour).UnixMilli()))
	due := func(what string, want int) {
		t.Helper()
		lookedAgain(t, s, w, what, want)
	}
	git := func() error {
		for _, c := range s.parts() {
			if strings.HasPrefix(c.Name, "git:") {
				return c.Run(t.Context())
			}
		}
		return errors.New("git isn't looked at")
	}
	must(t, git())
	for _, k := range keys {
		s.noteLacking(t.Context(), k, st)
	}
	due("a sweep", 0)
	if err := git(); err == nil || !strings.Contains(err.Error(), "2 tasks wait: refs/heads/writ/change/5: declined; policy 7: bots may not make branches.") {
		t.Errorf("it is shown as %v", err)
	}
	silent := supervisor.Status{}
	silent.Decision.Violations = []kernel.Violation{{Code: kernel.CodePushRefused}}
	for _, k := range keys {
		s.noteLacking(t.Context(), k, silent)
	}
	if err := git(); err == nil || !strings.Contains(err.Error(), "2 tasks wait: "+supervisor.NoWords+".") {
		t.Errorf("without words it is shown as %v", err)
	}
	s.wakeLacking(t.Context())
	due("another configuration", 2)
	for _, k := range keys {
		s.noteLacking(t.Context(), k, supervisor.Status{})
	}
	must(t, git())
	for _, code := range []kernel.Code{kernel.CodeObserveOnly, kernel.CodeEgressDenied} {
		refused := supervisor.Status{Intake: &supervisor.Intake{}}
		refused.Decision.Standing, refused.Decision.Codes = kernel.StandRefused, []kernel.Code{code}
		s.noteLacking(t.Context(), keys[0], refused)
		due("a sweep under the same configuration", 0)
		s.wakeLacking(t.Context())
		due("another configuration after "+string(code), 1)
	}
	s.noteLacking(t.Context(), keys[0], supervisor.Status{})
	due("another process", 2)
	due("and that again", 0)
}

// TestG6_ReadyzNamesTheRule: a rule that refuses every result leaves the server ready and
// shows in /readyz, with the server's words, what waits; once it is mended, a start has
// the work delivered that there is.
func TestG6_ReadyzNamesTheRule(t *testing.T) {
	t.Parallel()
	p := newServerPlace(t)
	dir := p.Store.GitDir(p.Repo.ID)
	gittest.Hook(t, dir, "pre-receive", `while read old new ref; do case $ref in refs/heads/writ/*) echo "policy 7: bots may not make branches" >&2; exit 1;; esac; done; exit 0`)
	s := p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("the rule is shown", func() bool {
		got := servertest.Readyz(t, p.Hook)
		return got.Ready && got.Degraded && strings.Contains(got.Reason("git:local/o/n"), "policy 7: bots may not make branches")
	})
	gittest.Hook(t, dir, "pre-receive", "exit 0")
	s.End()
	p.Serve()
	p.Until("it is done", func() bool {
		return p.Head(n) == "completed" && servertest.Readyz(t, p.Hook).Reason("git:local/o/n") == ""
	})
	if log := gittest.Git(t, dir, "log", "--format=%(trailers:key=writ-dispatch-hash,valueonly)", "refs/writ/task/"+strconv.FormatInt(n, 10)); len(slices.Compact(strings.Fields(log))) != 1 {
		t.Errorf("the dispatches are %q", log)
	}
}

// TestL12_BranchInTheWayIsWatched: an approved issue is told which branch is in the way of
// its change branch, and goes on by itself once that is gone, before and after a restart.
func TestL12_BranchInTheWayIsWatched(t *testing.T) {
	for _, name := range []string{"refs/heads/writ", "refs/heads/writ/change/1", "refs/heads/writ/change/1/x"} {
		s, w, key, dir := leftAside(t)
		gittest.Git(t, dir, "update-ref", name, "main")
		st := supervisor.Status{}
		st.Decision.Violations = []kernel.Violation{{Code: kernel.CodeBranchTaken, Subject: name}}
		s.noteLacking(t.Context(), key, st)
		lookedAgain(t, s, w, name+" is there", 0)
		gittest.Git(t, dir, "update-ref", "-d", name)
		lookedAgain(t, s, w, name+" is gone", 1)
		s.lacking.note(key, refusedFor{})
		lookedAgain(t, s, w, "another process", 1)
		lookedAgain(t, s, w, "and that again", 0)
	}
}

// leftAside is a server whose task 1 is due in an hour, and the directory of its repository.
func leftAside(t *testing.T) (s *server, w *served, key inbox.Key, dir string) {
	t.Helper()
	p := newServerPlace(t)
	s = p.server()
	w = s.worlds.open()[0]
	key = inbox.Key{World: w.World, Task: 1}
	must(t, s.inbox.Mark(t.Context(), []inbox.Key{key}, time.Now().Add(time.Hour).UnixMilli()))
	return s, w, key, p.Store.GitDir(p.Repo.ID)
}

// TestL19_PutBackIsWatched: a state ref that was removed, or set back, has its task looked
// at again once something else is there, though nobody says anything on the issue.
func TestL19_PutBackIsWatched(t *testing.T) {
	const ref = "refs/writ/task/1"
	s, w, key, dir := leftAside(t)
	waits := func(head string) {
		t.Helper()
		st := supervisor.Status{Facts: kernel.Facts{Kind: string(kernel.KindObservation), Task: 1, Told: true}}
		if st.Facts.Head.OID = head; head != "" {
			st.Facts.Head.Binding, st.Facts.Head.Trust = kernel.BindElsewhere, kernel.TrustListed
		}
		if !kernel.NeedsRepair(st.Facts) {
			t.Fatalf("%q waits for nobody", head)
		}
		s.noteLacking(t.Context(), key, st)
	}
	waits("")
	lookedAgain(t, s, w, "nothing is there", 0)
	gittest.Git(t, dir, "update-ref", ref, "main")
	lookedAgain(t, s, w, "something was put there", 1)
	waits(strings.TrimSpace(gittest.Git(t, dir, "rev-parse", ref)))
	lookedAgain(t, s, w, "that is still there", 0)
	gittest.Commit(t, dir, ref, strings.TrimSpace(gittest.Git(t, dir, "rev-parse", ref)), map[string]string{"later": "x"})
	lookedAgain(t, s, w, "the later one was put back", 1)
}

// TestM2_HaltedWaitsForNoRule: a task that is halted waits for a person from then on, though
// nothing can be looked at.
func TestM2_HaltedWaitsForNoRule(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	w := s.worlds.open()[0]
	n := p.File("default")
	s.lacking.note(inbox.Key{World: w.World, Task: n}, refusedFor{ruled: true, rule: "policy 7"})
	answer := s.obeyAct(t.Context(), w, installation.Request{Act: kernel.ActHalt, Task: n, Actor: "ana", Reason: "no"})
	if err := s.lacking.ruled(w.World); !answer.OK || err != nil {
		t.Errorf("the halt is answered %+v, and %v", answer, err)
	}
}

// TestL14_StrangersLeaseIsWatched: a task that an unlisted writer holds is looked at again
// once its lease is gone.
func TestL14_StrangersLeaseIsWatched(t *testing.T) {
	const ref = "refs/writ/task/1"
	s, w, key, dir := leftAside(t)
	gittest.Git(t, dir, "update-ref", ref, "main")
	st := supervisor.Status{Facts: kernel.Facts{Kind: string(kernel.KindObservation), Task: 1, Head: kernel.HeadFacts{
		OID: strings.TrimSpace(gittest.Git(t, dir, "rev-parse", ref)), State: kernel.HeadWorking, Trust: kernel.TrustUnlisted,
	}}}
	if !st.Facts.StrangersLease() || kernel.NeedsRepair(st.Facts) {
		t.Fatalf("%+v is no lease of a stranger", st.Facts.Head)
	}
	s.noteLacking(t.Context(), key, st)
	lookedAgain(t, s, w, "it is there", 0)
	gittest.Git(t, dir, "update-ref", "-d", ref)
	lookedAgain(t, s, w, "it is gone", 1)
}

// TestL12_BranchInTheWayIsTold: the whole server says on the issue which branch is in the
// way, and does the task once it is gone, though nobody says anything.
func TestL12_BranchInTheWayIsTold(t *testing.T) {
	t.Parallel()
	p := newServerPlace(t)
	dir := p.Store.GitDir(p.Repo.ID)
	gittest.Git(t, dir, "update-ref", "refs/heads/writ", "main")
	s := p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("it is told and left alone", func() bool {
		list, err := p.Maintainer.Comments(t.Context(), p.Repo, n)
		return err == nil && len(list) == 1 && strings.Contains(list[0].Body, "refs/heads/writ") && strings.Contains(list[0].Body, "Delete or rename") &&
			strings.Contains(s.Log.String(), "standing=refused codes=["+string(kernel.CodeBranchTaken)+"]") && p.Metric("writ_schedule_due") == 0
	})
	gittest.Git(t, dir, "update-ref", "-d", "refs/heads/writ")
	p.Until("it is done", func() bool { return p.Head(n) == "completed" })
}

// TestL14_StrangersLeaseIsTold: the whole server says who holds an approved task, and does
// it once the lease is gone, though nobody says anything.
func TestL14_StrangersLeaseIsTold(t *testing.T) {
	t.Parallel()
	p := newServerPlace(t)
	dir := p.Store.GitDir(p.Repo.ID)
	s := p.Serve()
	n := p.File("default")
	ref := "refs/writ/task/" + strconv.FormatInt(n, 10)
	tree := gittest.Git(t, dir, "hash-object", "-t", "tree", "-w", "/dev/null")
	lease := fmt.Sprintf("tree %s\nauthor e <e@e> 1700000000 +0000\ncommitter e <e@e> 1700000000 +0000\n\nx\n\naynig-state: working\naynig-origin-state: open\naynig-run-id: 11111111-1111-4111-8111-111111111111\naynig-runner-id: eve/1\naynig-lease-seconds: 3600\n", tree)
	gittest.Git(t, dir, "update-ref", ref, strings.TrimSpace(gittest.GitInput(t, dir, lease, "hash-object", "-t", "commit", "-w", "--stdin")))
	p.Approve(n)
	p.Until("it is told and left alone", func() bool {
		list, err := p.Maintainer.Comments(t.Context(), p.Repo, n)
		log := s.Log.String()
		return err == nil && len(list) == 1 && strings.Contains(list[0].Body, "held by an unlisted writer") &&
			strings.Contains(log, "event=issue_comment action=created") && strings.Contains(log, "the contract or the base changed") && // all that wakes it
			strings.Contains(log, "standing=held codes=["+string(kernel.CodeLeaseHeld)+"]") && p.Metric("writ_schedule_due") == 0 && p.Metric("writ_tasks_running") == 0
	})
	gittest.Git(t, dir, "update-ref", "-d", ref)
	p.Until("it is done", func() bool { return p.Head(n) == "completed" })
}

// TestG7_ReadyzNamesTheOutage: a server that takes nothing leaves writ ready and shows in
// /readyz for its world, with its words; once it is healed all is done by itself.
func TestG7_ReadyzNamesTheOutage(t *testing.T) {
	t.Parallel()
	p := newServerPlace(t)
	dir := p.Store.GitDir(p.Repo.ID)
	gittest.Hook(t, dir, "pre-receive", `echo "closed for today" >&2; exit 1`)
	p.Serve()
	n := p.File("default")
	p.Approve(n)
	p.Until("the outage is shown", func() bool {
		got := servertest.Readyz(t, p.Hook)
		return got.Ready && got.Degraded && strings.Contains(got.Reason("git:local/o/n"), "closed for today")
	})
	gittest.Hook(t, dir, "pre-receive", "exit 0")
	p.Until("it is done", func() bool {
		return p.Head(n) == "completed" && servertest.Readyz(t, p.Hook).Reason("git:local/o/n") == ""
	})
}

// TestG7_AHangingServerHoldsUpItself: a repository whose git server takes pushes and never
// answers keeps no other from its builds, shows in /readyz as one that doesn't answer, is
// warned of once, and is done soon after it answers again, with nothing twice or counted.
func TestG7_AHangingServerHoldsUpItself(t *testing.T) {
	t.Parallel()
	p := newServerPlace(t)
	p.More, p.Others = ", builds: 1", ", o/well"
	well, err := p.Store.CreateRepo(t.Context(), local.RepoSpec{Owner: "o", Name: "well", Author: p.account(p.Maintainer), Files: map[string][]byte{"README": []byte("hi\n")}})
	must(t, err)
	must(t, p.Store.Grant(t.Context(), well.ID, p.account(p.Maintainer).ID, forge.Maintain))
	must(t, p.Store.Grant(t.Context(), well.ID, p.Bot.ID, forge.Write))
	must(t, p.Maintainer.EnsureLabels(t.Context(), well.Repo, []forge.Label{{Name: localtest.Label, Color: "ffffff"}}))
	answer, asked := make(chan struct{}), make(chan struct{}, 100)
	p.Through(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/o/n.git/") && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
				asked <- struct{}{}
				gittest.Delay(answer)(next).ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	s := p.Serve()
	hung := []int64{p.File("default"), p.File("default")}
	for _, n := range hung {
		p.Approve(n)
	}
	p.Until("a build waits for its server", func() bool { return len(asked) > 0 })
	hangs := p.Repo
	for range 2 {
		p.Repo = well.Repo
		n := p.File("default")
		p.Approve(n)
		p.Until("the other repository is served", func() bool { return p.Head(n) == "completed" })
		p.Repo = hangs
	}
	p.Until("the outage is shown", func() bool {
		return strings.Contains(servertest.Readyz(t, p.Hook).Reason("git:local/o/n"), "The server doesn't answer what writ asks of it since")
	})
	close(answer)
	p.Until("all is done", func() bool {
		return p.Head(hung[0]) == "completed" && p.Head(hung[1]) == "completed" && servertest.Readyz(t, p.Hook).Reason("git:local/o/n") == ""
	})
	if n := strings.Count(s.Log.String(), "the server can't do what is asked of it"); n != 1 {
		t.Errorf("it is warned of %d times", n)
	}
	for _, n := range hung {
		log := gittest.Git(t, p.Store.GitDir(hangs.ID), "log", "--format=%(trailers:key=writ-dispatch-hash,valueonly,separator=)%(trailers:key=writ-interruptions,key_value_separator==,separator=)", "refs/writ/task/"+strconv.FormatInt(n, 10))
		if strings.Contains(log, "interruptions=1") {
			t.Errorf("it is counted:\n%s", log)
		}
	}
}

// account is whose client it is.
func (p *serverPlace) account(c *local.Client) forge.User {
	p.T.Helper()
	u, err := c.Self(p.T.Context())
	must(p.T, err)
	return u
}

// TestG7_HealedMakesDue: the tasks that waited for their server are due at once.
func TestG7_HealedMakesDue(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	world := s.worlds.open()[0].World
	must(t, s.inbox.Mark(t.Context(), []inbox.Key{{World: world, Task: 5}, {World: world, Task: 6}, {World: world, Task: 7}}, time.Now().Add(time.Hour).UnixMilli()))
	s.healed(world, []int64{5, 7})
	list, err := s.inbox.Due(t.Context(), time.Now().UnixMilli(), 10)
	must(t, err)
	if len(list) != 2 || list[0].Key.Task+list[1].Key.Task != 12 {
		t.Errorf("due: %v", list)
	}
}
