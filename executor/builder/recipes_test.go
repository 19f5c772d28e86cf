package builder

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
)

// origin is where a recipe's tool gets what a project needs.
type origin struct {
	hosts     []string // with a port that isn't 443
	addresses []netip.Prefix
	env       map[string]string
	authority []byte // PEM; nil: the machine's own
	resolver  gateway.Resolver
}

// recipe reads the contract under a heading of docs/dependencies.md, with the hosts of a
// source in place of the example's.
func recipe(t *testing.T, heading string, hosts []string) contract.Contract {
	t.Helper()
	doc, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(doc), "\n### "+heading+"\n")
	_, text, fenced := strings.Cut(text, "```yaml\n")
	text, _, ended := strings.Cut(text, "```\n")
	if !ok || !fenced || !ended {
		t.Fatalf("docs/dependencies.md has no recipe %q", heading)
	}
	text = regexp.MustCompile(`hosts: \[[a-z.]*\]`).ReplaceAllString(text, `hosts: ["`+strings.Join(hosts, `", "`)+`"]`)
	c, _, faults := contract.Load([]byte(text), contract.Source{Name: contract.Path})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return c
}

// kitchen is a bed on which recipes are followed.
func kitchen(t *testing.T, s origin) *bed {
	t.Helper()
	return newBed(t, alone, func(c *Config) {
		c.Resolver, c.Checks.Env, c.Layers.ChecksOnly = s.resolver, s.env, true
		for _, h := range s.hosts {
			r, err := gateway.ParseHost(h)
			if err != nil {
				t.Fatal(err)
			}
			r.Addresses = s.addresses
			c.Checks.Egress = append(c.Checks.Egress, r)
		}
		c.Checks.ReadOnly = toolchains()
		if s.authority != nil {
			at := filepath.Join(t.TempDir(), "authority.pem")
			if err := os.WriteFile(at, s.authority, 0o644); err != nil {
				t.Fatal(err)
			}
			c.Checks.ReadOnly = append(c.Checks.ReadOnly, sandbox.Mount{Source: at, Target: "/opt/authority.pem"})
		}
	})
}

// toolchains are the directories of the tools that aren't below /usr.
func toolchains() []sandbox.Mount { return nil }

// follow runs a recipe from an empty cache to green and again from the warm one: a builder
// that changes a file, and the checks. It gives the first run's preparation.
func (b *bed) follow(c contract.Contract, edit string, allowed ...string) *kernel.Prepared {
	b.t.Helper()
	checks, _ := c.SelectChecks(nil)
	var first *kernel.Prepared
	for n := range 2 {
		job := b.job(script(edit))
		job.Prepare, job.World, job.Scope.Allowed, job.Scope.Unprotect = c.Steps(), "here", allowed, c.Paths.Unprotect
		job.Budgets.BuildTimeoutMs, job.Budgets.IdleTimeoutMs, job.Budgets.StartTimeoutMs = recipeLimit.Milliseconds(), recipeLimit.Milliseconds(), recipeLimit.Milliseconds()
		job.Builder = "default"
		cfg := b.local.cfg.Builders["default"]
		cfg.ReadOnly = b.local.cfg.Checks.ReadOnly
		b.local.cfg.Builders["default"] = cfg
		o := b.finished(b.local.Build(b.t.Context(), job)).(executor.Build).Outcome()
		if codes(o) != "" {
			b.t.Fatalf("run %d: %v\n%s%s", n, o.Violations, o.Result.Stderr.Tail, tails(o.Result.Prepared))
		}
		k := b.checkJob(o, checks...)
		k.Prepare, k.World = c.Steps(), "here"
		out := b.finished(b.local.Check(b.t.Context(), k)).(executor.Checks).Outcome()
		if len(out.Violations) > 0 || len(out.Run.Checks) != len(checks) {
			b.t.Fatalf("run %d: %v\n%s", n, out.Violations, out.Tail)
		}
		if first == nil {
			first = o.Result.Prepared
		} else if stepNames(o.Result.Prepared) != "" {
			b.t.Errorf("warm, these ran again: %s", stepNames(o.Result.Prepared))
		}
		if ran := stepNames(out.Run.Prepared); ran != "" {
			b.t.Errorf("for the checks these ran again: %s", ran)
		}
	}
	if len(first.Steps) != len(c.Prepare) {
		b.t.Errorf("from empty, these ran: %s", stepNames(first))
	}
	return first
}

