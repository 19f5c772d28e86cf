package replay

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

// unheld are the trailers of a result that no record of the run has, with the reason.
var unheld = map[string]string{
	kernel.TrailerSeq:      "How many commits came before it is under the signature alone; a verification reads no history.",
	kernel.TrailerBranch:   "It says what the change branch was at before, which is gone.",
	kernel.TrailerWorldAct: "It is held against the acts of the world, which the repository has.",
}

// TestR1_EachTrailerIsNoticed: an instance that lies, and whose key is trusted, says
// something else in one trailer of a result than its run came to. A verification notices,
// or the trailer is listed with the reason why it can't. What stands twice is noticed, too.
func TestR1_EachTrailerIsNoticed(t *testing.T) {
	x := completed(t)
	trust := func(y sample) Report {
		return Verify(y.pack, y.head, Options{Keys: []ssh.PublicKey{y.key.SSHSigner().PublicKey()}})
	}
	if r := trust(x); !r.OK {
		t.Fatalf("the sample isn't sound:\n%s", r.Plain())
	}
	other := map[string]string{
		kernel.TrailerAct: "1800000000001/comment:8", kernel.TrailerRun: "0b2f9c1e-1111-4222-8333-444455556666",
		kernel.TrailerResumes: "0b2f9c1e-1111-4222-8333-444455556666", kernel.TrailerWaitingFor: kernel.WaitMerge,
		kernel.TrailerNotBefore: "1800000900", kernel.TrailerCodes: string(kernel.CodeScopeOutside), kernel.TrailerWorld: "forge.test/9",
		kernel.TrailerRef: "refs/writ/task/9", kernel.TrailerIssue: "9/1800000000", kernel.TrailerWorldAct: strings.Repeat("7", 40),
		kernel.TrailerBranch: strings.Repeat("7", 40), lease.KeyState: string(kernel.TaskBlocked),
	}
	message := string(x.head.Commit.Message)
	for _, key := range append(writs(), lease.KeyState) {
		was := trailerOf(x.head.Commit, key)
		says := other[key]
		switch {
		case says != "":
		case canon.Digest(was).Valid():
			says = string(canon.Sum([]byte(was)))
		case len(was) == 40:
			says = strings.Repeat("7", 40)
		default:
			says = was + "1"
		}
		line := key + ": " + was + "\n"
		lies := map[string]string{"instead": strings.Replace(message, line, key+": "+says+"\n", 1), "without": strings.Replace(message, line, "", 1)}
		if was == "" {
			lies = map[string]string{"beside": strings.TrimRight(message, "\n") + "\n" + key + ": " + says + "\n"}
		} else if slices.Contains(writs(), key) {
			lies["twice"] = strings.Replace(message, line, line+line, 1)
		}
		for how, lie := range lies {
			if lie == message {
				t.Fatalf("%s isn't changed: %q", key, was)
			}
			y := x.clone()
			y.signMessage(lie)
			if r := trust(y); r.OK && (unheld[key] == "" || how == "twice") {
				t.Errorf("nobody notices %s %q %s of %q", key, says, how, was)
			}
		}
	}
}

// TestR1_ActsOfTheRun: a run is claimed on the act that was seen then, and everything of it
// names that one.
func TestR1_ActsOfTheRun(t *testing.T) {
	for _, liar := range []string{"", "seen", "claim", "lease", "result"} {
		s := newStage(t, testWorld, 1)
		x := s.sample(s.play(1, true, nil, func(a *attempt) {
			a.act = func(of string) string {
				if of == liar {
					return "1800000000001/comment:8"
				}
				return claimedOn
			}
		}).from)
		if r := x.verify(); r.OK != (liar == "") {
			t.Errorf("%q:\n%s", liar, r.Plain())
		}
	}
}

// TestR1_OneAndMany: what is counted is in the singular where there is one of it.
func TestR1_OneAndMany(t *testing.T) {
	plural := regexp.MustCompile(`\b1 [a-z ]*s\b`)
	if said := plural.FindAllString(completed(t).verify().Plain(), -1); len(said) > 0 {
		t.Errorf("it says %q", said)
	}
}
