package contract

import (
	"bytes"
	_ "embed" // what a repository is given
)

//go:embed onboarding.yaml
var onboardingHead []byte

//go:embed issue_form.yml
var issueForm []byte

//go:embed issue_template.md
var issueTemplate []byte

// Where the forges look for what people fill in.
const (
	IssueFormPath     = ".github/ISSUE_TEMPLATE/writ.yml"
	IssueTemplatePath = ".gitlab/issue_templates/writ.md"
)

// IssueForm returns GitHub's issue form; package instruction reads what people
// fill in. It sets no label: approving is a maintainer's act.
func IssueForm() []byte { return bytes.Clone(issueForm) }

// IssueTemplate returns the same for GitLab, a text with a writ block to fill
// in. It holds no quick action, for the same reason.
func IssueTemplate() []byte { return bytes.Clone(issueTemplate) }

// What the head of the onboarding contract stands in place of.
const (
	defaultMode    = "\nmode: " + ModeGovern + "\n"
	defaultCloseOn = "\nclose_on: " + CloseVerified + " # or " + CloseMerged
)

// Onboarding returns the contract that a repository begins with: [Template], but
// writ only says what it would do, and an issue waits for the merge. Both stand
// first, each with the line that changes it.
func Onboarding() []byte {
	_, rest, _ := bytes.Cut(defaultYAML, []byte(defaultMode))
	rest = bytes.Replace(rest, []byte(defaultCloseOn), nil, 1)
	return append(bytes.Clone(onboardingHead), rest...)
}