// recipeLimit bounds what takes seconds where the network is there.
const recipeLimit = 5 * time.Minute

func tails(p *kernel.Prepared) (out string) {
	for _, s := range p.Steps {
		out += s.Name + ":\n" + s.Output.Tail
	}
	return out
}

// finished waits for what was started, longer than a test otherwise does.
func (b *bed) finished(r running, err error) running {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	select {
	case <-r.Done():
	case <-time.After(recipeLimit):
		r.Kill()
		b.t.Fatal("it did not end")
	}
	return r
}

// fixture is a project below testdata/recipes, with what its .gitignore has.
func fixture(t *testing.T, name, ignored string) map[string]string {
	t.Helper()
	files := map[string]string{".gitignore": ignored + "\n"}
	dir := filepath.Join("testdata/recipes", name)
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// ownTools is what this machine's tools are set up for, asked of them, and whether it
// answers. Where it doesn't, the test says so; the stand-in's tests follow the same recipes.
func ownTools(t *testing.T, base string, env map[string]string) (origin, bool) {
	t.Helper()
	s := origin{env: env, resolver: net.DefaultResolver}
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil || u.Scheme != "https" {
		t.Logf("NOT TRIED against the registry of this machine's tools, which is %q. A stand-in was, in TestRecipes_StandIn.", base)
		return s, false
	}
	s.hosts = []string{u.Host}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err == nil {
		var c net.Conn
		if c, err = (&tls.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), "443")); err == nil {
			_ = c.Close()
		}
	}
	if err != nil {
		t.Logf("NOT TRIED against the registry of this machine's tools, which can't be reached: %v. A stand-in was, in TestRecipes_StandIn.", err)
		return s, false
	}
	if slices.ContainsFunc(addresses, func(a netip.Addr) bool { return documentation.Contains(a.Unmap()) }) {
		return s, s.throughRelay(t, u.Hostname())
	}
	for _, a := range addresses { // where it is a mirror inside, the operator opens its address
		if a = a.Unmap(); a.IsPrivate() {
			s.addresses = append(s.addresses, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return s, true
}

// documentation are addresses that no gateway dials, and that some closed networks give to
// what they let through.
var documentation = netip.MustParsePrefix("203.0.113.0/24")

// throughRelay has the registry answer on this machine, at an address that the operator
// opens: what is between is bytes.
func (s *origin) throughRelay(t *testing.T, host string) bool {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.1.%d.%d:443", os.Getpid()%250, len(host)))
	if err != nil {
		t.Logf("NOT TRIED against the registry of this machine's tools, at whose address no gateway dials, since it can't be relayed: %v. A stand-in was, in TestRecipes_StandIn.", err)
		return false
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", net.JoinHostPort(host, "443"))
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].(*net.TCPConn).CloseWrite()
				}()
			}
		}
	}()
	at := netip.MustParseAddrPort(l.Addr().String())
	s.resolver, s.addresses = only(at.Addr()), []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)}
	t.Logf("%s answers at an address that a gateway doesn't dial; it is asked through a relay", host)
	return true
}

// only is a resolver for which every name is one address.
type only netip.Addr

func (o only) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.Addr(o)}, nil
}

