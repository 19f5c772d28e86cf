package builder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// registry answers each path with itself, and counts the requests.
func registry(t *testing.T, answer http.HandlerFunc) (url string, rule gateway.Rule, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if answer != nil {
			answer(w, r)
			return
		}
		fmt.Fprint(w, "package", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	port := netip.MustParseAddrPort(s.Listener.Addr().String()).Port()
	const host = "registry.example.org"
	return fmt.Sprintf("http://%s:%d", host, port), gateway.Rule{
		Host: host, Ports: []uint16{port}, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}, asked
}

// project is a base with a lock file of which the steps download.
var project = map[string]string{
	"lock": "one\n", "calc/add.go": "package calc\n", ".gitignore": "build/\n", "README.md": "# calc\n",
}

// prepares is a bed whose contract prepares from a registry.
func prepares(t *testing.T, answer http.HandlerFunc, change ...func(*Config)) (*bed, []kernel.Step, *atomic.Int64) {
	t.Helper()
	url, rule, asked := registry(t, answer)
	b := outward(t, append([]func(*Config){alone, func(c *Config) {
		c.Checks.Egress = []gateway.Rule{rule}
		c.Checks.Env = map[string]string{"GORACE": "atexit_sleep_ms=0"}
	}}, change...)...)
	b.base = baseOf(project)
	return b, []kernel.Step{
		shStep("download", `set -e; mkdir -p ~/.cache/mod build/deps; /run/writ/init act-fetch `+url+`/$(cat lock) > ~/.cache/mod/got; cp ~/.cache/mod/got build/deps/; cat build/deps/got; grep -q ^200 build/deps/got`,
			[]string{strings.TrimPrefix(url, "http://")}, []string{"lock"}),
		shStep("warm", `set -e; mkdir -p ~/.cache/objects; cat calc/add.go ~/.cache/mod/got build/deps/got > ~/.cache/objects/all`, nil, nil),
	}, asked
}

func shStep(name, text string, hosts, keys []string) kernel.Step {
	return kernel.Step{Name: name, Argv: []string{"/bin/sh", "-c", text}, TimeoutMs: waitLimit.Milliseconds(), Hosts: hosts, Keys: keys}
}

// prepared builds with a preparation.
func (b *bed) prepared(steps []kernel.Step, text string) executor.BuildOutcome {
	b.t.Helper()
	job := b.job(script(text))
	job.Prepare, job.World = steps, "here"
	return b.build(job)
}

// checkPrepared checks with one.
func (b *bed) checkPrepared(steps []kernel.Step, o executor.BuildOutcome, list ...kernel.Check) executor.CheckOutcome {
	b.t.Helper()
	job := b.checkJob(o, list...)
	job.Prepare, job.World = steps, "here"
	r, err := b.local.Check(b.t.Context(), job)
	if err != nil {
		b.t.Fatalf("Check: %v", err)
	}
	b.await(r)
	return r.Outcome()
}

// stepNames are the steps that ran, with how they ended.
func stepNames(p *kernel.Prepared) string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, fmt.Sprintf("%s %d", s.Name, s.Exit.Code))
	}
	return strings.Join(out, ", ")
}

// without is a level that shows no overlays: what was prepared is copied.
func without(c *Config) { c.Sandbox = &refusing{Bubblewrap: sandbox.NewBubblewrap(sandbox.Config{})} }

