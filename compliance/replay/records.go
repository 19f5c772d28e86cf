package replay

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"golang.org/x/mod/sumdb/tlog"
)

// line is one line of records.jsonl, at the place where the proofs put it.
type line struct {
	raw   []byte
	seq   int64 // where it stands; NoSeq behind the last part
	first bool  // begins a part
	last  bool  // ends a part
	rec   kernel.Record
	err   error // it is no record
	proof error // of its inclusion; nil where it has no proof
	hash  canon.Digest
}

// record is a record that could be read.
type record struct {
	kernel.Record
	hash canon.Digest // of the record
}

// placed says whether the line is the record of its place.
func (l line) placed() bool { return l.err == nil && l.rec.Seq == l.seq }

// readLines splits the records, gives each line its place and reads it, up to the
// first that is no record.
func (v *verifier) readLines() {
	data := v.pack[FileRecords]
	if len(data) > maxRecordsBytes {
		return
	}
	next := v.places()
	for raw := range bytes.Lines(data) {
		l := line{raw: bytes.TrimSuffix(raw, []byte("\n"))}
		l.hash = canon.Sum(l.raw)
		l.rec, l.err = ledger.DecodeRecord(l.raw)
		if len(l.raw) == len(raw) {
			l.err = fmt.Errorf("the newline after it is missing")
		}
		next(&l)
		v.proveLine(&l)
		v.lines = append(v.lines, l)
		if l.err != nil {
			return // what follows can't be placed
		}
		v.records = append(v.records, record{l.rec, l.hash})
	}
}

// places gives out the sequences of the parts, in order. Without readable
// proofs each line stands where it says.
func (v *verifier) places() func(*line) {
	if v.proofs == nil {
		return func(l *line) { l.seq = l.rec.Seq }
	}
	parts := v.proofs.Parts
	var at int64
	begin := true
	return func(l *line) {
		if len(parts) == 0 {
			l.seq = NoSeq
			return
		}
		if l.first = begin; begin {
			at = parts[0].First
		}
		l.seq = at
		if l.last = at >= parts[0].Last; l.last {
			parts = parts[1:]
		}
		at, begin = at+1, l.last
	}
}

// checkRecords follows the chain and names the first record that doesn't fit.
func (v *verifier) checkRecords(f *findings) string {
	if v.redacted() {
		f.add(kernel.CodeEvidenceRedacted, FileRecords, NoSeq, "The records are kept as hashes only.")
		return ""
	}
	if len(v.lines) == 0 {
		f.file(FileRecords, "There are no records, or more than %d bytes of them.", maxRecordsBytes)
		return ""
	}
	if v.checkPlaces(f) {
		v.checkEnd(f)
	}
	v.checkLinks(f)
	v.checkEnvelopes(f)
	return fmt.Sprintf("%s, from %d to %d, in %s, each of which is one chain.",
		report.Counted(len(v.lines), "record"), v.lines[0].seq, v.lines[len(v.lines)-1].seq, report.Counted(len(v.partsOf()), "unbroken part"))
}

func (v *verifier) partsOf() []Part {
	if v.proofs == nil {
		return nil
	}
	return v.proofs.Parts
}

// checkPlaces reads the lines up to the first that isn't where it belongs;
// whatever follows it is out of place, too. It reports whether all are.
func (v *verifier) checkPlaces(f *findings) bool {
	for i, l := range v.lines {
		switch {
		case l.err != nil:
			f.record(v.seqNear(i), "It can't be read: %v. What follows it wasn't looked at.", l.err)
			return false
		case l.seq == NoSeq:
			f.record(l.rec.Seq, "It stands behind the last record that there is a proof of.")
			return false
		case l.rec.Seq > l.seq:
			f.record(l.seq, "It is missing: record %d is in its place.", l.rec.Seq)
			return false
		case l.rec.Seq < l.seq && v.before(i):
			f.record(l.rec.Seq, "It stands there again, in the place of record %d.", l.seq)
			return false
		case l.rec.Seq < l.seq:
			f.record(l.seq, "It is missing: what is in its place says that it is record %d.", l.rec.Seq)
			return false
		}
	}
	return true
}

// before reports whether line i stands among those before it, byte for byte.
func (v *verifier) before(i int) bool {
	return slices.ContainsFunc(v.lines[:i], func(l line) bool { return l.hash == v.lines[i].hash })
}

// seqNear is the place of a line; without proofs, of the one after its
// predecessor.
func (v *verifier) seqNear(i int) int64 {
	switch {
	case v.proofs != nil && v.lines[i].seq != NoSeq:
		return v.lines[i].seq
	case i > 0:
		return v.lines[i-1].seq + 1
	}
	return 0
}