func said(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// TestRecipes_Go follows that of a module with a dozen dependencies. It compiles three of them,
// which need little of the standard library: that is compiled here from nothing, too.
func TestRecipes_Go(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	proxies := said(t, "go", "env", "GOPROXY")
	s, there := ownTools(t, strings.FieldsFunc(proxies, func(r rune) bool { return r == ',' || r == '|' })[0], map[string]string{"GOPROXY": proxies})
	if !there {
		return
	}
	b := kitchen(t, s)
	files := fixture(t, "go", "*.out")
	b.base = baseOf(files)
	first := b.follow(recipe(t, "A Go module", s.hosts), "echo '// changed' >> shop.go", "shop.go")
	if e := first.Steps[0].Egress; e == nil || e.Total == 0 || len(e.Denied) > 0 {
		t.Errorf("connections: %+v", e)
	}
}

// TestRecipes_Npm follows that of a project whose lock has two hundred packages.
func TestRecipes_Npm(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	at := said(t, "npm", "config", "get", "registry")
	s, there := ownTools(t, at, map[string]string{"npm_config_registry": at})
	if !there {
		return
	}
	b := kitchen(t, s)
	b.base = baseOf(fixture(t, "npm", "node_modules/"))
	b.follow(recipe(t, "An npm project", s.hosts), "echo '// changed' >> index.js", "index.js")
}

// TestRecipes_C follows that of a project on the system's libraries: what the change
// doesn't touch isn't compiled again.
func TestRecipes_C(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	if err := exec.CommandContext(t.Context(), "pkg-config", "--exists", "zlib", "sqlite3", "expat").Run(); err != nil {
		t.Logf("NOT TRIED: this machine has no compiler with zlib, sqlite3 and expat: %v", err)
		return
	}
	b := kitchen(t, origin{})
	b.base = baseOf(fixture(t, "c", "build/"))
	c := recipe(t, "A C project on the system's libraries", nil)
	b.follow(c, "echo '/* changed */' >> main.c", "main.c")
	checks, _ := c.SelectChecks(nil)
	job := b.job(script("echo '/* changed */' >> main.c"))
	job.Prepare, job.World, job.Scope.Allowed = c.Steps(), "here", []string{"main.c"}
	k := b.checkJob(b.build(job), checks...)
	k.Prepare, k.World = c.Steps(), "here"
	out := b.finished(b.local.Check(t.Context(), k)).(executor.Checks).Outcome()
	if said := out.Run.Checks[0].Output.Tail; strings.Contains(said, "pack.c") || !strings.Contains(said, "main.c") || !strings.Contains(said, "all is well") {
		t.Errorf("the check compiled: %s", said)
	}
}

// standIn is a registry with an authority of its own, for the names that the recipes have
// as examples.
func standIn(t *testing.T, h http.Handler) origin {
	t.Helper()
	names := []string{"proxy.example.org", "registry.example.org"}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's own authority"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	s := origin{resolver: here{}, addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, env: map[string]string{
		"SSL_CERT_FILE": "/opt/authority.pem", "npm_config_cafile": "/opt/authority.pem", "GOSUMDB": "off",
		"GOPROXY": "https://" + names[0] + ":" + port, "npm_config_registry": "https://" + names[1] + ":" + port + "/",
	}}
	for _, n := range names {
		s.hosts = append(s.hosts, n+":"+port)
	}
	s.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	t.Log("a stand-in is asked, with an authority of its own, and no registry")
	return s
}

// goModules serves a dozen modules in two versions, and gives a project that needs the
// first of each: with its go.sum, and that of the second version of the first module.
func goModules(t *testing.T) (h http.Handler, project, update map[string]string) {
	t.Helper()
	served := map[string][]byte{}
	imports, requires := "package shop\n\nimport (\n", "module example.org/shop\n\ngo 1.24\n\nrequire (\n"
	sums := map[string]string{}
	for n := range 12 {
		path := fmt.Sprintf("example.org/dep%02d", n)
		imports += fmt.Sprintf("\t_ %q\n", path)
		requires += "\t" + path + " v1.0.0\n"
		for _, version := range []string{"v1.0.0", "v1.1.0"} {
			mod := "module " + path + "\n"
			var data bytes.Buffer
			z := zip.NewWriter(&data)
			for name, text := range map[string]string{"go.mod": mod, "dep.go": fmt.Sprintf("// Package dep is %s of %s.\npackage dep\n", version, path)} {
				w, err := z.Create(path + "@" + version + "/" + name)
				if _, werr := io.WriteString(w, text); err != nil || werr != nil {
					t.Fatal(err, werr)
				}
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			at := "/" + path + "/@v/" + version
			served[at+".mod"], served[at+".zip"] = []byte(mod), data.Bytes()
			served[at+".info"] = fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version)
			file := filepath.Join(t.TempDir(), "m.zip")
			if err := os.WriteFile(file, data.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			h1, err := dirhash.HashZip(file, dirhash.Hash1)
			modSum, merr := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(mod)), nil })
			if err != nil || merr != nil {
				t.Fatal(err, merr)
			}
			sums[path+version] = fmt.Sprintf("%s %s %s\n%s %s/go.mod %s\n", path, version, h1, path, version, modSum)
		}
	}
	requires += ")\n"
	sum := ""
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if strings.HasSuffix(key, "v1.0.0") {
			sum += sums[key]
		}
	}
	project = map[string]string{"go.mod": requires, "go.sum": sum, "shop.go": imports + ")\n", ".gitignore": "*.out\n"}
	const first = "example.org/dep00"
	update = map[string]string{"go.mod": strings.Replace(requires, first+" v1.0.0", first+" v1.1.0", 1), "go.sum": strings.Replace(sum, sums[first+"v1.0.0"], sums[first+"v1.1.0"], 1)}
	return serving(served), project, update
}

