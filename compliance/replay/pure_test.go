package replay

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed is all that this package may import: what computes, and the rooms
// whose types it reads. A package that opens sockets, files or processes by
// itself isn't among them.
var allowed = []string{
	"bytes", "cmp", "context", "encoding/base64", "encoding/json", "errors", "fmt", "iter", "maps", "slices", "strconv", "strings", "time", "unicode/utf8",
	"github.com/hiddeco/sshsig", "golang.org/x/crypto/ssh", "golang.org/x/mod/sumdb/tlog",
	"github.com/writbot/writ/compliance/contract", "github.com/writbot/writ/compliance/instruction", "github.com/writbot/writ/compliance/internal/visible",
	"github.com/writbot/writ/compliance/ledger", "github.com/writbot/writ/compliance/ledger/instancekey",
	"github.com/writbot/writ/compliance/report", "github.com/writbot/writ/compliance/scope", "github.com/writbot/writ/compliance/sealed",
	"github.com/writbot/writ/compliance/worldref",
	"github.com/writbot/writ/forge/git", "github.com/writbot/writ/kernel", "github.com/writbot/writ/kernel/canon",
	"github.com/writbot/writ/kernel/lease", "github.com/writbot/writ/kernel/machine",
	"github.com/writbot/writ/kernel/plan", "github.com/writbot/writ/kernel/world",
}

// used is what it may take of the packages that could do more: no clock, no
// connection, no file, no key of its own.
var used = map[string][]string{
	"time":        {"Parse", "RFC3339"},
	"ssh":         {"PublicKey", "MarshalAuthorizedKey"},
	"git":         {"Commit", "Tree", "Unequal", "Refs", "OID", "Entry", "Mode", "ModeFile", "ModeExec", "ModeSymlink", "ModeGitlink", "NewObjects", "HashBlob", "MergeLines", "Fingerprint", "CodeOf", "CodeCommitAmbiguous", "CodeObjectMissing", "CodeObjectInvalid"},
	"ledger":      {"Proof", "Ledger", "Checkpoint", "DecodeRecord", "OpenCheckpoint", "VerifyInclusion"},
	"instancekey": {"Public", "ParsePublic"},
	"report":      {"Report", "Merge", "RunRecord", "Version", "Markdown", "Counted"},
	"worldref":    {"Entry", "Judged", "Standing", "Fold", "Lists", "Read", "Ref"}, // no room, which writes
	"scope":       {"Entry", "Apply", "ParseGlobs", "NewClasses", "ClassNone", "ClassForbidden", "ClassGuarded", "ClassLock", "NewLocks", "Locks", "WhyGuarded", "CheckPath", "Display", "CheckReported", "Verdict", "MaxListed"},
	"contract":    {"Caps", "Contract", "Load", "Source", "Path", "RefreshAuto"},
	"instruction": {"Comment", "Excerpt"},
	"sealed":      {"File", "Manifest", "Decode", "Is", "Read"},
	"context":     {"Context"},
	"json":        {"Unmarshal"},
}

// sources are the package's files as they are compiled.
//
//go:embed *.go
var sources embed.FS

// TestR7_NoClockNoSocketNoProcess: replay reads its arguments and its Repo, and
// nothing else (conformance KC15).
func TestR7_NoClockNoSocketNoProcess(t *testing.T) {
	files, err := sources.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, e := range files {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		src, err := sources.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		read++
		for _, fault := range impure(t, e.Name(), string(src)) {
			t.Error(fault)
		}
	}
	if read < 10 {
		t.Errorf("only %d files were read", read)
	}
	for _, bad := range []string{
		`import "time"; var x = time.Now()`, `import "net"`, `import "os"`, `import "os/exec"`, `import "net/http"`,
		`import "github.com/writbot/writ/forge/git"; var x = git.Open`, `import "math/rand"`, `func f() { go f() }`,
	} {
		if len(impure(t, "bad.go", "package replay\n"+bad)) == 0 {
			t.Errorf("not caught: %s", bad)
		}
	}
}

func impure(t *testing.T, name, src string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	imported := map[string]bool{}
	for _, i := range file.Imports {
		full, _ := strconv.Unquote(i.Path.Value)
		imported[path.Base(full)] = true
		if !slices.Contains(allowed, full) || i.Name != nil {
			out = append(out, name+": imports "+full)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			out = append(out, name+": starts a goroutine")
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && imported[x.Name] && used[x.Name] != nil && !slices.Contains(used[x.Name], n.Sel.Name) {
				out = append(out, name+": uses "+x.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return out
}