// checkEnd: all parts are there to their ends.
func (v *verifier) checkEnd(f *findings) {
	n := len(v.lines)
	at := 0
	for _, p := range v.partsOf() {
		size := int(min(p.Last-p.First+1, maxRecordsBytes))
		if size < 1 {
			f.file(FileProofs, "A part that begins with record %d ends with %d.", p.First, p.Last)
			return
		}
		if at+size > n {
			f.record(p.First+int64(n-at), "It is missing: the records end before it.")
			return
		}
		at += size
	}
}

// checkLinks compares each record with the hash that the next one names. Where
// they differ, either may be the bad one: the next is as it was written if the
// one after it, or its proof, says so.
func (v *verifier) checkLinks(f *findings) {
	for i, l := range v.lines {
		if l.proof != nil && l.placed() && !v.named(i) {
			f.record(l.seq, "It is not the record that the checkpoint signs.")
		}
		if i == 0 || !v.joined(i) || v.lines[i-1].hash == l.rec.Prev {
			continue
		}
		if v.named(i) || l.last && l.proof == nil && v.proofs != nil && v.signed != nil {
			f.record(l.seq-1, "It was changed: its hash is not the one that the record after it names.")
		} else {
			f.record(l.seq, "It does not name the hash of the record before it.")
		}
	}
}

// joined reports whether lines i-1 and i are neighbours in the ledger.
func (v *verifier) joined(i int) bool {
	a, b := v.lines[i-1], v.lines[i]
	return a.placed() && b.placed() && a.seq+1 == b.seq
}

// named reports whether the record after line i names its hash, or HEAD does.
func (v *verifier) named(i int) bool {
	if string(v.lines[i].hash) == v.said(kernel.TrailerLedgerHead) {
		return true
	}
	return i+1 < len(v.lines) && v.joined(i+1) && v.lines[i].hash == v.lines[i+1].rec.Prev
}

// checkEnvelopes: one world, one instance, one task, and time that doesn't go
// back. Receipts settle rounds of the whole world and bear no task.
func (v *verifier) checkEnvelopes(f *findings) {
	var last int64
	for _, r := range v.records {
		switch {
		case v.signed != nil && r.World != v.signed.World:
			f.record(r.Seq, "It is of world %q, the checkpoint of %q.", r.World, v.signed.World)
		case !v.here(r.World):
			f.record(r.Seq, "It is of world %q, not of %q.", r.World, v.opts.World)
		case !v.instance(r.Instance):
			f.record(r.Seq, "It is of instance %s, HEAD is signed by %s.", r.Instance, v.signer)
		case r.Task != v.head.Task && (r.Task != 0 || r.Kind != kernel.KindReceipt):
			f.record(r.Seq, "It is of task %d, not %d.", r.Task, v.head.Task)
		case !v.ofThisRun(r):
			f.record(r.Seq, "It is of run %q, the evidence of run %s.", r.Run, v.claim.RunID)
		case kindOf(r.Body) != r.Kind:
			f.record(r.Seq, "Its body says that it is a %q, the record a %s.", kindOf(r.Body), r.Kind)
		case r.Time < last:
			f.record(r.Seq, "Its time goes back.")
		}
		last = r.Time
	}
}

// instance reports whether a name is one of them.
func (v *verifier) instance(name string) bool { return slices.Contains(v.instances(), name) }

// ofThisRun reports whether a record is of the run, or of the one whose work it went on
// with. What an earlier run's effect came to may be told late.
func (v *verifier) ofThisRun(r record) bool {
	return v.claim == nil || r.Kind == kernel.KindOutcome || r.Run == "" || r.Run == v.claim.RunID || r.Run == v.dispatched()
}

// kindOf is what a body says that it is.
func kindOf(body []byte) kernel.Kind {
	var b struct {
		Kind kernel.Kind `json:"kind"`
	}
	_ = json.Unmarshal(body, &b) // one that can't be read is of no kind
	return b.Kind
}