func serving(files map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		data = bytes.ReplaceAll(data, []byte(`"https://registry.example.org/`), []byte(`"https://`+r.Host+`/`))
		_, _ = w.Write(data) // who asked may be gone
	})
}

// npmPackages serves twenty packages, of which one has an install script, and gives a
// project that needs them.
func npmPackages(t *testing.T) (h http.Handler, project map[string]string) {
	t.Helper()
	served := map[string][]byte{}
	locked := map[string]any{"": map[string]any{"name": "shop", "version": "1.0.0", "dependencies": map[string]string{}}}
	needs := map[string]string{}
	for n := range 20 {
		name := fmt.Sprintf("dep%03d", n)
		pkg := map[string]any{"name": name, "version": "1.0.0"}
		if n == 7 {
			pkg["scripts"] = map[string]string{"install": `echo "$HTTPS_PROXY" > proxy.txt`}
		}
		manifest, _ := json.Marshal(pkg) // of strings
		tarball := packed(t, map[string]string{"package/package.json": string(manifest), "package/index.js": fmt.Sprintf("module.exports = %d;\n", n)})
		sum := sha512.Sum512(tarball)
		integrity := "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
		dist := maps.Clone(pkg)
		dist["dist"] = map[string]string{"tarball": "https://registry.example.org/" + name + "/-/" + name + "-1.0.0.tgz", "integrity": integrity}
		served["/"+name], _ = json.Marshal(map[string]any{"name": name, "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": dist}})
		served["/"+name+"/-/"+name+"-1.0.0.tgz"] = tarball
		needs[name] = "1.0.0"
		entry := map[string]any{"version": "1.0.0", "integrity": integrity}
		if n == 7 {
			entry["hasInstallScript"] = true
		}
		locked["node_modules/"+name] = entry
	}
	locked[""] = map[string]any{"name": "shop", "version": "1.0.0", "dependencies": needs}
	manifest, _ := json.Marshal(map[string]any{"name": "shop", "version": "1.0.0", "dependencies": needs, "scripts": map[string]string{"test": "node index.js"}})
	lock, _ := json.Marshal(map[string]any{"name": "shop", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": locked})
	return serving(served), map[string]string{
		"package.json": string(manifest), "package-lock.json": string(lock), ".gitignore": "node_modules/\n",
		"index.js": "let sum = 0;\nfor (let n = 0; n < 20; n++) sum += require('dep' + String(n).padStart(3, '0'));\nconst ran = require('fs').readFileSync('node_modules/dep007/proxy.txt', 'utf8');\nif (sum !== 190 || ran !== '\\n') process.exit(1);\n",
	}
}

func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	a := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := a.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))})
		if _, werr := io.WriteString(a, files[name]); err != nil || werr != nil {
			t.Fatal(err, werr)
		}
	}
	if err := errors.Join(a.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestRecipes_StandIn follows the recipes that download, against a registry with an
// authority of its own. The install script of a package runs, and without a network.
func TestRecipes_StandIn(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		h, project, update := goModules(t)
		s := standIn(t, h)
		b := kitchen(t, s)
		b.base = baseOf(project)
		c := recipe(t, "A Go module", s.hosts[:1])
		b.follow(c, "echo '// changed' >> shop.go", "shop.go")
		b.vendored(project)
		b.updates(c, update, "")
		// A toolchain that the change names isn't fetched: the step fails with the one there is.
		b.updates(c, map[string]string{"go.mod": strings.Replace(project["go.mod"], "go 1.24\n", "go 1.99\n", 1)}, kernel.CodePrepareChange)
	})
	t.Run("npm", func(t *testing.T) {
		t.Parallel()
		h, project := npmPackages(t)
		s := standIn(t, h)
		b := kitchen(t, s)
		b.base = baseOf(project)
		b.follow(recipe(t, "An npm project", s.hosts[1:]), "echo '// changed' >> index.js", "index.js")
	})
}

