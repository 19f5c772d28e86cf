package supervisor

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// checkTerms is a contract with a check.
const checkTerms = "version: 1\nchecks: [{name: test, run: [\"true\"]}]\n"

// newInChecks is an installation whose run is in its checks, over a real repository.
func newInChecks(t *testing.T) *bench {
	b := newBench(t, newRepo(t), func(b *bench) { b.place.terms = checkTerms })
	b.exec.held = func() {}
	b.reach(kernel.ActionChecks)
	return b
}

// joins is another installation on the same repository and clock that lists b.
func (b *bench) joins(t *testing.T) *bench {
	other := newBench(t, b.bare, func(o *bench) {
		o.clock, o.place.clock, o.issue = b.clock, b.clock, b.issue
		o.place.issue, o.place.terms = b.issue, b.place.terms
		o.place.cfg.Trusted = []ssh.PublicKey{b.key}
	})
	return other
}

// pastLease lets b's lease run out while another looks on.
func (b *bench) pastLease() {
	for range 6 {
		b.clock.advance(40_000)
		b.tick()
	}
}

func (b *bench) leafs() string {
	return gittest.Git(b.t, b.bare, "ls-tree", "-r", "--name-only", stateRef)
}

// TestK11_JudgedByTheNextListedOwner: an installation dies in its checks. Another one
// that lists it judges what it had sealed: nobody builds again, the pack holds the
// earlier dispatch, and whoever verifies vouches for both.
func TestK11_JudgedByTheNextListedOwner(t *testing.T) {
	t.Parallel()
	b := newInChecks(t)
	if files := b.leafs(); !strings.Contains(files, sealed.File) || strings.Contains(files, "out.txt") {
		t.Fatalf("sealed lies %q", files)
	}
	b.close()
	other := b.joins(t)
	other.pastLease()
	other.until(kernel.StandFinal)
	if len(b.exec.builds) != 1 || len(other.exec.builds) != 0 {
		t.Errorf("%d and %d builders", len(b.exec.builds), len(other.exec.builds))
	}
	said := gittest.Git(t, b.bare, "log", "-1", "--format=%B", stateRef)
	for _, want := range []string{"aynig-state: completed", "writ-attempt: 1", "writ-interruptions: 1", "writ-resumes: ", "no builder ran again"} {
		if !strings.Contains(said, want) {
			t.Errorf("HEAD doesn't say %q:\n%s", want, said)
		}
	}
	if files := b.leafs(); strings.Contains(files, sealed.Dir) || !strings.Contains(files, replay.FileDispatch) {
		t.Errorf("the result's tree has %q", files)
	}
	for _, c := range []struct {
		keys []ssh.PublicKey
		ok   bool
	}{{[]ssh.PublicKey{b.key, other.key}, true}, {[]ssh.PublicKey{other.key}, false}} {
		r, err := replay.VerifyTask(t.Context(), other.repo, stateRef, replay.Options{Keys: c.keys})
		if must(t, err); r.OK != c.ok {
			t.Errorf("with %d keys: %s", len(c.keys), r.Plain())
		}
	}
}

// TestK11_EmptyFile: a file of work may be empty. It is sealed as any other, and the work
// is gone on with.
func TestK11_EmptyFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) { b.place.terms = checkTerms })
	b.exec.build = writes(map[string]string{"out.txt": ""})
	b.exec.held = func() {}
	b.reach(kernel.ActionChecks)
	b.close()
	other := b.joins(t)
	other.pastLease()
	if st := other.until(kernel.StandFinal); st.Decision.State != kernel.TaskCompleted || len(other.exec.builds) != 0 {
		t.Errorf("%s after %d more builders", st.Decision.State, len(other.exec.builds))
	}
}

// TestK11_SameInstallation: killed and shut down, one installation goes on with what it
// had sealed, also from the store where the seal had not been pushed.
func TestK11_SameInstallation(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*bench){
		"killed":    func(b *bench) { b.open() },
		"shut down": func(b *bench) { b.ask(kernel.RequestShutdown); b.open() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newInChecks(t)
			end(b)
			b.exec.held = nil
			b.until(kernel.StandFinal)
			b.verify(stateRef)
			if n := len(b.exec.builds); n != 1 {
				t.Errorf("%d builders", n)
			}
		})
	}
}

// TestK11_AuthorityIsVerifiedAgain: who approved may have lost his rights meanwhile; the
// checks of sealed work don't start then.
func TestK11_AuthorityIsVerifiedAgain(t *testing.T) {
	t.Parallel()
	f := newForged(t, func(f *forged) { f.place.terms = checkTerms })
	f.exec.held = func() {}
	f.label(f.scene.Owner)
	f.reach(kernel.ActionChecks)
	f.ask(kernel.RequestShutdown)
	f.open()
	if st := f.reach(kernel.ActionClaim); st.Decision.Resumes == "" {
		t.Fatal("sealed work is not gone on with")
	}
	f.scene.Grant(f.scene.Repo, f.scene.Owner.ID, forge.Read)
	f.wants(f.tick(), kernel.StandActing, kernel.CodeAuthorityRevoked)
	f.wants(f.tick(), kernel.StandWaiting)
	if strings.Contains(f.leafs(), sealed.File) {
		t.Error("it is kept, though the task waits for a person")
	}
}

// TestK11_NoSealOfWhatIsRefused: work that breaks a rule is never sealed.
func TestK11_NoSealOfWhatIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), func(b *bench) { b.place.terms = checkTerms })
	b.exec.build = func(job executor.BuildJob) (executor.BuildOutcome, error) {
		o, err := writes(map[string]string{"evil.txt": "x"})(job)
		o.Diff.Violations = []kernel.Violation{{Code: kernel.CodeScopeOutside, Subject: "evil.txt", Detail: "No allowed pattern covers it."}}
		return o, err
	}
	b.reach(kernel.ActionResult)
	for _, r := range b.records() {
		if r.Kind == kernel.KindIntent && strings.Contains(string(r.Body), `"effect":"seal"`) {
			t.Error("it was sealed")
		}
	}

}