// TestPrepare_Shown: what the steps left is there for the builder and for each check, and
// the registry is asked once for all runs on bases with the same key files.
func TestPrepare_Shown(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	const reads = `grep -q "package/one" ~/.cache/mod/got build/deps/got && grep -q "package calc" ~/.cache/objects/all && test -w build/deps/got`
	for name, change := range map[string]func(*Config){
		"overlays": alone, "whole workspaces": func(c *Config) { c.Layers.ChecksOnly = true }, "copies": without, "nothing kept": func(c *Config) { c.Layers.Dir = "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, steps, asked := prepares(t, nil, change)
			o := b.prepared(steps, reads+` && echo mine > build/deps/got && echo new > build/deps/new && echo mine > ~/.cache/objects/all && echo '// changed' >> calc/add.go && git status --porcelain`)
			if codes(o) != "" || paths(o.Diff) != "modify calc/add.go" || len(o.Diff.Discarded) > 0 || o.Result.Stdout.Tail != " M calc/add.go\n" {
				t.Fatalf("%s: %v, %s, %v, %s", codes(o), o.Violations, paths(o.Diff), o.Diff.Discarded, o.Result.Stdout.Tail+o.Result.Stderr.Tail)
			}
			p := o.Result.Prepared
			if stepNames(p) != "download 0, warm 0" || !p.Key.Valid() || !p.Layer.Valid() || p.OfChange || p.Steps[0].Egress == nil || p.Steps[1].Egress != nil {
				t.Errorf("recorded %+v", p)
			}
			check := shCheck("c", reads+` && test ! -e build/deps/new && echo mine > build/deps/got && rm -r ~/.cache/mod && grep -q changed calc/add.go`)
			check.Repeat = 2
			c := b.checkPrepared(steps, o, check, check)
			if len(c.Violations) > 0 || c.Tail != "" {
				t.Errorf("checks: %v, %s", c.Violations, c.Tail)
			}
			want, ran := int64(1), ""
			if b.cfg.Layers.Dir == "" {
				want, ran = 2, "download 0, warm 0"
			} else if c.Run.Prepared.Layer != p.Layer {
				t.Errorf("the checks saw the layer %s, the builder %s", c.Run.Prepared.Layer, p.Layer)
			}
			if asked.Load() != want || stepNames(c.Run.Prepared) != ran || c.Run.Prepared.Key != p.Key {
				t.Errorf("asked %d times; recorded of the checks %+v", asked.Load(), c.Run.Prepared)
			}
		})
	}
}

// TestPrepare_KeysDecide: the first stage is run again for other key files, steps or
// worlds, the second for each other base, and both after a week.
func TestPrepare_KeysDecide(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b, steps, _ := prepares(t, nil)
	ran := func() string {
		t.Helper()
		o := b.prepared(steps, "echo x > calc/new")
		if codes(o) != "" {
			t.Fatalf("%s: %v", codes(o), o.Violations)
		}
		return stepNames(o.Result.Prepared)
	}
	expect := func(what, want string) {
		t.Helper()
		if got := ran(); got != want {
			t.Errorf("%s: %q ran, not %q", what, got, want)
		}
	}
	with := func(change map[string]string) {
		files := maps.Clone(project)
		maps.Copy(files, change)
		b.base = baseOf(files)
		b.base.Commit = scope.BlobID([]byte(fmt.Sprint(files)))
	}
	expect("first", "download 0, warm 0")
	expect("again", "")
	b.restart()
	expect("another process", "")
	with(map[string]string{"README.md": "# other\n"})
	expect("another base", "warm 0")
	with(map[string]string{"lock": "two\n"})
	expect("another key file", "download 0, warm 0")
	with(nil)
	expect("the first base", "")
	steps[1].Argv = append(slices.Clone(steps[1].Argv), "x")
	expect("another second step", "warm 0")
	b.local.cfg.Checks.Env["X"] = "y"
	expect("another environment", "download 0, warm 0")
	later := time.Now().Add(rebuildAge + time.Minute)
	b.local.stock.busy.Wait() // workspaces go in the background
	b.local.stock.layers.now = func() time.Time { return later }
	expect("a week later", "download 0, warm 0")
	expect("at once after that", "")
}

// TestPrepare_SeesItsKeys: a step with keys sees the named files alone; one with a network
// fetches no toolchain and runs no script; one without keys has no network.
func TestPrepare_SeesItsKeys(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b, steps, asked := prepares(t, nil)
	steps[0].Argv[2] = `find . -type f; echo $GOTOOLCHAIN $npm_config_ignore_scripts $npm_config_git`
	steps[1].Argv[2] = `find . -type f | sort; echo "$GOTOOLCHAIN$HTTPS_PROXY"; /run/writ/init act-fetch http://` + steps[0].Hosts[0]
	o := b.prepared(steps, "echo x > calc/new")
	p := o.Result.Prepared
	if codes(o) != "" || len(p.Steps) != 2 {
		t.Fatalf("%s: %v", codes(o), o.Violations)
	}
	if got, want := p.Steps[0].Output.Tail, "./lock\nlocal true\n"; got != want {
		t.Errorf("with keys: %q", got)
	}
	if got, want := p.Steps[1].Output.Tail, "./.gitignore\n./README.md\n./calc/add.go\n./lock\n\nfailed: http://"+steps[0].Hosts[0]+"\n"; got != want || asked.Load() != 0 {
		t.Errorf("without keys: %q", got)
	}
}

