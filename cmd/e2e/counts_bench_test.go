package e2e

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local/localtest"
)

// counted are the functions whose calls BenchmarkIssue counts, by the unit of the figure.
var counted = []struct{ unit, file, function string }{
	{"encodings", "kernel/canon/encode.go", "marshal"},
	{"decodings", "kernel/canon/decode.go", "unmarshal"},
	{"checks", "kernel/canon/canonicalize.go", "Check"},
	{"forks", "kernel/world/state.go", "fork"},
	{"requests", "kernel/machine/submit.go", "Submit"},
	{"appends", "executor/supervisor/record.go", "write"},
}

// BenchmarkIssue counts what one issue costs from its approval to its closing: canonical
// encodings, decodings and checks of bytes, clones of the world, requests and appends. The
// program is built so that each of its statements counts how often it is run; of two
// servers, one has one issue more.
func BenchmarkIssue(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "writ")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg=github.com/writbot/writ/kernel/...,github.com/writbot/writ/executor/supervisor,github.com/writbot/writ/cmd/writ", "-o", bin, "../writ")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("go build -cover: %v\n%s", err, out)
	}
	for range b.N {
		few, many := countedRun(b, bin, 2), countedRun(b, bin, 3)
		for _, c := range counted {
			b.ReportMetric(float64(many[c.unit]-few[c.unit]), c.unit)
		}
	}
}

// countedRun is a server's life with so many issues, one after the other.
func countedRun(b *testing.B, bin string, issues int) map[string]int64 {
	b.Helper()
	hook := localtest.FreeAddress(b)
	p := localtest.New(b, "http://"+hook+"/hooks/local")
	dir, counts := b.TempDir(), b.TempDir()
	config := write(b, dir, "writ.yaml", fmt.Sprintf(`server: {state_dir: %s/state, listen: '%s', sweep: 1h, drain: 20s}
forges: {local: {dir: %s, url: '%s', repositories: [o/n]}}
builders: {default: {argv: [sh, -c, 'echo hello > out.txt']}}
`, dir, hook, p.Dir, p.URL))
	cmd := exec.Command(bin, "serve", "--config", config)
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+counts, "WRIT_LOCAL_TOKEN="+p.Token, "WRIT_LOCAL_HOOK_SECRET="+localtest.Secret)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	until(b, "http://"+hook+"/readyz")
	for range issues {
		n := p.File("default")
		p.Approve(n)
		localtest.Until(b, time.Minute, "a task ends", func() bool { return p.Issue(n).State == forge.Closed })
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if exit := ended(b, cmd.Wait()); exit != 0 {
		b.Fatalf("writ serve ended with %d", exit)
	}
	return callsIn(b, counts)
}

// callsIn reads how often the counted functions were called.
func callsIn(b *testing.B, dir string) map[string]int64 {
	b.Helper()
	profile := filepath.Join(dir, "profile")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile).CombinedOutput(); err != nil {
		b.Fatalf("go tool covdata: %v\n%s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		b.Fatal(err)
	}
	out := map[string]int64{}
	for _, c := range counted {
		at := entryOf(b, c.file, c.function)
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, at) {
				continue
			}
			f := strings.Fields(line)
			n, err := strconv.ParseInt(f[len(f)-1], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			out[c.unit] += n
		}
		if out[c.unit] == 0 {
			b.Errorf("%s was never called", c.function)
		}
	}
	return out
}

// entryOf is how a profile names the block with which a function begins.
func entryOf(b *testing.B, file, function string) string {
	b.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, filepath.Join("../..", file), nil, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == function {
			at := set.Position(fn.Body.Lbrace)
			return fmt.Sprintf("%s:%d.%d,", file, at.Line, at.Column)
		}
	}
	b.Fatalf("%s has no function %s", file, function)
	return ""
}
