package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
)

// version is set by the linker: -X main.version=v1.2.3.
var version = "dev"

func main() {
	// A command lives shortly on a small heap: collecting it as often as a
	// server's, which sets this back, costs a fifth of a task's time. GOGC, where
	// set, is obeyed.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// Main is the whole program: arguments without the program's name, the three
// streams, the environment. It returns the exit status.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	noCoreFiles()
	return newApp(stdin, stdout, stderr, env).main(context.Background(), args)
}

// noCoreFiles keeps the memory of this process, and of those that it starts, off
// the disk when one dies: it holds tokens and keys. A limit may always be lowered.
func noCoreFiles() {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // there is no other way to have it
}

// app is one call of the program.
type app struct {
	*wire.Process
	stdin  io.Reader
	stdout io.Writer
	json   bool
	// notice is what --json prints where a run came to no report of its task;
	// nil for commands that print none.
	notice *report.Report
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, env []string) *app {
	a := &app{Process: wire.NewProcess(stderr, env), stdin: stdin, stdout: stdout}
	a.Version = version
	return a
}

// main runs the command line and tells every error once.
func (a *app) main(ctx context.Context, args []string) (exit int) {
	defer func() {
		if p := recover(); p != nil {
			exit = a.fail(panicked(p))
		}
	}()
	err := a.root().execute(ctx, args)
	if err == nil {
		return problem.ExitDone
	}
	return a.fail(err)
}

// panicked is a fault of writ's own. The stack says where, and holds no values.
func panicked(p any) *problem.Error {
	place := "unknown place"
	for line := range strings.Lines(string(debug.Stack())) {
		if i := strings.Index(line, "/writ/"); i >= 0 && strings.HasPrefix(line, "\t") && !strings.Contains(line, "main.go") {
			place = strings.Fields(line[i+1:])[0]
			break
		}
	}
	return &problem.Error{Code: kernel.CodeMachinePanic, Exit: problem.ExitOther, Text: fmt.Sprintf("Writ met a fault of its own at %s: %v", place, p)}
}

// fail tells an error and returns its exit status.
func (a *app) fail(err error) int {
	var q problem.Quiet
	if errors.As(err, &q) {
		return int(q)
	}
	p := problem.Explain(err)
	a.tell(p)
	if a.json && a.notice != nil && p.Exit != problem.ExitUsage {
		a.printNotice(*a.notice, p)
	}
	return p.Exit
}

// printNotice is the report of a call that never came to a task's kernel.
func (a *app) printNotice(r report.Report, p *problem.Error) {
	if p.Code.Known() {
		r.Violations = append(r.Violations, kernel.Violation{Code: p.Code, Subject: p.Subject, Detail: p.Text})
	}
	r.Held = p.Held
	if data, err := r.JSON(); err == nil {
		a.printJSON(data)
	}
}

// printJSON writes one document, the only thing on standard output.
func (a *app) printJSON(data []byte) {
	fmt.Fprintln(a.stdout, report.CleanJSON(a.Redactor.String(string(data))))
}

// print writes text for a person to standard output.
func (a *app) print(format string, args ...any) {
	fmt.Fprint(a.stdout, report.Clean(a.Redactor.String(fmt.Sprintf(format, args...))))
}

// tell writes a problem to standard error: code and sentence, then the remedy.
func (a *app) tell(p *problem.Error) {
	head := "writ: "
	if p.Code != "" {
		head += string(p.Code) + ": "
	}
	remedy := p.Remedy
	if remedy == "" {
		remedy = p.Code.Info().Remedy
	}
	text := head + strings.TrimSpace(p.Text)
	if remedy != "" {
		text += "\n" + remedy
	}
	text = report.Clean(a.Redactor.String(text))
	fmt.Fprintln(a.Stderr, strings.ReplaceAll(text, "\n", "\n  "))
}
