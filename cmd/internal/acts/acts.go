// Package acts carries out what a person does from the command line: the process that runs
// on the state directory does it, and where none runs it is recorded here, for the next one.
package acts

import (
	"context"
	"errors"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/wire"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

// Done says who carried out an act.
type Done struct {
	// Answer is what the process that runs says; nil where none runs, and the act was
	// recorded here. A stop isn't: there is nothing to be stopped.
	Answer *installation.Answer
	Server bool // the state directory is a server's
}

// Do has the process that runs stop, halt or resume a task, or does it itself where none does.
func Do(ctx context.Context, proc *wire.Process, at wire.Found, r installation.Request) (Done, error) {
	dir, err := installation.OpenDir(at.State, r.Act == kernel.ActHalt)
	if err != nil {
		return Done{}, err
	}
	ans, err := ask(ctx, dir, r)
	if ans != nil || err != nil {
		return Done{Answer: ans}, err
	}
	return Done{Server: at.Use.Server}, alone(ctx, proc, at, r)
}

// ask asks the process that runs on a state directory. The answer is nil where none does.
func ask(ctx context.Context, dir *installation.Dir, r installation.Request) (*installation.Answer, error) {
	busy := func() bool { return errors.As(dir.Probe(), new(*problem.Error)) }
	if !busy() {
		return nil, nil
	}
	r.Time = time.Now().UnixMilli()
	ans, err := dir.Ask(ctx, r, func() bool { return !busy() })
	switch {
	case err == nil:
		return &ans, nil
	case !errors.Is(err, installation.ErrUnheard):
		return nil, err
	case busy():
		return nil, problem.Coded(kernel.CodeStateUnanswered, "The running process did not answer within %s.", installation.AnswerTime)
	}
	return nil, nil
}

// alone records an act where no process runs.
func alone(ctx context.Context, proc *wire.Process, at wire.Found, r installation.Request) error {
	if err := at.Settle(ctx); err != nil {
		return err
	}
	if r.Act == kernel.ActStop {
		return nil
	}
	if at.Place.URL == "" && r.Act == kernel.ActResume {
		return at.Unknown()
	}
	in, err := open(ctx, proc, at, r.Task)
	if err != nil {
		return err
	}
	defer in.Close()
	sup, err := proc.Supervise(ctx, in, nil, wire.Supervision{})
	if err != nil {
		return err
	}
	if r.Act == kernel.ActResume {
		if err := in.Resumable(ctx, sup, sup.View(r.Task)); err != nil {
			return at.Explain(err, "; or start the server")
		}
	}
	if err := record(ctx, sup, r); err != nil {
		return at.Explain(err, "; or start the server")
	}
	in.Checkpoint(ctx)
	if r.Act == kernel.ActResume && at.Use.Server {
		return inbox.New(in.DB).Mark(ctx, []inbox.Key{{World: in.World, Task: r.Task}}, time.Now().UnixMilli())
	}
	return nil
}

// open opens the installation and the world of an act. The repository is
// nil where nothing says where it is: a halt needs none.
func open(ctx context.Context, proc *wire.Process, at wire.Found, task int64) (*installation.Governed, error) {
	log := proc.Warnings()
	if at.Named && at.World == "" {
		if err := at.Place.Identify(true); err != nil {
			return nil, err
		}
	}
	use := installation.Use{Task: task}
	if !at.Use.Server {
		use.Repo, use.World, use.Names = at.Place.URL, at.Place.World, map[string]string{at.Place.World: at.Place.Display}
	}
	repo, err := proc.Repository(ctx, at.Cfg, at.Place, log)
	if err != nil {
		return nil, err
	}
	in, err := installation.Open(ctx, at.Cfg, at.State, use, log)
	if err != nil {
		installation.CloseRepo(repo)
		return nil, err
	}
	g, err := in.Govern(ctx, at.Place.World, at.Place.Display, repo)
	if err != nil {
		installation.CloseRepo(repo)
		in.Close()
		return nil, err
	}
	return g, nil
}

func record(ctx context.Context, sup *supervisor.Supervisor, r installation.Request) error {
	if r.Act == kernel.ActHalt {
		return sup.Halt(ctx, r.Task, r.Actor, r.Reason)
	}
	return sup.Resume(ctx, r.Task, r.Actor, r.Reason)
}
