package forgetest

import (
	"strings"
	"time"

	"github.com/writbot/writ/forge"
)

// Op names a method of forge.Client.
type Op string

// The methods.
const (
	Repository    Op = "Repository"
	Issue         Op = "Issue"
	ListIssues    Op = "ListIssues"
	History       Op = "History"
	SetState      Op = "SetState"
	Comments      Op = "Comments"
	AddComment    Op = "AddComment"
	EditComment   Op = "EditComment"
	DeleteComment Op = "DeleteComment"
	React         Op = "React"
	ReactToIssue  Op = "ReactToIssue"
	EnsureLabels  Op = "EnsureLabels"
	AddLabel      Op = "AddLabel"
	RemoveLabel   Op = "RemoveLabel"
	Self          Op = "Self"
	Permission    Op = "Permission"
	FindChange    Op = "FindChange"
	OpenChange    Op = "OpenChange"
	EditChange    Op = "EditChange"
	SetCheck      Op = "SetCheck"

	ReviewComments Op = "ReviewComments"
)

// Writes reports whether the method changes the forge.
func (o Op) Writes() bool {
	switch o {
	case SetState, AddComment, EditComment, DeleteComment, React, ReactToIssue, EnsureLabels, AddLabel, RemoveLabel,
		OpenChange, EditChange, SetCheck:
		return true
	}
	return false
}

// Call is one call of a client's method, as [Faults] keeps it.
type Call struct {
	N      int // counts from 1
	Op     Op
	Repo   forge.Repo
	Number int64    // of the issue or change; 0 where a method has none
	ID     int64    // of the comment, the user or the repository
	Texts  []string // what was sent: body, title, label, state, branch, check
	Since  time.Time

	Err     error // what the caller was told; nil in Before
	Applied bool  // the wrapped client did it; false in Before
}

// Match says to which calls a rule applies.
type Match func(Call) bool

// On matches calls of any of the methods.
func On(ops ...Op) Match {
	return func(c Call) bool {
		for _, op := range ops {
			if c.Op == op {
				return true
			}
		}
		return false
	}
}

// OnIssue matches calls of any of the methods about one issue or change.
func OnIssue(number int64, ops ...Op) Match {
	on := On(ops...)
	return func(c Call) bool { return c.Number == number && on(c) }
}

// Writes matches every call that changes the forge.
func Writes() Match { return func(c Call) bool { return c.Op.Writes() } }

// Any matches every call.
func Any() Match { return func(Call) bool { return true } }

// Sends reports whether a call sent a text that holds part.
func (c Call) Sends(part string) bool {
	for _, text := range c.Texts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
