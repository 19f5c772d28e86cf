package builder

import "encoding/json"

// acp is any agent that speaks the Agent Client Protocol. Its argv says how it is told to.
// Those that were tried find in their environment where their provider is; another one has
// to be told by the operator's.
var acp = agent{
	launch: func(api, model, at string) launch {
		l := launch{env: map[string]string{
			"GOOGLE_GEMINI_BASE_URL": at, "GEMINI_API_KEY": Placeholder, "GEMINI_SANDBOX": "false", "GEMINI_TELEMETRY_ENABLED": "false",
			"OPENAI_BASE_URL": at + "/v1", "OPENAI_API_KEY": Placeholder, "OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
			"OPENCODE_DISABLE_CLAUDE_CODE": "1", "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
		}}
		if model != "" {
			l.env["GEMINI_MODEL"], l.env["OPENAI_MODEL"], l.env["OPENCODE_CONFIG_CONTENT"] = model, model, opencodeConfig(api, model, at)
		}
		return l
	},
	talks: true,
	obeys: []string{"GEMINI.md", ".gemini/settings.json", "QWEN.md", ".qwen/settings.json", "AGENTS.md", "opencode.json", ".opencode/agent/a.md"},
}

// opencodeConfig has one provider and one model, whatever they are called.
func opencodeConfig(api, model, at string) string {
	const name = "writ"
	library, path := map[string]string{"anthropic": "@ai-sdk/anthropic", "gemini": "@ai-sdk/google", "openai": "@ai-sdk/openai-compatible"}[api], "/v1"
	if api == "gemini" {
		path = "/v1beta"
	}
	type object = map[string]any
	text, _ := json.Marshal(object{ // of texts alone
		"provider": object{name: object{
			"npm": library, "options": object{"baseURL": at + path, "apiKey": Placeholder}, "models": object{model: object{}},
		}},
		"model": name + "/" + model, "small_model": name + "/" + model, "enabled_providers": []string{name},
		"autoupdate": false, "share": "disabled", "permission": object{"bash": "ask", "edit": "ask", "webfetch": "deny"},
	})
	return string(text)
}
