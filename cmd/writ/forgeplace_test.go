package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/server/servertest"
)

// forgePlace is a repository on an embedded forge, and the program that serves it.
type forgePlace struct{ *servertest.Place }

func newForgePlace(t *testing.T) *forgePlace {
	t.Helper()
	return &forgePlace{servertest.New(t, func(ctx context.Context, log io.Writer, env []string, file string) int {
		return newApp(strings.NewReader(""), log, log, env).main(ctx, []string{"serve", "--config", file})
	})}
}

// cli runs a command beside the server.
func (p *forgePlace) cli(args ...string) (int, string) {
	var out bytes.Buffer
	exit := Main(args, strings.NewReader(""), &out, &out, append(os.Environ(), p.Env...))
	return exit, out.String()
}
