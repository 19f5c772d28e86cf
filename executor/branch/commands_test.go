package branch

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestCommands_NoForkWhileOneIsWritten: a process that is started then would keep the
// file open, and the command couldn't be executed. That lost one branch in a few
// hundred.
func TestCommands_NoForkWhileOneIsWritten(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "command")
	if err := mkfifo(pipe); err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20 // a pipe holds less
	written := make(chan error)
	go func() { written <- writeProgram(pipe, make([]byte, most), 0o700) }()
	f, err := os.Open(pipe) // it is being written
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if syscall.ForkLock.TryLock() {
		syscall.ForkLock.Unlock()
		t.Error("a process may be started")
	}
	if _, err := io.Copy(io.Discard, f); err != nil {
		t.Error(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
