package doctor

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/writbot/writ/cmd/internal/config"
)

// TestMounts: what a path doesn't tell of a mount is found by looking: second names of
// secret files, sockets, the embedded forge. Where not all was looked at, that is said.
func TestMounts(t *testing.T) {
	at := t.TempDir()
	path := func(name string) string {
		full := filepath.Join(at, name)
		must(t, os.MkdirAll(filepath.Dir(full), 0o700))
		return full
	}
	for _, name := range []string{"secrets/key", "state/key", "forge/forge.db", "sound/a", "sound/b/c", "linked/x", "engine/x"} {
		must(t, os.WriteFile(path(name), []byte(name), 0o600))
	}
	must(t, os.Link(path("secrets/key"), path("linked/deep/other")))
	must(t, os.Link(path("state/key"), path("signing/other")))
	must(t, os.Link(path("forge/forge.db"), path("tokens/other")))
	must(t, os.Link(path("sound/a"), path("sound/same"))) // of no secret
	t.Chdir(at)                                           // the name of a socket is short
	socket, err := net.Listen("unix", "engine/docker.sock")
	must(t, err)
	defer socket.Close()
	var cfg config.Config
	cfg.Server.StateDir, cfg.Forges.Local.Dir, cfg.Forges.Local.Token = path("state"), path("forge"), "TOKEN"
	getenv := func(name string) string { return map[string]string{"TOKEN_FILE": path("secrets/key")}[name] }
	for name, c := range map[string]struct {
		mount          string
		most           int
		status         Status
		detail, remedy string
	}{
		"sound":             {"sound", maxLooked, OK, "no socket and no other name", ""},
		"a secret":          {"linked", maxLooked, Failed, "/linked/deep/other is another name of " + path("secrets/key"), "hard link"},
		"the signing key":   {"signing", maxLooked, Failed, "another name of " + path("state/key"), "hard link"},
		"the tokens":        {"tokens", maxLooked, Failed, "another name of " + path("forge/forge.db"), "hard link"},
		"a socket":          {"engine", maxLooked, Warning, "the socket " + path("engine/docker.sock"), "without sockets"},
		"the socket itself": {"engine/docker.sock", maxLooked, Warning, "the socket", "without sockets"},
		"the forge":         {"", maxLooked, Failed, "embedded forge", "only what"},
		"a part of it":      {"forge/forge.db", maxLooked, Failed, "embedded forge", "only what"},
		"too much":          {"sound", 2, Warning, "only a part was looked through", "only what"},
		"gone":              {"none", maxLooked, Failed, "isn't there", "take it out"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			cfg.Checks.RO = []config.Mount{{Source: path(c.mount)}}
			all := mounts(t.Context(), cfg, getenv, nil, c.most)
			wants(t, all, NameMounts, c.status, c.detail, c.remedy)
		})
	}
	if all := Mounts(t.Context(), cfg, getenv, nil); len(all) != 1 || all[0].Status != Skipped {
		t.Errorf("without a mount: %v", all)
	}
}
