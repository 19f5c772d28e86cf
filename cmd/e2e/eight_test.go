package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// Eight installations start at once on the same task, five rounds: the
// builder is started five times, and five results are accepted.
func TestL1_EightInstallations(t *testing.T) {
	const installations, rounds = 8, 5
	repo := newRepo(t, map[string]string{"README": "hi\n"})
	issue := write(t, t.TempDir(), "issue.md", task("Say hello", "out.txt"))
	env, started := countingSandbox(t)
	states := t.TempDir()
	for round := 1; round <= rounds; round++ {
		exits := atOnce(t, installations, env, func(i int) []string {
			return []string{"task", "run", "--json", "--repo", repo, "--issue", issue, "--number", fmt.Sprint(round),
				"--state-dir", filepath.Join(states, fmt.Sprint(i)), "--builder", "sh -c 'echo hello > out.txt'"}
		})
		completed := 0
		for _, a := range exits {
			switch a.exit {
			case 0:
				completed++
			case 13, 14: // held by the winner, or its result seen by somebody who doesn't list its key
			default:
				t.Fatalf("round %d: exit %d\n%s", round, a.exit, a.stderr)
			}
		}
		if completed != 1 {
			t.Fatalf("round %d: %d processes say completed, want 1", round, completed)
		}
		if n := started(); n != round {
			t.Fatalf("round %d: the builder was started %d times", round, n)
		}
	}
	refs := gittest.Git(t, repo, "for-each-ref", "--format=%(refname) %(trailers:key=aynig-state,valueonly,separator=)", "refs/writ/task/")
	if n := strings.Count(refs, " completed"); n != rounds {
		t.Errorf("%d accepted results, want %d:\n%s", n, rounds, refs)
	}
	if n := strings.Count(gittest.Git(t, repo, "for-each-ref", "refs/heads/writ/change/"), "refs/heads/"); n != rounds {
		t.Errorf("%d change branches, want %d", n, rounds)
	}
}

// atOnce starts n processes as closely together as it can and waits for all.
func atOnce(t *testing.T, n int, env []string, args func(int) []string) []answer {
	t.Helper()
	out := make([]*answer, n)
	errs := make([]error, n)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		cmd, a := command(t, env, args(i)...)
		out[i] = a
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			errs[i] = cmd.Run()
		}()
	}
	ready.Wait()
	close(start)
	done.Wait()
	answers := make([]answer, n)
	for i := range n {
		out[i].exit = ended(t, errs[i])
		answers[i] = *out[i]
	}
	return answers
}
