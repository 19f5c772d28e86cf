package main

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git/gittest"
)

const (
	// envMain makes the test binary be the program: with crash points, which the
	// shipped one doesn't have.
	envMain = "WRIT_TEST_MAIN"
	// envFault names the fault point (supervisor.Points) at which the program
	// kills itself with SIGKILL, in the test binary only.
	envFault = "WRIT_TEST_FAULT"
	// envBehind is by how much its wall clock lags, as a duration.
	envBehind = "WRIT_TEST_BEHIND"
	// envWrites is how long it waits from one write to a forge to the next.
	envWrites = "WRIT_TEST_WRITES"
	// envRace and endAtOnce keep a program with the race detector from waiting a
	// second before it ends.
	envRace, endAtOnce = "GORACE", "atexit_sleep_ms=0"
)

func TestMain(m *testing.M) {
	if os.Getenv(envMain) != "" {
		os.Exit(crashingMain())
	}
	_ = os.Setenv(envRace, endAtOnce) // for the programs that are started; there is no NUL in it
	testscript.Main(gittest.InMemory(m), map[string]func(){"writ": func() { os.Exit(crashingMain()) }})
}

// crashingMain is Main with a fault point, and with the settings of tests.
func crashingMain() int {
	a := newApp(os.Stdin, os.Stdout, os.Stderr, os.Environ())
	a.Behind, _ = time.ParseDuration(os.Getenv(envBehind)) // 0 where it isn't set
	a.Writes, _ = time.ParseDuration(os.Getenv(envWrites)) // as well
	if at := os.Getenv(envFault); at != "" {
		a.Fault = func(p supervisor.Point) {
			if string(p) == at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // nothing runs after it
				select {}
			}
		}
	}
	return a.main(context.Background(), os.Args[1:])
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
