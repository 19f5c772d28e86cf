package onboard

import (
	_ "embed" // the guides
	"fmt"
	"strings"

	"github.com/writbot/writ/compliance/contract"
)

// Kind is the forge that a repository is at.
type Kind string

// The forges, by their names in the configuration.
const (
	GitHub Kind = "github"
	GitLab Kind = "gitlab"
	Local  Kind = "local"
)

// GuidePath is where the guide lies in a repository.
const GuidePath = ".writ/README.md"

//go:embed guide.md
var guide string

// File is a file that a repository is given.
type File struct {
	Path string // slash-separated, from the repository's root
	Data []byte
}

// Files are those for a repository at that kind of forge: the onboarding
// contract, the form where the forge has any, the guide.
func Files(k Kind) []File {
	files := []File{{contract.Path, contract.Onboarding()}}
	switch k {
	case GitHub:
		files = append(files, File{contract.IssueFormPath, contract.IssueForm()})
	case GitLab:
		files = append(files, File{contract.IssueTemplatePath, contract.IssueTemplate()})
	case Local:
	}
	return append(files, File{GuidePath, []byte(Guide(k))})
}

// Guide is the guide in the words of a forge.
func Guide(k Kind) string {
	w := wordsOf(k)
	return strings.NewReplacer("{change}", w.change, "{role}", w.role, "{filing}", w.filing).Replace(guide)
}

// words are what a forge calls things.
type words struct {
	change string
	role   string // the least that approves, under the contract's permission: write
	filing string
}

func wordsOf(k Kind) words {
	const block = "with a `writ` block as in the example below"
	switch k {
	case GitHub:
		return words{"pull request", "write permission or more", "with the form *Task for writ*, or " + block}
	case GitLab:
		return words{"merge request", "the role Developer or more", "with the template *writ*, or " + block}
	case Local:
	}
	return words{"change", "write permission or more", block}
}

// KindOf is the kind that a forge's name stands for.
func KindOf(name string) (Kind, error) {
	switch k := Kind(name); k {
	case GitHub, GitLab, Local:
		return k, nil
	}
	return "", fmt.Errorf("%q is no forge: give github, gitlab or local", name)
}
