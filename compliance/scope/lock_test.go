package scope

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
)

// locks has, for each format, a lock file of the base, the same with another dependency
// from where the others are, and ways to name another source.
var locks = map[string]struct {
	base, more string
	strange    []string
}{
	"go.sum": {
		"github.com/a/b v1.0.0 h1:x=\ngithub.com/a/b v1.0.0/go.mod h1:y=\n",
		"github.com/c/d v1.0.0 h1:x=\n",
		[]string{"evil.example/c v1.0.0 h1:x=\n", "github.com/c/d v1.0.0 evil\n"},
	},
	"go.work.sum": {"golang.org/x/net v1.0.0 h1:x=\n", "golang.org/x/mod v0.1.0 h1:x=\n", []string{"evil.example/c v1.0.0 h1:x=\n"}},
	"package-lock.json": {
		`{"lockfileVersion":3,"packages":{"":{"dependencies":{"a":"^1"}},"node_modules/a":{"version":"1.0.0","resolved":"https://registry.npmjs.org/a/-/a-1.0.0.tgz"}}}`,
		`{"lockfileVersion":3,"packages":{"node_modules/b":{"version":"2.0.0","resolved":"https://registry.npmjs.org/b/-/b-2.0.0.tgz","integrity":"sha512-` + strings.Repeat("a//b", 21) + `ab==","funding":{"url":"https://money.example/b"}}}}`,
		[]string{
			`{"packages":{"node_modules/b":{"resolved":"https://evil.example/b/-/b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https://evil.example/b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https://registry.npmjs.org/b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https://registry.npmjs.org/-/archive/b.tar.gz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"http://registry.npmjs.org/b/-/b-2.0.0.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https://me:pw@registry.npmjs.org/b/-/b-2.0.0.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"http://192.0.2.7/b/-/b-2.0.0.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"git+https://registry.npmjs.org/b.git#1"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"ftp://registry.npmjs.org/b/-/b-2.0.0.tgz"}}}`,
			`{"packages":{"node_modules/b":{"version":"2.0.0","integrity":"sha512-x"}}}`,
			`{"dependencies":{"b":{"version":"2.0.0"}}}`,
			`{"dependencies":{"b":{"version":"npm:evil@2.0.0"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"web/b","link":true}}}`,
			`{"packages":{"../b":{"version":"1.0.0"}}}`, `{"packages":{"node_modules/b":{"resolved":"../b"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"/opt/b"}}}`, `{"packages":{"node_modules/b":{"resolved":"web/../../b"}}}`,
			`{"packages":{"node_modules/b":{"version":"file:../b"}}}`, `{"packages":{"node_modules/b":{"resolved":"file:b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https:\/\/evil.example/b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https:\u002f\u002fevil.example/b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https:\\\\evil.example/b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https:/\t/evil.example/b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https:evil.example/b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"git+ssh://git@evil.example/b.git#1"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https://registry.npmjs.org@evil.example/b"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https://registry.npmjs.org,x@evil.example/b/-/b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https:// x@evil.example/b/-/b.tgz"}}}`,
			`{"packages":{"node_modules/b":{"resolved":"https://registry.npmjs.org;a)b@evil.example/b/-/b.tgz"}}}`,
			`{"dependencies":{"b":{"version":"github:evil/b#1"}}}`,
			`{"dependencies":{"funding":{"resolved":"https://evil.example/b.tgz"}}}`,
			`{"packages":{"support":{"resolved":"https://evil.example/b.tgz"}}}`,
			`{"packages":`, `{"packages":{}}{"packages":{"b":{"resolved":"https://evil.example"}}}`,
		},
	},
	"npm-shrinkwrap.json": {`{"dependencies":{"a":{"resolved":"https://registry.npmjs.org/a/-/a.tgz"}}}`, `{"dependencies":{"b":{"resolved":"https://registry.npmjs.org/b/-/b.tgz"}}}`, []string{`{"dependencies":{"b":{"resolved":"https://evil.example/b.tgz"}}}`}},
	"composer.lock": {
		`{"packages":[{"name":"a/a","dist":{"url":"https://api.github.com/repos/a/a/zipball/1"},"homepage":"https://a.example"}]}`,
		`{"packages":[{"name":"a/a","dist":{"url":"https://api.github.com/repos/a/a/zipball/2"},"homepage":"https://b.example"}]}`,
		[]string{`{"packages":[{"dist":{"url":"https://api.github.com/repos/evil/a/zipball/2"}}]}`, `{"packages":[{"source":{"url":"https://evil.example/a.git"}}]}`, `{"packages":[{"dist":{"type":"path","url":"packages/a"}}]}`, `{"packages":[{"dist":{"type":"zip","url":"../a.zip"}}]}`},
	},
	"yarn.lock": {
		"a@^1:\n  version \"1.0.0\"\n  resolved \"https://registry.yarnpkg.com/a/-/a-1.0.0.tgz#1\"\n\n\"c@npm:^1\":\n  resolution: \"c@npm:1.0.0\"\n",
		"b@2.0.0:\n  version \"2.0.0\"\n  resolved \"https://registry.yarnpkg.com/b/-/b-2.0.0.tgz#2\"\n\n\"c@npm:^1\":\n  resolution: \"c@npm:1.0.1\"\n",
		[]string{
			"b@2:\n  resolved \"https://evil.example/b.tgz\"\n", "b@2:\n  resolved \"https://registry.yarnpkg.com/b.tgz\"\n", "\"b@file:../b\":\n  version \"0.0.0\"\n",
			"\"b@link:./b::locator=x\":\n  version: 0\n", "\"b@portal:../b\":\n", "\"b@exec:./make.js\":\n", "b@2:\n  resolved \"https://registry.yarnpkg.com/o/b.git#1\"\n", "b@../b:\n  version \"1\"\n",
			"\"b@git@evil.example:x/b.git\":\n  version: 1\n", "\"b@https://evil.example/b\":\n",
			"b:\n  resolution: \"https:\\x2f\\x2fevil.example\"\n", "b:\n  resolution: !!binary aHR0cHM6Ly9ldmlsLmV4YW1wbGU=\n", "b:\n  resolution: \"https:\\\n    //evil\"\n", "b:\n  resolved \"http:/\t/evil.example\"\n",
		},
	},
	"pnpm-lock.yaml": {
		"lockfileVersion: '9.0'\npackages:\n  a@1.0.0:\n    resolution: {integrity: sha512-x==}\n  b@https://codeload.github.com/o/b/tar.gz/1:\n    resolution: {tarball: https://codeload.github.com/o/b/tar.gz/1}\n",
		"lockfileVersion: '9.0'\npackages:\n  c@1.0.0:\n    resolution: {integrity: sha512-x==}\n  b@https://codeload.github.com/o/b/tar.gz/2:\n    resolution: {tarball: https://codeload.github.com/o/b/tar.gz/2}\n",
		[]string{"  c@1.0.0:\n    resolution: {tarball: https://evil.example/c.tgz}\n", "  c@1:\n    resolution: {tarball: https://codeload.github.com/evil/b/tar.gz/2}\n",
			"importers:\n  .:\n    dependencies:\n      c:\n        version: link:../c\n", "  c@1:\n    resolution: {directory: c, type: directory}\n", "  c@1:\n    resolution:\n      directory:  c\n", "  c@1:\n    resolution: {tarball: file:c.tgz}\n"},
	},
	"Cargo.lock": {
		"[[package]]\nname = \"a\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n",
		"[[package]]\nname = \"b\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n",
		[]string{"[[package]]\nsource = \"git+https://github.com/evil/b#1\"\n", "[[package]]\nsource = \"registry+https:\\u002f\\u002fevil.example\"\n", "[[package]]\nsource = \"sparse+https://evil.example/index\"\n", "[[package]]\nsource = \"git+https://github.com/rust-lang/crates.io-index#1\"\n", "[[package]]\nsource = \"registry+http://github.com/rust-lang/crates.io-index\"\n"},
	},
	"poetry.lock": {
		"[[package]]\nname = \"a\"\npython-versions = \">=3, !=3.1\"\n", "[[package]]\nname = \"b\"\ndescription = \"a \\\"b\\\"\"\n",
		[]string{"[[package]]\n[package.source]\ntype = \"legacy\"\nurl = \"https://evil.example/simple\"\n",
			"[[package]]\n[package.source]\ntype = \"directory\"\nurl = \"lib/b\"\n", "[[package]]\n[package.source]\ntype = \"file\"\nurl = \"b.whl\"\n",
			"[[package]]\n[package.source]\nurl = \"b.whl\"\ntype = \"file\"\n", "[[package]]\n[ package . source ]\ntype = 'file'\nurl = 'b.whl'\n", "[[package]]\nsource.type = \"file\"\nsource.url = \"b.whl\"\n"},
	},
	"uv.lock": {
		"[[package]]\nsource = { registry = \"https://pypi.org/simple\" }\nwheels = [{ url = \"https://files.pythonhosted.org/packages/a.whl\" }]\n",
		"[[package]]\nsource = { registry = \"https://pypi.org/simple\" }\nsdist = { url = \"https://files.pythonhosted.org/packages/b.tar.gz\" }\nwheels = [{ url = \"https://files.pythonhosted.org/packages/b.whl\" }]\n\n[[package]]\nsource = { virtual = \".\" }\n",
		[]string{"[[package]]\nsource = { registry = \"https://evil.example/simple\" }\n", "[[package]]\nsource = { git = \"https://pypi.org/b?rev=1#1\" }\n",
			"[[package]]\nsource = { url = \"https://files.pythonhosted.org/b.whl\" }\n", "[[package]]\nsource = { editable = \"lib/b\" }\n", "[[package]]\nsource = { directory = \"../b\" }\n",
			"[[package]]\nsource = { path = \"b.whl\" }\n", "[[package]]\nsource = { registry = \"wheels\" }\n", "[[package]]\nsource = { virtual = \"lib/b\" }\n",
			"[[package]]\nsource = { subdirectory = \"x\", url = \"https://files.pythonhosted.org/b.whl\" }\n", "[[package]]\n[package.source]\npath = \"b.whl\"\n"},
	},
	"Gemfile.lock": {
		"GEM\n  remote: https://rubygems.org/\n  specs:\n    a (1.0)\n\nDEPENDENCIES\n  a!\n", "GEM\n  remote: https://rubygems.org/\n  specs:\n    b (1.0)\n",
		[]string{"GEM\n  remote: https://evil.example/\n", "GIT\n  remote: git@evil.example:x/b.git\n", "GIT\n  remote: https://rubygems.org/b\n", "PATH\n  remote: lib/b\n", "PATH\n  remote: ../b\n", "PATH\n  glob: x\n  remote: lib/b\n", "PLUGIN SOURCE\n  remote: https://rubygems.org/b\n"},
	},
}

