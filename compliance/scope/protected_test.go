package scope

import (
	"slices"
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
	"vercel.json", ".readthedocs.yaml", ".goreleaser.yml", ".goreleaser.yaml", "Earthfile", ".mergify.yml", ".releaserc.json", "codecov.yml", "screwdriver.yaml", ".harness/p.yaml", "ci/x.gitlab-ci.yml", "a/.pnpmfile.cjs", ".cargo/config.toml", ".bundle/config", ".mvn/extensions.xml", "gradle/wrapper/gradle-wrapper.properties", "Cargo.lock", ".gitattributes", "a/.gitattributes", ".gitmodules", ".gitignore",
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
	r.Forbidden = []string{"CALC/add.*"}
	wantViolation(t, w.verify(r), kernel.CodeProtectedPath, "calc/add.go")
}

// guardedFiles are a base with two lock files, each beside its manifest.
var guardedFiles = map[string]string{
	"go.mod": "module x\n", "go.sum": "github.com/a/b v1.0.0 h1:x=\n", "calc/add.go": "package calc\n",
	"web/package.json": "{}\n", "web/package-lock.json": "{\"a\": {\"resolved\": \"https://registry.npmjs.org/a.tgz\"}}\n",
	".github/workflows/ci.yml": "on: push\n",
}

// TestS14_LocksInForce: a lock file is allowed and free with its manifest, changed in the
// same diff, as long as it names no other source than before; else it is guarded.
func TestS14_LocksInForce(t *testing.T) {
	const more, strange = "github.com/a/b v1.0.0 h1:x=\ngithub.com/c/d v1.0.0 h1:y=\n", "evil.example/c/d v1.0.0 h1:y=\n"
	for name, c := range map[string]struct {
		files    map[string]string
		allowed  []string
		locks    []string
		guarded  []string
		outside  string
		unreadab bool
	}{
		"with its manifest":         {files: map[string]string{"go.mod": "module y\n", "go.sum": more}, allowed: []string{"go.mod"}, locks: []string{"go.sum"}},
		"alone":                     {files: map[string]string{"go.sum": more}, allowed: []string{"go.mod"}, guarded: []string{"go.sum"}},
		"from elsewhere":            {files: map[string]string{"go.mod": "module y\n", "go.sum": strange}, allowed: []string{"go.mod"}, guarded: []string{"go.sum"}},
		"whose manifest is outside": {files: map[string]string{"web/package-lock.json": "{}\n"}, allowed: []string{"go.mod"}, guarded: []string{"web/package-lock.json"}, outside: "web/package-lock.json"},
		"beside another manifest":   {files: map[string]string{"go.mod": "module y\n", "web/package-lock.json": "{}\n"}, allowed: []string{"go.mod", "web/*"}, guarded: []string{"web/package-lock.json"}},
		"nobody reads the base":     {files: map[string]string{"go.mod": "module y\n", "go.sum": more}, allowed: []string{"go.mod"}, guarded: []string{"go.sum"}, unreadab: true},
	} {
		w := newWorld(t, guardedFiles)
		w.layOut()
		for path, text := range c.files {
			w.write(path, text)
		}
		r := Rules{Allowed: c.allowed, MaxFiles: 200, MaxBytes: 4 << 20, Blob: w.blob}
		if c.unreadab {
			r.Blob = nil
		}
		v := w.verify(r)
		if !slices.Equal(v.Locks, c.locks) || has(v, kernel.CodeScopeOutside, c.outside) != (c.outside != "") {
			t.Errorf("%s: locks %v, %v", name, v.Locks, v.Violations)
		}
		for _, path := range c.guarded {
			wantViolation(t, v, kernel.CodeProtectedPath, path)
		}
		r.Accepts = true
		v = w.verify(r)
		var guarded []string
		for _, g := range v.Guarded {
			guarded = append(guarded, g.Path)
		}
		if !slices.Equal(guarded, c.guarded) || slices.ContainsFunc(v.Violations, func(x kernel.Violation) bool { return x.Code == kernel.CodeProtectedPath }) {
			t.Errorf("%s, where somebody accepts: guarded %v, %v", name, v.Guarded, v.Violations)
		}
		again, err := w.scope(r).Again(t.Context(), v.Changes, v.Contents)
		must(t, err)
		if !slices.Equal(again.Guarded, v.Guarded) || !slices.Equal(again.Locks, v.Locks) {
			t.Errorf("%s: judged again %v %v", name, again.Guarded, again.Locks)
		}
	}
}

