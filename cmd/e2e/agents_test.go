package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/demo"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/forge/git/gittest"
)

// agentsDir is where the agents are: the published ones where `make agents` has put them, and
// stand-ins in the same layout otherwise, since the published ones are 800 MB.
func agentsDir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("WRIT_TEST_AGENTS"); dir != "" {
		return dir
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, kind := range builder.Kinds() {
		at := filepath.Join(dir, "node_modules", inPlace.Replace(builder.KindPackage(kind).Program))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		gittest.WriteProgram(t, at, string(data))
	}
	return dir
}

// inPlace makes a program's path of a package's, as it is on this machine's processor.
var inPlace = map[string]*strings.Replacer{
	"amd64": strings.NewReplacer("linux-*", "linux-x64", "*", "x86_64-unknown-linux-musl"),
	"arm64": strings.NewReplacer("linux-*", "linux-arm64", "*", "aarch64-unknown-linux-musl"),
}[runtime.GOARCH]

// TestAgents_OneIssue: each agent does the work of the demonstration's issue, and the reports
// differ in nothing but what is of the installation and what was used of a model.
func TestAgents_OneIssue(t *testing.T) {
	dir := agentsDir(t)
	reports := map[string]map[string]any{}
	for _, kind := range builder.Kinds() {
		cmd := exec.CommandContext(t.Context(), program, "demo", "--builder", kind, "--agent", dir, "--json")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", kind, err, stderr.String())
		}
		var r map[string]any
		if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v\n%s", kind, err, stdout.String())
		}
		if r["execution_verified"] != true || fmt.Sprint(r["changed_files"]) != "[receipt.awk total.awk]" || !strings.Contains(fmt.Sprint(r["notes"]), " It cost ") {
			t.Errorf("%s: %s", kind, stdout.String())
		}
		if a, _ := r["agent"].(map[string]any); a["kind"] != kind || a["model"] == "" || !strings.Contains(fmt.Sprint(a["version"]), builder.KindPackage(kind).Version) {
			t.Errorf("%s: the report says of the agent %v", kind, r["agent"])
		}
		reports[kind] = r
	}
	first := sameReport(reports[builder.Kinds()[0]])
	for kind, r := range reports {
		if got := sameReport(r); got != first {
			t.Errorf("%s is judged otherwise:\n%s\nand not\n%s", kind, got, first)
		}
	}
}

// sameReport is a report without what differs from one installation to the next, and from
// one agent to the next.
func sameReport(r map[string]any) string {
	r = maps.Clone(r)
	for _, key := range []string{"world_id", "run_id", "base_commit", "change_commit", "dispatch_hash", "ledger_head", "agent", "builder_ms"} {
		delete(r, key)
	}
	notes, _ := r["notes"].([]any)
	r["notes"] = slices.DeleteFunc(slices.Clone(notes), func(n any) bool { return strings.HasPrefix(fmt.Sprint(n), "The builder") }) // what it used, and what it was denied
	data, _ := json.MarshalIndent(r, "", " ")
	return string(data)
}

