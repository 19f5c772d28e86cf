package installation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
)

// A person's act reaches a running process as a file in its state directory,
// which nobody else can write: <id>.request appears whole, is taken away by the
// process, and is answered by <id>.answer.
const (
	requestExt = ".request"
	answerExt  = ".answer"

	// PollEvery is how soon a request or an answer is seen.
	PollEvery = 150 * time.Millisecond
	// AnswerTime bounds the wait for an answer: a stop kills a process tree and
	// pushes one commit.
	AnswerTime = 10 * time.Second
	// maxRequestBytes bounds a request file.
	maxRequestBytes = 8 << 10
	// maxReason bounds what a person gives as a reason, in bytes.
	maxReason = 1 << 10
)

// Request is what a person asks of a running process.
type Request struct {
	Act    string `json:"act"`   // one of kernel's Act words, or a server's
	World  string `json:"world"` // "" where there is only one
	Task   int64  `json:"task"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	Next   int64  `json:"next,omitempty"` // of logs: the first line that is asked for
	Time   int64  `json:"time"`           // Unix milliseconds; an old one is nobody's any more
}

// Answer is what came of it.
type Answer struct {
	OK bool `json:"ok"`
	// Said is what was done, where it isn't all that was asked for.
	Said   string      `json:"said,omitempty"`
	Detail string      `json:"detail"` // why not
	Code   kernel.Code `json:"code,omitempty"`
	Remedy string      `json:"remedy,omitempty"` // "" is the code's own
}

// Refusal is the answer that an error makes.
func Refusal(err error) Answer {
	p := problem.Explain(err)
	return Answer{Code: p.Code, Detail: p.Text, Remedy: p.Remedy}
}

// Problem is a refusal as its asker is told it.
func (a Answer) Problem(remedy string) *problem.Error {
	if a.Code == "" {
		return &problem.Error{Exit: problem.ExitOther, Text: "The running process refused. " + a.Detail, Remedy: remedy}
	}
	return &problem.Error{Code: a.Code, Exit: problem.ExitOfCode(a.Code), Text: a.Detail, Remedy: a.Remedy}
}

// ErrUnheard says that no process answered in time.
var ErrUnheard = errors.New("the running process gave no answer")

// Ask leaves a request and waits for its answer. gone tells that the process
// has ended meanwhile, which also ends the wait.
func (s *Dir) Ask(ctx context.Context, r Request, gone func() bool) (Answer, error) {
	id := uuid.NewString()
	name := filepath.Join(s.File(requestsDir), id)
	data, err := json.Marshal(r)
	if err != nil {
		return Answer{}, err
	}
	if err = os.MkdirAll(s.File(requestsDir), 0o700); err == nil {
		err = ReplaceFile(name+requestExt, data)
	}
	if err != nil {
		p := FailedState(s.Path, err, "can't be written, and the process that runs there is asked by a file in it")
		if errors.Is(err, unix.EROFS) {
			p.Remedy = "Call it where the directory can be written, as where the server itself runs."
		}
		return Answer{}, p
	}
	defer func() {
		_ = os.Remove(name + requestExt) // taken by the process, usually
		_ = os.Remove(name + answerExt)
	}()
	ctx, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	tick := time.NewTicker(PollEvery)
	defer tick.Stop()
	for {
		if data, err := os.ReadFile(name + answerExt); err == nil {
			var a Answer
			return a, json.Unmarshal(data, &a)
		}
		if gone() {
			// Its last word may have come with its end.
			if data, err := os.ReadFile(name + answerExt); err == nil {
				var a Answer
				return a, json.Unmarshal(data, &a)
			}
			return Answer{}, ErrUnheard
		}
		select {
		case <-ctx.Done():
			return Answer{}, ErrUnheard
		case <-tick.C:
		}
	}
}

// desk is the running process's side.
type desk struct {
	dir  *Dir
	obey func(context.Context, Request) Answer
}

// OpenDesk throws away what was left for a dead process.
func OpenDesk(dir *Dir, obey func(context.Context, Request) Answer) (*desk, error) {
	path := dir.File(requestsDir)
	if err := os.RemoveAll(path); err != nil {
		return nil, FailedState(dir.Path, err, "has requests that can't be cleared")
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, FailedState(dir.Path, err, "can't be written")
	}
	return &desk{dir: dir, obey: obey}, nil
}

// Serve answers requests until ctx ends, and returns when all that it took are
// answered. None waits for another: a halt may take seconds, and a stop mustn't.
func (d *desk) Serve(ctx context.Context) {
	var answers sync.WaitGroup
	defer answers.Wait()
	tick := time.NewTicker(PollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, name := range d.waiting() {
			if r, err := d.take(name); err == nil {
				answers.Go(func() { d.answer(ctx, name, r) })
			}
		}
	}
}

func (d *desk) waiting() []string {
	names, err := filepath.Glob(filepath.Join(d.dir.File(requestsDir), "*"+requestExt))
	if err != nil {
		return nil
	}
	return names
}

// take takes one request away; an error says that its sender took it back.
func (d *desk) take(name string) ([]byte, error) {
	data, err := ReadLimited(name, maxRequestBytes)
	return data, errors.Join(err, os.Remove(name))
}

// answer answers one request.
func (d *desk) answer(ctx context.Context, name string, data []byte) {
	var r Request
	a := Answer{Detail: "The request can't be read."}
	if err := json.Unmarshal(data, &r); err == nil {
		a = Answer{Detail: "The request is too old."}
		if time.Since(time.UnixMilli(r.Time)) <= AnswerTime {
			a = d.obey(ctx, r)
		}
	}
	if data, err := json.Marshal(a); err == nil {
		_ = ReplaceFile(strings.TrimSuffix(name, requestExt)+answerExt, data) // without it the sender says that nobody answered
	}
}

// ObeyRun answers in a process that drives one task.
func ObeyRun(task int64, acts chan<- supervisor.Act) func(context.Context, Request) Answer {
	return func(ctx context.Context, r Request) Answer {
		switch {
		case r.Task != task:
			return Answer{Detail: fmt.Sprintf("The running process works on task %d. Wait for it to end.", task)}
		case r.Act == kernel.ActResume:
			return Answer{Code: kernel.CodeTaskNotResumable, Detail: "The task is running; there is nothing to resume."}
		case r.Act != kernel.ActStop && r.Act != kernel.ActHalt:
			return Answer{Detail: "The act is unknown."}
		}
		done := make(chan error, 1)
		select {
		case acts <- supervisor.Act{Kind: r.Act, Actor: r.Actor, Reason: r.Reason, Done: done}:
		case <-ctx.Done():
			return Answer{Detail: "The run was over before the request was taken."}
		}
		if err := <-done; err != nil {
			return Refusal(err)
		}
		return Answer{OK: true}
	}
}
