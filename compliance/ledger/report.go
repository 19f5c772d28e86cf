package ledger

import (
	"iter"
	"slices"

	"github.com/writbot/writ/kernel"
)

// Report is the outcome of a verification.
type Report struct {
	OK       bool        `json:"ok"`
	World    string      `json:"world_id"`
	Instance string      `json:"instance"`
	Records  int64       `json:"records"`   // records read before the first bad one
	FirstBad *int64      `json:"first_bad"` // its seq; null if no single record is at fault
	Code     kernel.Code `json:"code"`      // "" if OK
	Reason   string      `json:"reason"`    // a sentence; "" if OK
	Head     kernel.Head `json:"head"`      // of what was read
	Root     string      `json:"root"`      // of the same, base64
	// CheckpointSize is the size that the newest checked checkpoint signs, 0
	// for none.
	CheckpointSize int64 `json:"checkpoint_size"`
	// History is that of the last record read; 1 unless something was adopted.
	History int64 `json:"history"`
	// Adopted are the declared beginnings of the later histories, in order.
	Adopted []Adopted `json:"adopted"`
	// Rotated are the keys that took the place of the instance's first, in order.
	Rotated []Rotated `json:"rotated"`
	// Declared are those of the given checkpoints that the ledger doesn't fulfil
	// and declares abandoned.
	Declared []Checkpoint `json:"declared"`
	// Archived is how many first records are archived.
	Archived int64 `json:"archived"`
	// ArchiveMissing is the file of the first archived segment that isn't at hand; then
	// no archived record was read, and a mark that the instance signed stands for them.
	// "" if all are.
	ArchiveMissing string `json:"archive_missing"`
}

// Err is nil if the report is good, else an [*Error] with all it says.
func (r Report) Err() error {
	if r.OK {
		return nil
	}
	e := &Error{Code: r.Code, World: r.World, Seq: NoSeq, Detail: r.Reason}
	if r.FirstBad != nil {
		e.Seq = *r.FirstBad
	}
	return e
}

// Expect is what a verification must find, as far as the caller knows it.
type Expect struct {
	World      string       // "" takes the genesis' word
	Instance   string       // fingerprint; "" takes the genesis' word
	Head       *kernel.Head // the last record
	Checkpoint []byte       // from outside the store, signed
	Others     [][]byte     // further ones
}

// verification goes through a chain and remembers the first fault.
type verification struct {
	c       *checker
	want    Expect
	report  Report
	nodes   []byte   // scratch
	stored  []byte   // checkpoint that the store keeps
	stays   int64    // so many first records are in closed segments, which a checkpoint signed
	closed  [][]byte // given, of a key that the chain hasn't named yet
	signed  []Checkpoint
	unlike  []Checkpoint // of these the chain had another root, or history, at their size
	suspect *broken      // the link to the record just read is broken; the next decides
	tasks   []int64      // of the closed segment that is being read
	whole   bool         // it was read from its first record on
	// segmentEnds is called with each last record of a closed segment that is sound, if set.
	segmentEnds func(row)
	archive     *Mark // of what is archived; nil: nothing is, or it was passed
}

func newVerification(want Expect) *verification {
	v := &verification{want: want, report: Report{
		OK: true, World: want.World, Instance: want.Instance, Adopted: []Adopted{}, Rotated: []Rotated{}, Declared: []Checkpoint{},
	}}
	c, err := newChecker(want.World, want.Instance)
	if err != nil {
		v.fail(kernel.CodeLedgerCorrupt, NoSeq, err.Error())
	}
	v.c = c
	return v
}

func (v *verification) fail(code kernel.Code, seq int64, reason string) {
	v.report.OK, v.report.Code, v.report.Reason, v.report.FirstBad = false, code, reason, nil
	if seq != NoSeq {
		v.report.FirstBad = &seq
	}
}

// VerifyLines verifies a whole chain from its records' bytes, without a store:
// all that [Ledger.Verify] does but for the store's own columns. A changed byte
// of the last record shows only against want.Head or want.Checkpoint.
func VerifyLines(lines iter.Seq[[]byte], want Expect) Report {
	v := newVerification(want)
	for raw := range lines {
		if !v.report.OK {
			break
		}
		v.line(raw)
	}
	return v.finish()
}

// line takes the next record's bytes.
func (v *verification) line(raw []byte) {
	if v.suspect != nil {
		v.decide(raw)
		return
	}
	seq := v.c.tree.size
	e, nodes, err := v.c.add(raw, v.nodes[:0])
	v.nodes = nodes
	b, isBroken := asBroken(err)
	switch {
	case isBroken && b.link && seq > 0:
		v.suspect = b
	case isBroken && b.twice:
		v.fail(kernel.CodeLedgerCorrupt, seq-1, "it stands there twice")
	case isBroken:
		v.fail(kernel.CodeLedgerCorrupt, seq, b.reason)
	default:
		v.passed(e)
	}
}

// decide settles a suspect by the record after it: if that names the suspect's hash, the
// suspect is as it was written, and the one before it was changed.
func (v *verification) decide(raw []byte) {
	e, err := v.c.read(raw)
	v.blame(v.c.tree.size-1, err == nil && e.link)
}