// TestPrepare_FailsBeforeTheBuilder: a failed step is named, with what it said, and no
// builder is started.
func TestPrepare_FailsBeforeTheBuilder(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	for name, c := range map[string]struct {
		change func(*bed, []kernel.Step)
		code   kernel.Code
		detail string
	}{
		"a step":     {func(_ *bed, s []kernel.Step) { s[1].Argv[2] = "echo no such header; exit 3" }, kernel.CodePrepareFailed, "exit status 3"},
		"no program": {func(_ *bed, s []kernel.Step) { s[0].Argv = []string{"nothing-of-this-name"} }, kernel.CodePrepareFailed, "nothing-of-this-name"},
		"too long":   {func(_ *bed, s []kernel.Step) { s[0].Argv, s[0].TimeoutMs = []string{"sleep", "60"}, 300 }, kernel.CodePrepareFailed, "not ended within 300ms"},
		"a host that isn't allowed": {func(_ *bed, s []kernel.Step) {
			s[0].Argv[2] = "/run/writ/init act-fetch http://elsewhere.example.org; exit 1"
		}, kernel.CodePrepareFailed, "Denied: elsewhere.example.org:80 (egress.host_denied)"},
		"a registry that is gone": {func(b *bed, s []kernel.Step) {
			b.local.cfg.Checks.Egress[0].Ports = []uint16{1}
			s[0].Hosts = []string{"registry.example.org:1"}
			s[0].Argv[2] = "/run/writ/init act-fetch http://registry.example.org:1; exit 1"
		}, kernel.CodePrepareUnreachable, "registry.example.org:1 did not answer: egress.unreachable"},
		"the gateway is lost": {func(b *bed, s []kernel.Step) {
			b.local.onGateway = func(l net.Listener) { _ = l.Close() }
			s[0].Argv[2] = "sleep 60"
		}, kernel.CodeEgressUnavailable, "the gateway ended before the program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, steps, _ := prepares(t, nil)
			c.change(b, steps)
			o := b.prepared(steps, "echo started; echo x > calc/new")
			if len(o.Violations) != 1 || o.Violations[0].Code != c.code || !strings.Contains(o.Violations[0].Detail, c.detail) || o.Result.Stdout.Tail != "" || o.Result.Exit.Cause != kernel.CauseStartFailed {
				t.Errorf("%+v, said %q", o.Violations, o.Result.Stdout.Tail)
			}
			if p := o.Result.Prepared; name == "a step" && p.Steps[1].Output.Tail != "no such header\n" {
				t.Errorf("recorded %+v", p)
			}
			if left := slices.DeleteFunc(b.layersOf(), func(n string) bool { return strings.HasPrefix(n, "base-") || strings.HasPrefix(n, kindPrepare) }); len(left) > 0 {
				t.Errorf("left are %q", left)
			}
		})
	}
}

// TestPrepare_Stopped: who stops a run stops its preparation.
func TestPrepare_Stopped(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b, steps, _ := prepares(t, nil)
	steps[0].Argv[2] = "echo preparing; sleep 60"
	job := b.job(script("echo x > calc/new"))
	job.Prepare, job.World = steps, "here"
	begun := make(chan string, 10)
	job.OnLine = func(line string) { begun <- line }
	r, err := b.local.Build(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-begun:
	case <-time.After(waitLimit):
	}
	r.Kill()
	if o := r.Outcome(); len(o.Violations) != 1 || o.Violations[0].Code != kernel.CodeTaskInterrupted {
		t.Errorf("%+v", o.Violations)
	}
}

