package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/cmd/internal/server/servertest"
	"github.com/writbot/writ/cmd/internal/wire"
)

// serverPlace is a repository on an embedded forge, and a server of it in this process.
type serverPlace struct{ *servertest.Place }

func newServerPlace(t *testing.T) *serverPlace {
	t.Helper()
	return &serverPlace{servertest.New(t, func(ctx context.Context, log io.Writer, env []string, file string) int {
		return status(log, Serve(ctx, wire.NewProcess(log, env), file, nil))
	})}
}

// status logs how a server ended, and returns the exit status.
func status(log io.Writer, err error) int {
	var q problem.Quiet
	if err == nil || errors.As(err, &q) {
		return int(q)
	}
	p := problem.Explain(err)
	fmt.Fprintln(log, p.Error()+"\n"+p.Remedy)
	return p.Exit
}

// server is one that nothing drives; it is closed when the test ends.
func (p *serverPlace) server() *server {
	p.T.Helper()
	proc := wire.NewProcess(io.Discard, append(os.Environ(), p.Env...))
	cfg, err := proc.Load(p.Config())
	must(p.T, err)
	s, err := newServer(p.T.Context(), proc, cfg)
	must(p.T, err)
	p.T.Cleanup(s.close)
	return s
}
