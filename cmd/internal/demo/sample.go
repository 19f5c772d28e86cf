package demo

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
)

//go:embed shop
var shop embed.FS

//go:embed contract.yaml
var contractFile []byte

//go:embed builders.sh
var builderScript []byte

// The sample's repository and the label that its contract names.
const (
	owner, name = "demo", "shop"
	label       = "writ"
)

// Builders is the script of all builders; its first word says which.
func Builders() []byte { return builderScript }

// Sample is the first commit of the sample repository: files by their paths.
func Sample() (map[string][]byte, error) {
	files := map[string][]byte{".writ/contract.yaml": contractFile}
	list, err := fs.ReadDir(shop, "shop")
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		data, err := shop.ReadFile(path.Join("shop", f.Name()))
		if err != nil {
			return nil, err
		}
		files[f.Name()] = data
	}
	return files, nil
}

// Issue is one of the four.
type Issue struct {
	Title   string
	Text    string // prose
	Builder string
	Ends    string // what is expected, for people
}

// The issues, in the order of their numbers.
const (
	Renamed = iota
	Strayed
	Survived
	Edited
)

// Issues are the four.
func Issues() []Issue {
	return []Issue{
		Renamed: {"Call the function amount", "The function `total` in the two programs should be called `amount`.",
			"rename", "completed, with a pull request"},
		Strayed: {"Call the function amount, again", "The same once more, by a builder that also writes where it may not.",
			"stray", "refused twice for writing outside its scope, then blocked"},
		Survived: {"Say what parts the fields", "A comment behind the separator of the two programs should say what it is.",
			"slow", "completed, although writ is killed in the middle of it"},
		Edited: {"Tidy the programs", "Please tidy the two programs.",
			"rename", "waits, because its text was changed after the approval"},
	}
}

// Body is the issue's text: prose, and the block that says what is allowed.
func (i Issue) Body() string {
	return fmt.Sprintf("%s\n\n```writ\nallowed_files: ['*.awk']\nexpected_outcome: '`sh test.sh` prints that the shop counts right'\nchecks: [tests]\nbuilder: %s\n```\n", i.Text, i.Builder)
}