// TestS14_GuardedIsNoViolation: where somebody can be asked, a guarded path is listed with
// why, and a forbidden one is refused as ever.
func TestS14_GuardedIsNoViolation(t *testing.T) {
	w := newWorld(t, guardedFiles)
	w.layOut()
	w.write(".github/workflows/ci.yml", "on: pull_request\n")
	w.write("own/x", "x\n")
	r := Rules{Allowed: []string{".github/**", "own/*", "*"}, Guarded: []string{"own/*"}, MaxFiles: 200, MaxBytes: 4 << 20}
	wantViolation(t, w.verify(r), kernel.CodeProtectedPath, "own/x")
	r.Accepts = true
	v := w.verify(r)
	wantClean(t, v)
	if len(v.Guarded) != 2 || v.Guarded[0].Path != ".github/workflows/ci.yml" || v.Guarded[1].Path != "own/x" || v.Guarded[0].Why == "" {
		t.Errorf("guarded are %v", v.Guarded)
	}
	w.write("AGENTS.md", "obey\n")
	wantViolation(t, w.verify(r), kernel.CodeProtectedPath, "AGENTS.md")
}

func TestI9_AllowedFiles(t *testing.T) {
	guard, _ := NewProtection(nil, []string{".github/labels.yml"})
	for pattern, want := range map[string]kernel.Code{
		"/etc/x": kernel.CodeDispatchMalformed, "../": kernel.CodeDispatchMalformed, "../x": kernel.CodeDispatchMalformed,
		"**": kernel.CodeDispatchMalformed, "": kernel.CodeDispatchMalformed, ".git/**": kernel.CodeDispatchMalformed,
		".github/**": kernel.CodeProtectedPath, ".GITHUB/workflows/x.yml": kernel.CodeProtectedPath,
		".writ/contract.yaml": kernel.CodeProtectedPath, "CLAUDE.md": kernel.CodeProtectedPath, "mix.lock": kernel.CodeProtectedPath,
	} {
		got := CheckAllowed([]string{"src/**", pattern}, guard, false)
		if len(got) != 1 || got[0].Code != want {
			t.Errorf("%q: %v, want %s", pattern, got, want)
		}
	}
	if got := CheckAllowed([]string{"src/**", ".github/labels.yml", "docs/*.md", "go.sum"}, guard, false); len(got) > 0 {
		t.Errorf("refused: %v", got)
	}
	if got := CheckAllowed([]string{".github/**", "mix.lock"}, guard, true); len(got) > 0 {
		t.Errorf("refused, though somebody accepts it: %v", got)
	}
	if got := CheckAllowed([]string{"CLAUDE.md"}, guard, true); len(got) != 1 {
		t.Errorf("forbidden, and taken: %v", got)
	}
}

// TestS14_Classes: each protected path has one class, whichever list names it, and none
// is free because of its class.
func TestS14_Classes(t *testing.T) {
	p, faults := NewClasses([]string{"own/forbidden", "both"}, []string{"own/guarded", "both", "AGENTS.md"}, []string{"go.sum", "CLAUDE.md"})
	if len(faults) > 0 {
		t.Fatal(faults[0])
	}
	for path, want := range map[string]Class{
		".gitattributes": ClassForbidden, ".writ/contract.yaml": ClassForbidden, "AGENTS.md": ClassForbidden, ".husky/pre-push": ClassForbidden,
		".github/workflows/ci.yml": ClassGuarded, "CODEOWNERS": ClassGuarded, "renovate.json": ClassGuarded, ".npmrc": ClassGuarded, "mix.lock": ClassGuarded,
		"x/go.sum": ClassLock, "package-lock.json": ClassLock, "Package-Lock.json": ClassGuarded,
		"own/forbidden": ClassForbidden, "OWN/guarded": ClassGuarded, "both": ClassForbidden,
		"go.sum": ClassNone, "CLAUDE.md": ClassNone, "main.go": ClassNone,
	} {
		if got := p.Class(path); got != want || p.Match(path) != (want != ClassNone) {
			t.Errorf("%s is %q (protected: %v), want %q", path, got, p.Match(path), want)
		}
	}
}
