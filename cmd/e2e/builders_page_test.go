package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/gateway/stub"
)

// agentReader follows docs/builders.md with one agent, in a home that is empty, up to the
// provider's door. What is another one than the page's:
//   - the repository that is cloned is the source as it is here;
//   - the provider is a stub. A table of hosts says that the provider's own host is this
//     machine, SSL_CERT_FILE vouches for the stub's certificate, and two lines below the host
//     in the configuration let the gateway ask a private address at the stub's port;
//   - the caches of Go and npm are those of this machine;
//   - without the published agents (make agents-smoke) npm is a program that installs stand-ins.
type agentReader struct {
	t          *testing.T
	kind, host string
	others     *regexp.Regexp // what only blocks for the other agent have
	source     string
	model      *stub.Model
	server     *stub.Server
	script     strings.Builder // what is typed
}

// TestAgents_BuildersPage: who follows docs/builders.md with Claude Code or Codex has an agent
// that is configured and has done a task. Every block of the page is tried.
func TestAgents_BuildersPage(t *testing.T) {
	t.Parallel()
	if err := dependOnSources(); err != nil {
		t.Fatal(err)
	}
	source := checkout(t)
	for _, r := range []*agentReader{
		{kind: "claude-code", host: "api.anthropic.com", others: regexp.MustCompile("codex|openai")},
		{kind: "codex", host: "api.openai.com", others: regexp.MustCompile("claude|anthropic")},
	} {
		t.Run(r.kind, func(t *testing.T) {
			r.t, r.source = t, source
			r.follow()
		})
	}
}

// subtracts is what the model has its agent do for the page's task.
var subtracts = []stub.Turn{
	{Run: "cat calc/add.go"},
	{Run: `printf 'package calc\n\nfunc Sub(a, b int) int { return a - b }\n' > calc/sub.go`},
	{Say: "Sub is there."},
}

func (r *agentReader) follow() {
	r.model = &stub.Model{Key: "the-key-of-the-reader", Turns: subtracts}
	server, err := stub.Serve(r.model, r.host)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = server.Close() })
	r.server = server
	prices := ""
	follow(r.t, filepath.Join("..", "..", "docs", "builders.md"), []performed{
		{"sh", "git clone ", r.types},
		{"sh", "npm --prefix writ-agent/agents install --ignore-scripts @anthropic-ai", r.types},
		{"sh", "npm --prefix writ-agent/agents install --ignore-scripts @openai", r.types},
		{"sh", "bin/writ demo --builder claude-code", r.types},
		{"sh", "bin/writ demo --builder codex", r.types},
		{"sh", "(umask 077; cat > writ-agent/anthropic.key)", r.types},
		{"sh", "(umask 077; cat > writ-agent/openai.key)", r.types},
		{"sh", "cat > writ-agent/writ.yaml", r.types},
		{"sh", "cat > writ-agent/writ.yaml", r.types},
		{"sh", "bin/writ config check", r.types},
		{"sh", "git init ", func(text string) { r.types(text); r.run() }},
		{"sh", "npm --prefix writ-agent/agents install --ignore-scripts opencode", func(string) {}}, // TestAgents_OneIssue
		{"yaml", "builders:", r.checks},
		{"sh", "npm --prefix writ-agent/agents install --ignore-scripts @qwen-code", func(string) {}}, // by hand, as the page says
		{"yaml", "builders:", r.checks},
		{"yaml", "builders:", func(text string) {
			r.checks(strings.Replace(text, "# …", "argv: [agent]\n    egress: [{host: api.anthropic.com, credential: {secret: ANTHROPIC_API_KEY, api: anthropic}}]", 1))
		}},
		{"yaml", "prices:", func(text string) { r.checks(text); prices = text }},
		{"yaml", "builders:", func(text string) {
			r.checks(prices + strings.Replace(text, "# …", "argv: [agent]\n    egress: [{host: api.openai.com, credential: {secret: OPENAI_API_KEY, api: openai}}]", 1))
		}},
		{"go", "package builder", func(string) {}}, // TestExtend_AKindOfItsOwn
		{"diff", "--- executor/builder/agent.go", func(string) {}},
	})
}

// types takes in a block, if it isn't for the other agent.
func (r *agentReader) types(text string) {
	if r.others.MatchString(text) {
		return
	}
	host := "- host: " + r.host + "\n"
	text = strings.NewReplacer(
		"https://github.com/writbot/writ", r.source,
		host, fmt.Sprintf("%s        ports: [%d]\n        addresses: [127.0.0.0/8]\n", host, r.server.Port),
	).Replace(text)
	if runtime.GOARCH == "arm64" { // as the page says
		text = strings.NewReplacer("x64", "arm64", "x86_64", "aarch64").Replace(text)
	}
	r.script.WriteString(text)
}