// blame settles a broken link at seq.
func (v *verification) blame(seq int64, intact bool) {
	reason := v.suspect.reason
	if v.suspect = nil; intact {
		seq--
		reason = "it was changed: its hash is not the one that the record after it names"
	}
	v.fail(kernel.CodeLedgerCorrupt, seq, reason)
}

// passed goes on after a good record: the genesis brings the key, some records
// are the last of a checkpoint.
func (v *verification) passed(e envelope) {
	switch e.kind {
	case kernel.KindGenesis:
		v.report.World, v.report.Instance = v.c.genesis.World, v.c.key().Fingerprint()
		v.closed = v.given()
		v.openCheckpoints()
	case kernel.KindKeyRotation:
		v.openCheckpoints()
	}
	v.report.Records = v.c.tree.size
	v.standAt()
	v.meetArchive()
}

// meetArchive holds the archived records that were read against the mark that stands for
// them otherwise.
func (v *verification) meetArchive() {
	if v.archive == nil || v.c.tree.size != v.archive.Size() {
		return
	}
	if c, err := v.archive.checker(); err != nil || c.tree.root() != v.c.tree.root() || c.hash != v.c.hash {
		v.fail(kernel.CodeLedgerCorrupt, v.c.tree.size-1, "the archived records are not those that were signed for")
	}
	v.archive = nil
}

// standAt compares the tree as it stands with the checkpoints of its size.
func (v *verification) standAt() {
	for _, cp := range v.signed {
		if cp.Size == v.c.tree.size && (cp.History != v.c.history() || cp.Root != v.c.tree.root()) {
			v.unlike = append(v.unlike, cp)
		}
	}
}

// openCheckpoints opens those that are of a key which the chain has named by now.
func (v *verification) openCheckpoints() {
	var still [][]byte
	for _, signed := range v.closed {
		cp, err := v.c.open(signed)
		if err != nil {
			still = append(still, signed)
			continue
		}
		v.signed = append(v.signed, cp)
	}
	v.closed = still
}

// matchKeys looks at the checkpoints once all keys are known: each must be of one
// of them, at a size that this key signs, and of this world.
func (v *verification) matchKeys() {
	for _, signed := range v.given() {
		cp, err := v.c.open(signed)
		if err == nil && cp.World != v.report.World {
			err = corrupt(v.report.World, NoSeq, "the checkpoint is of another world")
		}
		if err != nil {
			v.fail(kernel.CodeLedgerCorrupt, NoSeq, err.Error())
			return
		}
	}
}

// finish looks at what only the end can show.
func (v *verification) finish() Report {
	if v.report.OK && v.suspect != nil {
		last := v.c.tree.size - 1
		v.blame(last, v.want.Head != nil && *v.want.Head == v.c.head())
	}
	if v.report.OK && v.c.tree.size == 0 && len(v.given()) > 0 {
		v.fail(kernel.CodeLedgerRollback, 0, "there is no record, yet a checkpoint signs some")
	}
	if v.report.OK && v.c.tree.size > 0 {
		v.matchKeys()
	}
	v.matchCheckpoints()
	if v.report.OK {
		v.matchHead()
	}
	if v.c != nil {
		v.report.Head = v.c.head()
		v.report.Root = v.c.tree.root().String()
		v.report.History, v.report.Adopted = v.c.history(), append(v.report.Adopted, v.c.adopted...)
		v.report.Rotated = v.c.rotations()
	}
	return v.report
}

// Rotations are the keys that took the place of the first, in order.
func (c *checker) rotations() []Rotated {
	if len(c.keys) < 2 {
		return []Rotated{}
	}
	return slices.Clone(c.keys[1:])
}

// given are the checkpoints to hold the chain against, the stored one first.
func (v *verification) given() (out [][]byte) {
	for _, signed := range append([][]byte{v.stored, v.want.Checkpoint}, v.want.Others...) {
		if len(signed) > 0 {
			out = append(out, signed)
		}
	}
	return out
}

// matchCheckpoints holds the chain against the checkpoints. One that it doesn't
// fulfil must be declared abandoned by a record of it (case R2). A contradicted
// one counts before whatever else is wrong: a ledger that was replaced isn't
// just damaged.
func (v *verification) matchCheckpoints() {
	for _, cp := range v.signed {
		unlike, missing := slices.Contains(v.unlike, cp), cp.Size > v.c.tree.size
		switch {
		case (unlike || missing) && declared(v.c.adopted, cp):
			v.report.Declared = append(v.report.Declared, cp)
			continue
		case unlike:
			v.fail(kernel.CodeLedgerRollback, NoSeq, "the first records are not those that the checkpoint signs: the ledger was replaced")
		case missing && v.report.OK:
			v.fail(kernel.CodeLedgerRollback, v.c.tree.size, "it is missing: a checkpoint signs more records than there are")
		}
		v.report.CheckpointSize = max(v.report.CheckpointSize, cp.Size)
	}
}

func (v *verification) matchHead() {
	if v.want.Head == nil {
		return
	}
	have, want := v.c.head(), *v.want.Head
	switch {
	case have == want:
	case have.Seq < want.Seq:
		v.fail(kernel.CodeLedgerCorrupt, have.Seq+1, "it is missing: the head is a later record")
	case have.Seq > want.Seq:
		v.fail(kernel.CodeLedgerCorrupt, want.Seq+1, "it stands after the head")
	default:
		v.fail(kernel.CodeLedgerCorrupt, have.Seq, "its hash is not the head's")
	}
}
