package housekeeping

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// contractRows is how many requirements seed 000 has in docs/conformance.md.
const contractRows = 52

// TestDocs_ContractNamesEveryRequirement holds requirement A2: the branch
// runner's contract is written down at the root, statement by statement.
func TestDocs_ContractNamesEveryRequirement(t *testing.T) {
	named := regexp.MustCompile(`\bA[0-9]+\b`).FindAllString(read(t, "CONTRACT.md"), -1)
	for i := 1; i <= contractRows; i++ {
		if id := fmt.Sprintf("A%d", i); !slices.Contains(named, id) {
			t.Errorf("CONTRACT.md doesn't name %s", id)
		}
	}
}

// TestDocs_VersioningNamesTheKernelVersion holds seed 003 §5: a change of the
// kernel's rules is noted, so the newest note is the version in force.
func TestDocs_VersioningNamesTheKernelVersion(t *testing.T) {
	version := strings.TrimSpace(read(t, "kernel/VERSION"))
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(version) {
		t.Fatalf("kernel/VERSION is %q, want three numbers", version)
	}
	top := regexp.MustCompile(`(?m)^## (\S+)`).FindStringSubmatch(read(t, "VERSIONING.md"))
	if top == nil || top[1] != version {
		t.Errorf("top entry of VERSIONING.md is %v, kernel/VERSION is %s", top, version)
	}
}

// TestDocs_PhasesHaveTheirStatus holds requirement WK2: the whole blueprint of
// seed 002 is documented, with what stands of each phase.
func TestDocs_PhasesHaveTheirStatus(t *testing.T) {
	text := read(t, "docs/architecture.md")
	for _, phase := range []string{"Phase 0", "Phase 1", "Phase 2", "Phase 3", "Phase 4", "Federation"} {
		row := regexp.MustCompile(`(?m)^\| ` + phase + ` \|.*\| \*\*(stands|begun|later)\*\*`)
		if !row.MatchString(text) {
			t.Errorf("docs/architecture.md: no row for %s with its status (stands, begun or later)", phase)
		}
	}
}

// TestDocs_EveryPackageSaysWhatItIs wants a package comment in one file of each
// package that is built or tested.
func TestDocs_EveryPackageSaysWhatItIs(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.isTest() {
			continue
		}
		documented[f.room()] = documented[f.room()] || f.ast.Doc != nil
	}
	for room, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment: say what it is for, what it may touch and what it never does", room)
		}
	}
}

// TestDocs_CodeLivesInTheRooms keeps Go code in the six top-level rooms.
func TestDocs_CodeLivesInTheRooms(t *testing.T) {
	rooms := []string{"cmd", "webhook", "forge", "kernel", "executor", "compliance"}
	for _, f := range goFiles(t) {
		if top, _, _ := strings.Cut(f.path, "/"); !slices.Contains(rooms, top) {
			t.Errorf("%s: Go code lives in %s only", f.path, strings.Join(rooms, ", "))
		}
	}
}

// foreign are traces of one machine, or hosts that a reader of the documents
// has no use for. They are written apart here, lest this file catch itself.
var foreign = []struct {
	pattern string
	where   func(name string) bool
	why     string
}{
	{`/work/(main|sha` + `red)\b|/tmp/(bash_` + `jobs|wr` + `it/)|/root/(go|\.cache)\b|/home/[a-z]+/go\b|/Us` + `ers/`, anyFile, "a path of one machine"},
	{`proxy\.gol` + `ang\.org|sum\.gol` + `ang\.org|deb\.deb` + `ian\.org|registry\.np` + `mjs\.org|vuln\.go` + `\.dev`, isDoc, "a registry's host: name the tool that knows it instead"},
}

func anyFile(string) bool { return true }

// isDoc tells the documents that people read and the scripts they run.
func isDoc(name string) bool {
	return path.Ext(name) == ".md" || name == "Makefile" || strings.HasPrefix(name, ".ci/") && path.Ext(name) == ""
}

// maxScanned leaves out large binary samples, in bytes.
const maxScanned = 1 << 20

// TestDocs_NothingOfOneMachine looks for what must not get into a repository.
func TestDocs_NothingOfOneMachine(t *testing.T) {
	for _, name := range files(t, anyFile) {
		text := read(t, name)
		if len(text) > maxScanned {
			continue
		}
		for _, f := range foreign {
			if !f.where(name) {
				continue
			}
			if at := regexp.MustCompile(f.pattern).FindStringIndex(text); at != nil {
				t.Errorf("%s:%d: %q is %s", name, 1+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], f.why)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)

// TestDocs_LinksLeadSomewhere follows the relative links of all documents.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
	there := map[string]bool{}
	for _, name := range files(t, anyFile) {
		for ; name != "."; name = path.Dir(name) {
			there[name] = true
		}
	}
	for _, name := range files(t, func(n string) bool { return path.Ext(n) == ".md" && !strings.Contains(n, "testdata/") }) {
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			if strings.Contains(m[1], ":") {
				continue // another site
			}
			if target := path.Join(path.Dir(name), m[1]); !there[target] {
				t.Errorf("%s links to %s, which is not there", name, target)
			}
		}
	}
}