// run does all that was typed, in one shell, and looks at what came of it.
func (r *agentReader) run() {
	r.t.Helper()
	dir := r.t.TempDir()
	hosts := write(r.t, dir, "hosts", "127.0.0.1 localhost "+r.host+"\n")
	cmd := exec.CommandContext(context.WithoutCancel(r.t.Context()), "bwrap", "--dev-bind", "/", "/", "--ro-bind", hosts, "/etc/hosts", "--die-with-parent",
		"sh", "-e", write(r.t, dir, "script", r.script.String()))
	cmd.Dir = filepath.Dir(write(r.t, dir, "terminal/empty", ""))
	cmd.Env = r.environment(dir)
	cmd.Stdin = strings.NewReader(r.model.Key + "\n") // what is pasted
	said, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v\n%s", err, said)
	}
	for _, want := range []string{
		"writ-agent/writ.yaml is fine\n",
		builder.KindPackage(r.kind).Version, "Reached, and takes the key: " + r.host, // of the line preflight
		"\ntask 1 completed\n", "+func Sub(a, b int) int { return a - b }\n", "The builder used ",
	} {
		if !strings.Contains(string(said), want) {
			r.t.Errorf("it doesn't say %q", want)
		}
	}
	if strings.Contains(string(said), "\nx ") || strings.Contains(string(said), r.model.Key) {
		r.t.Error("something failed, or the key is shown")
	}
	if asked := strings.Join(r.model.Asked(), "\n"); asked == "" || strings.Contains(asked, r.model.Key) || len(r.model.Wrong()) > 0 {
		r.t.Errorf("the provider was asked %s, without the key for %q", asked, r.model.Wrong())
	}
	if r.t.Failed() {
		r.t.Logf("%s", said)
	}
}

// environment is the reader's: this process's without whatever speaks of a home or an agent.
func (r *agentReader) environment(dir string) []string {
	r.t.Helper()
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return notTheReaders.MatchString(kv) })
	env = append(env, "HOME="+filepath.Dir(write(r.t, dir, "home/.empty", "")), "SSL_CERT_FILE="+write(r.t, dir, "authority.pem", string(r.server.Authority)),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	path := os.Getenv("PATH")
	for _, name := range []string{"GOMODCACHE", "GOCACHE", "GOPROXY", "GOSUMDB"} {
		env = append(env, name+"="+answerOf(r.t, "go", "env", name))
	}
	if os.Getenv("WRIT_TEST_AGENTS") == "" {
		path = r.standInNPM(dir) + ":" + path
	} else {
		env = append(env, "npm_config_prefer_offline=true", "npm_config_cache="+answerOf(r.t, "npm", "config", "get", "cache"),
			"npm_config_userconfig="+answerOf(r.t, "npm", "config", "get", "userconfig"))
	}
	return slices.Concat(env, []string{"PATH=" + path})
}

var notTheReaders = regexp.MustCompile("^(HOME|PATH|SSL_CERT_FILE|SSL_CERT_DIR|(GIT|XDG|WRIT|ANTHROPIC|CLAUDE|OPENAI|CODEX)_[A-Z_]*)=")

// standInNPM is the directory of a program that is called as the page calls npm, and installs
// the stand-in that takes the package's place.
func (r *agentReader) standInNPM(dir string) string {
	r.t.Helper()
	p := builder.KindPackage(r.kind)
	path := write(r.t, dir, "bin/npm", fmt.Sprintf("#!/bin/sh -e\ntest \"$*\" = '%s'\nmkdir -p \"$2\"\ncp -r '%s/node_modules' \"$2\"\n",
		strings.TrimPrefix(p.Install("writ-agent/agents"), "npm "), agentsDir(r.t)))
	if err := os.Chmod(path, 0o755); err != nil {
		r.t.Fatal(err)
	}
	return filepath.Dir(path)
}

// answerOf is what a program prints.
func answerOf(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return strings.TrimSpace(string(out))
}

// checks has a configuration of the page checked.
func (r *agentReader) checks(text string) {
	r.t.Helper()
	writ(r.t, nil, "config", "check", write(r.t, r.t.TempDir(), "writ.yaml", text)).want(r.t, 0)
}
