package builder

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// codex is OpenAI's agent, of the native program `codex`.
var codex = agent{
	// Its own tools are beside the directory of the program.
	pack: Package{Name: "@openai/codex", Version: "0.169.0", Program: "@openai/codex-linux-*/vendor/*/bin/codex", Above: 1},
	api:  "openai",
	launch: func(_, model, at string) launch {
		args := []string{"exec", "--json", "--ephemeral", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules", "--strict-config", "--dangerously-bypass-approvals-and-sandbox"}
		for _, c := range codexConfig(at) {
			args = append(args, "-c", c)
		}
		if model != "" {
			args = append(args, "--model", model)
		}
		return launch{args: args}
	},
	read: readCodex,
	instruct: func(l *launch) {
		l.args[slices.Index(l.args, noDocs)] = `project_doc_max_bytes=32768` // its own default
	},
	obeys: []string{"AGENTS.md", "AGENTS.override.md", ".codex/config.toml", ".codex/rules/a.rules", ".agents/skills/a/SKILL.md", ".codex/skills/a/SKILL.md"},
}

// noDocs has it read no AGENTS.md.
const noDocs = `project_doc_max_bytes=0`

// codexConfig has one provider, which is asked by plain requests that aren't compressed.
// With unbounded retries it would wait for ever for a provider that isn't reached.
func codexConfig(at string) []string {
	return []string{
		`model_provider="writ"`,
		`model_providers.writ={name="writ",base_url=` + strconv.Quote(at+"/v1") + `,wire_api="responses",request_max_retries=3,stream_max_retries=3,supports_websockets=false}`,
		`web_search="disabled"`, `check_for_update_on_startup=false`, noDocs, `analytics.enabled=false`, `history.persistence="none"`,
		`features.apps=false`, `features.enable_request_compression=false`, `features.hooks=false`, `features.image_generation=false`, `features.plugins=false`,
		`features.skill_mcp_dependency_install=false`, `features.unbounded_connection_retries=false`, `skills.include_instructions=false`,
	}
}

// readCodex reads one event of its stream.
func readCodex(s *claims, line []byte) {
	var e struct {
		Type string `json:"type"`
		Item struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"item"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		Usage struct {
			In  int64 `json:"input_tokens"`
			Out int64 `json:"output_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	switch {
	case e.Type == "item.completed" && e.Item.Type == "agent_message":
		s.message = e.Item.Text
	case e.Type == "turn.completed":
		s.ended, s.failed = true, ""
		s.usage = fmt.Sprintf("The agent says that it used %d tokens in, %d out.", e.Usage.In, e.Usage.Out)
	case e.Type == "turn.failed":
		s.ended, s.failed = true, e.Error.Message
	}
}
