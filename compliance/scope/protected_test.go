package scope

import (
	"testing"

	"github.com/writbot/writ/kernel"
)

var protectedSamples = []string{
	".github/workflows/ci.yml", ".GitHub/Workflows/ci.yml", ".gitlab-ci.yml", "sub/.gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile",
	".githooks/pre-commit", ".husky/pre-push", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS", "CLAUDE.md", "pkg/Agents.md",
	".claude/settings.json", ".codex/config.toml", ".cursor/rules/x", ".mcp.json", ".writ/contract.yaml", "go.sum", "web/package-lock.json",
	"AGENT.md", "JULES.md", "QWEN.md", ".qwen/settings.json", "WARP.md", "a/CRUSH.md", ".crush.json", "crush.json", ".rules", ".zed/tasks.json", ".trae/rules", ".amp/settings.json", ".copilot/x",
	"a/opencode.json", "shop.code-workspace", ".idea/runConfigurations/x.xml", ".gitpod.yml", ".readthedocs.yml", ".openhands/setup.sh", ".kilocode/rules/x", ".roomodes", ".agent/x",
	"azure-pipelines-1.yml", "a/.writ/contract.yaml", "a/CODEOWNERS", ".yarnrc.yml", ".yarn/releases/yarn.cjs", "bunfig.toml", ".claude.json", ".npmrc", "action.yml", "action.yaml", "renovate.json", ".renovaterc", ".renovaterc.json", "netlify.toml",
	"vercel.json", ".readthedocs.yaml", ".goreleaser.yml", ".goreleaser.yaml", "Earthfile", "Cargo.lock", ".gitattributes", "a/.gitattributes", ".gitmodules", ".gitignore",
}

func TestS14_ProtectedPaths(t *testing.T) {
	p, faults := NewProtection(nil, nil)
	if len(faults) > 0 {
		t.Fatal(faults[0])
	}
	for _, path := range protectedSamples {
		if !p.Match(path) {
			t.Errorf("%s is not protected", path)
		}
	}
	for _, path := range []string{"go.mod", "src/github/x", "agents/x.go", "claude.go", ".gitkeep", "README.md", "package.json", "writ/contract.yaml"} {
		if p.Match(path) {
			t.Errorf("%s is protected", path)
		}
	}
}

func TestS14_RefusedAlthoughAllowed(t *testing.T) {
	for _, path := range protectedSamples {
		w := newWorld(t, baseFiles)
		w.layOut()
		w.write(path, "changed\n")
		r := w.rules()
		r.Allowed = []string{".n*", ".r*", ".gor*", ".cl*", "**/*.yml", "**/*.y*", "*", "a*/**", "s*/**", "sh*", ".i*/**", ".o*/**", ".k*/**", ".a*/**", "p*/**", "w*/**", "d*/**", ".c*/**", ".g*/**", ".G*/**", ".h*/**", ".w*/**"}
		wantViolation(t, w.verify(r), kernel.CodeProtectedPath, path)
		r.Unprotect = []string{path}
		if v := w.verify(r); has(v, kernel.CodeProtectedPath, path) {
			t.Errorf("%s: unprotect does not help: %v", path, v.Violations)
		}
	}
}

func TestS14_ContractAdds(t *testing.T) {
	w := newWorld(t, baseFiles)
	w.layOut()
	w.write("calc/add.go", "changed\n")
	r := w.rules()
	r.Protected = []string{"CALC/add.*"}
	wantViolation(t, w.verify(r), kernel.CodeProtectedPath, "calc/add.go")
}

func TestI9_AllowedFiles(t *testing.T) {
	guard, _ := NewProtection(nil, []string{".github/labels.yml"})
	for pattern, want := range map[string]kernel.Code{
		"/etc/x": kernel.CodeDispatchMalformed, "../": kernel.CodeDispatchMalformed, "../x": kernel.CodeDispatchMalformed,
		"**": kernel.CodeDispatchMalformed, "": kernel.CodeDispatchMalformed, ".git/**": kernel.CodeDispatchMalformed,
		".github/**": kernel.CodeProtectedPath, ".GITHUB/workflows/x.yml": kernel.CodeProtectedPath,
		".writ/contract.yaml": kernel.CodeProtectedPath, "CLAUDE.md": kernel.CodeProtectedPath, "go.sum": kernel.CodeProtectedPath,
	} {
		got := CheckAllowed([]string{"src/**", pattern}, guard)
		if len(got) != 1 || got[0].Code != want {
			t.Errorf("%q: %v, want %s", pattern, got, want)
		}
	}
	if got := CheckAllowed([]string{"src/**", ".github/labels.yml", "docs/*.md"}, guard); len(got) > 0 {
		t.Errorf("refused: %v", got)
	}
}
