package main

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

	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
)

// A person's act reaches a running process as a file in its state directory,
// which nobody else can write: <id>.request appears whole, is taken away by the
// process, and is answered by <id>.answer.
const (
	requestExt = ".request"
	answerExt  = ".answer"

	// pollEvery is how soon a request or an answer is seen.
	pollEvery = 150 * time.Millisecond
	// answerTime bounds the wait for an answer: a stop kills a process tree and
	// pushes one commit.
	answerTime = 10 * time.Second
	// maxRequestBytes bounds a request file.
	maxRequestBytes = 8 << 10
	// maxReason bounds what a person gives as a reason, in bytes.
	maxReason = 1 << 10
)

// request is what a person asks of a running process.
type request struct {
	Act    string `json:"act"`   // one of kernel's Act words, or a server's
	World  string `json:"world"` // "" where there is only one
	Task   int64  `json:"task"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	Next   int64  `json:"next,omitempty"` // of logs: the first line that is asked for
	Time   int64  `json:"time"`           // Unix milliseconds; an old one is nobody's any more
}

// answer is what came of it.
type answer struct {
	OK bool `json:"ok"`
	// Said is what was done, where it isn't all that was asked for.
	Said   string      `json:"said,omitempty"`
	Detail string      `json:"detail"` // why not
	Code   kernel.Code `json:"code,omitempty"`
	Remedy string      `json:"remedy,omitempty"` // "" is the code's own
}

// refusal is the answer that an error makes.
func refusal(err error) answer {
	p := explain(err)
	return answer{Code: p.code, Detail: p.text, Remedy: p.remedy}
}

// problem is a refusal as its asker is told it.
func (a answer) problem(remedy string) *problem {
	if a.Code == "" {
		return &problem{exit: exitOther, text: "The running process refused. " + a.Detail, remedy: remedy}
	}
	return &problem{code: a.Code, exit: codeExit(a.Code), text: a.Detail, remedy: a.Remedy}
}

// errUnheard says that no process answered in time.
var errUnheard = errors.New("the running process gave no answer")

// ask leaves a request and waits for its answer. gone tells that the process
// has ended meanwhile, which also ends the wait.
func (s *stateDir) ask(ctx context.Context, r request, gone func() bool) (answer, error) {
	id := uuid.NewString()
	name := filepath.Join(s.file(requestsDir), id)
	data, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	if err = os.MkdirAll(s.file(requestsDir), 0o700); err == nil {
		err = replaceFile(name+requestExt, data)
	}
	if err != nil {
		p := failedState(s.path, err, "can't be written, and the process that runs there is asked by a file in it")
		if errors.Is(err, unix.EROFS) {
			p.remedy = "Call it where the directory can be written, as where the server itself runs."
		}
		return answer{}, p
	}
	defer func() {
		_ = os.Remove(name + requestExt) // taken by the process, usually
		_ = os.Remove(name + answerExt)
	}()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if data, err := os.ReadFile(name + answerExt); err == nil {
			var a answer
			return a, json.Unmarshal(data, &a)
		}
		if gone() {
			// Its last word may have come with its end.
			if data, err := os.ReadFile(name + answerExt); err == nil {
				var a answer
				return a, json.Unmarshal(data, &a)
			}
			return answer{}, errUnheard
		}
		select {
		case <-ctx.Done():
			return answer{}, errUnheard
		case <-tick.C:
		}
	}
}

// desk is the running process's side.
type desk struct {
	dir  *stateDir
	obey func(context.Context, request) answer
}

// openDesk throws away what was left for a dead process.
func openDesk(dir *stateDir, obey func(context.Context, request) answer) (*desk, error) {
	path := dir.file(requestsDir)
	if err := os.RemoveAll(path); err != nil {
		return nil, failedState(dir.path, err, "has requests that can't be cleared")
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, failedState(dir.path, err, "can't be written")
	}
	return &desk{dir: dir, obey: obey}, nil
}

// serve answers requests until ctx ends, and returns when all that it took are
// answered. None waits for another: a halt may take seconds, and a stop mustn't.
func (d *desk) serve(ctx context.Context) {
	var answers sync.WaitGroup
	defer answers.Wait()
	tick := time.NewTicker(pollEvery)
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
	names, err := filepath.Glob(filepath.Join(d.dir.file(requestsDir), "*"+requestExt))
	if err != nil {
		return nil
	}
	return names
}

// take takes one request away; an error says that its sender took it back.
func (d *desk) take(name string) ([]byte, error) {
	data, err := readLimited(name, maxRequestBytes)
	return data, errors.Join(err, os.Remove(name))
}

// answer answers one request.
func (d *desk) answer(ctx context.Context, name string, data []byte) {
	var r request
	a := answer{Detail: "The request can't be read."}
	if err := json.Unmarshal(data, &r); err == nil {
		a = answer{Detail: "The request is too old."}
		if time.Since(time.UnixMilli(r.Time)) <= answerTime {
			a = d.obey(ctx, r)
		}
	}
	if data, err := json.Marshal(a); err == nil {
		_ = replaceFile(strings.TrimSuffix(name, requestExt)+answerExt, data) // without it the sender says that nobody answered
	}
}

// obeyRun answers in a process that drives one task.
func obeyRun(task int64, acts chan<- supervisor.Act) func(context.Context, request) answer {
	return func(ctx context.Context, r request) answer {
		switch {
		case r.Task != task:
			return answer{Detail: fmt.Sprintf("The running process works on task %d. Wait for it to end.", task)}
		case r.Act == kernel.ActResume:
			return answer{Code: kernel.CodeTaskNotResumable, Detail: "The task is running; there is nothing to resume."}
		case r.Act != kernel.ActStop && r.Act != kernel.ActHalt:
			return answer{Detail: "The act is unknown."}
		}
		done := make(chan error, 1)
		select {
		case acts <- supervisor.Act{Kind: r.Act, Actor: r.Actor, Reason: r.Reason, Done: done}:
		case <-ctx.Done():
			return answer{Detail: "The run was over before the request was taken."}
		}
		if err := <-done; err != nil {
			return refusal(err)
		}
		return answer{OK: true}
	}
}
