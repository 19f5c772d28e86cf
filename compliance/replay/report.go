package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/kernel"
)

// What a HEAD has of evidence.
const (
	EvidenceFull     = "full"     // the pack of a run, records and all
	EvidenceRedacted = "redacted" // the pack of a run, records kept as hashes
	EvidenceNone     = "none"     // a state that no run's pack belongs to
)

// Report is what a verification found. OK means that every check that applies
// to this HEAD held, on full evidence where the state has some. It says nothing
// about who the signer is: that is Vouched.
type Report struct {
	OK    bool   `json:"ok"`
	Task  int64  `json:"task_id"`
	World string `json:"world_id"`
	// WorldVouched says that the caller knew which world the repository is.
	WorldVouched bool `json:"world_vouched"`
	// Repository is what people called the world when the task was claimed.
	Repository string           `json:"repository"`
	State      kernel.TaskState `json:"state"` // "" where HEAD is no state event
	Head       string           `json:"head"`  // commit id
	Signer     string           `json:"signer"`
	Vouched    bool             `json:"vouched"` // somebody vouched for the signer's key
	Evidence   string           `json:"evidence"`
	// Acts are what was said of the world's keys and of other worlds, and what of it
	// counts for the caller.
	Acts []worldref.Judged `json:"acts"`
	// Results are the task's other results, below the one that is verified or whatever
	// else stands at HEAD. Nothing of them is verified.
	Results []Result `json:"results_below"`
	// Gaps are what is lost with holders that died, the newest first.
	Gaps     []Gap         `json:"gaps"`
	Checks   []Check       `json:"checks"`
	FirstBad *BadRecord    `json:"first_bad"` // null if nothing is bad
	Codes    []kernel.Code `json:"codes"`
}

// Result is what a commit below HEAD says of itself: that a run's work was accepted.
type Result struct {
	Commit string `json:"commit"`
	Run    string `json:"run_id"`
	Change string `json:"change_commit"`
	Signer string `json:"signer"`
}

// Check is one check's outcome. Detail is a sentence.
type Check struct {
	Name   string      `json:"name"`
	OK     bool        `json:"ok"`
	Code   kernel.Code `json:"code"` // "" if OK; evidence.redacted where nothing is wrong, but not all is here
	Detail string      `json:"detail"`
}

// NoSeq is the sequence of a [BadRecord] that is a file and no record.
const NoSeq = -1

// BadRecord names the first thing that is wrong.
type BadRecord struct {
	Seq    int64  `json:"seq"` // sequence in the ledger, or [NoSeq]
	File   string `json:"file"`
	Detail string `json:"detail"`
}

// Plain is the report for a terminal, a line for each check.
func (r Report) Plain() string {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(visible.Line(fmt.Sprintf(format, args...)) + "\n") }
	state := string(r.State)
	if state == "" {
		state = "in no state that can be read"
	}
	line("task %d of %s is %s%s", r.Task, r.named(), state, r.doubt())
	switch {
	case r.Signer == "":
		line("nobody's good signature")
	case r.Vouched:
		line("signed by %s, a key that you trust", r.Signer)
	default:
		line("signed by %s; nobody vouched for this key", r.Signer)
	}
	for _, j := range r.Acts {
		line("act %s", j)
	}
	for _, x := range r.Results {
		line("another result below, not verified here: %s of run %s, change %s, signed by %s", x.Commit, x.Run, x.Change, x.Signer)
	}
	for _, c := range r.Checks {
		word := "FAILED"
		switch {
		case c.OK:
			word = "ok    "
		case c.Code == kernel.CodeEvidenceRedacted:
			word = "hidden"
		}
		b.WriteString(word + " " + fmt.Sprintf("%-10s", c.Name) + visible.Line(c.Detail) + "\n")
	}
	if f := r.FirstBad; f != nil {
		line("first bad: %s", f)
	}
	line("%s", r.verdict())
	return b.String()
}

// named is the world's identity beside what it was called.
func (r Report) named() string {
	if r.Repository == "" || r.Repository == r.World {
		return r.World
	}
	return r.Repository + " (" + r.World + ")"
}

// doubt is said where nobody vouched that the repository is the world that its
// evidence names.
func (r Report) doubt() string {
	if r.WorldVouched {
		return ""
	}
	return "; nobody vouched that this repository is it"
}

// String says where and what.
func (f BadRecord) String() string {
	if f.Seq == NoSeq {
		return f.File + ": " + f.Detail
	}
	return fmt.Sprintf("record %d in %s: %s", f.Seq, f.File, f.Detail)
}

func (r Report) verdict() string {
	switch {
	case !r.OK && slices.Equal(r.Codes, []kernel.Code{kernel.CodeEvidenceRedacted}):
		return "not verified in full: part of the evidence is kept as hashes only"
	case !r.OK:
		return "NOT VERIFIED"
	case r.Evidence == EvidenceNone:
		return "nothing is wrong; there is no result to vouch for"
	}
	return "verified"
}

// fault is one thing that a check found.
type fault struct {
	code   kernel.Code
	seq    int64 // NoSeq for a file
	file   string
	detail string
}

// findings collects the faults of one check.
type findings struct{ faults []fault }

func (f *findings) add(code kernel.Code, file string, seq int64, format string, args ...any) {
	f.faults = append(f.faults, fault{code, seq, file, fmt.Sprintf(format, args...)})
}

// file is a fault of a file, or of a commit where file is "".
func (f *findings) file(file, format string, args ...any) {
	f.add(kernel.CodeEvidenceInvalid, file, NoSeq, format, args...)
}

// record is a fault of one record.
func (f *findings) record(seq int64, format string, args ...any) {
	f.add(kernel.CodeEvidenceInvalid, FileRecords, seq, format, args...)
}

// code is the gravest code: that something is hidden comes after all else.
func (f *findings) code() kernel.Code {
	code := kernel.Code("")
	for _, x := range f.faults {
		if code == "" || code == kernel.CodeEvidenceRedacted {
			code = x.code
		}
	}
	return code
}

// maxShownFaults is how many faults one line tells; the first ones matter.
const maxShownFaults = 3

func (f *findings) text() string {
	var parts []string
	for i, x := range f.faults {
		if i == maxShownFaults {
			parts = append(parts, fmt.Sprintf("And %d more.", len(f.faults)-i))
			break
		}
		if x.seq != NoSeq {
			parts = append(parts, fmt.Sprintf("Record %d: %s", x.seq, x.detail))
			continue
		}
		parts = append(parts, x.detail)
	}
	return strings.Join(parts, " ")
}

// first is the fault to be named: the earliest record, else the first file.
func first(faults []fault) *fault {
	var out *fault
	for i := range faults {
		x := &faults[i]
		switch {
		case x.seq == NoSeq && x.file == "":
		case out == nil, x.seq != NoSeq && (out.seq == NoSeq || x.seq < out.seq):
			out = x
		}
	}
	return out
}
