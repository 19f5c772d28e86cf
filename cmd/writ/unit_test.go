package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// TestResolve: --resolve gives a host the address that it names, leaves all other hosts to
// who looked them up before, and refuses what is no address by the host's name.
func TestResolve(t *testing.T) {
	a := &process{}
	var p *problem
	if err := a.resolve(map[string]string{"models.example": "localhost"}); !errors.As(err, &p) || p.exit != exitUsage || !strings.Contains(err.Error(), `no address for "models.example"`) || a.resolver != nil {
		t.Errorf("a wrong address: %v, resolver %v", err, a.resolver)
	}
	for host, want := range map[string]string{"models.example": "127.0.0.1", "other.example": "192.0.2.7"} {
		a := &process{resolver: told{hosts: map[string]netip.Addr{"other.example": netip.MustParseAddr("192.0.2.7")}}}
		if err := a.resolve(map[string]string{"models.example": "127.0.0.1"}); err != nil {
			t.Fatal(err)
		}
		if list, err := a.resolver.LookupNetIP(t.Context(), "ip", host+"."); err != nil || len(list) != 1 || list[0].String() != want {
			t.Errorf("%s: %v, %v", host, list, err)
		}
	}
}

// TestExit_EachStanding: no way of standing is without its status (T26).
func TestExit_EachStanding(t *testing.T) {
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
		if got := exitOf(tc.d); got != tc.want {
			t.Errorf("%s, %s: exit %d, want %d", tc.d.Standing, tc.d.State, got, tc.want)
		}
	}
}

// TestExit_OfErrors: an error's code decides, before a kernel was asked.
func TestExit_OfErrors(t *testing.T) {
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
		{inUse("/s", lastUse{PID: 7}), kernel.CodeStateInUse, 13},
		{badState("/s", "is bad"), kernel.CodeEnvState, 12},
		{&ledger.Error{Code: kernel.CodeLedgerOtherKey}, kernel.CodeLedgerOtherKey, 12},
		{context.Canceled, kernel.CodeTaskInterrupted, 1},
		{usage("x"), "", 2},
		{io.ErrUnexpectedEOF, "", 1},
	} {
		p := explain(tc.err)
		if p.code != tc.code || p.exit != tc.exit {
			t.Errorf("%v: %q exit %d, want %q exit %d", tc.err, p.code, p.exit, tc.code, tc.exit)
		}
	}
}

// TestMain_NoPanicReachesAUser: a fault of writ's own is told like any error.
func TestMain_NoPanicReachesAUser(t *testing.T) {
	var stdout, stderr bytes.Buffer
	a := newApp(strings.NewReader(""), &stdout, &stderr, nil)
	a.json, a.notice = true, &report.Report{World: "a/b", TaskID: 1}
	exit := func() (exit int) {
		defer func() { exit = a.fail(panicked(recover())) }()
		return len(newApp(nil, nil, nil, nil).root().Commands()[99].Use)
	}()
	if exit != exitOther || !strings.HasPrefix(stderr.String(), "writ: machine.panic: ") || strings.Contains(stderr.String(), "goroutine") {
		t.Errorf("exit %d\n%s", exit, stderr.String())
	}
	var r report.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || len(r.Codes) != 1 || r.Codes[0] != kernel.CodeMachinePanic {
		t.Errorf("%v %s", err, stdout.String())
	}
}

func TestTaskNumber(t *testing.T) {
	for file, want := range map[string]int64{
		"12-fix.md": 12, "7.md": 7, "dir/007-x.md": 7, "fix.md": 1, "0-x.md": 1, "99999999999999999999.md": 1, "5": 5, "a12.md": 1,
	} {
		if got, err := taskNumber(0, false, file); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", file, got, err, want)
		}
	}
}

