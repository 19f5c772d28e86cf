package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server/servertest"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
	"github.com/writbot/writ/forge/local/localtest"
)

// TestServe_DoesWhatIsApproved: an approved issue is done once, one that nobody
// approved is left alone, and the records verify.
func TestServe_DoesWhatIsApproved(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	s := p.Serve()
	approved, other := p.File("default"), p.File("default")
	p.Approve(approved)
	p.Until("the approved task completes", func() bool { return p.Head(approved) == "completed" })
	bare := p.Store.GitDir(p.Repo.ID)
	if names := gittest.Git(t, bare, "diff", "--name-only", "main", fmt.Sprintf("writ/change/%d", approved)); strings.TrimSpace(names) != "out.txt" {
		t.Errorf("the change has %s", names)
	}
	p.Until("the issue is closed", func() bool { return p.Issue(approved).State == forge.Closed })
	p.Until("the label says so", func() bool { return slices.Contains(p.Issue(approved).Labels, "writ:completed") })
	if bodies := p.BotComments(approved); len(bodies) != 1 || !strings.Contains(bodies[0], "task_final_state: `completed`") {
		t.Errorf("writ wrote %q", bodies)
	}
	if head := p.Head(other); head != "" {
		t.Errorf("the task that nobody approved is %s", head)
	}
	if exit := s.End(); exit != problem.ExitDone {
		t.Errorf("serve ended with %d", exit)
	}
	if exit, out := p.cli("verify", "--state-dir", p.State()); exit != problem.ExitDone {
		t.Errorf("verify ended with %d: %s", exit, out)
	}
	if exit, out := p.cli("verify", bare, "--task", fmt.Sprint(approved)); exit != problem.ExitDone {
		t.Errorf("verify of the task ended with %d: %s", exit, out)
	}
}

// TestX5_StopReachesTheBuilder: a stop from the command line ends a builder that
// a server runs, and a pause keeps new ones from being started.
func TestX5_StopReachesTheBuilder(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Serve()
	n := p.File("hangs")
	p.Approve(n)
	p.Until("the task is claimed", func() bool { return p.Head(n) == "working" })
	if exit, out := p.cli("pause", "--state-dir", p.State(), "--reason", "a look"); exit != problem.ExitDone {
		t.Fatalf("pause: %d %s", exit, out)
	}
	later := p.File("default")
	p.Approve(later)
	if exit, out := p.cli("task", "stop", fmt.Sprint(n), "--state-dir", p.State()); exit != problem.ExitDone {
		t.Fatalf("stop: %d %s", exit, out)
	}
	p.Until("the stopped task waits", func() bool { return p.Head(n) == "waiting" })
	if head := p.Head(later); head != "" {
		t.Errorf("while paused, a task became %s", head)
	}
	if exit, out := p.cli("unpause", "--state-dir", p.State()); exit != problem.ExitDone {
		t.Fatalf("unpause: %d %s", exit, out)
	}
	p.Until("the other task completes", func() bool { return p.Head(later) == "completed" })
}

// TestP10_StopInAPause: a stop of approved work that hasn't begun is written to git also
// where nothing is to be started, so that it holds for every installation.
func TestP10_StopInAPause(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Serve()
	p.UntilReady()
	p.want(problem.ExitDone, "everything is paused", "pause", "--state-dir", p.State(), "--reason", "a look")
	byHand, byComment := p.File("default"), p.File("default")
	p.Approve(byHand)
	p.Approve(byComment)
	p.want(problem.ExitDone, "waits for another approval now", "task", "stop", fmt.Sprint(byHand), "--state-dir", p.State(), "--reason", "no")
	_, err := p.Maintainer.AddComment(t.Context(), p.Repo, byComment, "/writ stop")
	must(t, err)
	for _, n := range []int64{byHand, byComment} {
		p.Until("the stopped task waits", func() bool { return p.Head(n) == "waiting" })
	}
	p.want(problem.ExitDone, "over", "unpause", "--state-dir", p.State())
	p.Approve(p.File("default")) // one after the other
	p.Until("another task completes", func() bool { return p.Head(byComment+1) == "completed" })
	if a, b := p.Head(byHand), p.Head(byComment); a != "waiting" || b != "waiting" {
		t.Errorf("after the pause they are %s and %s", a, b)
	}
}

// TestServe_Metrics: leases and attempts are counted, each name once.
func TestServe_Metrics(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Serve()
	n := p.File("hangs")
	p.Approve(n)
	p.Until("a lease is held", func() bool { return p.Series("writ_leases_held") == "1" })
	if exit, out := p.cli("task", "stop", fmt.Sprint(n), "--state-dir", p.State()); exit != problem.ExitDone {
		t.Fatalf("stop: %d %s", exit, out)
	}
	p.Until("none is held", func() bool { return p.Series("writ_leases_held") == "0" })
	p.Approve(p.File("default"))
	p.Until("an attempt is counted", func() bool { return p.Series(`writ_attempts_total{code="",state="completed"}`) == "1" })
	p.Approve(p.File("strays"))
	p.Until("a failed one, too", func() bool {
		return p.Series(`writ_attempts_total{code="scope.outside",state="retry_pending"}`) != ""
	})
	for _, gone := range []string{"writ_webhook_lag_seconds", "writ_trace_spans_sent_total"} {
		if p.Series(gone) != "" {
			t.Errorf("%s is there", gone)
		}
	}
	if p.Series("writ_schedule_lag_seconds") == "" {
		t.Error("there is no lag")
	}
}

