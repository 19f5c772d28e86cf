package supervisor

import (
	"fmt"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/kernel"
)

// TestL14_OthersTell: an installation whose key isn't listed touches nothing of what
// another one, of the same account, wrote on the issue of a task that has ended or
// waits; whether the contract lists the other one, or nobody.
func TestL14_OthersTell(t *testing.T) {
	for name, listed := range map[string]bool{"the contract lists the other": true, "nobody lists either": false} {
		for _, ends := range []kernel.TaskState{kernel.TaskCompleted, kernel.TaskRetryPending} {
			t.Run(fmt.Sprintf("%s, %s", name, ends), func(t *testing.T) {
				f := newTold(t, nil)
				if listed {
					f.place.terms = fmt.Sprintf("version: 1\nrunners: [%q]\n", ssh.MarshalAuthorizedKey(f.key))
					f.open()
				}
				if ends != kernel.TaskCompleted {
					f.exec.build = failing
				}
				f.drive()
				before := f.marked("task")
				other := newBench(t, f.bare, func(b *bench) {
					b.clock, b.issue = f.clock, nil
					b.place.clock, b.place.issue, b.place.forge, b.place.terms = f.clock, nil, f.place.forge, f.place.terms
				})
				f.clock.advance(3_600_000)
				writes := len(f.scene.Bot.Calls(forgetest.Writes()))
				for range 2 {
					_, err := other.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
					must(t, err)
				}
				if n := len(f.scene.Bot.Calls(forgetest.Writes())); n != writes || len(other.exec.builds) > 0 {
					t.Errorf("%d writes, %d builds", n-writes, len(other.exec.builds))
				}
				if now := f.marked("task"); len(now) != 1 || now[0] != before[0] {
					t.Errorf("the status comment is now %+v", now)
				}
			})
		}
	}
}

// TestL14_ForgedResultIsTold: HEAD by a key that nobody lists, of a run that nobody
// told of, is still said on the issue.
func TestL14_ForgedResultIsTold(t *testing.T) {
	f := newTold(t, nil)
	stranger := newBench(t, f.bare, func(b *bench) { b.clock, b.place.clock = f.clock, f.clock })
	stranger.until(kernel.StandFinal)
	f.drive()
	f.shows(string(kernel.CodeLeaseUntrusted), "", true)
}