// TestG1_Places: what --repo may be, and what its world is called.
func TestG1_Places(t *testing.T) {
	for repo, want := range map[string]string{
		"https://github.com/o/r.git": "github.com/o/r",
		"https://host:8443/o/r/":     "host-8443/o/r",
		"ssh://git@host/o/r":         "host/o/r",
		"git@host:o/r.git":           "host/o/r",
		"file:///srv/git/r.git":      "local/git/r",
		"/srv/git/r.git":             "local/git/r",
		"/srv/project/.git":          "local/srv/project",
		"/srv/a b/ü.git":             "local/a-b/x",
		"/":                          "local/x/x",
	} {
		p, err := newPlace(repo)
		if err != nil || p.display != want || p.world != want {
			t.Errorf("%s: %q, %v, want %q", repo, p.world, err, want)
		}
	}
	for _, repo := range []string{
		"", "-x", "--upload-pack=x", "ext::sh -c id", "fd::17", "https://h/a\nb", "https://u:p@h/a", "https://h/../a",
		"ssh://-oProxyCommand=id/x", "http:///x", "javascript://x/y", "/a\\b", "/a\x00b", "https://h/a?x", "https://h/a#x",
	} {
		if p, err := newPlace(repo); err == nil || explain(err).exit != exitUsage {
			t.Errorf("%q: %+v, %v", repo, p, err)
		}
	}
}

func TestPlaces_OfOneNameDiffer(t *testing.T) {
	a, _ := newPlace("/srv/a/r")
	b, _ := newPlace("/srv/b/r")
	if a.name != b.name || a.key == b.key {
		t.Errorf("%+v %+v", a, b)
	}
}

// TestF3_Display: what a builder prints can neither steer the terminal nor
// show a secret.
func TestF3_Display(t *testing.T) {
	var b bytes.Buffer
	d := newDisplay(&b, report.NewRedactor([]string{"canary-123456"}), false)
	d.Tail("a\x1b[2Jb\rc canary-123456\u202ed")
	d.Progress("two\nlines canary-123456")
	fmt.Fprint(d, "level=WARN msg=\"x canary-123456\"\n")
	got := b.String()
	if strings.Contains(got, "canary") || strings.ContainsAny(got, "\x1b\r\u202e") || strings.Count(got, "\n") != 3 {
		t.Errorf("%q", got)
	}
}

// TestDisplay_LiveLine: on a terminal there is one line below, which goes.
func TestDisplay_LiveLine(t *testing.T) {
	var b bytes.Buffer
	d := newDisplay(&b, report.NewRedactor(nil), false)
	d.width = 40
	stop := d.live()
	d.Progress("builder started")
	d.Tail(strings.Repeat("long ", 50))
	stop()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\r\x1b[K"), "\r\x1b[K")
	if last := []rune(lines[len(lines)-1]); len(last) >= d.width || !strings.HasSuffix(b.String(), "\r\x1b[K") {
		t.Errorf("%q", b.String())
	}
}

// TestErrors_OnceWithRemedy: code, sentence, what to do, and nothing twice.
func TestErrors_OnceWithRemedy(t *testing.T) {
	var stdout, stderr bytes.Buffer
	exit := Main([]string{"task", "show", "1", "--state-dir", filepath.Join(t.TempDir(), "none")}, strings.NewReader(""), &stdout, &stderr, nil)
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if exit != exitRefused || stdout.Len() > 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], "writ: environment.state_dir: ") || !strings.HasPrefix(lines[1], "  ") {
		t.Errorf("exit %d %q %q", exit, stdout.String(), stderr.String())
	}
	for _, c := range kernel.Codes() {
		stderr.Reset()
		a := newApp(nil, &stdout, &stderr, nil)
		a.fail(coded(c.Code, "x"))
		if !strings.Contains(stderr.String(), strings.TrimSpace(c.Remedy)) {
			t.Errorf("%s has no remedy: %q", c.Code, stderr.String())
		}
	}
}

// TestQuiet keeps the status of a run that was told already.
func TestQuiet(t *testing.T) {
	var stdout, stderr bytes.Buffer
	a := newApp(nil, &stdout, &stderr, nil)
	if exit := a.fail(fmt.Errorf("x: %w", quiet(exitHeld))); exit != exitHeld || stderr.Len()+stdout.Len() > 0 {
		t.Errorf("exit %d %q", exit, stderr.String())
	}
	if !errors.As(error(quiet(3)), new(quiet)) {
		t.Error("quiet is no error")
	}
}
