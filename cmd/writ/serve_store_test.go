package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
)

// TestR3_ServerNoticesTheLostLock: a server whose lock file is removed ends, for another
// process could take its place.
func TestR3_ServerNoticesTheLostLock(t *testing.T) {
	in, err := openInstallation(t.Context(), config.Default(), filepath.Join(t.TempDir(), "s"), lastUse{Server: true}, slog.New(slog.DiscardHandler))
	must(t, err)
	defer in.Close()
	must(t, os.Remove(in.dir.file("lock")))
	synctest.Test(t, func(t *testing.T) {
		s := &server{in: &installation{dir: in.dir, db: &store.DB{}}}
		if err := s.watchStore(t.Context()); explain(err).code != kernel.CodeEnvState {
			t.Errorf("the server goes on: %v", err)
		}
	})
}
