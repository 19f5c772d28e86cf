package housekeeping

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// roomsDir is the package whose files are named after the rooms of a task.
const roomsDir = "executor/supervisor/"

// prefixes are how the names of a room's files begin. Task and drive are the driver.
var prefixes = map[string]string{
	"observer": "observer_", "worker": "worker_", "tracker": "tracker_",
	"Task": "drive_", "drive": "drive_",
}

// misplaced are the methods of rooms that stand in a file of another room, or in a file
// without a room's prefix where no other room has a method. The driver leads a request
// through the rooms, and its methods may stand in any file without a prefix.
func misplaced(name string, receivers map[string][]string) (bad []string) {
	rooms := map[string]bool{}
	for r := range receivers {
		if p := prefixes[r]; p != "" && p != "drive_" {
			rooms[p] = true
		}
	}
	of := ""
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			of = p
		}
	}
	for _, r := range slices.Sorted(maps.Keys(receivers)) {
		switch p := prefixes[r]; {
		case p == "", p == of, of == "" && (p == "drive_" || len(rooms) > 1):
		default:
			for _, m := range receivers[r] {
				bad = append(bad, r+"."+m)
			}
		}
	}
	return bad
}

// TestRooms_MethodsStandInTheirFiles: who looks for a method of a room finds it in a file
// with that room's name, or in one whose matter needs several rooms (docs/architecture.md).
func TestRooms_MethodsStandInTheirFiles(t *testing.T) {
	for _, e := range []struct {
		file      string
		receivers map[string][]string
		bad       int
	}{
		{"worker_push.go", map[string][]string{"worker": {"do"}, "push": {"to"}, "": {"plain"}}, 0},
		{"worker_push.go", map[string][]string{"observer": {"shows"}}, 1},
		{"worker_report.go", map[string][]string{"Task": {"Report"}}, 1},
		{"drive_acts.go", map[string][]string{"worker": {"setStopping"}}, 1},
		{"submit.go", map[string][]string{"Task": {"submit"}, "Supervisor": {"boot"}}, 0},
		{"record.go", map[string][]string{"worker": {"lookUpUnknown"}, "Supervisor": {"write"}}, 1},
		{"effects.go", map[string][]string{"worker": {"pushed", "person"}, "Task": {"prepare"}}, 2},
		{"fix.go", map[string][]string{"worker": {"revises"}, "tracker": {"fixAnswer"}}, 0},
	} {
		if bad := misplaced(e.file, e.receivers); len(bad) != e.bad {
			t.Errorf("of %v in %s these are misplaced: %v, and not %d", e.receivers, e.file, bad, e.bad)
		}
	}
	seen := map[string]bool{}
	for _, name := range files(t, isGo) {
		if path.Dir(name)+"/" != roomsDir || strings.HasSuffix(name, "_test.go") {
			continue
		}
		receivers := map[string][]string{}
		file, err := parser.ParseFile(token.NewFileSet(), name, read(t, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				typ := f.Recv.List[0].Type
				if star, ok := typ.(*ast.StarExpr); ok {
					typ = star.X
				}
				of := typ.(*ast.Ident).Name
				receivers[of] = append(receivers[of], f.Name.Name)
				seen[of] = true
			}
		}
		for _, m := range misplaced(path.Base(name), receivers) {
			t.Errorf("%s: %s belongs into a file of its room, whose name begins with %s", name, m, prefixes[strings.SplitN(m, ".", 2)[0]])
		}
	}
	for r := range prefixes {
		if !seen[r] {
			t.Errorf("%s has no type %s with methods any more", roomsDir, r)
		}
	}
}
