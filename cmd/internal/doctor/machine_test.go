package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// sound is a machine without a fault; its state directory holds a ledger.
func sound(t *testing.T) Machine {
	t.Helper()
	m := Machine{
		Time:        patience,
		Config:      config.Default(),
		State:       func(string) (string, string) { return "", "" },
		Git:         func(context.Context) (string, error) { return "2.39.5", nil },
		Sandbox:     func(context.Context, string) error { return nil },
		Memory:      func() bool { return true },
		Lacks:       func() (string, string) { return "", "" },
		Layers:      func(context.Context) error { return nil },
		Builders:    []string{"default"},
		Environment: func(context.Context, string) []kernel.Violation { return nil },
		Preflight:   func(context.Context, string) (builder.Preflight, error) { return builder.Preflight{}, nil },
	}
	m.Config.Server.Listen = localtest.FreeAddress(t)
	m.Config.Server.StateDir = t.TempDir()
	m.Config.Builders = map[string]config.Builder{"default": config.DefaultBuilder("gofmt")}
	key, _, err := instancekey.LoadOrCreate(m.Config.Server.StateDir)
	must(t, err)
	testify(t, m.Config.Server.StateDir, key)
	return m
}

const world = "local/o/n"

// testify begins a ledger, and keeps its checkpoint.
func testify(t *testing.T, dir string, key *instancekey.Key) {
	t.Helper()
	store, err := ledger.Open(t.Context(), filepath.Join(dir, ledger.FileName), key, ledger.Options{})
	must(t, err)
	l, err := store.World(t.Context(), world)
	must(t, err)
	must(t, l.Start(t.Context(), kernel.Genesis{Contract: canon.Sum(nil), Kernel: kernel.Version(), Builders: []string{"default"}, MaxPaths: 1, MaxDepth: 1}, 1))
	signed, err := l.Checkpoint(t.Context())
	must(t, err)
	must(t, ledger.WriteCheckpoint(ledger.CheckpointFile(dir, world), signed))
	must(t, store.Close())
}

