package kernel

import "sort"

// Code is a failure code. The ten codes of seed 001 are used verbatim, the
// others have the same form. [Codes] is the only list of them.
type Code string

// Counts says against which of a task's budgets a failure is charged.
type Counts string

const (
	// CountsNothing is for refusals and a person's acts: nothing is charged.
	CountsNothing Counts = "nothing"
	// CountsAttempt is for failures of the builder or of its work
	// (budgets.attempts).
	CountsAttempt Counts = "attempt"
	// CountsInterruption is for what isn't the builder's failure: takeover,
	// shutdown, lost lease, outage (budgets.interruptions).
	CountsInterruption Counts = "interruption"
)

// CodeInfo documents one code.
type CodeInfo struct {
	Code    Code
	Meaning string // one sentence: what happened
	Counts  Counts
	Remedy  string // one sentence: what the reader can do
}

// Known reports whether c stands in the table.
func (c Code) Known() bool { _, ok := codeIndex(c); return ok }

// Info returns the code's row; an unknown code has an empty row of its name.
func (c Code) Info() CodeInfo {
	if i, ok := codeIndex(c); ok {
		return codeTable[i]
	}
	return CodeInfo{Code: c}
}

// Lacks reports whether c says that a check, on the base as well as on the change, did
// without something that it needs.
func (c Code) Lacks() bool {
	return c == CodeLacksNetwork || c == CodeLacksLoopback || c == CodeLacksProgram || c == CodeLacksSpace
}

// Codes returns the table in its fixed order, coarse to fine: the order in
// which every list of codes is written.
func Codes() []CodeInfo { return append([]CodeInfo(nil), codeTable...) }

func codeIndex(c Code) (int, bool) {
	for i := range codeTable {
		if codeTable[i].Code == c {
			return i, true
		}
	}
	return len(codeTable), false
}

// SortCodes returns the distinct codes of list in the table's order; codes that
// the table lacks come last, by name.
func SortCodes(list []Code) []Code {
	seen := make(map[Code]bool, len(list))
	out := make([]Code, 0, len(list))
	for _, c := range list {
		if !seen[c] {
			seen[c] = true
			out = append(out, c)
		}
	}
	sort.Slice(out, func(i, j int) bool { return codeLess(out[i], out[j]) })
	return out
}

func codeLess(a, b Code) bool {
	i, _ := codeIndex(a)
	j, _ := codeIndex(b)
	if i != j {
		return i < j
	}
	return a < b
}

// Violation is one broken rule. Detail is a sentence for people and never holds
// a secret; Subject is the path, field or check that broke the rule.
type Violation struct {
	Code    Code   `json:"code"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

// SortViolations returns a copy in the fixed order: code table, subject, detail.
func SortViolations(list []Violation) []Violation {
	out := append([]Violation{}, list...)
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.Code != b.Code {
			return codeLess(a.Code, b.Code)
		}
		if a.Subject != b.Subject {
			return a.Subject < b.Subject
		}
		return a.Detail < b.Detail
	})
	return out
}

// CodesOf returns the distinct codes of a list of violations, in table order.
func CodesOf(list []Violation) []Code {
	codes := make([]Code, 0, len(list))
	for _, v := range list {
		codes = append(codes, v.Code)
	}
	return SortCodes(codes)
}
