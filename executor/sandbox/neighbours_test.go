package sandbox

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestX8_Neighbours: what one program has taken of what the kernel counts isn't
// missing to another that is started beside it.
func TestX8_Neighbours(t *testing.T) {
	eachLevel(t, func(t *testing.T, s Sandbox) {
		for _, greedy := range []Spec{
			script(t, manySleep(130)+"echo full; read line; kill $pids"),
			act(t, "act-flight"),
		} {
			greedy.Limits.Processes, greedy.Limits.OpenFiles = 160, 256
			end := newGate()
			greedy.Stdin = end
			r := start(t, s, greedy)
			r.await(t, "all that it can have", r.line("full"))
			beside := script(t, manySleep(60)+"echo fine; kill $pids")
			beside.Limits.Processes, beside.Limits.OpenFiles = 160, 256
			if out := succeed(t, s, beside); out != "fine\n" {
				t.Errorf("beside it: %s", out)
			}
			end.open() // by itself: a user's number comes back when nothing of it is left
			r.finish(t)
		}
	})
}

// manySleep starts n processes that stay.
func manySleep(n int) string {
	return "for i in " + strings.Repeat("x ", n) + "; do sleep 1000 & pids=\"$pids $!\"; done; "
}

// actFlight sends descriptors that nobody receives until the kernel refuses, and
// stays.
func actFlight([]string) {
	for {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		for err == nil {
			err = unix.Sendmsg(pair[0], []byte{1}, unix.UnixRights(make([]int, 100)...), nil, unix.MSG_DONTWAIT)
		}
		switch err {
		case unix.EAGAIN:
		case unix.ETOOMANYREFS:
			fmt.Println("full")
			_, _ = os.Stdin.Read(make([]byte, 1))
			return
		default:
			fmt.Println("flight:", err)
			os.Exit(1)
		}
	}
}

// Root gives each program a user's number of its own, an ordinary user can't.
func TestX8_NeighboursOfOneUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root: the other test ran as an ordinary user")
		return
	}
	asOrdinaryUser(t, "^TestX8_Neighbours$", "TestX8_Neighbours")
}
