// Command told measures what builders would be told of a folder of issue texts:
// for each construct how often it was left out, in how many texts, and where
// first. It reads the files that end in .md, each the body of one issue.
//
//	go run ./cmd/told FOLDER
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/writbot/writ/compliance/instruction"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "told: it takes one folder of issue texts: go run ./cmd/told FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "told:", err)
		os.Exit(1)
	}
}

// construct is what was left out of one kind, or why texts are refused.
type construct struct {
	what         string
	times, files int
	first        string
}

// run measures a folder and everything below it.
func run(folder string, out io.Writer) error {
	files, refused := 0, 0
	kinds := map[string]*construct{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".md") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if measure(kinds, path, string(data)) {
			refused++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if files == 0 {
		return errors.New("no file in " + folder + " ends in .md")
	}
	tabulate(out, kinds)
	fmt.Fprintf(out, "\n%d texts, %d of them refused\n", files, refused)
	return nil
}

// measure adds what is left out of one text, and reports whether it is refused.
func measure(kinds map[string]*construct, path, body string) bool {
	p := instruction.Parse("title", body)
	add := func(what string, times int, place string) {
		k := kinds[what]
		if k == nil {
			k = &construct{what: what, first: place}
			kinds[what] = k
		}
		k.times += times
		k.files++
	}
	for _, c := range p.Left {
		add(c.Kind, len(c.Lines), fmt.Sprintf("%s:%d", path, c.Lines[0]))
	}
	for _, v := range p.Bad {
		add("refused: "+string(v.Code), 1, path+": "+v.Detail)
	}
	return len(p.Bad) > 0
}

// tabulate writes the table, the most frequent first.
func tabulate(out io.Writer, kinds map[string]*construct) {
	var rows []*construct
	for _, k := range kinds {
		rows = append(rows, k)
	}
	slices.SortFunc(rows, func(a, b *construct) int {
		return cmp.Or(b.times-a.times, strings.Compare(a.what, b.what))
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "left out\ttimes\ttexts\tfirst")
	for _, k := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", k.what, k.times, k.files, k.first)
	}
	_ = w.Flush() // a table that can't be written is seen to be missing
}
