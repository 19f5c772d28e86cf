package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
)

// TestR3_ServerNoticesTheLostLock: a server whose lock file is removed ends, for another
// process could take its place.
func TestR3_ServerNoticesTheLostLock(t *testing.T) {
	in, err := installation.Open(t.Context(), config.Default(), filepath.Join(t.TempDir(), "s"), installation.Use{Server: true}, slog.New(slog.DiscardHandler))
	must(t, err)
	defer in.Close()
	must(t, os.Remove(in.Dir.File("lock")))
	synctest.Test(t, func(t *testing.T) {
		s := &server{in: &installation.Installation{Dir: in.Dir, DB: &store.DB{}}}
		if err := s.watchStore(t.Context()); problem.Explain(err).Code != kernel.CodeEnvState {
			t.Errorf("the server goes on: %v", err)
		}
	})
}
