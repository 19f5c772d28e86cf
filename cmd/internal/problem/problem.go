// Package problem is how a person is told of errors: a code, a sentence, what to do next,
// and the exit status of the program. Explain makes one of whatever error a room returns.
package problem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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

// Error is an error as a person is told it: code, sentence, what to do, and
// the exit status.
type Error struct {
	Code    kernel.Code
	Subject string
	Text    string
	Remedy  string // "" is the code's own
	Exit    int
	Held    *report.Held
}

// Error implements error.
func (p *Error) Error() string {
	if p.Code == "" {
		return p.Text
	}
	return string(p.Code) + ": " + p.Text
}

// Usage is a mistake on the command line. Its remedy is how the command is called,
// unless whoever finds the mistake knows a better one.
func Usage(format string, args ...any) *Error {
	return &Error{Exit: ExitUsage, Text: fmt.Sprintf(format, args...)}
}

// Coded is an error with a code of the table.
func Coded(code kernel.Code, format string, args ...any) *Error {
	return &Error{Code: code, Exit: ExitOfCode(code), Text: fmt.Sprintf(format, args...)}
}

// BadAddress is an address that can't be listened on, given by a flag or key. Its
// status is 1, so that whatever starts writ again does: the address may come free.
func BadAddress(address string, err error, given string) *Error {
	var why *os.SyscallError
	if errors.As(err, &why) {
		err = why.Err
	}
	p := Coded(kernel.CodeAddress, "The address %s can't be listened on: %s.", address, Cause(err))
	p.Remedy = "`ss -ltnp` shows who has it. End that, or give a free one as " + given + "."
	p.Exit = ExitOther
	return p
}

// Explain finds out what an error is.
func Explain(err error) *Error {
	p := explainKind(err)
	var stored *store.Error
	if p.Remedy == "" && (p.Code == kernel.CodeEnvStore || p.Code == kernel.CodeLedgerUnavailable) && errors.As(err, &stored) {
		p.Remedy = stored.Remedy() // it knows the cause
	}
	if file, is := errors.AsType[*config.Error](err); is && file.Unread {
		p.Remedy = "Give the path of the server's configuration, and call it as a user who may read the file."
	}
	return p
}

func explainKind(err error) *Error {
	var p *Error
	if errors.As(err, &p) {
		return p
	}
	if errors.Is(err, machine.ErrHalted) {
		return Coded(kernel.CodeTaskHalted, "The task's kernel is halted.")
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Code: kernel.CodeTaskInterrupted, Exit: ExitOther, Text: "Interrupted."}
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
		return Coded(c, "%s", bare(c, err))
	}
	return &Error{Exit: ExitOther, Text: err.Error()}
}

// explainRoom knows the errors whose codes aren't all in the kernel's table.
func explainRoom(err error) *Error {
	var xe *executor.Error
	if errors.As(err, &xe) {
		text := xe.Detail
		if xe.Err != nil {
			text += ": " + xe.Err.Error()
		}
		return Coded(xe.Code, "%s", text)
	}
	var ge *git.Error
	if errors.As(err, &ge) {
		return explainGit(ge)
	}
	var se *sandbox.Error
	if errors.As(err, &se) {
		p := Coded(kernel.CodeSandboxUnavailable, "%s", se.Msg)
		p.Remedy = se.Remedy
		return p
	}
	var le *ledger.Error
	if errors.As(err, &le) {
		return Coded(le.Code, "%s", bare(le.Code, le))
	}
	var re *replay.Error
	if errors.As(err, &re) {
		return Coded(re.Code, "%s", bare(re.Code, re))
	}
	var fe *instruction.FileError
	if errors.As(err, &fe) {
		return &Error{Exit: ExitUsage, Text: fe.Error() + ".", Remedy: "Its first line is `# title`; the text follows."}
	}
	return nil
}

func explainGit(e *git.Error) *Error {
	p := &Error{Code: kernel.Code(e.Code), Text: e.Msg, Remedy: e.Remedy}
	switch e.Code {
	case git.CodeNotFound, git.CodeObjectMissing, git.CodeObjectInvalid, git.CodeUnsupported, git.CodeLocal, git.CodeTooLarge, git.CodeBudget:
		p.Code = kernel.CodeEnvRepository
	case git.CodeUnauthorized, git.CodeAuthInvalid, git.CodeHostKey, git.CodeProtocol:
		p.Code = kernel.CodeEnvRepository
	}
	p.Exit = ExitOfCode(p.Code)
	return p
}

// bare is an error's text without the code that is told beside it.
func bare(c kernel.Code, err error) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(err.Error(), string(c)), ": "))
}

// Cause is the system's word without the path.
func Cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// explainAnswer is a commit of a command's that didn't come to stand.
func explainAnswer(err error) *Error {
	var ans *branch.Answer
	if !errors.As(err, &ans) {
		return nil
	}
	p := &Error{Code: kernel.Code(git.CodeOf(ans.Err)), Text: ans.Error() + ".", Exit: TickExit(map[branch.Status]bool{ans.Status: true})}
	var ge *git.Error
	if errors.As(ans.Err, &ge) && p.Code.Info().Remedy == "" {
		p.Remedy = ge.Remedy
	}
	return p
}
