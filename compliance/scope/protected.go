package scope

import (
	"slices"

	"github.com/writbot/writ/kernel"
)

// DefaultProtected lists the paths that a builder must not change even if the
// task allows them, unless the contract's paths.unprotect names them
// (case S14). The contract's paths.protected adds to the list.
// They are compared without regard to case.
func DefaultProtected() []string { return slices.Concat(DefaultForbidden(), DefaultGuarded()) }

// DefaultForbidden lists what steers git, writ and agents: no acceptance will ever let a
// task change it.
func DefaultForbidden() []string {
	return slices.Concat(protectedGit, protectedGovernance, protectedAgents, protectedHooks)
}

// DefaultGuarded lists the rest: what a CI system, a service or a package manager obeys.
func DefaultGuarded() []string {
	return slices.Concat(protectedOwners, protectedCI, protectedServices, protectedLocks)
}

// Class is how a path is protected.
type Class string

// The classes.
const (
	// ClassNone is a path like any other.
	ClassNone Class = ""
	// ClassForbidden is never changed by a task.
	ClassForbidden Class = "forbidden"
	// ClassGuarded is changed once a person has accepted exactly these bytes.
	ClassGuarded Class = "guarded"
	// ClassLock is guarded unless it comes with its manifest; see [Locks.WithManifest].
	ClassLock Class = "lock"
)

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
	"**/action.yml", "**/action.yaml", "**/Earthfile", "**/*.gitlab-ci.yml", "screwdriver.yaml", "bitrise.yml",
	"codemagic.yaml", ".harness/**",
}

// What release and deployment services, and bots that write to the repository,
// read from it with secrets of their own.
var protectedServices = []string{
	"renovate.json", ".renovaterc", ".renovaterc.json", "**/netlify.toml", "**/vercel.json",
	".readthedocs.yaml", ".readthedocs.yml", ".goreleaser.yml", ".goreleaser.yaml",
	".mergify.yml", ".mergify/**", ".releaserc", ".releaserc.*", "codecov.yml", ".codecov.yml",
}

// Who decides, and by which rules.
var protectedGovernance = []string{
	"**/.writ/**", ".aynig/**",
}

// Who must review.
var protectedOwners = []string{"**/CODEOWNERS"}

// What coding agents and editors obey or run on opening a repository.
var protectedAgents = []string{
	"**/AGENTS.md", "**/AGENTS.override.md", "**/CLAUDE.md", "**/CLAUDE.local.md", "**/CONTEXT.md", "**/GEMINI.md", "**/.claude/**", "**/.codex/**",
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
	"**/.pnpmfile.cjs", "**/.cargo/config", "**/.cargo/config.toml", "**/.bundle/config", "**/.mvn/**",
	"**/gradle-wrapper.properties",
}

// WhyGuarded is said of a path that a list guards.
const WhyGuarded = "What it says is obeyed by CI, a service or a package manager, or the contract guards it."

// Protection answers whether a path is protected.
type Protection struct {
	forbidden Globs // folded
	guarded   Globs // folded
	unprotect Globs
}

// NewProtection compiles the default lists, what the contract adds to what is forbidden,
// and what it takes out of both. Faulty patterns are reported and left out.
func NewProtection(forbidden, unprotect []string) (Protection, []*PatternError) {
	return NewClasses(forbidden, nil, unprotect)
}

// NewClasses is NewProtection with what the contract adds to what is guarded. What is
// protected is the same whichever of the two lists names it.
func NewClasses(forbidden, guarded, unprotect []string) (Protection, []*PatternError) {
	var p Protection
	var faults []*PatternError
	compile := func(to *Globs, lists ...[]string) {
		for _, text := range slices.Concat(lists...) {
			g, fault := parseGlob(Fold(text))
			if fault != nil {
				faults = append(faults, &PatternError{text, fault.Reason})
				continue
			}
			*to = append(*to, g)
		}
	}
	compile(&p.forbidden, DefaultForbidden(), forbidden)
	compile(&p.guarded, DefaultGuarded(), guarded)
	un, bad := ParseGlobs(unprotect)
	p.unprotect = un
	return p, append(faults, bad...)
}

// Match reports whether the path may not be changed.
func (p Protection) Match(path string) bool { return p.Class(path) != ClassNone }

// Class is how a path is protected. What both lists name is forbidden.
func (p Protection) Class(path string) Class {
	folded := Fold(path)
	switch {
	case p.forbidden.Match(folded):
	case !p.guarded.Match(folded), p.unprotect.Match(path):
		return ClassNone
	case isLock(path):
		return ClassLock
	default:
		return ClassGuarded
	}
	if p.unprotect.Match(path) {
		return ClassNone
	}
	return ClassForbidden
}

// CheckAllowed lists what is wrong with a task's allowed_files: faulty patterns
// and patterns that name a path which no task can change (case I9): a forbidden one, or
// where nobody accepts it, a guarded one. A wider pattern that merely reaches such a path
// is fine here; the path itself stays refused.
func CheckAllowed(patterns []string, p Protection, accepts bool) []kernel.Violation {
	globs, faults := ParseGlobs(patterns)
	var out []kernel.Violation
	for _, f := range faults {
		out = append(out, f.Violation())
	}
	for _, g := range globs {
		if c := p.Class(g.String()); c == ClassForbidden || c == ClassGuarded && !accepts {
			out = append(out, kernel.Violation{Code: kernel.CodeProtectedPath, Subject: g.String(),
				Detail: "The task names a protected path; the contract's paths.unprotect must name it first."})
		}
	}
	return kernel.SortViolations(out)
}
