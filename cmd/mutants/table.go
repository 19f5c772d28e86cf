package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// tableName is what a package's table is called.
const tableName = "mutants.txt"

// mutant is one entry of a table.
type mutant struct {
	name  string
	where string // table and line, for a reader
	test  testRun
	edits []edit
}

// testRun is what go test is asked for.
type testRun struct {
	pkg     string // slash path from the repository's root
	pattern string
	race    bool
}

func (t testRun) String() string { return "./" + t.pkg + " " + t.pattern }

// edit replaces one place of a file.
type edit struct {
	file     string // slash path from the repository's root
	old, new []string
}

var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// loadTables reads all tables that git knows or would add below top.
func loadTables(ctx context.Context, top string) ([]mutant, error) {
	list, err := gitOutput(ctx, top, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--",
		tableName, ":(glob)**/"+tableName)
	if err != nil {
		return nil, err
	}
	var all []mutant
	seen := map[string]string{}
	for file := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(file)))
		if os.IsNotExist(err) {
			continue // removed, and git isn't told yet
		}
		if err != nil {
			return nil, err
		}
		table, err := parseTable(file, string(text))
		if err != nil {
			return nil, err
		}
		for _, m := range table {
			if other, ok := seen[m.name]; ok {
				return nil, fmt.Errorf("%s: %s has a mutant %s already: give this one another name", m.where, other, m.name)
			}
			seen[m.name] = m.where
		}
		all = append(all, table...)
	}
	return all, nil
}

// parseTable reads a table; file is its slash path, whose directory is the package.
func parseTable(file, text string) ([]mutant, error) {
	p := tableParser{pkg: path.Dir(file)}
	for i, line := range strings.Split(text, "\n") {
		p.where = fmt.Sprintf("%s:%d", file, i+1)
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("%s: %w", p.where, err)
		}
	}
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.where, err)
	}
	return p.all, nil
}

// parser holds the entry that is being read.
type tableParser struct {
	pkg, where string
	all        []mutant
	open       bool // within an entry: now is one
	now        mutant
	file       string // the file of the next place; empty before the first
	fresh      bool   // the next "- " begins a place
}

func (p *tableParser) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "":
		return p.end()
	case !p.open && strings.HasPrefix(line, "#"):
		return nil
	case !p.open && word == "mutant":
		if !names.MatchString(rest) {
			return fmt.Errorf("%q is no name for a mutant: use letters, digits, '.', '_' and '-'", rest)
		}
		*p = tableParser{pkg: p.pkg, where: p.where, all: p.all, open: true, now: mutant{name: rest, where: p.where}}
		return nil
	case !p.open:
		return fmt.Errorf("an entry begins with \"mutant NAME\", this line with %q", word)
	case word == "test":
		return p.test(rest)
	case word == "file":
		return p.setFile(rest)
	case word == "-":
		return p.old(rest)
	case word == "+":
		return p.new(rest)
	}
	return fmt.Errorf("a line of an entry begins with test, file, \"- \" or \"+ \", this one with %q", word)
}

func (p *tableParser) test(spec string) error {
	f := strings.Fields(spec)
	race := len(f) == 2 && f[1] == "-race"
	if p.now.test.pattern != "" || len(f) != 1 && !race {
		return fmt.Errorf("an entry has one line \"test PATTERN [-race]\"")
	}
	if _, err := regexp.Compile(f[0]); err != nil {
		return err
	}
	p.now.test = testRun{pkg: p.pkg, pattern: f[0], race: race}
	return nil
}

func (p *tableParser) setFile(name string) error {
	if path.Clean(name) != name || !filepath.IsLocal(name) {
		return fmt.Errorf("%q is no path from the repository's root", name)
	}
	if p.file != "" && p.fresh {
		return fmt.Errorf("no \"- \" line after the file above")
	}
	p.file, p.fresh = name, true
	return nil
}

func (p *tableParser) old(text string) error {
	if p.file == "" {
		return fmt.Errorf("a file is named before its text")
	}
	if n := len(p.now.edits); p.fresh || p.now.edits[n-1].new != nil {
		p.now.edits, p.fresh = append(p.now.edits, edit{file: p.file}), false
	}
	e := &p.now.edits[len(p.now.edits)-1]
	e.old = append(e.old, text)
	return nil
}

func (p *tableParser) new(text string) error {
	if p.file == "" || p.fresh {
		return fmt.Errorf("the old text, with \"- \", comes before the new")
	}
	e := &p.now.edits[len(p.now.edits)-1]
	e.new = append(e.new, text)
	return nil
}

// end closes the entry, if one is open.
func (p *tableParser) end() error {
	if !p.open {
		return nil
	}
	if p.now.test.pattern == "" || len(p.now.edits) == 0 || p.fresh {
		return fmt.Errorf("mutant %s isn't whole: it needs a test, a file and the file's old text", p.now.name)
	}
	p.all, p.open = append(p.all, p.now), false
	return nil
}