// TestInstallation_EachFault: a sound machine passes, and each thing that is wrong
// is the one check that doesn't.
func TestInstallation_EachFault(t *testing.T) {
	unavailable := &sandbox.Error{Code: sandbox.CodeUnavailable, Msg: "no namespaces", Remedy: "allow them"}
	only := func(works string) func(context.Context, string) error {
		return func(_ context.Context, level string) error {
			if level == works {
				return nil
			}
			return unavailable
		}
	}
	for name, c := range map[string]struct {
		spoil          func(t *testing.T, m *Machine, dir string)
		check          string
		status         Status
		detail, remedy string
	}{
		"nothing":       {func(*testing.T, *Machine, string) {}, NameSandbox, OK, "bubblewrap works", ""},
		"no state_dir":  {func(_ *testing.T, m *Machine, _ string) { m.Config.Server.StateDir = "" }, NameStateDir, Failed, "names none", "server.state_dir"},
		"not yet there": {func(_ *testing.T, m *Machine, dir string) { m.Config.Server.StateDir = dir + "/new" }, NameStateDir, Warning, "isn't there yet", "0700"},
		"open to others": {func(_ *testing.T, m *Machine, _ string) {
			m.State = func(string) (string, string) { return "It is open.", "chmod 700" }
		}, NameStateDir, Failed, "It is open", "chmod 700"},
		"shown to a sandbox": {func(_ *testing.T, m *Machine, dir string) {
			m.Config.Checks.RO = []config.Mount{{Source: filepath.Dir(dir), Target: "/opt/tools"}}
		}, NameStateDir, Failed, "checks.ro shows it", "Mount only"},
		"clock went back": {func(_ *testing.T, m *Machine, _ string) {
			m.Now = func() time.Time { return time.Now().Add(-time.Hour) }
		}, NameStateDir, Warning, "The clock went back", "timedatectl"},
		"store damaged": {func(t *testing.T, _ *Machine, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, ledger.FileName), []byte("no database at all, but long enough for one"), 0o600))
		}, NameStore, Failed, "can't be opened", "docs/operations.md"},
		"another key": {func(t *testing.T, _ *Machine, dir string) {
			must(t, os.Remove(filepath.Join(dir, instancekey.PrivateFile)))
			must(t, os.Remove(filepath.Join(dir, instancekey.PublicFile)))
			_, _, err := instancekey.LoadOrCreate(dir)
			must(t, err)
		}, NameKey, Failed, "a ledger is of", "back-up"},
		"no key": {func(t *testing.T, _ *Machine, dir string) {
			must(t, os.Remove(filepath.Join(dir, instancekey.PrivateFile)))
		}, NameKey, Failed, "can't be used", "back-up"},
		"checkpoint of more": {func(t *testing.T, _ *Machine, dir string) {
			other := t.TempDir()
			for _, name := range []string{instancekey.PrivateFile, instancekey.PublicFile} {
				data, err := os.ReadFile(filepath.Join(dir, name))
				must(t, err)
				must(t, os.WriteFile(filepath.Join(other, name), data, 0o600))
			}
			key, err := instancekey.Load(other)
			must(t, err)
			store, err := ledger.Open(t.Context(), filepath.Join(other, ledger.FileName), key, ledger.Options{})
			must(t, err)
			l, err := store.World(t.Context(), world)
			must(t, err)
			must(t, l.Start(t.Context(), kernel.Genesis{Contract: canon.Sum([]byte("x")), Kernel: kernel.Version(), Builders: []string{"x"}, MaxPaths: 1, MaxDepth: 1}, 1))
			signed, err := l.Checkpoint(t.Context())
			must(t, err)
			must(t, ledger.WriteCheckpoint(ledger.CheckpointFile(dir, world), signed))
			must(t, store.Close())
		}, NameLedger, Failed, string(kernel.CodeLedgerRollback), "writ ledger adopt"},
		"no git": {func(_ *testing.T, m *Machine, _ string) {
			m.Git = func(context.Context) (string, error) { return "", errors.New("gone") }
		}, NameGit, Failed, "gone", "apt-get install git"},
		"old git": {func(_ *testing.T, m *Machine, _ string) {
			m.Git = func(context.Context) (string, error) { return "2.9.5", nil }
		}, NameGit, Warning, "2.9.5", "2.39"},
		"no sandbox":           {func(_ *testing.T, m *Machine, _ string) { m.Sandbox = only("") }, NameSandbox, Failed, "no namespaces", "No other level"},
		"another sandbox":      {func(_ *testing.T, m *Machine, _ string) { m.Sandbox = only(config.SandboxLandlock) }, NameSandbox, Failed, "no namespaces", "set sandbox: landlock"},
		"sandbox: none":        {func(_ *testing.T, m *Machine, _ string) { m.Config.Sandbox = config.SandboxNone }, NameSandbox, Warning, "sandbox: none", "bubblewrap works here"},
		"weaker than could be": {func(_ *testing.T, m *Machine, _ string) { m.Config.Sandbox = config.SandboxLandlock }, NameSandbox, Warning, "has no loopback interface: a check that listens fails. The stronger level bubblewrap would work here, too", "sandbox: bubblewrap"},
		"an older kernel": {func(_ *testing.T, m *Machine, _ string) {
			m.Config.Sandbox, m.Sandbox = config.SandboxLandlock, only(config.SandboxLandlock)
			m.Lacks = func() (string, string) { return "Signals leave.", "Run Linux 6.12." }
		}, NameSandbox, Warning, "Signals leave", "Linux 6.12"},
		"memory is watched": {func(_ *testing.T, m *Machine, _ string) { m.Memory = func() bool { return false } }, NameSandbox, OK, "watched here, not held", ""},
		"builder not inside": {func(_ *testing.T, m *Machine, _ string) {
			m.Environment = func(context.Context, string) []kernel.Violation {
				return []kernel.Violation{{Code: kernel.CodeEnvBuilder, Subject: "gofmt", Detail: "The program isn't there."}}
			}
		}, NameBuilder, Failed, "gofmt: The program isn't there", "builders.default.argv"},
		"builder with a secret": {func(_ *testing.T, m *Machine, _ string) {
			b := m.Config.Builders["default"]
			b.Env = map[string]string{"MODEL_API_KEY": "x", "LANG": "C"}
			m.Config.Builders["default"] = b
		}, NameBuilder, Warning, "MODEL_API_KEY", "builders.default.env"},
		"builder with a provider": {func(_ *testing.T, m *Machine, _ string) {
			b := m.Config.Builders["default"]
			b.Env, b.Egress = map[string]string{"MODEL_API_KEY": "placeholder"}, []config.Egress{{Host: "models.example.org"}}
			m.Config.Builders["default"] = b
		}, NameBuilder, OK, "reaches the hosts of builders.default.egress through the gateway, and has no credentials", ""},
		"builder with a key outside": {asksModel(builder.Preflight{}, nil), NameBuilder, OK, "which has the credentials: MODEL_KEY. It has none itself", ""},
		"builder that nobody meters": {func(t *testing.T, m *Machine, dir string) {
			asksModel(builder.Preflight{}, nil)(t, m, dir)
			m.Config.Builders["default"].Egress[0].Credential.API = ""
			m.Config.Budgets.Day.Tokens = 5
		}, NameBuilder, Warning, "nobody meters what it uses by that: budgets don't hold it", "the api of its provider"},
		"builder with a key, untabled": {func(t *testing.T, m *Machine, dir string) {
			asksModel(builder.Preflight{}, nil)(t, m, dir)
			m.Config.Builders["default"].Egress[0].Credential = config.Credential{Secret: "MODEL_API_KEY"}
			m.Config.Budgets.Day.Tokens = 5
		}, NameBuilder, Warning, "sends MODEL_API_KEY to models.example.org, a host without an api: what is asked there is held to no table, and metered by nobody, so that budgets don't hold it.", "the api of its provider"},
		"preflight": {asksModel(builder.Preflight{Version: "1.2.3", Note: "Tested is 1.2.4.", Takes: []string{"models.example.org"}}, nil),
			NamePreflight, Warning, "Tested is 1.2.4. Its program starts in the sandbox, and says 1.2.3. Reached, and takes the key: models.example.org", "Install the tested version"},
		"preflight that passes": {asksModel(builder.Preflight{Version: "1.2.3", Passes: true, Takes: []string{"models.example.org"}}, nil),
			NamePreflight, OK, "says 1.2.3. What it asks its provider for first is in the gateway's table. Reached", ""},
		"preflight that fails": {asksModel(builder.Preflight{Faults: []kernel.Violation{{Code: kernel.CodeProviderRefused, Subject: "models.example.org", Detail: "It answers with the status 401."}}}, nil),
			NamePreflight, Failed, "Nothing would be claimed for it. models.example.org: It answers with the status 401. (provider.refused)", "Look at the key"},
		"preflight without a key": {asksModel(builder.Preflight{}, errors.New("MODEL_KEY is not set")), NamePreflight, Skipped, "MODEL_KEY is not set", ""},
		"no server":               {func(*testing.T, *Machine, string) {}, NameServer, Skipped, "No writ serve runs", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := sound(t)
			c.spoil(t, &m, m.Config.Server.StateDir)
			all := Installation(t.Context(), m)
			wants(t, all, c.check, c.status, c.detail, c.remedy)
			for _, other := range all {
				later := c.status == Failed || c.check == NameStateDir
				inMemory := other.Name == NameStateDir && strings.Contains(other.Detail, "may not last") // as the tests' directories may be
				if other.Name != c.check && !inMemory && (other.Status == Failed || other.Status == Warning || other.Status == Skipped && other.Name != NameServer && !later) {
					t.Errorf("%s is %s as well: %s", other.Name, other.Status, other.Detail)
				}
			}
		})
	}
}

