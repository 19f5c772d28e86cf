//go:build agents

package builder

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/executor/gateway/stub"
	"github.com/writbot/writ/executor/sandbox"
)

// obeyed are files of a repository, of which the agents that are tested obey some where nothing
// keeps them from it. Each has words of its own, and those of settings have programs that leave
// a file in the workspace.
func obeyed() map[string]string {
	files := map[string]string{"calc/add.go": "package calc\n", "check.sh*": "#!/bin/sh\n"}
	for _, name := range []string{
		"CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules/a.md", "calc/CLAUDE.md", "calc/.claude/rules/b.md", "AGENTS.md", "calc/AGENTS.override.md", "calc/AGENTS.md",
		".claude/AGENTS.md", "CONTEXT.md", "calc/CONTEXT.md", "GEMINI.md", "docs/imported.md",
	} {
		files[name] = wordsOf(name) + "\n"
	}
	files["CLAUDE.md"] += "See @docs/imported.md\n"
	for _, name := range []string{
		".claude/skills/a/SKILL.md", ".claude/commands/b.md", ".claude/agents/c.md", ".agents/skills/d/SKILL.md", ".codex/skills/e/SKILL.md", ".opencode/skills/f/SKILL.md", ".opencode/agent/g.md",
		".opencode/command/h.md", ".codex/agents/i.md", ".claude/output-styles/j.md",
	} {
		files[name] = "---\nname: " + strings.TrimSuffix(path.Base(path.Dir(name)), ".md") + "\ndescription: " + wordsOf(name) + "\n---\n" + wordsOf(name) + "\n"
	}
	files[".claude/settings.json"] = `{"env":{"SAID":"` + wordsOf(".claude/settings.json") + `"},"apiKeyHelper":"` + leaves("helper") + `; echo key","statusLine":{"type":"command","command":"` + leaves("status") +
		`"},"enableAllProjectMcpServers":true,"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"` + leaves("session") + `"}]}],"UserPromptSubmit":[{"hooks":[{"type":"command","command":"` + leaves("prompt") + `"}]}],"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"` + leaves("tool") + `"}]}]}}`
	files[".claude/settings.local.json"] = strings.ReplaceAll(files[".claude/settings.json"], "/left-", "/left-local-")
	files[".mcp.json"] = `{"mcpServers":{"a":{"command":"sh","args":["-c","` + leaves("mcp") + `"]}}}`
	files[".codex/config.toml"] = "developer_instructions = \"" + wordsOf(".codex/config.toml") + "\"\nnotify = [\"sh\", \"-c\", \"" + leaves("notify") + "\"]\n[mcp_servers.a]\ncommand = \"sh\"\nargs = [\"-c\", \"" + leaves("codex-mcp") + "\"]\n"
	files[".codex/hooks.json"] = `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"` + leaves("codex-hook") + `"}]}]}}`
	files["opencode.json"] = `{"instructions":["CONTEXT.md"],"mcp":{"a":{"type":"local","command":["sh","-c","` + leaves("opencode-mcp") + `"],"enabled":true}}}`
	files[".opencode/plugin/a.js"] = "import {writeFileSync} from 'fs'; export const A = async () => { writeFileSync('" + sandbox.WorkspaceDir + "/left-plugin', 'x'); return {} }\n"
	return files
}

func wordsOf(name string) string { return "Words of " + name + "." }

func leaves(what string) string { return "echo x > " + sandbox.WorkspaceDir + "/left-" + what }

// instructions are what of obeyed comes to each agent's provider: with the switch off and on.
// OpenCode has no switch for what lies below the root, beside a file that it reads.
var instructions = map[string][2][]string{
	"claude-code": {nil, {".claude/CLAUDE.md", ".claude/rules/a.md", "CLAUDE.md", "docs/imported.md"}},
	"codex":       {nil, {"AGENTS.md"}},
	"acp":         {{"calc/AGENTS.md"}, {"AGENTS.md", "calc/AGENTS.md"}},
}

// TestAgents_RepositoryInstructions: the words of a repository to agents come to the provider
// only where the operator has them obeyed, and then those of plain instructions alone. Of its
// settings, hooks, servers and plugins nothing runs either way, and nothing else is asked for.
func TestAgents_RepositoryInstructions(t *testing.T) {
	each(t, func(t *testing.T, p published) {
		for on, want := range instructions[p.kind] {
			b := p.bed(t, stub.Turn{Read: sandbox.WorkspaceDir + "/calc/add.go"}, stub.Turn{Run: "echo '// changed' >> calc/add.go"}, stub.Turn{Say: "The line is there."})
			b.base, b.builder.Instructions = baseOf(obeyed()), on == 1
			b.local.cfg.Builders["default"] = b.builder
			if found := b.local.Preflight(t.Context(), "default"); !found.Passes || len(found.Faults) > 0 || found.Note != "" {
				t.Errorf("%d: preflight %+v", on, found)
			}
			o := b.run()
			var got []string
			for name := range obeyed() {
				if strings.Contains(strings.Join(b.model.Asked(), "\n"), wordsOf(name)) {
					got = append(got, name)
				}
			}
			slices.Sort(got)
			if codes(o) != "" || paths(o.Diff) != "modify calc/add.go" || !slices.Equal(got, want) || len(o.Result.Egress.Denied) > 0 || o.Result.Agent.Instructions != (on == 1) {
				t.Errorf("%d: %s, %s: obeys %q, want %q; denied %v\n%s", on, codes(o), paths(o.Diff), got, want, o.Result.Egress.Denied, o.Result.Stderr.Tail)
			}
		}
	})
}
