package branch

import (
	"bufio"
	"os"
	"syscall"
	"testing"
)

// mkfifo makes a named pipe, by which tests and commands wait for one another.
func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

// readLine waits until a command writes to a pipe.
func readLine(t testing.TB, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err == nil {
		_, err = bufio.NewReader(f).ReadString('\n')
		_ = f.Close() // it was read
	}
	if err != nil {
		t.Error(err)
	}
}

// writeLine lets a command that reads a pipe go on.
func writeLine(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("\n"), 0); err != nil {
		t.Error(err)
	}
}
