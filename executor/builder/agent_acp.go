package builder

import (
	"encoding/json"

	"github.com/writbot/writ/executor/sandbox"
)

// acp is any agent that speaks the Agent Client Protocol. Its argv says how it is told to.
// OpenCode finds in its environment where its provider is; another one has to be told by
// the operator's.
var acp = agent{
	pack: Package{Name: "opencode-linux-x64", Version: "1.18.33", Program: "opencode-linux-*/bin/opencode", Args: []string{"acp"}},
	launch: func(api, model, at string) launch {
		// Without the last two it asks npm's registry for a package of its plugins, and works
		// 20 seconds later: they send that one request nowhere, and have it tried once.
		return launch{env: map[string]string{
			opencodeContent: opencodeConfig(api, model, at), "OPENCODE_PURE": "1", "OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
			"OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_CLAUDE_CODE": "1", "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
			"npm_config_@opencode-ai:registry": "http://127.0.0.1:9/", "npm_config_fetch_retries": "0",
		}}
	},
	talks:    true,
	instruct: instructOpencode,
	obeys:    []string{"AGENTS.md", "CLAUDE.md", "CONTEXT.md", "GEMINI.md", ".gemini/settings.json", "QWEN.md", ".qwen/settings.json", "opencode.json", ".opencode/agent/a.md"},
}

// opencodeContent is the variable with OpenCode's configuration.
const opencodeContent = "OPENCODE_CONFIG_CONTENT"

// instructOpencode names the one file: with the project's configuration OpenCode would read its
// settings and plugins as well.
func instructOpencode(l *launch) {
	config := map[string]any{}
	_ = json.Unmarshal([]byte(l.env[opencodeContent]), &config) // that of opencodeConfig
	config["instructions"] = []string{sandbox.WorkspaceDir + "/AGENTS.md"}
	text, _ := json.Marshal(config) // of texts alone
	l.env[opencodeContent] = string(text)
}

// opencodeConfig has one provider and, if the operator has named it, one model.
func opencodeConfig(api, model, at string) string {
	type object = map[string]any
	const name = "writ"
	library, path := map[string]string{"anthropic": "@ai-sdk/anthropic", "gemini": "@ai-sdk/google", "openai": "@ai-sdk/openai-compatible"}[api], "/v1"
	if api == "gemini" {
		path = "/v1beta"
	}
	provider := object{"npm": library, "options": object{"baseURL": at + path, "apiKey": Placeholder}, "models": object{}}
	config := object{
		"provider": object{name: provider}, "enabled_providers": []string{name}, "autoupdate": false, "share": "disabled",
		"permission": object{"bash": "ask", "edit": "ask", "webfetch": "deny"},
	}
	if model != "" {
		provider["models"] = object{model: object{}}
		config["model"], config["small_model"] = name+"/"+model, name+"/"+model
	}
	text, _ := json.Marshal(config) // of texts alone
	return string(text)
}