// of are the records of one kind, in order.
func (v *verifier) of(kind kernel.Kind) []record {
	var out []record
	for _, r := range v.records {
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	return out
}

// body is a decoded body with its record's sequence.
type body[T any] struct {
	seq  int64
	body T
}

// one decodes the only record of a kind; anything else is a fault.
func one[T any](v *verifier, f *findings, kind kernel.Kind) *body[T] {
	list := v.of(kind)
	if len(list) == 0 {
		f.file(FileRecords, "There is no %s record.", kind)
		return nil
	}
	if len(list) > 1 {
		f.record(list[1].Seq, "It is a second %s of one run.", kind)
	}
	return read[T](f, list[0])
}

// read decodes a body strictly.
func read[T any](f *findings, r record) *body[T] {
	b, err := decoded[T](r.Body)
	if err != nil {
		f.record(r.Seq, "The body of the %s can't be read: %v.", r.Kind, err)
		return nil
	}
	return &body[T]{r.Seq, *b}
}

// readProofs opens the checkpoint with the signer's key and takes the proofs if
// they are what a pack must have against it. Others give no line its place.
func (v *verifier) readProofs() {
	if v.key == nil {
		v.signedErr = errors.New("the signer is not known")
	} else if cp, err := ledger.OpenCheckpoint(v.pack[FileCheckpoint], *v.key); err != nil {
		v.signedErr = err
	} else {
		v.signed = &cp
	}
	p, err := decoded[Proofs](v.pack[FileProofs])
	if err == nil && v.signed != nil {
		err = fitting(*p, *v.signed)
	}
	if err != nil {
		v.proofsErr = err
		return
	}
	v.proofs = p
}

// fitting: the parts are in order, and there are proofs of what must be proved,
// in order, and no others.
func fitting(p Proofs, cp ledger.Checkpoint) error {
	if p.Kind != kindProofs || len(p.Parts) == 0 {
		return errors.New("they are no proofs of records")
	}
	last := int64(NoSeq)
	for _, part := range p.Parts {
		if part.First <= last || part.Last < part.First || part.Last >= cp.Size {
			return fmt.Errorf("the part from record %d to %d is out of order", part.First, part.Last)
		}
		last = part.Last
	}
	have := make([]int64, 0, len(p.Proofs))
	for _, x := range p.Proofs {
		have = append(have, x.Seq)
		if x.World != cp.World || x.Size != cp.Size {
			return fmt.Errorf("the proof of record %d is against another checkpoint", x.Seq)
		}
	}
	if want := proven(p.Parts, cp.Size); !slices.Equal(have, want) {
		return fmt.Errorf("there are proofs of records %v, where %v are to be proved", have, want)
	}
	return nil
}

// proveLine checks the proof of a record that ends a part.
func (v *verifier) proveLine(l *line) {
	if v.proofs == nil || v.signed == nil || !l.first && !l.last || !l.placed() {
		return
	}
	l.proof = ledger.VerifyInclusion(l.raw, v.proofOf(l.seq), v.pack[FileCheckpoint], *v.key, v.instances()...)
}

// proofOf finds a proof; that there is one, was checked when they were read.
func (v *verifier) proofOf(seq int64) ledger.Proof {
	i := slices.IndexFunc(v.proofs.Proofs, func(p ledger.Proof) bool { return p.Seq == seq })
	if i < 0 {
		return ledger.Proof{}
	}
	return v.proofs.Proofs[i]
}

// checkProofs holds the ends of the records, and the head that the commit
// names, against the checkpoint.
func (v *verifier) checkProofs(f *findings) string {
	if v.signed == nil {
		f.file(FileCheckpoint, "The checkpoint can't be used: %v.", v.signedErr)
		return ""
	}
	if v.proofs == nil {
		f.file(FileProofs, "The proofs can't be used: %v.", v.proofsErr)
		return ""
	}
	for _, l := range v.lines {
		if l.proof != nil {
			f.add(kernel.CodeEvidenceInvalid, FileProofs, l.seq, "Its proof does not verify: %v.", l.proof)
		}
	}
	v.checkLedgerHead(f, *v.signed)
	text := fmt.Sprintf("What is proved (%s) holds against a checkpoint of %s, signed by %s.",
		report.Counted(len(v.proofs.Proofs), "proof"), report.Counted(v.signed.Size, "record"), v.signer)
	if v.signed.History > 1 {
		text += fmt.Sprintf(" That ledger went on from an older store and says so: this is its history %d.", v.signed.History)
	}
	return text
}

// checkLedgerHead: the hash that the commit names is the last one under the
// checkpoint. A leaf is made of a record's hash, so the record isn't needed.
func (v *verifier) checkLedgerHead(f *findings, cp ledger.Checkpoint) {
	sum, err := canon.Digest(v.said(kernel.TrailerLedgerHead)).Bytes()
	if err != nil {
		f.file("", "HEAD has no %s that can be read.", kernel.TrailerLedgerHead)
		return
	}
	path, err := pathOf(v.proofOf(cp.Size - 1))
	if err == nil {
		err = tlog.CheckRecord(path, cp.Size, cp.Root, cp.Size-1, tlog.RecordHash(sum[:]))
	}
	if err != nil {
		f.add(kernel.CodeEvidenceInvalid, FileProofs, cp.Size-1, "The checkpoint does not end with the record that HEAD names, %s.", v.said(kernel.TrailerLedgerHead))
	}
}

func pathOf(p ledger.Proof) (tlog.RecordProof, error) {
	var out tlog.RecordProof
	for _, text := range p.Hashes {
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(b) != tlog.HashSize {
			return nil, errors.New("a hash of the proof can't be read")
		}
		out = append(out, tlog.Hash(b))
	}
	return out, nil
}
