package sandbox

import (
	"context"
	"os/exec"
	"testing"
)

// BenchmarkStart is from Start to the end of a program that does nothing.
func BenchmarkStart(b *testing.B) {
	s := NewBubblewrap(Config{})
	spec := Spec{Argv: []string{"/usr/bin/true"}, Env: BaseEnv(), Workspace: b.TempDir()}
	for b.Loop() {
		p, err := s.Start(context.Background(), spec)
		if err != nil {
			b.Fatal(err)
		}
		if e := p.Wait(); e.Cause != CauseExited {
			b.Fatalf("exit = %+v", e)
		}
	}
}

// BenchmarkBubblewrapAlone is the part of BenchmarkStart that is bwrap's own.
func BenchmarkBubblewrapAlone(b *testing.B) {
	for b.Loop() {
		if out, err := bwrapAlone().CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}

func bwrapAlone() *exec.Cmd {
	return exec.Command("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "/usr/bin/true")
}
