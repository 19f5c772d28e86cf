package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/compliance/instruction"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/branch"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/machine"
)

// problem is an error as a person is told it: code, sentence, what to do, and
// the exit status.
type problem struct {
	code    kernel.Code
	subject string
	text    string
	remedy  string // "" is the code's own
	exit    int
	held    *report.Held
}

func (p *problem) Error() string {
	if p.code == "" {
		return p.text
	}
	return string(p.code) + ": " + p.text
}

// usage is a mistake on the command line. Its remedy is how the command is called,
// unless whoever finds the mistake knows a better one.
func usage(format string, args ...any) *problem {
	return &problem{exit: exitUsage, text: fmt.Sprintf(format, args...)}
}

// coded is an error with a code of the table.
func coded(code kernel.Code, format string, args ...any) *problem {
	return &problem{code: code, exit: codeExit(code), text: fmt.Sprintf(format, args...)}
}

// badAddress is an address that can't be listened on, given by a flag or key. Its
// status is 1, so that whatever starts writ again does: the address may come free.
func badAddress(address string, err error, given string) *problem {
	var why *os.SyscallError
	if errors.As(err, &why) {
		err = why.Err
	}
	p := coded(kernel.CodeAddress, "The address %s can't be listened on: %s.", address, cause(err))
	p.remedy = "`ss -ltnp` shows who has it. End that, or give a free one as " + given + "."
	p.exit = exitOther
	return p
}

// explain finds out what an error is.
func explain(err error) *problem {
	p := explainKind(err)
	var stored *store.Error
	if p.remedy == "" && (p.code == kernel.CodeEnvStore || p.code == kernel.CodeLedgerUnavailable) && errors.As(err, &stored) {
		p.remedy = stored.Remedy() // it knows the cause
	}
	if file, is := errors.AsType[*config.Error](err); is && file.Unread {
		p.remedy = "Give the path of the server's configuration, and call it as a user who may read the file."
	}
	return p
}

func explainKind(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	if errors.Is(err, machine.ErrHalted) {
		return coded(kernel.CodeTaskHalted, "The task's kernel is halted.")
	}
	if errors.Is(err, context.Canceled) {
		return &problem{code: kernel.CodeTaskInterrupted, exit: exitOther, text: "Interrupted."}
	}
	if p := explainAnswer(err); p != nil {
		return p
	}
	if p := explainRoom(err); p != nil {
		return p
	}
	var coder interface{ FailureCode() kernel.Code }
	if errors.As(err, &coder) {
		c := coder.FailureCode()
		return coded(c, "%s", bare(c, err))
	}
	return &problem{exit: exitOther, text: err.Error()}
}

// explainRoom knows the errors whose codes aren't all in the kernel's table.
func explainRoom(err error) *problem {
	var xe *executor.Error
	if errors.As(err, &xe) {
		text := xe.Detail
		if xe.Err != nil {
			text += ": " + xe.Err.Error()
		}
		return coded(xe.Code, "%s", text)
	}
	var ge *git.Error
	if errors.As(err, &ge) {
		return explainGit(ge)
	}
	var se *sandbox.Error
	if errors.As(err, &se) {
		p := coded(kernel.CodeSandboxUnavailable, "%s", se.Msg)
		p.remedy = se.Remedy
		return p
	}
	var le *ledger.Error
	if errors.As(err, &le) {
		return coded(le.Code, "%s", bare(le.Code, le))
	}
	var re *replay.Error
	if errors.As(err, &re) {
		return coded(re.Code, "%s", bare(re.Code, re))
	}
	var fe *instruction.FileError
	if errors.As(err, &fe) {
		return &problem{exit: exitUsage, text: fe.Error() + ".", remedy: "Its first line is `# title`; the text follows."}
	}
	return nil
}

func explainGit(e *git.Error) *problem {
	p := &problem{code: kernel.Code(e.Code), text: e.Msg, remedy: e.Remedy}
	switch e.Code {
	case git.CodeNotFound, git.CodeObjectMissing, git.CodeObjectInvalid, git.CodeUnsupported, git.CodeLocal, git.CodeTooLarge, git.CodeBudget:
		p.code = kernel.CodeEnvRepository
	case git.CodeUnauthorized, git.CodeAuthInvalid, git.CodeHostKey, git.CodeProtocol:
		p.code = kernel.CodeEnvRepository
	}
	p.exit = codeExit(p.code)
	return p
}

// bare is an error's text without the code that is told beside it.
func bare(c kernel.Code, err error) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(err.Error(), string(c)), ": "))
}

// cause is the system's word without the path.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// tickExits are the statuses of `writ tick`, the gravest first: of several branches
// the first that is met by one of them is the command's.
var tickExits = []struct {
	status branch.Status
	exit   int
}{
	{branch.StatusInterrupted, exitOther},
	{branch.StatusUnable, exitOther},
	{branch.StatusUnknown, exitOther},
	{branch.StatusRefused, exitRefused},
	{branch.StatusInvalid, exitInvalid},
	{branch.StatusFailed, exitFailed},
	{branch.StatusLost, exitLost},
	{branch.StatusMalformed, exitMalformed},
	{branch.StatusUnrunnable, exitMissing},
	{branch.StatusMissing, exitMissing},
	{branch.StatusRunning, exitDone},
	{branch.StatusDone, exitDone},
	{branch.StatusTakenOver, exitTakenOver},
	{branch.StatusHeld, exitHeld},
	{branch.StatusIdle, exitIdle},
	{branch.StatusNone, exitIdle},
}

func tickExit(seen map[branch.Status]bool) int {
	for _, e := range tickExits {
		if seen[e.status] {
			return e.exit
		}
	}
	return exitIdle
}

// explainAnswer is a commit of a command's that didn't come to stand.
func explainAnswer(err error) *problem {
	var ans *branch.Answer
	if !errors.As(err, &ans) {
		return nil
	}
	p := &problem{code: kernel.Code(git.CodeOf(ans.Err)), text: ans.Error() + ".", exit: tickExit(map[branch.Status]bool{ans.Status: true})}
	var ge *git.Error
	if errors.As(ans.Err, &ge) && p.code.Info().Remedy == "" {
		p.remedy = ge.Remedy
	}
	return p
}

// shelter runs f. Its panic is its error: a panic on a goroutine that nobody
// shelters would end the process, with all worlds, and again after each restart.
func shelter(log *slog.Logger, what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("writ met a fault of its own; everything else goes on", "part", what, "panic", p, "stack", string(debug.Stack()))
			err = &fault{p}
		}
	}()
	return f()
}

// fault is a panic as an error.
type fault struct{ value any }

func (f *fault) Error() string { return fmt.Sprintf("writ met a fault of its own: %v", f.value) }
