package plan

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Version is the version of the shapes in this package: interpretation, spec,
// plan proposal and plan.
const Version = 1

// SourceDerived marks what the kernel derived from the seed pack itself. Any
// other source is the name of a planner.
const SourceDerived = "derived"

// Interpretation is one understanding of an issue: a proposal, never state
// (seed 003 §2).
type Interpretation struct {
	Kind            string   `json:"kind"` // "interpretation"
	V               int64    `json:"v"`
	Source          string   `json:"source"`           // SourceDerived or a planner's name
	Summary         string   `json:"summary"`          // what is to be done, in one line
	Assumptions     []string `json:"assumptions"`      // what the issue doesn't say
	AllowedFiles    []string `json:"allowed_files"`    // path patterns
	ExpectedOutcome string   `json:"expected_outcome"` // verifiable
	Confidence      *int64   `json:"confidence"`       // parts per million, null for none; never scored
}

// Derive reads the seed pack's binding part as the only interpretation there
// is. Equal packs give equal interpretations.
func Derive(pack kernel.SeedPack) Interpretation {
	return Interpretation{
		Kind: string(kernel.KindInterpretation), V: Version, Source: SourceDerived,
		Summary:         pack.Title,
		Assumptions:     []string{},
		AllowedFiles:    slices.Clone(pack.Spec.AllowedFiles),
		ExpectedOutcome: pack.Spec.ExpectedOutcome,
	}
}

// Hash is the interpretation's content hash, the one a spec names and a tie is
// broken by.
func (i Interpretation) Hash() (canon.Digest, error) { return canon.Hash(i) }

// Points of a candidate's cost; see the package comment.
const (
	pointsSummaryRune = 1   // per code point: the shorter reading of the same issue
	pointsPattern     = 20  // per allowed pattern: the narrower scope
	pointsAssumption  = 50  // per assumption: the less that was made up
	pointsAnyDepth    = 100 // per pattern with a ** segment: the narrower scope
)

// Cost is the candidate's score in points, the lower the better. It depends on
// the candidate's content alone.
func (i Interpretation) Cost() int64 {
	cost := pointsSummaryRune * int64(utf8.RuneCountInString(i.Summary))
	cost += pointsAssumption * int64(len(i.Assumptions))
	cost += pointsPattern * int64(len(i.AllowedFiles))
	for _, p := range i.AllowedFiles {
		if slices.Contains(strings.Split(p, "/"), "**") {
			cost += pointsAnyDepth
		}
	}
	return cost
}

// fault says why the candidate can't be considered, "" if it can.
func (i Interpretation) fault() Reason {
	switch {
	case i.Kind != string(kernel.KindInterpretation), i.V != Version, i.Source == "",
		strings.TrimSpace(i.Summary) == "", strings.TrimSpace(i.ExpectedOutcome) == "",
		!distinctTexts(i.AllowedFiles) || len(i.AllowedFiles) == 0, !distinctTexts(folded(i.Assumptions)),
		i.Confidence != nil && (*i.Confidence < 0 || *i.Confidence > 1_000_000):
		return PrunedInvalid
	case i.contradicts(i):
		return PrunedSelfContradiction
	}
	return ""
}

// negation is how a planner writes that it assumes the opposite.
const negation = "not "

// contradicts reports whether one of the two assumes what the other negates.
func (i Interpretation) contradicts(other Interpretation) bool {
	return negates(i.Assumptions, other.Assumptions) || negates(other.Assumptions, i.Assumptions)
}

func negates(a, b []string) bool {
	theirs := folded(b)
	for _, text := range folded(a) {
		if slices.Contains(theirs, negation+text) {
			return true
		}
	}
	return false
}

// folded is each text without outer white space and in ASCII lower case. Wider
// folding would tie the result to a version of Unicode.
func folded(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.Map(lowerASCII, strings.TrimSpace(s))
	}
	return out
}

func lowerASCII(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

// distinctTexts reports whether no text is blank and none stands twice.
func distinctTexts(list []string) bool {
	seen := make(map[string]bool, len(list))
	for _, s := range list {
		if strings.TrimSpace(s) == "" || seen[s] {
			return false
		}
		seen[s] = true
	}
	return true
}
