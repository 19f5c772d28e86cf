package builder

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/writbot/writ/executor/sandbox"
)

// claudeCode is Anthropic's agent, of the native program `claude`.
var claudeCode = agent{
	pack: Package{Name: "@anthropic-ai/claude-code", Version: "2.1.332", Program: "@anthropic-ai/claude-code-linux-*/claude"},
	api:  "anthropic",
	launch: func(_, model, at string) launch {
		l := launch{
			args: []string{"-p", "--bare", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions", "--no-session-persistence", "--strict-mcp-config", "--setting-sources", ""},
			env: map[string]string{
				"ANTHROPIC_BASE_URL": at, "ANTHROPIC_API_KEY": Placeholder, "CLAUDE_CONFIG_DIR": sandbox.HomeDir + "/.claude", "CLAUDE_CODE_TMPDIR": sandbox.TmpDir,
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1",
			},
		}
		if model != "" {
			l.args = append(l.args, "--model", model)
		}
		return l
	},
	read:     readClaude,
	instruct: instructClaude,
	obeys:    []string{"CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules/a.md", ".claude/settings.json", ".claude/settings.local.json", ".claude/agents/a.md", ".claude/skills/a/SKILL.md", ".mcp.json", "AGENTS.md"},
}

// instructClaude has it read CLAUDE.md, .claude/CLAUDE.md and .claude/rules at the root. With
// --bare it reads none. Without, it still has no source of settings, so that it takes the
// workspace's instructions for those of a further directory, and nothing else from it.
func instructClaude(l *launch) {
	l.args = slices.DeleteFunc(l.args, func(arg string) bool { return arg == "--bare" })
	l.args = append(l.args, "--add-dir", sandbox.WorkspaceDir, "--disable-slash-commands")
	l.env["CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"], l.env["CLAUDE_CODE_DISABLE_AUTO_MEMORY"] = "1", "1"
}

// readClaude reads one event of its stream. A tool that was denied still ends well, so that
// what counts is is_error.
func readClaude(s *claims, line []byte) {
	var e struct {
		Type    string  `json:"type"`
		Subtype string  `json:"subtype"`
		IsError bool    `json:"is_error"`
		Turns   int64   `json:"num_turns"`
		Result  string  `json:"result"`
		Version string  `json:"claude_code_version"`
		Cost    float64 `json:"total_cost_usd"`
		Usage   struct {
			In     int64 `json:"input_tokens"`
			Cached int64 `json:"cache_read_input_tokens"`
			Kept   int64 `json:"cache_creation_input_tokens"`
			Out    int64 `json:"output_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	if e.Type == "system" && e.Subtype == "init" {
		s.version = e.Version
	}
	if e.Type != "result" {
		return
	}
	s.ended, s.message = true, e.Result
	s.usage = fmt.Sprintf("The agent says that it used %d turns, %d tokens in, %d out, and %.4f USD.", e.Turns, e.Usage.In+e.Usage.Cached+e.Usage.Kept, e.Usage.Out, e.Cost)
	switch s.failed = ""; {
	case e.Subtype != "success":
		s.failed = e.Subtype
	case e.IsError:
		s.failed = "is_error, " + e.Result
	}
}