// vendored follows the recipe of the same module with its dependencies vendored, from what
// was prepared for it here. There is no way out.
func (b *bed) vendored(project map[string]string) {
	b.t.Helper()
	dir := b.t.TempDir()
	for name, text := range project {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	keyed := slices.DeleteFunc(b.layersOf(), func(n string) bool { return !strings.HasPrefix(n, kindPrepare) })
	cmd := exec.CommandContext(b.t.Context(), "go", "mod", "vendor")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off", "GOMODCACHE="+filepath.Join(b.cfg.Layers.Dir, keyed[0], layerTree, "home/go/pkg/mod"))
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("go mod vendor: %v\n%s", err, out)
	}
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(data)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	of := kitchen(b.t, origin{})
	of.base = baseOf(files)
	of.follow(recipe(b.t, "A Go module with its dependencies vendored", nil), "echo '// changed' >> shop.go", "shop.go")
}

// updates has a builder change dependencies, and the checks run on what was prepared from
// the change's own files; or the preparation fails with a code.
func (b *bed) updates(c contract.Contract, files map[string]string, code kernel.Code) {
	b.t.Helper()
	text := ""
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text += "cat > " + name + " <<'END'\n" + files[name] + "END\n"
	}
	job := b.job(script(text))
	job.Prepare, job.World, job.Scope.Allowed, job.Scope.Unprotect = c.Steps(), "here", []string{"go.mod", "go.sum"}, c.Paths.Unprotect
	o := b.build(job)
	if codes(o) != "" {
		b.t.Fatalf("%s %v", codes(o), o.Diff.Violations)
	}
	checks, _ := c.SelectChecks(nil)
	k := b.checkJob(o, checks...)
	k.Prepare, k.World = c.Steps(), "here"
	out := b.finished(b.local.Check(b.t.Context(), k)).(executor.Checks).Outcome()
	if words(out.Violations) != string(code) || !out.Run.Prepared.OfChange {
		b.t.Errorf("%v\n%s", out.Violations, out.Tail)
	}
	if e := out.Run.Prepared.Steps[0].Egress; (code == "") != (e != nil && e.Total > 0) {
		b.t.Errorf("connections: %+v", e)
	}
}

// TestPrepare_AnotherHostsCertificate: a registry that shows the certificate of another
// host, or of an authority that nobody believes, delivers nothing.
func TestPrepare_AnotherHostsCertificate(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	h, project, _ := goModules(t)
	for name, change := range map[string]func(*origin){
		"another host": func(s *origin) {
			s.env["GOPROXY"] = strings.Replace(s.env["GOPROXY"], "proxy.", "elsewhere.", 1)
			s.hosts[0] = strings.Replace(s.hosts[0], "proxy.", "elsewhere.", 1)
		},
		"an authority of its own": func(s *origin) { delete(s.env, "SSL_CERT_FILE") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := standIn(t, h)
			change(&s)
			b := kitchen(t, s)
			b.base = baseOf(project)
			c := recipe(t, "A Go module", s.hosts[:1])
			o := b.prepared(c.Steps(), "echo x > calc/new")
			if codes(o) != string(kernel.CodePrepareFailed) || !strings.Contains(tails(o.Result.Prepared), "certificate") {
				t.Errorf("%v\n%s", o.Violations, tails(o.Result.Prepared))
			}
		})
	}
	// With a credential it is the gateway that speaks TLS, and that looks.
	t.Run("another host, for the gateway", func(t *testing.T) {
		t.Parallel()
		s := standIn(t, h)
		elsewhere := strings.NewReplacer("proxy.", "elsewhere.", "https:", "http:")
		s.env["GOPROXY"], s.hosts[0] = elsewhere.Replace(s.env["GOPROXY"]), elsewhere.Replace(s.hosts[0])
		b := kitchen(t, s)
		b.base = baseOf(project)
		b.local.cfg.Checks.Egress[0].Credential = &gateway.Credential{Header: "Authorization", Value: "Bearer token"}
		if b.local.roots = x509.NewCertPool(); !b.local.roots.AppendCertsFromPEM(s.authority) {
			t.Fatal("no authority")
		}
		o := b.prepared(recipe(t, "A Go module", s.hosts[:1]).Steps(), "echo x > calc/new")
		if codes(o) != string(kernel.CodePrepareUnreachable) || !strings.Contains(o.Violations[0].Detail, gateway.CodeUpstream) {
			t.Errorf("%v\n%s", o.Violations, tails(o.Result.Prepared))
		}
	})
}
