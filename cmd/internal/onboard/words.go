package onboard

import (
	"fmt"
	"strings"
)

// title is the commit's message and the change's title.
const title = "Let writ work here"

// body explains the change to whoever is to merge it.
func body(k Kind, o Outcome) string {
	w := wordsOf(k)
	var b strings.Builder
	fmt.Fprintf(&b, "[Writ](https://github.com/writbot/writ) carries out issues that somebody with %s approved with a label, and delivers each as a %s. This %[2]s gives the repository its contract: the file that says what writ may do here.\n\n", w.role, w.change)
	b.WriteString("**Once this is merged** writ begins by watching. To an issue with the label `writ` it says in one comment what it would do, and does nothing else: that is `mode: observe`. To let it work, change that line of the contract to `mode: govern`, here or later. " +
		"`close_on: merged` means that an issue stays open until its change was merged.\n\n")
	b.WriteString("What to look at before: `checks`, the commands that must pass on each result. There are none yet.\n\n")
	list(&b, "It adds", o.Added)
	list(&b, "These are there already and stay as they are", o.Kept)
	fmt.Fprintf(&b, "`%s` says how to file an issue, approve it and stop it. To refuse all of this, close this %s and leave its branch; writ doesn't ask again.\n", GuidePath, w.change)
	return b.String()
}

func list(b *strings.Builder, what string, paths []string) {
	if len(paths) == 0 {
		return
	}
	b.WriteString(what + ":\n\n")
	for _, p := range paths {
		fmt.Fprintf(b, "- `%s`\n", p)
	}
	b.WriteString("\n")
}

// Lines say for a person at a terminal what became of it.
func (o Outcome) Lines(k Kind) []string {
	w := wordsOf(k)
	var out []string
	switch o.State {
	case Opened:
		out = append(out, fmt.Sprintf("opened the %s %s", w.change, o.Change.URL))
	case Waiting:
		out = append(out, fmt.Sprintf("the %s %s is open already: look at it and merge it", w.change, o.Change.URL))
	case Merged:
		out = append(out, fmt.Sprintf("the %s %s was merged already; once its branch %s is deleted, files that are missing are proposed anew", w.change, o.Change.URL, Branch))
	case Closed:
		out = append(out, fmt.Sprintf("the %s %s was closed by somebody; to propose it again, delete its branch %s first", w.change, o.Change.URL, Branch))
	case Complete:
		out = append(out, "the repository has all the files already")
	}
	for _, p := range o.Added {
		out = append(out, "  adds "+p)
	}
	for _, p := range o.Kept {
		out = append(out, "  leaves "+p+" as it is")
	}
	if o.State == Opened || o.State == Waiting {
		out = append(out, fmt.Sprintf("what the contract would have said to the last commits was not tried here: in a clone that has the branch %s checked out, `writ contract try` does that", Branch))
	}
	return out
}