// TestAgents_NotInstalled: without the agent the demonstration says how it is installed.
func TestAgents_NotInstalled(t *testing.T) {
	for _, kind := range builder.Kinds() {
		dir := t.TempDir()
		out, err := exec.CommandContext(t.Context(), program, "demo", "--builder", kind, "--agent", dir).CombinedOutput()
		if err == nil || !strings.Contains(string(out), builder.KindPackage(kind).Install(dir)) {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
	if out, err := exec.CommandContext(t.Context(), program, "demo", "--builder", "codex", "--agent", "/dev/null").CombinedOutput(); err == nil || !strings.Contains(string(out), builder.KindPackage("codex").Install(demo.Installed)) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), program, "demo", "--builder", "command").CombinedOutput(); err == nil || !strings.Contains(string(out), "--builder is the kind of an agent") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAgents_AnotherProgram: a program that starts and isn't the agent is refused by what it
// did instead, before an issue is filed for it.
func TestAgents_AnotherProgram(t *testing.T) {
	at := filepath.Join(t.TempDir(), "a/b/c/d/agent") // a directory above it is shown, too
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	gittest.WriteProgram(t, at, "#!/bin/sh\nexit 0\n")
	for _, kind := range builder.Kinds() {
		out, err := exec.CommandContext(t.Context(), program, "demo", "--builder", kind, "--agent", at).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "environment.builder.failed") || !strings.Contains(string(out), "exit status 0 before it asked") || strings.Contains(string(out), "is filed") {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
}

// TestAgents_WhereTheyAre: a program is found by itself, and with what is beside it, also where
// the directory isn't named from the root.
func TestAgents_WhereTheyAre(t *testing.T) {
	dir := agentsDir(t)
	t.Chdir(filepath.Dir(dir))
	for _, kind := range builder.Kinds() {
		byDir, err := demo.Find(kind, filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		if byPath, err := demo.Find(kind, byDir.Program); err != nil || *byPath != *byDir || !filepath.IsAbs(byDir.Mount) || !strings.HasPrefix(byDir.Program, byDir.Mount+"/") {
			t.Errorf("%+v and %+v, %v", byPath, byDir, err)
		}
	}
}

// standIns do what the agents of their names do, as far as the stub's conversations go.
var standIns = map[string]func(args []string) string{"claude": actClaude, "codex": actCodex, "opencode": actOpenCode}

// maybeAgent goes on as an agent, where this program is called so.
func maybeAgent() {
	if act := standIns[filepath.Base(os.Args[0])]; act != nil {
		fmt.Println(act(os.Args[1:]))
		os.Exit(0)
	}
}

type object = map[string]any

// actClaude asks for messages, and does what they say.
func actClaude(args []string) string {
	if slices.Contains(args, "--version") {
		return builder.KindPackage("claude-code").Version + " (Claude Code)"
	}
	for {
		body := object{"model": after(args, "--model"), "max_tokens": 100, "stream": true, "messages": []object{{"role": "user", "content": "go on"}}}
		var said, does string
		for _, e := range events(os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", body) {
			said += e.Delta.Text
			does += e.Delta.Partial
		}
		if does == "" {
			return encode(object{"type": "result", "subtype": "success", "result": said})
		}
		shell(does, "command")
	}
}

// actCodex asks for responses, and does what they say.
func actCodex(args []string) string {
	if slices.Contains(args, "--version") {
		return "codex-cli " + builder.KindPackage("codex").Version
	}
	_, at, _ := strings.Cut(strings.Join(args, " "), `base_url="`)
	at, _, _ = strings.Cut(at, `"`)
	for {
		body := object{"model": after(args, "--model"), "stream": true, "input": "go on"}
		does := ""
		for _, e := range events(at+"/responses", body) {
			does += e.Item.Arguments
			if e.Type == "response.output_item.added" {
				does = "" // it comes once more, whole
			}
		}
		if does == "" {
			return encode(object{"type": "turn.completed", "usage": object{"input_tokens": 1}})
		}
		shell(does, "cmd")
	}
}

// actOpenCode talks to its client by the Agent Client Protocol, asks for chat completions,
// and does what they say.
func actOpenCode(args []string) string {
	if slices.Contains(args, "--version") {
		return builder.KindPackage("acp").Version
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var m struct {
			ID     int
			Method string
		}
		_ = json.Unmarshal(lines.Bytes(), &m)
		result := object{"protocolVersion": 1, "sessionId": "one"}
		if m.Method == "session/prompt" {
			chat()
			result = object{"stopReason": "end_turn"}
		}
		fmt.Println(encode(object{"jsonrpc": "2.0", "id": m.ID, "result": result}))
	}
	return ""
}

func chat() {
	var config struct {
		Model    string
		Provider map[string]struct{ Options struct{ BaseURL string } }
	}
	_ = json.Unmarshal([]byte(os.Getenv("OPENCODE_CONFIG_CONTENT")), &config)
	name, model, _ := strings.Cut(config.Model, "/")
	body := object{
		"model": model, "stream": true, "messages": []object{{"role": "user", "content": "go on"}},
		"tools": []object{{"type": "function", "function": object{"name": "bash", "parameters": object{"type": "object"}}}},
	}
	for {
		does := ""
		for _, e := range events(config.Provider[name].Options.BaseURL+"/chat/completions", body) {
			for _, c := range e.Choices {
				for _, call := range c.Delta.ToolCalls {
					does += call.Function.Arguments
				}
			}
		}
		if does == "" {
			return
		}
		shell(does, "command")
	}
}

// event is what counts of those of all providers.
type event struct {
	Choices []struct {
		Delta struct {
			ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
		}
	}
	Type  string
	Delta struct {
		Text    string
		Partial string `json:"partial_json"`
	}
	Item struct{ Arguments string }
}

// events asks a provider. One that refuses ends the agent.
func events(at string, body object) (list []event) {
	answer, err := http.Post(at, "application/json", strings.NewReader(encode(body)))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	said, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK {
		fmt.Printf("%s %v\n", said, err)
		os.Exit(1)
	}
	for lines := bufio.NewScanner(bytes.NewReader(said)); lines.Scan(); {
		var e event
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &e) == nil {
			list = append(list, e)
		}
	}
	return list
}

// shell does what the value of a name in a text of JSON says.
func shell(text, name string) {
	var what object
	_ = json.Unmarshal([]byte(text), &what)
	if out, err := exec.Command("sh", "-c", fmt.Sprint(what[name])).CombinedOutput(); err != nil {
		fmt.Printf("%v: %s\n", err, out)
		os.Exit(1)
	}
}

func after(args []string, name string) string { return args[slices.Index(args, name)+1] }

func encode(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}