// TestPrepare_WhoWaitsCanBeStopped: a run that waits for what another one prepares ends when
// it is stopped.
func TestPrepare_WhoWaitsCanBeStopped(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	s := cachedIn(t.TempDir())
	l := newLayerAt(filepath.Join(s.dir, "prepare-x-0"))
	s.held["prepare-x-0"] = l
	l.use <- struct{}{} // another run prepares
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, _, _, err := s.get(ctx, "prepare-x-0", 0, source{})
		ended <- err
	}()
	stop()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(waitLimit):
		t.Error("it still waits")
	}
}

// TestPrepare_LinksOfTheBase: a directory in whose place the base has a link is neither kept
// nor made behind that.
func TestPrepare_LinksOfTheBase(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b, steps, _ := prepares(t, nil)
	files := maps.Clone(project)
	files[".gitignore"] += "deps/\nout\n"
	files["out@"], files["calc/up@"] = b.outside, ".."
	b.base = baseOf(files)
	steps[1].Argv[2] = "rm out calc/up; mkdir -p out/deps calc/up/deps calc/deps; echo kept > calc/deps/x"
	if o := b.prepared(steps, `ls -d out/deps deps; cat calc/deps/x; readlink out calc/up; echo x > calc/new`); codes(o) != "" || o.Result.Stdout.Tail != "kept\n"+b.outside+"\n..\n" {
		t.Errorf("%v: %s", o.Violations, o.Result.Stdout.Tail+o.Result.Stderr.Tail)
	}
}

// TestPrepare_PoisonedCache: what a builder or a check of a change writes into a cache
// nobody sees afterwards, whether or not it was accepted.
func TestPrepare_PoisonedCache(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	const poison = `echo ok > ~/.cache/objects/all; ln -sf /dev/null ~/.cache/mod/got; rm -rf build/deps; echo ok > build/evil; `
	const sound = `grep -q "package calc" ~/.cache/objects/all && grep -q package/one ~/.cache/mod/got build/deps/got && test ! -e build/evil`
	b, steps, _ := prepares(t, nil)
	o := b.prepared(steps, poison+"echo x > calc/new")
	if codes(o) != "" {
		t.Fatalf("%s: %v", codes(o), o.Violations)
	}
	repointed := shCheck("repoints", sound+" && "+poison+"true")
	repointed.Repeat = 3
	if c := b.checkPrepared(steps, o, repointed, shCheck("next", sound)); len(c.Violations) > 0 {
		t.Errorf("%v: %s", c.Violations, c.Tail)
	}
	if o := b.prepared(steps, sound+" || echo poisoned; echo y > calc/new"); codes(o) != "" || o.Result.Stdout.Tail != "" || stepNames(o.Result.Prepared) != "" {
		t.Errorf("the next run: %s, %s", codes(o), o.Result.Stdout.Tail)
	}
	if log := b.log.String(); strings.Contains(log, "laid out anew") {
		t.Errorf("the layer itself was written to:\n%s", log)
	}
	// A base that was poisoned and reverted leaves nothing either.
	first := b.base
	poisoned := maps.Clone(project)
	poisoned["calc/add.go"] = "package poisoned\n"
	b.base = baseOf(poisoned)
	b.base.Commit = strings.Repeat("b", 40)
	b.prepared(steps, "echo x > calc/new")
	if b.base = first; codes(b.prepared(steps, sound+" && echo z > calc/new")) != "" {
		t.Errorf("after the revert the cache isn't that of the base")
	}
}

