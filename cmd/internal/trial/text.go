package trial

import (
	"fmt"
	"strings"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/kernel"
)

const (
	shownPlaces   = 8  // of a rule: what fits beside the others on one screen
	shownRefusals = 10 // examples
	shownMoves    = 50 // commits that change sides: what a change of the contract is judged by
	shownID       = 12 // digits of a commit's id
)

// Text is a summary for a person at a terminal.
func (s Summary) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, over the last %s, %s to %s.\n", called(s.Source), commits(s.Commits), short(s.Oldest), short(s.Tip))
	fmt.Fprintf(&b, "  accepted %6d\n", s.Accepted)
	if s.Waiting > 0 {
		fmt.Fprintf(&b, "           %6d of these once somebody has accepted guarded paths\n", s.Waiting)
	}
	fmt.Fprintf(&b, "  refused  %6d\n\n", s.Refused)
	s.rules(&b)
	if k := s.Classes; k.Forbidden+k.Guarded+k.Lock > 0 {
		b.WriteString("What is protected, by the gravest class of a commit.\n")
		fmt.Fprintf(&b, "  %6d  forbidden: it steers git, writ or agents, and is refused\n", k.Forbidden)
		fmt.Fprintf(&b, "  %6d  guarded: what CI, services and package managers obey; it waits, or is refused with paths.accept: nobody\n", k.Guarded)
		fmt.Fprintf(&b, "  %6d  lock files with their manifests, naming no new source: not refused\n\n", k.Lock)
	}
	if s.Second == nil {
		for _, r := range s.Refusals[:min(len(s.Refusals), shownRefusals)] {
			fmt.Fprintf(&b, "%s  %s: %s\n", short(r.Commit), join(r.Codes), r.Title)
		}
		more(&b, s.Refused, shownRefusals)
	} else {
		s.second(&b)
	}
	b.WriteString("\nChecks were not run. ")
	if s.OwnPaths {
		b.WriteString("Each commit's own paths were its scope, since defaults.allowed_files is not set. ")
	}
	if s.Merges > 0 {
		fmt.Fprintf(&b, "Merges were compared with their first parents: %s. ", commits(s.Merges))
	}
	if s.Discards > 0 {
		fmt.Fprintf(&b, "New files that .gitignore matches and no pattern allows would be left out: of %s. ", commits(s.Discards))
	}
	if s.Shallow {
		b.WriteString("The clone ends here: git fetch --unshallow brings the rest. ")
	}
	fmt.Fprintf(&b, "commit.pattern matches %d of the first lines as their authors wrote them; writ writes its own.\n", s.Named)
	return b.String()
}

func (s Summary) rules(b *strings.Builder) {
	for _, r := range s.Rules {
		fmt.Fprintf(b, "%s: %s\n", r.Code, commits(r.Commits))
		for _, p := range r.Places[:min(len(r.Places), shownPlaces)] {
			fmt.Fprintf(b, "  %6d  %s\n", p.Commits, p.Name)
		}
		if n := len(r.Places) - shownPlaces; n > 0 {
			fmt.Fprintf(b, "          and %d more places\n", n)
		}
		b.WriteString("\n")
	}
}

func (s Summary) second(b *strings.Builder) {
	fmt.Fprintf(b, "With %s instead: %d accepted, %d refused; changing sides: %s.\n", called(s.Second.Source), s.Second.Accepted, s.Second.Refused, commits(s.Second.Moves))
	for _, m := range s.Second.Moved[:min(len(s.Second.Moved), shownMoves)] {
		what := "accepted now, was " + join(m.Before)
		if len(m.After) > 0 {
			what = "refused now, " + join(m.After)
		}
		fmt.Fprintf(b, "%s  %s: %s\n", short(m.Commit), what, m.Title)
	}
	more(b, s.Second.Moves, shownMoves)
}

// more says how many of a list aren't shown.
func more(b *strings.Builder, all int64, shown int64) {
	if all > shown {
		fmt.Fprintf(b, "and %d more; --json lists %d\n", all-shown, min(all, MaxListed))
	}
}

func short(id string) string { return id[:min(len(id), shownID)] }

func join(codes []kernel.Code) string {
	out := make([]string, len(codes))
	for i, c := range codes {
		out[i] = string(c)
	}
	return strings.Join(out, ", ")
}

func commits(n int64) string {
	if n == 1 {
		return "1 commit"
	}
	return fmt.Sprintf("%d commits", n)
}

// called is what a person calls a contract.
func called(source string) string {
	if source == contract.SourceDefault {
		return "The built-in contract"
	}
	return source
}