// TestDocs_EachTargetSaysWhatItDoes keeps `make` self-describing.
func TestDocs_EachTargetSaysWhatItDoes(t *testing.T) {
	text := read(t, "Makefile")
	phony := regexp.MustCompile(`(?m)^\.PHONY: (\S+)\n(.*)`).FindAllStringSubmatch(text, -1)
	if len(phony) == 0 {
		t.Fatal("no targets found in the Makefile")
	}
	for _, m := range phony {
		if !strings.HasPrefix(m[2], m[1]+":") || !strings.Contains(m[2], "## ") {
			t.Errorf("target %s: the line after .PHONY must be `%s: … ## what it does`, is %q", m[1], m[1], m[2])
		}
	}
}

// TestDocs_GlossaryNamesWhatIsThere: each word of docs/style.md leads to a room, or to
// a declaration.
func TestDocs_GlossaryNamesWhatIsThere(t *testing.T) {
	there := map[string]bool{}
	for _, f := range goFiles(t) {
		there[f.room()] = true
		for _, name := range f.declared() {
			there[f.ast.Name.Name+"."+name] = true
		}
	}
	rows := regexp.MustCompile("(?m)^\\| ([A-Za-z, ]+) \\|.*\\| (`[^|]+`) \\|$").FindAllStringSubmatch(read(t, "docs/style.md"), -1)
	if len(rows) < 40 {
		t.Errorf("the glossary has %d words", len(rows))
	}
	for _, row := range rows {
		for name := range strings.SplitSeq(row[2], ", ") {
			if !there[strings.Trim(name, "`")] {
				t.Errorf("%s: %s is neither a room nor a declaration", row[1], name)
			}
		}
	}
}

// TestDocs_ArchitectureNamesFiles: a file that the tour names is there. It names one by its
// whole path, since many rooms have a file of the same name.
func TestDocs_ArchitectureNamesFiles(t *testing.T) {
	there := map[string]bool{"doc.go": true}
	for _, name := range files(t, anyFile) {
		there[name] = true
	}
	for _, m := range regexp.MustCompile("`([\\w./]+\\.go)`").FindAllStringSubmatch(read(t, "docs/architecture.md"), -1) {
		if !there[m[1]] {
			t.Errorf("docs/architecture.md names %s, which is not there", m[1])
		}
	}
}

// TestDocs_ArchitectureNamesDeclarations: a name of the code that the tour has is declared: a
// package's or a type's (`kernel.Stamp`, `Facts.Paths`), or one in mixed case (`putBack`).
func TestDocs_ArchitectureNamesDeclarations(t *testing.T) {
	there, owners := map[string]bool{}, map[string]bool{} // packages, and types that have something
	for _, f := range goFiles(t) {
		in := f.ast.Name.Name + "."
		owners[f.ast.Name.Name] = true
		for _, name := range append(f.declared(), f.held()...) {
			there[name], there[in+name] = true, true
			if of, method, ok := strings.Cut(name, "."); ok {
				there[method], owners[of] = true, true
			}
		}
	}
	doc := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(read(t, "docs/architecture.md"), "")
	named := 0
	for _, m := range regexp.MustCompile("`([A-Za-z]\\w*)((?:\\.\\w+)*)`").FindAllStringSubmatch(doc, -1) {
		name, first, dotted := m[1]+m[2], m[1], m[2] != ""
		switch path.Ext(name) {
		case ".go", ".json", ".patch", ".txt", ".mod":
			continue
		}
		mixed := regexp.MustCompile(`[a-z][A-Z]|\.[A-Z]`).MatchString(name)
		if mixed && (!dotted || owners[first] || first != strings.ToLower(first)) {
			if named++; !there[name] {
				t.Errorf("docs/architecture.md names %s, which is declared nowhere", name)
			}
		}
	}
	if named < 60 {
		t.Errorf("the tour names %d declarations", named)
	}
}

// held are a file's constants and variables, and the fields of its structs after their types.
func (f goFile) held() (names []string) {
	for _, d := range f.ast.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			case *ast.TypeSpec:
				body, ok := s.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range body.Fields.List {
					for _, n := range field.Names {
						names = append(names, s.Name.Name+"."+n.Name)
					}
				}
			}
		}
	}
	return names
}

// declared are the names of types and functions, and of methods after their type's.
func (f goFile) declared() (names []string) {
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					names = append(names, s.Name.Name)
				}
			}
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				of := d.Recv.List[0].Type
				if p, ok := of.(*ast.StarExpr); ok {
					of = p.X
				}
				if id, ok := of.(*ast.Ident); ok {
					name = id.Name + "." + name
				}
			}
			names = append(names, name)
		}
	}
	return names
}
