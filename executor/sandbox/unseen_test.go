package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const memoryWithoutNamespaces = "^TestX8_ResourcesWithoutNamespaces$/memory"

// A writ that isn't root is not shown the memory of each process of its user.
func TestX8_MemoryOfOneUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root: the other test ran as an ordinary user")
		return
	}
	asOrdinaryUser(t, memoryWithoutNamespaces, "TestX8_ResourcesWithoutNamespaces")
}

// Nor is root in a container, where the engine gives it a few capabilities only.
func TestX8_MemoryUnderASmallRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root")
		return
	}
	type result struct {
		out []byte
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // it ends with this goroutine: the capability doesn't come back
		err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_PTRACE, 0, 0, 0)
		out, runErr := exec.Command("/proc/self/exe", "-test.run", memoryWithoutNamespaces).CombinedOutput()
		done <- result{out, errors.Join(err, runErr)}
	}()
	if r := <-done; r.err != nil {
		t.Errorf("without CAP_SYS_PTRACE: %v\n%s", r.err, r.out)
	}
}
