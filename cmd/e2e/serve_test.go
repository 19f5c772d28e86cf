package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local/localtest"
)

// servers start many `writ serve` on one place. Each has a store and a key of
// its own, and lists the keys of all.
func servers(t testing.TB, p *localtest.Place, hooks, env []string) {
	t.Helper()
	var keys []string
	dirs := make([]string, len(hooks))
	for i := range hooks {
		dirs[i] = t.TempDir()
		state := filepath.Join(dirs[i], "state")
		if err := os.Mkdir(state, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, _, err := instancekey.LoadOrCreate(state); err != nil {
			t.Fatal(err)
		}
		out := writ(t, env, "key", "--state-dir", state).want(t, 0)
		keys = append(keys, "'"+strings.TrimSpace(out.stdout)+"'")
	}
	env = append(env, "WRIT_LOCAL_TOKEN="+p.Token, "WRIT_LOCAL_HOOK_SECRET="+localtest.Secret)
	for i, address := range hooks {
		config := write(t, dirs[i], "writ.yaml", fmt.Sprintf(`server: {state_dir: %s/state, listen: '%s', sweep: 5s, drain: 20s, builds: 2}
forges: {local: {dir: %s, url: '%s', repositories: [o/n]}}
trusted_runners: [%s]
builders: {default: {argv: [sh, -c, 'echo hello > out.txt']}}
`, dirs[i], address, p.Dir, p.URL, strings.Join(keys, ", ")))
		start(t, env, config)
	}
}

// start starts one server, which ends with the test.
func start(t testing.TB, env []string, config string) *exec.Cmd {
	t.Helper()
	cmd, a := command(t, env, "serve", "--config", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if exit := ended(t, cmd.Wait()); exit != 0 || t.Failed() {
			t.Errorf("writ serve ended with %d:\n%s", exit, a.stderr)
		}
	})
	return cmd
}

// TestL1_EightServers: eight servers with a store each, told of the same ten
// approved issues, start ten builders, and each issue has one accepted result,
// one closing and one report.
func TestL1_EightServers(t *testing.T) {
	const installations, tasks = 8, 10
	env, started := countingSandbox(t)
	hooks, urls := make([]string, installations), make([]string, installations)
	for i := range hooks {
		hooks[i] = localtest.FreeAddress(t)
		urls[i] = "http://" + hooks[i] + "/hooks/local"
	}
	p := localtest.New(t, urls...)
	var numbers []int64
	for range tasks {
		n := p.File("default")
		p.Approve(n)
		numbers = append(numbers, n)
	}
	servers(t, p, hooks, env)
	localtest.Until(t, 10*time.Minute, "every issue is closed and says so, once", func() bool {
		for _, n := range numbers {
			i := p.Issue(n)
			if i.State != forge.Closed || !strings.Contains(strings.Join(i.Labels, " "), "writ:completed") || len(p.BotComments(n)) != 1 {
				return false
			}
		}
		return true
	})
	if n := started(); n != tasks {
		t.Errorf("%d builders were started, want %d", n, tasks)
	}
	refs := gittest.Git(t, p.Store.GitDir(p.Repo.ID), "for-each-ref", "--format=%(trailers:key=aynig-state,valueonly,separator=)", "refs/writ/task/")
	if n := strings.Count(refs, "completed"); n != tasks {
		t.Errorf("%d accepted results, want %d", n, tasks)
	}
	for _, n := range numbers {
		if c := p.Closings(n); c != 1 {
			t.Errorf("#%d was closed %d times", n, c)
		}
		if bodies := p.BotComments(n); len(bodies) != 1 || !strings.Contains(bodies[0], "task_final_state: `completed`") {
			t.Errorf("#%d has %d comments of writ: %q", n, len(bodies), bodies)
		}
	}
}