// TestInstallation_WhatCanBeRead: what is wrong with the state directory, or with the store,
// keeps nothing else from being looked at that can be.
func TestInstallation_WhatCanBeRead(t *testing.T) {
	m := sound(t)
	dir := m.Config.Server.StateDir
	m.Config.Checks.RO = []config.Mount{{Source: filepath.Dir(dir), Target: "/opt/tools"}}
	all := Installation(t.Context(), m)
	wants(t, all, NameStateDir, Failed, "checks.ro shows it", "Mount only")
	wants(t, all, NameStore, OK, "sound", "")
	wants(t, all, NameLedger, OK, "1 verified", "")
	wants(t, all, NameKey, OK, "SHA256:", "")

	must(t, os.WriteFile(filepath.Join(dir, ledger.FileName), []byte("no database at all, but long enough for one"), 0o600))
	all = Installation(t.Context(), m)
	wants(t, all, NameStore, Failed, "can't be opened", "docs/operations.md")
	wants(t, all, NameLedger, Skipped, "The store can't be read", "")
	wants(t, all, NameKey, OK, "Whether the ledgers are signed with it can't be seen", "")

	m.State = func(string) (string, string) { return "It is somebody else's.", "Give another." }
	for _, name := range []string{NameStore, NameLedger, NameKey} {
		wants(t, Installation(t.Context(), m), name, Skipped, "The state directory can't be used", "")
	}
}

// asksModel gives the builder a provider of models, and a preflight that ends so.
func asksModel(p builder.Preflight, err error) func(*testing.T, *Machine, string) {
	return func(_ *testing.T, m *Machine, _ string) {
		b := m.Config.Builders["default"]
		b.Egress = []config.Egress{{Host: "models.example.org", Credential: config.Credential{Secret: "MODEL_KEY", API: "anthropic"}}}
		m.Config.Builders["default"] = b
		m.Preflight = func(context.Context, string) (builder.Preflight, error) { return p, err }
	}
}

