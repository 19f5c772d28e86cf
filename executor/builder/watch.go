package builder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// watch captures a process's streams and holds it to its times.
type watch struct {
	stdout, stderr *stream
	begin          time.Time
	last           atomic.Int64  // when output came last, in nanoseconds since begin
	said           chan struct{} // closed with the first output
	// speaks says that the program has begun once it said something, and not before: an
	// agent tells of its beginning.
	speaks bool
}

// times are how long a process may take to begin, to end, and to be silent.
type times struct{ start, total, idle time.Duration }

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// ending is how a process ended, and why in words; "" if there is nothing to
// add. err is why it never ran.
type ending struct {
	exit   kernel.Exit
	detail string
	err    error
	// diskLow says that the disk's reserve is used up: the workspace goes before
	// anything else is done, unjudged.
	diskLow bool
	// limits are those that were reached, and denied the system calls that the sandbox
	// refused.
	limits []sandbox.Limit
	denied []string
	// watched says that nothing held the memory limit but looks from outside.
	watched bool
}

// level is the isolation level for a report, with what it didn't hold.
func (e ending) level(s sandbox.Sandbox) string {
	if e.watched {
		return s.Name() + levelWatched
	}
	return s.Name()
}

// levelWatched follows the level where no control group is delegated.
const levelWatched = " (memory limit watched, not held: no control group)"

func (e ending) succeeded() bool {
	return e.exit.Cause == kernel.CauseExited && e.exit.Code == 0
}

// notStarted is the ending of what never ran.
func notStarted(err error) ending {
	return ending{exit: kernel.Exit{Code: -1, Cause: kernel.CauseStartFailed}, err: err}
}

// stoppedEarly is the ending of what was stopped before it ran.
func stoppedEarly() ending {
	return ending{exit: kernel.Exit{Code: -1, Cause: kernel.CauseStopped}, detail: detailStopped}
}

const detailStopped = "stopped by writ"

// wait returns when the whole tree is dead. Each of the times ends it, and so
// does the end of ctx.
func (w *watch) wait(ctx context.Context, p *sandbox.Process, t times) ending {
	cause, detail := w.until(ctx, p, t)
	if cause != "" {
		p.Kill()
	}
	e := p.Wait()
	w.stdout.Flush()
	w.stderr.Flush()
	end := translate(e, cause, detail)
	end.diskLow, end.watched = e.DiskLow && !end.succeeded(), e.Watched
	if end.limits, end.denied = e.Hints, e.Denied; e.Limit != "" {
		end.limits = append([]sandbox.Limit{e.Limit}, e.Hints...)
	}
	return end
}

// until waits for the end, or for the reason to end it.
func (w *watch) until(ctx context.Context, p *sandbox.Process, t times) (cause, detail string) {
	start, total, idle := time.NewTimer(t.start), time.NewTimer(t.total), time.NewTimer(t.idle)
	defer start.Stop()
	defer total.Stop()
	defer idle.Stop()
	started := p.Started()
	if w.speaks {
		started = w.said
	}
	for {
		select {
		case <-p.Done():
			return "", ""
		case <-ctx.Done():
			if over, ok := errors.AsType[*overBudget](context.Cause(ctx)); ok {
				return kernel.CauseBudget, over.text
			}
			return kernel.CauseStopped, detailStopped
		case <-started:
			started = nil
			start.Stop()
		case <-start.C:
			return kernel.CauseStart, fmt.Sprintf("no sign of life within %s", t.start)
		case <-total.C:
			return kernel.CauseTimeout, fmt.Sprintf("not ended within %s", t.total)
		case <-idle.C:
			left := t.idle - (time.Since(w.begin) - time.Duration(w.last.Load()))
			if left <= 0 {
				return kernel.CauseIdle, fmt.Sprintf("no output for %s", t.idle)
			}
			idle.Reset(left)
		}
	}
}

// translate turns the sandbox's words into the kernel's. Our own cause stands
// before what the killing looked like from inside, unless the process was over
// already or a limit was faster.
func translate(e sandbox.Exit, cause, detail string) ending {
	out := ending{exit: kernel.Exit{Code: int64(e.Code), Cause: kernel.CauseExited}}
	if name := unix.SignalName(unix.Signal(e.Signal)); e.Signal != 0 && name != "" {
		out.exit.Code, out.exit.Signal = -1, name
	}
	switch {
	case e.Cause == sandbox.CauseResource:
		out.exit.Cause, out.detail = kernel.CauseResource, fmt.Sprintf("the limit %q of the sandbox was reached", e.Limit)
	case e.DiskLow && e.Cause == sandbox.CauseExited && e.Code != 0, e.Limit == sandbox.LimitDisk:
		out.exit = kernel.Exit{Code: -1, Cause: kernel.CauseStopped}
		out.err = failed(kernel.CodeEnvDisk, "the file system of the workspaces has less free than its reserve, and others took it", nil)
	case e.Cause == sandbox.CauseExited:
		out.detail = joined(hints(e.Hints), denied(e.Denied))
	case cause != "":
		out.exit.Cause, out.detail = cause, joined(detail, denied(e.Denied))
	case e.Cause == sandbox.CauseStartFailed:
		out.exit.Cause, out.err = kernel.CauseStartFailed, e.Err
		if out.err == nil {
			out.err = errors.New("the program never ran")
		}
	default:
		out.exit.Cause, out.detail = kernel.CauseStopped, "killed from outside"
	}
	return out
}

// hints are limits that were reached without ending the program, in words.
func hints(list []sandbox.Limit) string {
	if len(list) == 0 {
		return ""
	}
	words := make([]string, len(list))
	for i, h := range list {
		words[i] = string(h)
	}
	return "limits that were reached: " + strings.Join(words, ", ")
}

// denied are system calls that the sandbox refused, in words: a program that
// fails, or waits for ever, may do so because of them.
func denied(calls []string) string {
	if len(calls) == 0 {
		return ""
	}
	text := "system calls that the sandbox refused: " + strings.Join(calls, ", ")
	if slices.Contains(calls, "socket") {
		text += " (there is no network; a loopback interface is to be had with sandbox: bubblewrap and loopback: true)"
	}
	return text
}

// joined puts what there is to say into one.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// sentence says how it ended.
func (e ending) sentence() string {
	s := fmt.Sprintf("ended with exit status %d", e.exit.Code)
	switch {
	case e.err != nil:
		return "could not be started: " + e.err.Error()
	case e.exit.Cause != kernel.CauseExited:
		return "was ended: " + e.detail + "."
	case e.exit.Signal != "":
		s = "was ended by " + e.exit.Signal
	}
	if e.detail != "" {
		s += " (" + e.detail + ")"
	}
	return s + "."
}