// TestServe_RefusesWhatItWouldNotObey: a standard variable that says where
// traces go beside the configuration stops the start; its value isn't shown.
func TestServe_RefusesWhatItWouldNotObey(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	p.Env = append(p.Env, "OTEL_EXPORTER_OTLP_HEADERS=key=hush")
	p.More = ", traces: {endpoint: 'http://127.0.0.1:1'}"
	exit, out := p.cli("serve", "--config", p.Config())
	if exit != problem.ExitUsage || !strings.Contains(out, "OTEL_EXPORTER_OTLP_HEADERS") || strings.Contains(out, "hush") {
		t.Errorf("%d %s", exit, out)
	}
	p.Env[len(p.Env)-1] = "H=nothing"
	p.More = ", traces: {endpoint: 'http://127.0.0.1:1', headers: H}"
	if exit, out := p.cli("serve", "--config", p.Config()); exit != problem.ExitUsage || strings.Contains(out, "nothing") {
		t.Errorf("%d %s", exit, out)
	}
}

// TestM2_HaltedIsNoWaitingWork: a task that waits for a rule or for its server is halted,
// which its issue says, and /readyz doesn't count it any more.
func TestM2_HaltedIsNoWaitingWork(t *testing.T) {
	t.Parallel()
	for words, refs := range map[string]string{"policy 7: bots may not make branches": "refs/heads/writ/*", "closed for today": "*"} {
		t.Run(words, func(t *testing.T) {
			p := newForgePlace(t)
			gittest.Hook(t, p.Store.GitDir(p.Repo.ID), "pre-receive", `while read old new ref; do case $ref in `+refs+`) echo "`+words+`" >&2; exit 1;; esac; done; exit 0`)
			p.Serve()
			n := p.File("default")
			p.Approve(n)
			p.Until("what it waits for is shown", func() bool { return strings.Contains(servertest.Readyz(t, p.Hook).Reason("git:local/o/n"), words) })
			p.want(problem.ExitDone, "halt", "task", "halt", strconv.FormatInt(n, 10), "--state-dir", p.State(), "--reason", "no")
			p.Until("it doesn't wait", func() bool { return servertest.Readyz(t, p.Hook).Reason("git:local/o/n") == "" })
			p.Until("the issue says so", func() bool {
				list, err := p.Maintainer.Comments(t.Context(), p.Repo, n)
				return err == nil && len(list) == 1 && strings.Contains(list[0].Body, "Halted by `")
			})
		})
	}
}

// TestI13_OnlyWhatIsListedAndThere: a listed project that isn't there for the
// token, or a token that is none, leaves that world closed, with the reason in
// words and no secret; the server runs, and its receiver is ready.
func TestI13_OnlyWhatIsListedAndThere(t *testing.T) {
	t.Parallel()
	lab := gitlabtest.New(t, gitlabtest.Options{})
	id := lab.AddProject("acme", "shop")
	_, token := lab.ProjectToken(id, gitlabtest.Developer)
	for _, c := range []struct{ token, repository, want string }{
		{token, "acme/none", "environment.repository.unavailable"}, {"glpat-not-a-token-of-anybody", "acme/shop", "forge.credential"},
	} {
		t.Run(c.want, func(t *testing.T) {
			dir, listen := t.TempDir(), localtest.FreeAddress(t)
			file := filepath.Join(dir, "writ.yaml")
			must(t, os.WriteFile(file, []byte("server: {state_dir: "+dir+"/state, listen: '"+listen+"'}\n"+
				"forges: {gitlab: {url: '"+lab.URL+"', proxy: none, repositories: ["+c.repository+"]}}\n"), 0o600))
			var out servertest.Buffer
			a := newApp(strings.NewReader(""), &out, &out, append(os.Environ(), "WRIT_GITLAB_TOKEN="+c.token, "WRIT_GITLAB_HOOK_SECRET="+localtest.Secret))
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			exit := make(chan int, 1)
			go func() { exit <- a.main(ctx, []string{"serve", "--config", file}) }()
			check := "forge:" + strings.Replace(lab.URL, "http://", "", 1) + "/" + c.repository
			check = strings.ReplaceAll(check, "127.0.0.1:", "127.0.0.1-")
			var got servertest.Readiness
			localtest.Until(t, servertest.Patience, "it says why the world is closed", func() bool {
				got = servertest.Readyz(t, listen)
				return got.Ready
			})
			cancel()
			if exit := <-exit; exit != problem.ExitDone {
				t.Errorf("serve ended with %d", exit)
			}
			if !got.Ready || !got.Degraded || !strings.Contains(got.Reason(check), c.want) {
				t.Errorf("%+v", got)
			}
			if text := fmt.Sprint(got, out.String()); strings.Contains(text, c.token) {
				t.Error("the token is shown")
			}
		})
	}
}