// TestPrepare_ChangedKeys: a change of key files is prepared for by itself, on the base
// with these files and no other byte of the change, and leaves no layer.
func TestPrepare_ChangedKeys(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b, steps, asked := prepares(t, nil)
	steps[0].Argv = []string{"npm", "ci"}
	b.tool("npm", `set -e; find . -type f >&2; mkdir -p ~/.cache/mod build/deps; /run/writ/init act-fetch http://`+steps[0].Hosts[0]+`/$(cat package.json) > ~/.cache/mod/got; cp ~/.cache/mod/got build/deps/; echo "$npm_config_git $COREPACK_ENABLE_PROJECT_SPEC"`)
	steps[0].Keys = []string{"package.json"}
	steps[1].Argv[2] += "; cat calc/add.go; ls"
	files := maps.Clone(project)
	files["package.json"] = "one\n"
	b.base = baseOf(files)
	job := b.job(script(`echo two > package.json; echo '// builder' >> calc/add.go; echo new > calc/new; grep -q package/one build/deps/got`))
	job.Prepare, job.World, job.Scope.Allowed = steps, "here", []string{"calc/**", "package.json"}
	o := b.build(job)
	if codes(o) != "" {
		t.Fatalf("%s: %v %v", codes(o), o.Violations, o.Result.Stderr.Tail)
	}
	before := b.layersOf()
	if c := b.checkPrepared(steps, o, shCheck("fails", "exit 3")); c.Run.Checks[0].OnBase != nil {
		t.Errorf("the base was tried with the dependencies of the change: %+v", c.Run.Checks[0].OnBase)
	}
	asked.Store(1)
	c := b.checkPrepared(steps, o, shCheck("c", `grep -q package/two ~/.cache/mod/got build/deps/got && grep -q builder calc/add.go`))
	p := c.Run.Prepared
	if len(c.Violations) > 0 || !p.OfChange || stepNames(p) != "download 0, warm 0" || p.Key == o.Result.Prepared.Key || p.Layer == o.Result.Prepared.Layer || asked.Load() != 2 {
		t.Fatalf("%v %s: %+v, asked %d times", c.Violations, c.Tail, p, asked.Load())
	}
	if got := p.Steps[0].Output.Tail; got != "./package.json\n/bin/false 0\n" {
		t.Errorf("the download saw %q", got)
	}
	if got := p.Steps[1].Output.Tail; got != "package calc\nREADME.md\nbuild\ncalc\nlock\npackage.json\n" {
		t.Errorf("the offline step saw %q", got)
	}
	if after := b.layersOf(); !slices.Equal(before, after) {
		t.Errorf("layers before %q, after %q", before, after)
	}
	if o := b.prepared(steps, "grep -q package/one ~/.cache/mod/got && echo x > calc/new"); codes(o) != "" || stepNames(o.Result.Prepared) != "" {
		t.Errorf("the next run: %s, %+v", codes(o), o.Result.Prepared)
	}
}

// tool makes a command of a name for the steps: the operator's environment finds it first.
func (b *bed) tool(name, text string) {
	b.t.Helper()
	dir := b.t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o755)); err != nil {
		b.t.Fatal(err)
	}
	gittest.WriteProgram(b.t, filepath.Join(dir, name), "#!/bin/sh\n"+text+"\n")
	b.local.cfg.Checks.ReadOnly = append(b.local.cfg.Checks.ReadOnly, sandbox.Mount{Source: dir, Target: "/opt/tools"})
	b.local.cfg.Checks.Env["PATH"] = "/opt/tools:/usr/bin:/bin"
}

// TestPrepare_ChangeRefused: where a tool may run with a network what a change names, the
// change is refused by name; so is a failure with the change's own files its failure.
func TestPrepare_ChangeRefused(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	for name, c := range map[string]struct {
		argv []string
		file string
		code kernel.Code
	}{
		"an unknown tool":            {[]string{"mvn", "dependency:go-offline"}, "package.json", kernel.CodePrepareRefused},
		"a shell":                    {[]string{"sh", "-c", "npm ci"}, "package.json", kernel.CodePrepareRefused},
		"scripts after all":          {[]string{"npm", "ci", "--ignore-scripts=false"}, "package.json", kernel.CodePrepareRefused},
		"an install":                 {[]string{"npm", "install"}, "package.json", kernel.CodePrepareRefused},
		"pip, only wheels":           {[]string{"pip", "download", "--only-binary=:all:", "--require-hashes", "-r", "requirements.txt"}, "requirements.txt", kernel.CodePrepareRefused},
		"cargo":                      {[]string{"cargo", "fetch", "--locked"}, "Cargo.toml", kernel.CodePrepareRefused},
		"a manifest of another tool": {[]string{"npm", "ci"}, "requirements.txt", kernel.CodePrepareRefused},
		"the tool's configuration":   {[]string{"npm", "ci"}, ".npmrc", kernel.CodePrepareRefused},
		"a version that there isn't": {[]string{"npm", "ci", "--no-audit"}, "package.json", kernel.CodePrepareChange},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, steps, asked := prepares(t, nil)
			b.tool("npm", "cat package.json; exit 1")
			steps[0].Argv, steps[0].Keys = c.argv, []string{"package.json", ".npmrc", "requirements.txt", "Cargo.toml"}
			files := maps.Clone(project)
			files["package.json"], files[".npmrc"], files[c.file] = "one\n", "\n", "one\n"
			b.base = baseOf(files)
			job := b.job(script("echo two > " + c.file))
			job.Scope.Allowed = []string{c.file}
			o := b.build(job)
			out := b.checkPrepared(steps, o, shCheck("c", "echo ran"))
			if len(out.Violations) != 1 || out.Violations[0].Code != c.code || len(out.Run.Checks) > 0 || asked.Load() > 0 {
				t.Fatalf("%+v", out)
			}
			if ran := stepNames(out.Run.Prepared); (c.code == kernel.CodePrepareChange) != (ran == "download 1") {
				t.Errorf("ran %q", ran)
			}
			if c.code == kernel.CodePrepareChange && out.Tail != "download:\ntwo\n" {
				t.Errorf("told to the next attempt: %q", out.Tail)
			}
		})
	}
}