// withManifest judges a lock file of a tree that has nothing but it and the changes.
func withManifest(lock kernel.Change, changes []kernel.Change, before, after string, known ...string) string {
	has := func(p string) bool {
		return p == lock.Path || slices.ContainsFunc(changes, func(c kernel.Change) bool { return c.Path == p && c.Op != kernel.OpDelete })
	}
	return NewLocks(changes, has, known).WithManifest(lock, []byte(before), []byte(after))
}

// TestS14_LockWithItsManifest: a lock file comes with its manifest where that changed in
// the same diff, and where nothing in it is from elsewhere than before.
func TestS14_LockWithItsManifest(t *testing.T) {
	for name, l := range locks {
		lock := kernel.Change{Path: "web/" + name, Op: kernel.OpModify, BeforeMode: ModeFile, AfterMode: ModeFile}
		with := func(manifest string, op kernel.ChangeOp) []kernel.Change {
			return []kernel.Change{{Path: manifest, Op: op}, lock}
		}
		manifest := "web/" + lockFormats[name].manifest
		why := func(changes []kernel.Change, after string, known ...string) string {
			return withManifest(lock, changes, l.base, after, known...)
		}
		if s := why(with(manifest, kernel.OpModify), l.more); s != "" {
			t.Errorf("%s with another dependency: %s", name, s)
		}
		for _, changes := range [][]kernel.Change{{lock}, with(path.Base(manifest), kernel.OpModify), with(manifest, kernel.OpDelete), with(manifest, kernel.OpMode)} {
			if s := why(changes, l.more); !strings.Contains(s, "did not change with it") {
				t.Errorf("%s without its manifest, but %v: %q", name, changes, s)
			}
		}
		for _, after := range l.strange {
			if s := why(with(manifest, kernel.OpModify), after); s == "" {
				t.Errorf("%s takes a source that the base doesn't have: %s", name, after)
			}
		}
		for _, after := range l.strange { // what the base has already is nothing new
			if s := withManifest(lock, with(manifest, kernel.OpModify), after, after); s != "" && !strings.Contains(s, "can't be read") {
				t.Errorf("%s: the base's own source is new: %s", name, s)
			}
		}
		if s := withManifest(lock, with(manifest, kernel.OpModify), "", l.strange[0]); s == "" {
			t.Errorf("%s: a new lock file has sources that no base has", name)
		}
	}
	l := locks["package-lock.json"]
	changes := []kernel.Change{{Path: "package.json", Op: kernel.OpModify}}
	lock := kernel.Change{Path: "package-lock.json", Op: kernel.OpModify, BeforeMode: ModeFile, AfterMode: ModeFile}
	if s := withManifest(lock, changes, l.base, l.strange[0], "evil.example"); s != "" {
		t.Errorf("what the operator knows: %s", s)
	}
	lent := func(at string) string {
		return `{"packages":{"node_modules/b":{"resolved":"https://` + at + `/b/-/b.tgz"}}}`
	}
	for _, at := range []string{"registry.npmjs.org@evil.example", "me:pw@evil.example"} {
		if s := withManifest(lock, changes, lent("me:pw@registry.npmjs.org"), lent(at)); s == "" || strings.Contains(s, "pw") {
			t.Errorf("what is known stands before the at sign of %s: %q", at, s)
		}
	}
	for name, c := range map[string]kernel.Change{
		"another kind": {Path: "mix.lock", Op: kernel.OpModify, BeforeMode: ModeFile, AfterMode: ModeFile},
		"deleted":      {Path: lock.Path, Op: kernel.OpDelete, BeforeMode: ModeFile},
		"executable":   {Path: lock.Path, Op: kernel.OpModify, BeforeMode: ModeFile, AfterMode: ModeExec},
		"from a link":  {Path: lock.Path, Op: kernel.OpModify, BeforeMode: ModeSymlink, AfterMode: ModeFile},
		"in capitals":  {Path: "Package-Lock.json", Op: kernel.OpModify, BeforeMode: ModeFile, AfterMode: ModeFile},
	} {
		if s := withManifest(c, append(changes, kernel.Change{Path: "mix.exs", Op: kernel.OpModify}), l.base, l.more); s == "" {
			t.Errorf("%s: it comes with its manifest", name)
		}
	}
	if s := withManifest(lock, changes, l.base, string(make([]byte, maxLockBytes+1))); !strings.Contains(s, "more than") {
		t.Errorf("too long: %q", s)
	}
}

