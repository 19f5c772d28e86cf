package replay

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

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
