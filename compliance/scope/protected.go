package scope

import "github.com/writbot/writ/kernel"

// DefaultProtected lists the paths that a builder must not change even if the
// task allows them, unless the contract's paths.unprotect names them
// (DESIGN §4; CASES S14). The contract's paths.protected adds to the list.
// They are compared without regard to case.
func DefaultProtected() []string {
	var out []string
	for _, group := range [][]string{protectedGit, protectedCI, protectedServices, protectedGovernance, protectedAgents, protectedHooks, protectedLocks} {
		out = append(out, group...)
	}
	return out
}

// Files that steer git. A .gitignore decides what later runs throw away.
var protectedGit = []string{
	"**/.gitattributes", "**/.gitmodules", "**/.gitignore", "**/.gitconfig", "**/.lfsconfig",
}

// What CI systems run with a repository's secrets.
var protectedCI = []string{
	".github/**", ".gitlab/**", "**/.gitlab-ci.yml", ".gitea/**", ".forgejo/**", ".circleci/**",
	".buildkite/**", ".woodpecker/**", ".woodpecker.yml", ".woodpecker.yaml", ".drone.yml", ".drone.star",
	".travis.yml", ".appveyor.yml", "appveyor.yml", ".cirrus.yml", ".cirrus.star", ".semaphore/**",
	"azure-pipelines*.yml", "azure-pipelines*.yaml", ".azure-pipelines/**", "bitbucket-pipelines.yml",
	"**/Jenkinsfile", ".teamcity/**", ".tekton/**", ".builds/**", ".build.yml", ".ci/**",
	"cloudbuild.yaml", "cloudbuild.yml", "buildspec.yml", "wercker.yml", "codefresh.yml",
	"**/action.yml", "**/action.yaml", "**/Earthfile",
}

// What release and deployment services, and bots that write to the repository,
// read from it with secrets of their own.
var protectedServices = []string{
	"renovate.json", ".renovaterc", ".renovaterc.json", "**/netlify.toml", "**/vercel.json",
	".readthedocs.yaml", ".readthedocs.yml", ".goreleaser.yml", ".goreleaser.yaml",
}

// Who decides, and by which rules.
var protectedGovernance = []string{
	"**/.writ/**", "**/CODEOWNERS", ".aynig/**",
}

// What coding agents and editors obey or run on opening a repository.
var protectedAgents = []string{
	"**/AGENTS.md", "**/AGENTS.override.md", "**/CLAUDE.md", "**/CLAUDE.local.md", "**/GEMINI.md", "**/.claude/**", "**/.codex/**",
	"**/.cursor/**", "**/.cursorrules", "**/.cursorignore", "**/.mcp.json", "**/.gemini/**",
	"**/.windsurf/**", "**/.windsurfrules", "**/.clinerules", "**/.clinerules/**", "**/.roo/**", "**/.roorules",
	"**/.aider.conf.yml", "**/.continue/**", "**/.junie/**", "**/.kiro/**", "**/.amazonq/**",
	"**/.opencode/**", "**/opencode.json", "**/opencode.jsonc", "**/.augment/**", "**/.goosehints", "**/.agents/**",
	"**/.vscode/**", "**/*.code-workspace", "**/.idea/**", "**/.devcontainer/**", ".devcontainer.json", ".gitpod.yml", "**/.envrc",
	"**/AGENT.md", "**/JULES.md", "**/.claude.json", "**/QWEN.md", "**/.qwen/**", "**/WARP.md", "**/CRUSH.md", "**/.crush.json",
	"**/crush.json", "**/.crush/**", "**/.rules", "**/.zed/**", "**/.trae/**", "**/.amp/**", "**/.copilot/**",
	"**/.openhands/**", "**/.kilocode/**", "**/.roomodes", "**/.agent/**",
}

// Hooks that run on a developer's machine.
var protectedHooks = []string{
	".githooks/**", ".husky/**", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml",
	"lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook/**", ".overcommit.yml",
}

// Lock files: they name the code that everybody downloads; .npmrc and its like name
// where it is from, and what the package manager runs.
var protectedLocks = []string{
	"**/go.sum", "**/go.work.sum", "**/package-lock.json", "**/npm-shrinkwrap.json", "**/yarn.lock",
	"**/pnpm-lock.yaml", "**/bun.lock", "**/bun.lockb", "**/deno.lock", "**/Cargo.lock", "**/poetry.lock",
	"**/Pipfile.lock", "**/pdm.lock", "**/uv.lock", "**/conda-lock.yml", "**/Gemfile.lock", "**/composer.lock",
	"**/mix.lock", "**/pubspec.lock", "**/Podfile.lock", "**/Package.resolved", "**/packages.lock.json",
	"**/gradle.lockfile", "**/flake.lock", "**/.terraform.lock.hcl", "**/.npmrc",
	"**/.yarnrc", "**/.yarnrc.yml", "**/.yarn/releases/**", "**/.yarn/plugins/**", "**/bunfig.toml", "**/pip.conf",
}

// Protection answers whether a path is protected.
type Protection struct {
	protected Globs // folded
	unprotect Globs
}

// NewProtection compiles the default list, what the contract adds, and what it
// takes out. Faulty patterns are reported and left out.
func NewProtection(protected, unprotect []string) (Protection, []*PatternError) {
	var p Protection
	var faults []*PatternError
	for _, text := range append(DefaultProtected(), protected...) {
		g, fault := parseGlob(Fold(text))
		if fault != nil {
			faults = append(faults, &PatternError{text, fault.Reason})
			continue
		}
		p.protected = append(p.protected, g)
	}
	un, bad := ParseGlobs(unprotect)
	p.unprotect = un
	return p, append(faults, bad...)
}

// Match reports whether the path may not be changed.
func (p Protection) Match(path string) bool {
	return p.protected.Match(Fold(path)) && !p.unprotect.Match(path)
}

// CheckAllowed lists what is wrong with a task's allowed_files: faulty patterns
// and patterns that name a protected path (CASES I9). A wider pattern that
// merely reaches a protected path is fine here; the path itself stays refused.
func CheckAllowed(patterns []string, p Protection) []kernel.Violation {
	globs, faults := ParseGlobs(patterns)
	var out []kernel.Violation
	for _, f := range faults {
		out = append(out, f.Violation())
	}
	for _, g := range globs {
		if p.Match(g.String()) {
			out = append(out, kernel.Violation{Code: kernel.CodeProtectedPath, Subject: g.String(),
				Detail: "The task names a protected path; the contract's paths.unprotect must name it first."})
		}
	}
	return kernel.SortViolations(out)
}