// TestS14_EveryReadableLockIsProtected: none of the formats is a name that the built-in
// list leaves free.
func TestS14_EveryReadableLockIsProtected(t *testing.T) {
	p, _ := NewProtection(nil, nil)
	for name := range lockFormats {
		if !p.Match(name) {
			t.Errorf("%s is not protected", name)
		}
		if locks[name].base == "" {
			t.Errorf("%s has no case", name)
		}
	}
}

// TestS14_LockOfAWorkspace: a lock file comes with a changed manifest below it, unless
// another one of its kind is nearer, whoever changed that. The manifest itself must be
// allowed, and what the base's tree is known of for a commit of the past is enough.
func TestS14_LockOfAWorkspace(t *testing.T) {
	for _, c := range []struct {
		lock, manifest string
		has, gone      []string // further files of the base, and those of them that the changes remove
		free           bool
	}{
		{lock: "Cargo.lock", manifest: "crates/x/Cargo.toml", free: true},
		{lock: "rust/Cargo.lock", manifest: "rust/crates/x/Cargo.toml", free: true},
		{lock: "package-lock.json", manifest: "packages/x/package.json", free: true},
		{lock: "pnpm-lock.yaml", manifest: "packages/x/package.json", free: true},
		{lock: "yarn.lock", manifest: "packages/x/package.json", free: true},
		{lock: "uv.lock", manifest: "libs/x/pyproject.toml", free: true},
		{lock: "Gemfile.lock", manifest: "x.gemspec", free: true},
		{lock: "Gemfile.lock", manifest: "active/active.gemspec", free: true},
		{lock: "go.work.sum", manifest: "tools/go.mod", free: true},
		{lock: "go.sum", manifest: "tools/go.mod"},
		{lock: "Cargo.lock", manifest: "crates/x/package.json"},
		{lock: "rust/Cargo.lock", manifest: "Cargo.toml"},
		{lock: "rust/Cargo.lock", manifest: "rusty/Cargo.toml"},
		{lock: "Cargo.lock", manifest: "crates/x/Cargo.toml", has: []string{"crates/x/Cargo.lock"}},
		{lock: "Cargo.lock", manifest: "crates/x/Cargo.toml", has: []string{"crates/Cargo.lock"}},
		{lock: "Cargo.lock", manifest: "crates/x/Cargo.toml", has: []string{"crates/y/Cargo.lock", "crates/x/yarn.lock"}, free: true},
		{lock: "yarn.lock", manifest: "packages/x/package.json", has: []string{"packages/x/package-lock.json"}},
		{lock: "Cargo.lock", manifest: "crates/x/Cargo.toml", has: []string{"crates/Cargo.lock"}, gone: []string{"crates/Cargo.lock"}, free: true},
	} {
		l := locks[path.Base(c.lock)]
		w := newWorld(t, map[string]string{"README.md": "x\n"})
		w.add(c.lock, ModeFile, l.base)
		w.add(c.manifest, ModeFile, "one\n")
		for _, p := range c.has {
			w.add(p, ModeFile, "x\n")
		}
		before := slices.Clone(w.entries)
		w.entries = slices.DeleteFunc(w.entries, func(e Entry) bool {
			return e.Path == c.lock || e.Path == c.manifest || slices.Contains(c.gone, e.Path)
		})
		w.add(c.lock, ModeFile, l.more)
		w.add(c.manifest, ModeFile, "two\n")
		rules := Rules{Allowed: []string{c.manifest}, MaxFiles: 9, MaxBytes: 9000, Accepts: true, Blob: w.blob}
		verdict := func(base []Entry) Verdict {
			s, err := New(base, rules)
			must(t, err)
			v, err := s.Suppose(context.Background(), w.changesBetween(before, w.entries))
			must(t, err)
			return v
		}
		part, err := Around("/", w.changesBetween(before, w.entries), directories(before))
		must(t, err)
		for of, base := range map[string][]Entry{"the whole base": before, "what is around the changes": part} {
			v := verdict(base)
			outside := slices.ContainsFunc(v.Violations, func(x kernel.Violation) bool { return x.Subject == c.lock })
			if free := slices.Contains(v.Locks, c.lock); free != c.free || outside == free {
				t.Errorf("%s with %s beside %v, in %s: free %v, outside %v", c.lock, c.manifest, c.has, of, free, outside)
			}
		}
		rules.Allowed = []string{"README.md"}
		if v := verdict(before); !has(v, kernel.CodeScopeOutside, c.lock) || !has(v, kernel.CodeScopeOutside, c.manifest) {
			t.Errorf("%s with %s, neither of which is allowed: %v", c.lock, c.manifest, v.Violations)
		}
	}
}

