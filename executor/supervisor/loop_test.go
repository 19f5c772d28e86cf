package supervisor

import (
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// delivered holds the repository against what one accepted result leaves: one
// commit on the base with the change and nothing else, and one completed event.
func delivered(t *testing.T, bare string) {
	t.Helper()
	change := gittest.RefOID(bare, "refs/heads/writ/change/1")
	if change == "" {
		t.Fatal("no change branch")
	}
	main := gittest.RefOID(bare, "refs/heads/main")
	if got, want := gittest.Git(t, bare, "show", "--name-status", "--format=%P", change), main+"\n\nA\tout.txt"; got != want {
		t.Errorf("the change commit is %q, want %q", got, want)
	}
	if got := gittest.Git(t, bare, "show", change+":out.txt"); got != "hello" {
		t.Errorf("out.txt is %q", got)
	}
	log := gittest.Git(t, bare, "log", "--format=%(trailers:key=aynig-state,valueonly)", "refs/writ/task/1")
	if n := strings.Count(log, "completed"); n != 1 || !strings.HasPrefix(log, "completed") {
		t.Errorf("%d completed events, HEAD says %.20q", n, log)
	}
	if got := gittest.Git(t, bare, "log", "-1", "--format=%(trailers:key=writ-change,valueonly)", "refs/writ/task/1"); strings.TrimSpace(got) != change {
		t.Errorf("HEAD names the change %q, the branch is at %q", got, change)
	}
}

func TestLoop_CompletedIsOneCleanCommit(t *testing.T) {
	t.Parallel()
	bare := newRepo(t)
	b := newBench(t, bare, nil)
	if st := b.until(kernel.StandFinal); st.Decision.State != kernel.TaskCompleted {
		t.Fatalf("state %s, want completed", st.Decision.State)
	}
	delivered(t, bare)
}
