package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// serverPlace is a repository on an embedded forge, and a server of it in this process.
type serverPlace struct{ *servePlace }

func newServerPlace(t *testing.T) *serverPlace {
	t.Helper()
	return &serverPlace{newServePlace(t, func(ctx context.Context, log io.Writer, env []string, file string) int {
		return status(log, serve(ctx, newProcess(log, env), file, nil))
	})}
}

// status logs how a server ended, and returns the exit status.
func status(log io.Writer, err error) int {
	var q quiet
	if err == nil || errors.As(err, &q) {
		return int(q)
	}
	p := explain(err)
	fmt.Fprintln(log, p.Error()+"\n"+p.remedy)
	return p.exit
}

// server is one that nothing drives; it is closed when the test ends.
func (p *serverPlace) server() *server {
	p.t.Helper()
	a := newProcess(io.Discard, append(os.Environ(), p.env...))
	cfg, err := a.load(p.config())
	must(p.t, err)
	s, err := newServer(p.t.Context(), a, cfg)
	must(p.t, err)
	p.t.Cleanup(s.close)
	return s
}