// TestS14_LockSaysToPeople: what a lock file says to people of a package is no source, and
// nothing that looks like it hides one.
func TestS14_LockSaysToPeople(t *testing.T) {
	entry := "lockfileVersion: '9.0'\n\npackages:\n\n  '@a/b@1.0.0(c@2)':\n    resolution: {integrity: sha512-x==}\n    engines: {node: '>=10', npm: ^6}\n    cpu: [x64, arm64]\n"
	pkg := "[[package]]\nname = \"a\"\nversion = \"1\"\n"
	for name, c := range map[string]struct{ free, guarded []string }{
		"pnpm-lock.yaml": {
			[]string{
				entry + "    deprecated: It's gone, see https://b.example/b (really)\n    hasBin: true\n\n  d@1.0.0:\n    resolution: {integrity: sha512-y==}\n    deprecated: 'ask: https://d.example'\n",
				entry + "    deprecated: \"a \\\"tab\\\" \\t https://d.example\"\n",
				entry + "    deprecated: |-\n      Look at\n\n        https://b.example 'now'\n      \\o/\n    hasBin: true\n\nsnapshots:\n\n  d@1.0.0: {}\n",
				strings.ReplaceAll(entry+"    deprecated: https://b.example\n", "\n", "\r\n"),
				"---\n" + entry + "    deprecated: https://b.example\n\n---\n" + entry + "    deprecated: https://b.example\n",
			},
			[]string{
				entry + "    deprecated: &a https://evil.example/c.tgz\n", entry + "    deprecated: {tarball: https://evil.example}\n", entry + "    deprecated: |2\n      https://evil.example\n",
				entry + "    dependencies:\n      deprecated: https://evil.example/c.tgz\n", "dependencies:\n  x:\n    deprecated: https://evil.example/c.tgz\n",
				"packages:\n a@1:\n   dependencies:\n    deprecated: https://evil.example/c.tgz\n", "x:\n packages:\n  a@1:\n   deprecated: https://evil.example/c.tgz\n",
				entry + "    ? dependencies\n    : a: 1\n      deprecated: https://evil.example/c.tgz\n", "packages:\n  - dependencies:\n      deprecated: https://evil.example/c.tgz\n",
				entry + "    ? 'x'\n    : dependencies:\n        a: 1\n    deprecated: https://evil.example/c.tgz\n",
				entry + "    version: 'a\n    deprecated: //evil.example/c.tgz\n    '\n", entry + "    version: \"a\n    deprecated: //evil.example/c.tgz\n    \"\n", entry + "    resolution: {tarball: a\n    deprecated: //evil.example/c.tgz\n    }\n",
				entry + "    it's: 'a\n    deprecated: //evil.example/c.tgz\n    '\n", entry + "    x: [a', 'b]\n    deprecated: //evil.example/c.tgz\n    ']\n", entry + "  a@1: |\n    deprecated: //evil.example/c.tgz\n",
				entry + "    deprecated: |-\n      Look\n     tarball: https://evil.example\n", entry + "    deprecated: |-\n    tarball: https://evil.example\n", entry + "    deprecated: a\r    tarball: https://evil.example\n",
				entry + "    deprecated: |-\n      a\r    tarball: https://evil.example\n", entry + "    deprecated: 'a' 'https://evil.example\n", entry + "    deprecated: a\n      https://evil.example\n",
				entry + "    hasBin: \"\\x\"\n",
			},
		},
		"poetry.lock": {
			[]string{
				pkg + "description = \"\\\\o/ at https://b.example, \\u2026 and \\\"c\\\"\"\noptional = false\nfiles = [\n    {file = \"a.whl\", hash = \"sha256:1\"},\n]\n",
				strings.ReplaceAll(pkg+"description = \"\\\\\"\n", "\n", "\r\n"),
			},
			[]string{
				pkg + "[package.dependencies]\ndescription = \"https://evil.example\"\n", pkg + "url = \"\"\"\ndescription = \"https://evil.example\"\n\"\"\"\n", pkg + "url = '''\ndescription = \"https://evil.example\"\n'''\n",
				pkg + "description = \"a\", url = \"https://evil.example\"\n", pkg + "description = \"a\" # \"https://evil.example\"\n", pkg + "name = \"\\u0041\"\n", "description = \"https://evil.example\"\n",
			},
		},
		"yarn.lock": {nil, []string{"\"a@npm:1\":\n  deprecated: https://evil.example\n"}}, // yarn writes no such key
	} {
		lock := kernel.Change{Path: name, Op: kernel.OpModify, BeforeMode: ModeFile, AfterMode: ModeFile}
		changes := []kernel.Change{{Path: lockFormats[name].manifest, Op: kernel.OpModify}, lock}
		for _, after := range c.free {
			if s := withManifest(lock, changes, locks[name].base, after); s != "" {
				t.Errorf("%s is guarded: %s\n%s", name, s, after)
			}
		}
		for _, after := range c.guarded {
			if s := withManifest(lock, changes, locks[name].base, after); s == "" {
				t.Errorf("%s is free:\n%s", name, after)
			}
		}
	}
}
