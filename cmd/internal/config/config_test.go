package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/writbot/writ/kernel"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md from the struct")

// TestReference_IsTheManual holds docs/configuration.md to the struct.
func TestReference_IsTheManual(t *testing.T) {
	page := filepath.Join("..", "..", "..", "docs", "configuration.md")
	if *update {
		if err := os.WriteFile(page, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Reference(), string(have)); diff != "" {
		t.Errorf("docs/configuration.md isn't what the struct says; run go test ./cmd/internal/config -update\n%s", diff)
	}
}

// TestReference_EveryKeyIsDocumented keeps a key from being added in silence.
func TestReference_EveryKeyIsDocumented(t *testing.T) {
	for _, line := range strings.Split(Reference(), "\n") {
		cells := strings.Split(line, " | ")
		if strings.HasPrefix(line, "| `") && (len(cells) != 3 || len(cells[2]) < len("Cap of x. |")) {
			t.Errorf("no documentation: %s", line)
		}
	}
}

// TestParse_TheExampleOfTheManual keeps the example true.
func TestParse_TheExampleOfTheManual(t *testing.T) {
	_, rest, _ := strings.Cut(Reference(), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	c, err := Parse("example", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultBuilder("gofmt", "-w", ".")
	want.RO = []Mount{{Source: "/usr/local/go"}}
	if diff := cmp.Diff(want, c.Builders["default"]); diff != "" {
		t.Error(diff)
	}
}

func TestParse_EmptyIsDefault(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "{}\n"} {
		c, err := Parse("f", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(Default(), c); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestParse_Whole(t *testing.T) {
	c, err := Parse("f", []byte(`
sandbox: none
without_landlock: true
builders:
  default: {argv: [sh, -c, "echo a: b"], env: {LANG: C}, ro: [/opt/x, "/opt/y:/y"], result: required, loopback: true, git: false}
checks: {env: {CI: "1"}, ro: [/opt/x], loopback: true}
limits: {cpu: 90s, memory: 512MiB, processes: 7, open_files: 64, file_size: 1KiB, tmp: 2MiB, output: 1MiB}
lease: {seconds: 30, grace: 1s, max: 10m, margin: 5s, skew: 0s}
caps: {build_timeout: 10m, attempts: 2, bytes: 1MiB, checks: 3}
lock_sources: [proxy.example.com, "npm.example:8443", github.com/Owner/name, "git+ssh://git.example/o/r"]
base: release/1
refs: heads
identity: {name: A, email: a@b.invalid}
world: host/o/r
redact: [MY_TOKEN]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Builder{
		Kind: KindCommand, Argv: []string{"sh", "-c", "echo a: b"}, Env: map[string]string{"LANG": "C"},
		RO: []Mount{{Source: "/opt/x"}, {"/opt/y", "/y"}}, Result: ResultRequired, Loopback: true,
	}
	if diff := cmp.Diff(want, c.Builders["default"]); diff != "" {
		t.Error(diff)
	}
	if l := c.Limits.Sandbox(); l.CPU != 90*time.Second || l.MemoryBytes != 512<<20 || l.TmpBytes != 2<<20 {
		t.Errorf("limits: %+v", l)
	}
	if p := c.Lease.Policy(); p.Validate() != nil || p.GraceSeconds != 1 || p.MaxLeaseSeconds != 600 || c.Lease.MarginSeconds() != 5 {
		t.Errorf("policy: %+v", p)
	}
	if k := c.Caps.Contract(); k.Budgets.BuildTimeoutMs != 600_000 || k.Budgets.Attempts != 2 || k.Budgets.Bytes != 1<<20 || k.Checks != 3 {
		t.Errorf("caps: %+v", k)
	}
	if diff := cmp.Diff([]string{"proxy.example.com", "npm.example:8443", "github.com/Owner/name", "git+ssh://git.example/o/r"}, c.LockSources); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"MY_TOKEN"}, c.Redact); diff != "" {
		t.Error(diff)
	}
}

// TestParse_LoopbackUnlessTheLevelHasNone: builders and checks have a loopback
// interface by default, and are refused nothing at the level that can't give one.
func TestParse_LoopbackUnlessTheLevelHasNone(t *testing.T) {
	for level, want := range map[string]bool{SandboxBubblewrap: true, SandboxNone: true, SandboxLandlock: false} {
		c, err := Parse("f", []byte("sandbox: "+level+"\nbuilders: {default: {argv: [a]}, other: {argv: [a], loopback: false}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if c.Checks.Loopback != want || c.Builders["default"].Loopback != want || c.Builders["other"].Loopback {
			t.Errorf("%s: checks %v, builders %+v", level, c.Checks.Loopback, c.Builders)
		}
	}
}

// TestParse_Refuses has each thing that is refused: where, and the words that
// tell what to do.
func TestParse_Refuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key":           {"sandbx: none\n", "f:1: sandbx: The key is unknown; known are sandbox"},
		"unknown nested":        {"lease:\n  secs: 3\n", "f:2: lease.secs: The key is unknown"},
		"twice":                 {"base: a\nbase: b\n", "f:2: base: The key is there twice"},
		"two documents":         {"base: a\n---\nbase: b\n", "f: It holds more than one document"},
		"no mapping":            {"[1]\n", "f:1: It must be a mapping"},
		"broken":                {"a: [\n", "f:1: It is not YAML"},
		"not text":              {"base: 7\n", "f:1: base: It must be text"},
		"null":                  {"base:\n", "f:1: base: It has no value"},
		"tag":                   {"base: !!str a\n", "Tags are not read"},
		"anchor":                {"base: &a main\nworld: *a\n", "f:1: base: Anchors and aliases"},
		"bad utf-8":             {"base: \"\xff\"\n", "UTF-8"},
		"too long":              {"#" + strings.Repeat("x", MaxBytes) + "\n", "more than"},
		"word":                  {"sandbox: docker\n", "f:1: sandbox: It must be bubblewrap or landlock or none."},
		"truth":                 {"without_landlock: 1\n", "true or false"},
		"number":                {"limits: {processes: 0}\n", "f:1: limits.processes: It must be a whole number from 1"},
		"hexadecimal":           {"limits: {processes: 0x10}\n", "whole number"},
		"float":                 {"limits: {processes: 1.5}\n", "whole number"},
		"time without unit":     {"limits: {cpu: 90}\n", "f:1: limits.cpu: It must be text with its unit"},
		"time":                  {"limits: {cpu: -1s}\n", "f:1: limits.cpu: It must be a time from 1s to 720h"},
		"size":                  {"limits: {memory: 4GB}\n", "f:1: limits.memory: It must be a size from 16MiB"},
		"size overflow":         {"limits: {memory: 9999999999TiB}\n", "It must be a size"},
		"mount relative":        {"checks: {ro: [opt/x]}\n", "f:1: checks.ro.0: It must be a clean absolute path"},
		"mount dots":            {"checks: {ro: [/opt/../x]}\n", "clean absolute path"},
		"mount empty target":    {"checks: {ro: [\"/opt:\"]}\n", "clean absolute path"},
		"list":                  {"redact: TOKEN\n", "f:1: redact: It must be a list"},
		"builder's name":        {"builders: {\"../x\": {argv: [a]}}\n", "f:1: builders.../x: A builder's name"},
		"no argv":               {"builders: {default: {git: true}}\n", "f:1: builders.default: It needs a command"},
		"variable's name":       {"checks: {env: {\"A=B\": x}}\n", "f:1: checks.env.A=B: It must be the name"},
		"writ's variable":       {"checks: {env: {WRIT_RESULT: x}}\n", "Writ sets it itself"},
		"margin":                {"lease: {seconds: 15}\n", "lease.margin: It must be shorter than lease.seconds"},
		"builder's loopback":    {"sandbox: landlock\nbuilders: {default: {argv: [a], loopback: true}}\n", "f:2: builders.default.loopback: The level landlock has no loopback"},
		"egress at landlock":    {"sandbox: landlock\nchecks: {egress: [{host: example.org}]}\n", "f:2: checks.egress: The level landlock has no network namespace"},
		"egress at none":        {"sandbox: none\nbuilders: {default: {argv: [a], egress: [{host: example.org}]}}\n", "f:2: builders.default.egress: The level none has no network namespace"},
		"egress everywhere":     {"checks: {egress: [{host: \"*\"}]}\n", "f:1: checks.egress.0: host \"*\": not a whole domain name: name a host"},
		"egress to an address":  {"worlds: {a/b: {egress: [{host: 10.0.0.1}]}}\n", "f:1: worlds.a/b.egress.0: host \"10.0.0.1\": an address instead of a name"},
		"egress's port":         {"checks: {egress: [{host: example.org, ports: [65536]}]}\n", "f:1: checks.egress.0: there is no port 65536"},
		"egress's method":       {"checks: {egress: [{host: example.org, methods: [get]}]}\n", "method \"get\" is unknown"},
		"egress's network":      {"checks: {egress: [{host: example.org, addresses: [10.0.0.0/7]}]}\n", "10.0.0.0/7 is no part of a private network"},
		"no network":            {"checks: {egress: [{host: example.org, addresses: [here]}]}\n", "\"here\" is no network"},
		"a world's credential":  {"worlds: {a/b: {egress: [{host: example.org, credential: {secret: X}}]}}\n", "f:1: worlds.a/b.egress.0.credential: It is given to a builder or to checks"},
		"a credential's value":  {"checks: {egress: [{host: example.org, credential: {secret: glpat-x y}}]}\n", "credential.secret: It must be the name of an environment variable"},
		"a credential's header": {"checks: {egress: [{host: example.org, credential: {secret: X, header: Host}}]}\n", "\"Host\" is no header for a credential"},
		"a credential of many":  {"checks: {egress: [{host: \"*.example.org\", credential: {secret: X}}]}\n", "a credential is for one host"},
		"an unknown provider":   {"builders: {a: {argv: [a], egress: [{host: example.org, credential: {secret: X, api: acme}}]}}\n", "f:1: builders.a.egress.0.credential.api: There is no table for it; there are: anthropic, gemini, openai."},
		"a provider's prefix":   {"builders: {a: {argv: [a], egress: [{host: example.org, credential: {secret: X, api: openai, prefix: x}}]}}\n", "f:1: builders.a.egress.0.credential.prefix: The table"},
		"a row too far":         {"builders: {a: {argv: [a], egress: [{host: example.org, credential: {secret: X, api: openai, allow: [tools.n.type=web_fetch]}}]}}\n", "f:1: builders.a.egress.0.credential.allow: The row \"tools.n.type=web_fetch\": \"web\" is for what the provider fetches"},
		"a row of no place":     {"builders: {a: {argv: [a], egress: [{host: example.org, credential: {secret: X, api: openai, allow: [tool.n.type=x]}}]}}\n", "credential.allow: The row \"tool.n.type=x\": the table has no such place"},
		"a row without an api":  {"builders: {a: {argv: [a], egress: [{host: example.org, credential: {secret: X, allow: [tools]}}]}}\n", "credential.allow: There is no table without an api"},
		"a provider's key":      {"builders: {a: {argv: [a], egress: [{host: example.org, credential: {secret: abcdef0123456789, api: openai}}]}}\n", "credential.secret: It must be the name of an environment variable"},
		"a provider, untabled":  {"builders: {a: {argv: [a], egress: [{host: API.anthropic.com.}]}}\n", "f:1: builders.a.egress.0: api.anthropic.com is a provider of models"},
		"providers by pattern":  {"checks: {egress: [{host: \"*.openai.com\"}]}\n", "f:1: checks.egress.0: api.openai.com is a provider of models"},
		"a provider's header":   {"builders: {a: {argv: [a], egress: [{host: api.openai.com, credential: {secret: X}}]}}\n", "f:1: builders.a.egress.0: api.openai.com is a provider of models"},
		"a key in plain text":   {"builders: {a: {argv: [a], env: {Anthropic_API_Key: sk-ant-1}}}\n", "f:1: builders.a.env.Anthropic_API_Key: A provider's key never stands here"},
		"a key of any name":     {"builders: {a: {argv: [a], env: {Mine_Api_Key: abc}}}\n", "f:1: builders.a.env.Mine_Api_Key: A provider's key never stands here"},
		"a key by its look":     {"builders: {a: {argv: [a], env: {MINE: sk-ant-api03-0123456789abcdef}}}\n", "f:1: builders.a.env.MINE: A provider's key never stands here"},
		"a key on the line":     {"builders: {a: {argv: [a, --key=sk-proj-0123456789abcdef]}}\n", "f:1: builders.a.argv: A provider's key never stands here"},
		"a check's key":         {"checks: {env: {OPENAI_API_KEY: sk-1}}\n", "f:1: checks.env.OPENAI_API_KEY: A provider's key never stands here"},
		"a kind's provider":     {"builders: {a: {kind: codex, argv: [codex]}}\n", "f:1: builders.a: It needs its provider: egress: [{host: api.openai.com, credential: {secret: NAME, api: openai}}]"},
		"another's provider":    {"builders: {a: {kind: codex, argv: [codex], egress: [{host: api.anthropic.com, credential: {secret: X, api: anthropic}}]}}\n", "f:1: builders.a: It needs its provider"},
		"any provider":          {"builders: {a: {kind: acp, argv: [a], egress: [{host: models.example.org}]}}\n", "f:1: builders.a: It needs its provider: egress: [{host: HOST, credential: {secret: NAME, api: API}}]"},
		"an unknown kind":       {"builders: {a: {kind: clippy, argv: [a]}}\n", "f:1: builders.a.kind: It must be command or claude-code or codex or acp"},
		"a command's words":     {"builders: {a: {argv: [opencode], repository_instructions: true}}\n", "f:1: builders.a.repository_instructions: It would do nothing: writ knows only of the kinds claude-code and codex, and of acp with the program opencode"},
		"another agent's words": {"builders: {a: {kind: acp, argv: [/opt/gemini, --acp], repository_instructions: true, egress: [{host: models.example.org, credential: {secret: X, api: gemini}}]}}\n", "f:1: builders.a.repository_instructions: It would do nothing"},
		"a command's model":     {"builders: {a: {argv: [a], model: m}}\n", "f:1: builders.a.model: It is for the kinds"},
		"egress of no world":    {"worlds: {b: {egress: []}}\n", "f:1: worlds.b: It must be the name of a repository"},
		"checks' loopback":      {"sandbox: landlock\nchecks: {loopback: true}\n", "f:2: checks.loopback: The level landlock has no loopback"},
		"half seconds":          {"lease: {grace: 1500ms}\n", "lease.grace: It must be whole seconds"},
		"a lock source's https": {"lock_sources: ['https://proxy.example.com']\n", "f:1: lock_sources.0: It must be a host in lower case"},
		"a lock source's .git":  {"lock_sources: [a.example, github.com/o/r.git]\n", "lock_sources.1: It must be a host in lower case"},
		"a lock source's blank": {"lock_sources: ['a.example, b.example']\n", "lock_sources.0: It must be a host in lower case"},
		"a lock source's name":  {"lock_sources: ['me@a.example']\n", "lock_sources.0: It must be a host in lower case"},
		"no key":                {"trusted_runners: [ssh-foo AAAA]\n", "f:1: trusted_runners.0: It must be one OpenSSH public key"},
		"world":                 {"world: ../../x\n", "f:1: world: It must be a name"},
		"world of one word":     {"world: x\n", "f:1: world: It must be a name"},
		"redact a value":        {"redact: [\"ghp_abc def\"]\n", "f:1: redact.0: It must be the name of an environment variable"},
		"identity":              {"identity: {name: \"a <b>\"}\n", "f:1: identity.name: It must be one line"},
	} {
		t.Run(name, func(t *testing.T) { refuses(t, tc.text, tc.want) })
	}
}

// TestG1_Names: names that a program could read as an option or a path.
func TestG1_Names(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"base option":    {"base: --upload-pack=x\n", "f:1: base: It must be the plain name of a branch"},
		"base reflog":    {"base: \"main@{1}\"\n", "f:1: base:"},
		"base dots":      {"base: a..b\n", "f:1: base:"},
		"base line feed": {"base: \"a\\nb\"\n", "f:1: base:"},
		"world option":   {"world: -x/y\n", "f:1: world:"},
	} {
		t.Run(name, func(t *testing.T) { refuses(t, tc.text, tc.want) })
	}
}

// refuses parses a file that must be refused with these words.
func refuses(t *testing.T, text, want string) {
	t.Helper()
	_, err := Parse("f", []byte(text))
	var ce *Error
	if !errors.As(err, &ce) || ce.FailureCode() != kernel.CodeConfigInvalid {
		t.Fatalf("got %v, want a config.Error", err)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		if !strings.HasPrefix(line, "config.invalid: f") {
			t.Errorf("a line without code and file: %q", line)
		}
	}
}

// TestParse_ListsAllFaults: a person mends a file once, not once a fault.
func TestParse_ListsAllFaults(t *testing.T) {
	_, err := Parse("f", []byte("sandbox: x\nbase: 1\nlease:\n  seconds: 0\n  nope: 1\n"))
	want := []string{"f:1: sandbox", "f:2: base", "f:4: lease.seconds", "f:5: lease.nope"}
	var have []string
	for _, line := range strings.Split(err.Error(), "\n") {
		parts := strings.SplitN(strings.TrimPrefix(line, "config.invalid: "), ": ", 3)
		have = append(have, strings.Join(parts[:2], ": "))
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

func TestLoad_Unreadable(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	if err == nil || !strings.Contains(err.Error(), "config.invalid") || !strings.Contains(err.Error(), "check path and permissions") {
		t.Errorf("got %v", err)
	}
}

// TestShow_RoundTrips: the manual's defaults can be written into a file.
func TestShow_RoundTrips(t *testing.T) {
	for _, d := range []time.Duration{0, time.Second, 90 * time.Second, 2 * time.Hour, 61 * time.Minute, 10 * time.Minute, 1500 * time.Millisecond} {
		if got, err := parseTime(showTime(d)); d != 1500*time.Millisecond && (err != nil || got != d) {
			t.Errorf("%v is shown as %q and read as %v, %v", d, showTime(d), got, err)
		}
	}
	for _, s := range []Size{0, 1, 1023, 1024, 4 << 30, 1<<20 + 1, maxSize} {
		if got, ok := parseSize(showSize(s)); !ok || got != s {
			t.Errorf("%d is shown as %q and read as %d", s, showSize(s), got)
		}
	}
}

func TestServer_RefusesWhatCannotWork(t *testing.T) {
	for text, key := range map[string]string{
		"server: {probes: here}":                                                                  "server.probes",
		"server: {hosts: ['writ:8714']}":                                                          "server.hosts.0",
		"server: {trusted_proxies: [proxy]}":                                                      "server.trusted_proxies.0",
		"server: {listen: here}":                                                                  "server.listen",
		"server: {state_dir: relative}":                                                           "server.state_dir",
		"server: {log: xml}":                                                                      "server.log",
		"server: {log_level: loud}":                                                               "server.log_level",
		"server: {traces: {endpoint: collector}}":                                                 "server.traces.endpoint",
		"server: {traces: {endpoint: 'http://u:p@x'}}":                                            "server.traces.endpoint",
		"server: {traces: {endpoint: 'http://x', headers: H}}":                                    "server.traces.endpoint",
		"server: {traces: {endpoint: 'https://x', headers: 'key=value'}}":                         "server.traces.headers",
		"server: {builds: 1, builds_per_world: 2}":                                                "server.builds_per_world",
		"forges: {local: {dir: /f, url: 'ftp://x'}}":                                              "forges.local.url",
		"forges: {local: {dir: /f, url: 'http://u:p@x'}}":                                         "forges.local.url",
		"forges: {local: {dir: /f, url: 'http://x'}}":                                             "forges.local.repositories",
		"forges: {local: {dir: /f, url: 'http://x', repositories: ['o/n/x']}}":                    "forges.local.repositories.0",
		"forges: {local: {dir: /f, url: 'http://x', repositories: [o/n], hook_secrets: ['a b']}}": "forges.local.hook_secrets.0",
		"forges: {local: {dir: /f, url: 'http://x', repositories: [o/n], hook_secrets: []}}":      "forges.local.hook_secrets",
		"forges: {local: {dir: /f, url: 'http://x', repositories: [o/n], token: 'gl-pat!'}}":      "forges.local.token",
	} {
		_, err := Parse("writ.yaml", []byte(text))
		var e *Error
		if !errors.As(err, &e) || !slices.ContainsFunc(e.Faults, func(f Fault) bool { return f.Key == key }) {
			t.Errorf("%s: got %v, want a fault of %s", text, err, key)
		}
	}
	const good = "server: {traces: {endpoint: 'http://127.0.0.1:4318', headers: H}}\nforges: {local: {dir: /f, url: 'http://127.0.0.1:1', repositories: [o/n]}}"
	if _, err := Parse("writ.yaml", []byte(good)); err != nil {
		t.Error(err)
	}
}

// TestServer_DefaultFollowsBuilds: who lowers one limit alone isn't told of another
// that he never wrote.
func TestServer_DefaultFollowsBuilds(t *testing.T) {
	for text, want := range map[string]int64{"": 2, "server: {builds: 1}": 1, "server: {builds: 9}": 2, "server: {builds: 9, builds_per_world: 4}": 4} {
		c, err := Parse("writ.yaml", []byte(text))
		if err != nil || c.Server.BuildsPerWorld != want {
			t.Errorf("%q: builds_per_world is %d, want %d: %v", text, c.Server.BuildsPerWorld, want, err)
		}
	}
}

// TestF3_SecretsComeFromTheEnvironment: no error says what a secret is.
func TestF3_SecretsComeFromTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"a value":       {map[string]string{"T": "hush"}, "hush"},
		"a file":        {map[string]string{"T_FILE": file("one", "hush\n")}, "hush"},
		"both":          {map[string]string{"T": "hush", "T_FILE": file("both", "hush")}, ""},
		"neither":       {nil, ""},
		"an empty file": {map[string]string{"T_FILE": file("empty", "\n")}, ""},
		"two lines":     {map[string]string{"T_FILE": file("two", "hush\nhush\n")}, ""},
		"no such file":  {map[string]string{"T_FILE": filepath.Join(dir, "none")}, ""},
		"too large":     {map[string]string{"T_FILE": file("large", strings.Repeat("hush", maxSecretBytes))}, ""},
	} {
		got, err := Secret(func(k string) string { return c.env[k] }, "T")
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the error holds the secret: %v", name, err)
		}
	}
}

// TestYAML_ReadsBackTheSame: what is printed is a file of the same meaning.
func TestYAML_ReadsBackTheSame(t *testing.T) {
	given, err := Parse("writ.yaml", []byte("builders: {default: {argv: [sh, -c, 'true: #'], env: {A: 'no'}, ro: ['/a', '/b:/c']}}\n"+
		"lease: {seconds: 90}\nserver: {listen: ':80', sweep: 90s, max_body: 5MiB}\nredact: [A, B]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Config{Default(), given} {
		printed, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("printed.yaml", printed)
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if diff := cmp.Diff(c, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-given +read back:\n%s\n%s", diff, printed)
		}
	}
}

// TestF3_ProviderKeyIsNeverShown: what a key may be isn't in the error that refuses it.
func TestF3_ProviderKeyIsNeverShown(t *testing.T) {
	for _, text := range []string{
		"builders: {a: {argv: [a], env: {OPENAI_API_KEY: sk-very-secret}}}\n", "builders: {a: {argv: [a], egress: [{host: example.org, credential: {secret: sk-very-secret, api: openai}}]}}\n",
	} {
		if _, err := Parse("f", []byte(text)); err == nil || strings.Contains(err.Error(), "very") {
			t.Errorf("%v", err)
		}
	}
}

// TestParse_Provider: the table says where the key goes, and a program that wants a key gets
// something that is none.
func TestParse_Provider(t *testing.T) {
	c, err := Parse("f", []byte("builders: {a: {argv: [a], env: {OPENAI_API_KEY: placeholder}, egress: [{host: api.openai.com, credential: {secret: KEY, api: openai, allow: [hints]}}, {host: models.example.org, credential: {secret: KEY, api: anthropic}}]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	rules := Rules(c.Builders["a"].Egress, map[string]string{"KEY": "k"})
	if a, b := rules[0].Credential, rules[1].Credential; a.Header != "Authorization" || a.Value != "Bearer k" || a.API.Name != "openai" || !slices.Equal(a.API.Rows, []string{"hints"}) || len(b.API.Rows) > 0 || b.Header != "X-Api-Key" || b.Value != "k" || b.API.Name != "anthropic" {
		t.Errorf("%+v, %+v", rules[0], rules[1])
	}
}
