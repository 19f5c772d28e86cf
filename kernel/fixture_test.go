package kernel_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

var update = flag.Bool("update", false, "rewrite the goldens; the commit says why")

// golden holds got against a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	b, err := canon.Marshal(v)
	must(t, err)
	return string(b)
}

func digest(c string) canon.Digest { return canon.Digest("sha256:" + strings.Repeat(c, 64)) }

// maxInt is the largest integer of canonical JSON.
const maxInt = int64(1)<<53 - 1

// What most facts say.
const (
	now     = int64(1_800_000_000_000)
	backoff = int64(60_000)
	longest = int64(600_000)
	ourRun  = "11111111-1111-4111-8111-111111111111"
	theirs  = "22222222-2222-4222-8222-222222222222"
)

var (
	head1 = strings.Repeat("1", 40)
	head2 = strings.Repeat("2", 40)
)

// fresh are the facts of a task that nobody has touched.
func fresh() kernel.Facts {
	return kernel.Facts{
		Kind: string(kernel.KindObservation), Now: now, View: kernel.TaskView{Task: 7}, Request: kernel.RequestTick,
		Actor: "alice", World: "forge.example/owner/calc", Task: 7,
		Approved: digest("a"), Current: digest("a"), Governance: digest("b"),
		Budgets: kernel.Budgets{Attempts: 3, Interruptions: 2, RetryBackoffMs: backoff, RetryBackoffMaxMs: longest},
	}
}

// at are the facts of a task with a trusted commit of this state at HEAD.
func at(state string) kernel.Facts {
	f := fresh()
	f.Head = kernel.HeadFacts{
		OID: head1, State: state, Trust: kernel.TrustOwn, Signer: "SHA256:own", Approval: digest("a"),
		Format: kernel.StateFormat, Seq: 5, Binding: kernel.BindHere,
		RunID: theirs, RunnerID: "host/other", Attempt: 1,
	}
	return f
}

// running are the facts of a run that this process holds, in a phase.
func running(p kernel.Phase) kernel.Facts {
	f := at(kernel.HeadWorking)
	f.Head.RunID, f.Head.RunnerID = ourRun, "host/us"
	f.Checks = 1
	f.Run = &kernel.RunFacts{RunID: ourRun, LeaseOID: head1, Attempt: 1, Phase: p, ClaimedAt: now - 1000}
	if p == kernel.PhaseJudged {
		f.Run.Judgement = &kernel.Judgement{State: kernel.TaskCompleted, Report: digest("c")}
	}
	return f
}

// with changes facts.
func with(f kernel.Facts, change func(*kernel.Facts)) kernel.Facts {
	change(&f)
	return f
}

func breaks(code kernel.Code) []kernel.Violation {
	return []kernel.Violation{{Code: code, Subject: "s", Detail: "d"}}
}

func decide(t testing.TB, f kernel.Facts) kernel.Decision {
	t.Helper()
	d, err := kernel.Decide(f)
	must(t, err)
	return d
}
