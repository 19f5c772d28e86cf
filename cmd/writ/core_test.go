package main

import (
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/problem"
)

// TestF3_NoCoreFiles: a process that dies leaves no file of its memory, nor does one
// that it starts.
func TestF3_NoCoreFiles(t *testing.T) {
	t.Parallel()
	var l unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_CORE, &l))
	l.Cur = l.Max
	must(t, unix.Setrlimit(unix.RLIMIT_CORE, &l))
	if exit := Main([]string{"version"}, strings.NewReader(""), io.Discard, io.Discard, nil); exit != problem.ExitDone {
		t.Fatalf("exit status %d", exit)
	}
	must(t, unix.Getrlimit(unix.RLIMIT_CORE, &l))
	if l.Cur != 0 || l.Max != 0 {
		t.Errorf("core files of %d bytes, up to %d", l.Cur, l.Max)
	}
}