// TestPrepare_PushedTree: what somebody pushed is prepared for as a change to the base,
// never as a base.
func TestPrepare_PushedTree(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b, steps, _ := prepares(t, nil)
	steps[0].Argv, steps[0].Keys = []string{"go", "mod", "download"}, []string{"go.mod"}
	b.tool("go", `set -e; mkdir -p ~/.cache/mod build/deps; cat go.mod > ~/.cache/mod/got; cp go.mod build/deps/got`)
	at := func(module string) executor.Base {
		files := maps.Clone(project)
		files["go.mod"] = module
		base := baseOf(files)
		base.Commit = scope.BlobID([]byte(module))
		return base
	}
	trusted, pushed := at("base\n"), at("pushed\n")
	job := executor.CheckJob{Task: 7, Run: "run-1", World: "here", Base: pushed, Trusted: &trusted, Prepare: steps, Checks: []kernel.Check{shCheck("c", "grep -q pushed ~/.cache/mod/got")}}
	r, err := b.local.Check(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	b.await(r)
	if o := r.Outcome(); len(o.Violations) > 0 || !o.Run.Prepared.OfChange {
		t.Errorf("%+v", o)
	}
	build := b.job(script("grep -q pushed ~/.cache/mod/got && echo x > calc/new"))
	build.World, build.Base, build.Trusted, build.Prepare = "here", pushed, &trusted, steps
	if o := b.build(build); len(o.Violations) > 0 || o.Result.Prepared == nil || !o.Result.Prepared.OfChange {
		t.Errorf("a builder that goes on from delivered work: %+v", o)
	}
	job.Prepare, job.Checks = nil, []kernel.Check{shCheck("fails", "exit 3")}
	if r, err = b.local.Check(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	b.await(r)
	if c := r.Outcome().Run.Checks[0]; c.Passed || c.OnBase != nil {
		t.Errorf("what somebody pushed was compared with itself: %+v", c)
	}
	if list := slices.DeleteFunc(b.layersOf(), func(n string) bool { return !strings.HasPrefix(n, kindPrepare) }); len(list) > 0 {
		t.Errorf("layers %q", list)
	}
}

// TestPrepare_HidesNothing: a check sees each file of the change, also where the
// preparation made a directory of that name.
func TestPrepare_HidesNothing(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b, steps, _ := prepares(t, nil)
	job := b.job(script("mkdir -p build/deps; echo changed > build/deps/got"))
	job.Scope.Allowed = []string{"build/**"}
	o := b.build(job)
	if c := b.checkPrepared(steps, o, shCheck("c", "grep -q changed build/deps/got && grep -q package/one ~/.cache/mod/got")); len(c.Violations) > 0 {
		t.Errorf("%v: %s", c.Violations, c.Tail)
	}
}

// TestPrepare_LaidOutAnew: a layer that isn't what was prepared is never shown.
func TestPrepare_LaidOutAnew(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b, steps, _ := prepares(t, nil)
	steps = steps[:1]
	for n, change := range []func(file string) error{
		func(string) error { return nil },
		func(file string) error { return os.WriteFile(file, []byte("poisoned"), 0o644) },
		func(file string) error {
			return errors.Join(os.Remove(file), os.Symlink("/etc/passwd", file))
		},
		func(file string) error { return os.Remove(filepath.Join(file, "../../../../../"+infoFile)) },
	} {
		for _, restart := range []bool{false, true} {
			if n > 0 {
				if err := change(filepath.Join(b.layer(kindPrepare), "home/.cache/mod/got")); err != nil {
					t.Fatal(err)
				}
			}
			if restart {
				b.restart()
			}
			o := b.prepared(steps, "grep -q package/one ~/.cache/mod/got && echo x > calc/new")
			want := "download 0"
			if n == 0 && restart {
				want = ""
			}
			if codes(o) != "" || stepNames(o.Result.Prepared) != want {
				t.Errorf("change %d, another process %t: %s, %q ran", n, restart, codes(o), stepNames(o.Result.Prepared))
			}
		}
	}
}

// TestPrepare_Hostile: what a step leaves leads nowhere, whatever it is.
func TestPrepare_Hostile(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b, steps, _ := prepares(t, nil, func(c *Config) { c.Layers.Bytes = 5 << 20 })
	steps[0].Argv[2] = `set -e
ln -s / ~/root; mkdir ~/.cache ~/.cache/mod; ln -s /etc ~/.cache/link; ln -s ../../../../../../../../../../etc ~/.cache/up
mkfifo ~/.cache/pipe; echo x > ~/.cache/suid; chmod 4755 ~/.cache/suid; ln ~/.cache/suid ~/.cache/twice; echo s > ~/.cache/closed; chmod 0 ~/.cache/closed
setfattr -n user.overlay.opaque -v y ~/.cache/mod 2>/dev/null || true
mkdir -p calc build/x made; echo mine > calc/add.go; echo mine > lock; echo mine > made/x; echo mine > build/x/y; rm -f lock; ln -s build later`
	o := b.prepared(steps[:1], `cat calc/add.go; ls -A ~ ~/.cache; stat -c '%a %h' ~/.cache/suid; test ! -e made || echo made; cat build/x/y; echo x > calc/new`)
	if want := "package calc\n/home/writ:\n.cache\n\n/home/writ/.cache:\nclosed\nlink\nmod\nsuid\ntwice\nup\n755 1\nmine\n"; codes(o) != "" || o.Result.Stdout.Tail != want {
		t.Errorf("%s %v: %s", codes(o), o.Violations, o.Result.Stdout.Tail)
	}
	for what, text := range map[string]string{
		"too much":  "mkdir ~/big; truncate -s 3M ~/big/a; truncate -s 3M ~/big/b",
		"too deep":  "cd; i=0; while [ $i -lt 140 ]; do mkdir d; cd d; i=$((i+1)); done",
		"a network": `/run/writ/init act-fetch http://metadata.example.org http://192.0.2.1 http://127.0.0.1:1; exit 1`,
	} {
		steps[0].Argv[2] = text
		if o := b.prepared(steps[:1], "echo x > calc/new"); codes(o) != string(kernel.CodePrepareFailed) {
			t.Errorf("%s: %s %v", what, codes(o), o.Violations)
		}
	}
}

// TestClosed_Prepared: a directory that a step closed is that step's failure, of the base or
// of the change, and no outage, for which nothing would ever be counted.
func TestClosed_Prepared(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	for what, text := range map[string]string{
		"the home directory":      "chmod 000 ~",
		"the workspace":           "mkdir -p build/deps; echo x > build/deps/x; chmod 000 .",
		"a directory that's kept": "mkdir -p build/deps; echo x > build/deps/x; chmod 000 build",
	} {
		b, _, _ := prepares(t, nil)
		job := b.job(script("echo two > lock"))
		job.Scope.Allowed = []string{"lock"}
		change := b.build(job)
		steps := []kernel.Step{shStep("keys", "true", nil, []string{"lock"}), shStep("closes", text, nil, nil)}
		base, changed := b.prepared(steps, "echo x > calc/new"), b.checkPrepared(steps, change, shCheck("c", "true"))
		want := []string{string(kernel.CodePrepareFailed), string(kernel.CodePrepareChange)}
		if os.Geteuid() == 0 {
			want = []string{"", ""} // root can read it whatever its mode
		}
		if got := []string{codes(base), words(changed.Violations)}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q: %v %v", what, got, want, base.Violations, changed.Violations)
		}
		if all := fmt.Sprint(base.Violations, changed.Violations); strings.Contains(all, b.work) {
			t.Errorf("%s: %s", what, all)
		}
	}
}

// TestPrepare_HostileRegistry: a registry that redirects elsewhere, that never stops
// answering or that ends in the middle gets nothing of it, and the step's failure is told.
func TestPrepare_HostileRegistry(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		detail string
	}{
		"redirects to another host": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.example.org/", http.StatusFound)
		}, "Denied: elsewhere.example.org:80 (egress.host_denied)"},
		"redirects to an address": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.7/latest/meta-data", http.StatusFound)
		}, "Denied: 192.0.2.7:80 (egress.ip_literal)"},
		"never ends": {endless, "was cut: egress.limit_down"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, steps, _ := prepares(t, c.answer, func(cfg *Config) {
				cfg.Gateway = gateway.Limits{Open: 8, Total: 100, Up: 1 << 20, Down: 1 << 20}
			})
			steps[0].Argv[2] += "; exit 1" // as a tool that looks at what it got
			o := b.prepared(steps, "echo started; echo x > calc/new")
			if codes(o) != string(kernel.CodePrepareFailed) || !strings.Contains(o.Violations[0].Detail, c.detail) || o.Result.Stdout.Tail != "" {
				t.Errorf("%v, said %q", o.Violations, o.Result.Stdout.Tail)
			}
		})
	}
}

