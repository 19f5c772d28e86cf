package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// TestExit_EachStanding: no way of standing is without its status (T26).
func TestExit_EachStanding(t *testing.T) {
	t.Parallel()
	d := func(s kernel.Standing, st kernel.TaskState) kernel.Decision {
		return kernel.Decision{Standing: s, State: st}
	}
	for _, tc := range []struct {
		d    kernel.Decision
		want int
	}{
		{d(kernel.StandFinal, kernel.TaskCompleted), 0},
		{d(kernel.StandFinal, kernel.TaskRetryPending), 10},
		{d(kernel.StandFinal, kernel.TaskBlocked), 11},
		{d(kernel.StandFinal, kernel.TaskOpen), 1},
		{d(kernel.StandDue, kernel.TaskRetryPending), 10},
		{d(kernel.StandDue, kernel.TaskOpen), 14},
		{d(kernel.StandHeld, kernel.TaskClaimed), 13},
		{d(kernel.StandWaiting, kernel.TaskWaiting), 14},
		{d(kernel.StandRefused, kernel.TaskNone), 12},
		{d(kernel.StandHalted, kernel.TaskClaimed), 12},
		{d(kernel.StandActing, kernel.TaskClaimed), 1},
		{d(kernel.StandRunning, kernel.TaskClaimed), 1},
		{d(kernel.StandAbandoned, kernel.TaskOpen), 1},
		{d("unheard of", kernel.TaskCompleted), 1},
	} {
		if got := problem.ExitOf(tc.d); got != tc.want {
			t.Errorf("%s, %s: exit %d, want %d", tc.d.Standing, tc.d.State, got, tc.want)
		}
	}
}

// TestExit_OfErrors: an error's code decides, before a kernel was asked.
func TestExit_OfErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		code kernel.Code
		exit int
	}{
		{machine.ErrHalted, kernel.CodeTaskHalted, 12},
		{fmt.Errorf("x: %w", &machine.StateError{From: machine.Halted}), kernel.CodeTaskHalted, 12},
		{&git.Error{Code: git.CodeNotFound, Msg: "m"}, kernel.CodeEnvRepository, 12},
		{&git.Error{Code: git.CodeURLInvalid, Msg: "m"}, kernel.CodeURLInvalid, 2},
		{&git.Error{Code: git.CodeUnreachable, Msg: "m"}, kernel.CodeForgeUnreachable, 1},
		{installation.InUse("/s", installation.Use{PID: 7}), kernel.CodeStateInUse, 13},
		{installation.BadState("/s", "is bad"), kernel.CodeEnvState, 12},
		{&ledger.Error{Code: kernel.CodeLedgerOtherKey}, kernel.CodeLedgerOtherKey, 12},
		{context.Canceled, kernel.CodeTaskInterrupted, 1},
		{problem.Usage("x"), "", 2},
		{io.ErrUnexpectedEOF, "", 1},
	} {
		p := problem.Explain(tc.err)
		if p.Code != tc.code || p.Exit != tc.exit {
			t.Errorf("%v: %q exit %d, want %q exit %d", tc.err, p.Code, p.Exit, tc.code, tc.exit)
		}
	}
}

// TestMain_NoPanicReachesAUser: a fault of writ's own is told like any error.
func TestMain_NoPanicReachesAUser(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	a := newApp(strings.NewReader(""), &stdout, &stderr, nil)
	a.json, a.notice = true, &report.Report{World: "a/b", TaskID: 1}
	exit := func() (exit int) {
		defer func() { exit = a.fail(panicked(recover())) }()
		return len(newApp(nil, nil, nil, nil).root().Commands()[99].Use)
	}()
	if exit != problem.ExitOther || !strings.HasPrefix(stderr.String(), "writ: machine.panic: ") || strings.Contains(stderr.String(), "goroutine") {
		t.Errorf("exit %d\n%s", exit, stderr.String())
	}
	var r report.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || len(r.Codes) != 1 || r.Codes[0] != kernel.CodeMachinePanic {
		t.Errorf("%v %s", err, stdout.String())
	}
}

// TestErrors_OnceWithRemedy: code, sentence, what to do, and nothing twice.
func TestErrors_OnceWithRemedy(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	exit := Main([]string{"task", "show", "1", "--state-dir", filepath.Join(t.TempDir(), "none")}, strings.NewReader(""), &stdout, &stderr, nil)
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if exit != problem.ExitRefused || stdout.Len() > 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], "writ: environment.state_dir: ") || !strings.HasPrefix(lines[1], "  ") {
		t.Errorf("exit %d %q %q", exit, stdout.String(), stderr.String())
	}
	for _, c := range kernel.Codes() {
		stderr.Reset()
		a := newApp(nil, &stdout, &stderr, nil)
		a.fail(problem.Coded(c.Code, "x"))
		if !strings.Contains(stderr.String(), strings.TrimSpace(c.Remedy)) {
			t.Errorf("%s has no remedy: %q", c.Code, stderr.String())
		}
	}
}

// TestQuiet keeps the status of a run that was told already.
func TestQuiet(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	a := newApp(nil, &stdout, &stderr, nil)
	if exit := a.fail(fmt.Errorf("x: %w", problem.Quiet(problem.ExitHeld))); exit != problem.ExitHeld || stderr.Len()+stdout.Len() > 0 {
		t.Errorf("exit %d %q", exit, stderr.String())
	}
	if !errors.As(error(problem.Quiet(3)), new(problem.Quiet)) {
		t.Error("quiet is no error")
	}
}