// TestInstallation_Server: what the server that runs says of itself.
func TestInstallation_Server(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		status Status
		detail string
	}{
		"ready":     {`{"ready":true,"checks":[{"name":"store","ok":true}]}`, OK, "is ready"},
		"not ready": {`{"ready":false,"checks":[{"name":"store","ok":false}]}`, Failed, "isn't ready: store"},
		"degraded":  {`{"ready":true,"degraded":true,"checks":[{"name":"git:x","ok":false,"reason":"It is gone."}]}`, Warning, "does without git:x (It is gone)"},
		"draining":  {`{"ready":false,"draining":true,"checks":[]}`, Warning, "about to end"},
		"another":   {`<html>`, Failed, "no server of writ's"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" {
					t.Errorf("asked for %s", r.URL.Path)
				}
				_, _ = w.Write([]byte(c.answer))
			}))
			defer srv.Close()
			m := sound(t)
			m.Config.Server.Listen = strings.TrimPrefix(srv.URL, "http://")
			wants(t, Installation(t.Context(), m), NameServer, c.status, c.detail, "")
		})
	}
}

// TestPlace: which file systems keep a store.
func TestPlace(t *testing.T) {
	const ext4, plenty = 0xef53, 50 << 30
	for name, c := range map[string]struct {
		at     place
		status Status
	}{
		"ext4": {place{ext4, plenty}, OK}, "NFS": {place{0x6969, plenty}, Failed}, "CIFS": {place{0xff534d42, plenty}, Failed},
		"tmpfs": {place{0x01021994, plenty}, Warning}, "little room": {place{ext4, 500 << 20}, Warning}, "no room": {place{ext4, 10 << 20}, Failed},
	} {
		got := Check{Name: NameStateDir, Status: c.at.judge().status, Detail: c.at.judge().detail, Remedy: c.at.judge().remedy}
		wants(t, []Check{got}, NameStateDir, c.status, "", "")
		_ = name
	}
}

// TestCheck_TimesOut: a check that gets no answer ends, and says so.
func TestCheck_TimesOut(t *testing.T) {
	r := &runner{limit: time.Millisecond}
	r.check(t.Context(), NameGit, func(ctx context.Context) result {
		<-ctx.Done()
		return bad("Look.", "It hangs.")
	})
	wants(t, r.done, NameGit, Failed, "no answer within 1ms", "Look")
}

// TestConfiguration: every fault of a file is named.
func TestConfiguration(t *testing.T) {
	_, err := config.Parse("writ.yaml", []byte("sandbx: none\nserver: {listen: x}\n"))
	wants(t, []Check{Configuration("writ.yaml", err)}, NameConfiguration, Failed, "for 2 reasons: line 1, sandbx", "docs/configuration.md")
	wants(t, []Check{Configuration("writ.yaml", nil)}, NameConfiguration, OK, "", "")
}

// TestPrint: a line each, the remedy below what is not as it should be, and
// nothing that steers a terminal.
func TestPrint(t *testing.T) {
	var b strings.Builder
	must(t, Print(&b, []Check{
		{Name: NameGit, Status: OK, Detail: "It is\ngit.", Remedy: "never shown"},
		{Name: NameLabel, Subject: "o/n", Status: Failed, Detail: "None\x1b[31m.", Remedy: "Make it.\nOr another."},
	}))
	const want = "+ ok       git              It is git.\nx failed   label            o/n: None"
	if got := b.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\n    Make it.\n    Or another.\n") || strings.Contains(got, "\x1b") || strings.Contains(got, "never") {
		t.Errorf("printed is\n%q", got)
	}
	data, err := json.Marshal(Check{Name: NameGit, Status: OK, Detail: "x"})
	if err != nil || string(data) != `{"name":"git","status":"ok","detail":"x"}` {
		t.Errorf("as JSON %s %v", data, err)
	}
}

// TestInstallation_WhatAWorkspaceCosts says which way is in force; neither is a fault.
func TestInstallation_WhatAWorkspaceCosts(t *testing.T) {
	for want, change := range map[string]func(*Machine){
		"one costs what is written to it":                                              func(*Machine) {},
		"laid out whole, each file of a repository for each of them: layers.size is 0": func(m *Machine) { m.Config.Layers.Size = 0 },
		"laid out whole, each file of a repository for each of them: no overlay here": func(m *Machine) {
			m.Layers = func(context.Context) error { return errors.New("no overlay here") }
		},
	} {
		m := sound(t)
		change(&m)
		for _, c := range Installation(t.Context(), m) {
			if c.Name == NameSandbox && (c.Status != OK || !strings.Contains(c.Detail, want)) {
				t.Errorf("%s: %s", c.Status, c.Detail)
			}
		}
	}
}