// TestPrepare_WhoseFailure: a host that didn't answer counts nothing for the base, and for a
// change an interruption, of which there is an end.
func TestPrepare_WhoseFailure(t *testing.T) {
	t.Parallel()
	end := ending{exit: kernel.Exit{Code: 1, Cause: kernel.CauseExited}}
	silent := &kernel.Egress{Connections: []kernel.Connection{{Host: "registry.example.org", Port: 443, Verdict: "failed", Code: "egress.unreachable"}}}
	for _, c := range []struct {
		change *change
		egress *kernel.Egress
		want   kernel.Counts
	}{{nil, silent, kernel.CountsNothing}, {&change{}, silent, kernel.CountsInterruption}, {nil, nil, kernel.CountsInterruption}, {&change{}, nil, kernel.CountsAttempt}} {
		p := &preparation{change: c.change}
		if v := p.fault(kernel.Step{Name: "deps"}, end, c.egress); v.Code.Info().Counts != c.want {
			t.Errorf("of a change %t, silent %t: %+v", c.change != nil, c.egress != nil, v)
		}
	}
}

// TestPrepare_AtALevelWithoutNamespaces: it is said before the claim.
func TestPrepare_AtALevelWithoutNamespaces(t *testing.T) {
	t.Parallel()
	for _, s := range []sandbox.Sandbox{sandbox.NewNone(sandbox.Config{}), sandbox.NewLandlocked(sandbox.Config{})} {
		vs := New(Config{Sandbox: s, WorkDir: t.TempDir()}).Reach("here", nil, []kernel.Step{{Name: "deps"}})
		if len(vs) != 1 || vs[0].Code != kernel.CodePrepareLevel || vs[0].Subject != s.Name() {
			t.Errorf("%s: %v", s.Name(), vs)
		}
	}
	b, steps, _ := prepares(t, nil)
	if vs := b.local.Reach("here", nil, steps); len(vs) > 0 {
		t.Error(vs)
	}
	b.local.cfg.Checks.Egress = nil
	if vs := b.local.Reach("here", nil, steps); len(vs) != 1 || vs[0].Code != kernel.CodeEgressDenied || vs[0].Subject != "prepare download" {
		t.Errorf("not allowed: %v", vs)
	}
}
