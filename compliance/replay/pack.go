package replay

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Files of a state commit's tree. Trees hold evidence, never code.
const (
	FileSeedPack   = "seed_pack.json" // what was approved; in the claim too
	FileContract   = "contract.yaml"  // the governance contract; in the claim too
	FileDispatch   = "dispatch.json"  // the instruction, canonical JSON
	FileRecords    = "records.jsonl"  // the run's records, one a line
	FileProofs     = "proofs.json"    // inclusion proofs of the records
	FileCheckpoint = "checkpoint"     // signed note over the ledger's tree
	FileReport     = "report.json"    // the compliance report
	FileMarkdown   = "report.md"      // the same, for people
	FileRetry      = "retry.json"     // what the next dispatch ends with
	FileSealed     = sealed.File      // what the builder's work was sealed with before the checks
	FileRefresh    = "refresh.json"   // what came of applying a delivered result on another base, where that result stands
	FileMerge      = "merge.json"     // the merge that completed a result which waited for it
)

// known are the files that a state commit may have.
var known = map[string]bool{
	FileSeedPack: true, FileContract: true, FileDispatch: true, FileRecords: true, FileProofs: true,
	FileCheckpoint: true, FileReport: true, FileMarkdown: true, FileRetry: true, FileMerge: true, FileSealed: true, FileRefresh: true,
}

// Pack is the files of a state commit's tree, by name.
type Pack map[string][]byte

// Evidence is a part of a ledger with the proof that it is one.
type Evidence struct {
	Records    []byte // exact bytes, a newline after each
	Proofs     []byte // canonical JSON of [Proofs]
	Checkpoint []byte // signed note
}

// Proofs prove the first and the last record of every unbroken part of the
// records; what lies between is held by the chain.
type Proofs struct {
	Kind   string         `json:"kind"` // "proofs"
	Parts  []Part         `json:"parts"`
	Proofs []ledger.Proof `json:"proofs"` // by sequence: ends of parts, then the checkpoint's last record
}

// Part is an unbroken part of a ledger, by sequence; both ends belong to it.
type Part struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

const kindProofs = "proofs"

// maxRecordsBytes bounds the records of one pack, 16 MiB: thousands of requests.
const maxRecordsBytes = 16 << 20

// Collect takes the records of a task from a sequence on, with the receipts
// that settle them, and signs a checkpoint that covers them.
func Collect(ctx context.Context, l *ledger.Ledger, task, from int64) (Evidence, error) {
	var e Evidence
	var err error
	if e.Checkpoint, err = l.Checkpoint(ctx); err != nil {
		return e, err
	}
	size, err := sizeOf(e.Checkpoint)
	if err != nil {
		return e, err
	}
	p := Proofs{Kind: kindProofs, Parts: []Part{}, Proofs: []ledger.Proof{}}
	if e.Records, p.Parts, err = gather(ctx, l, task, from, size); err != nil {
		return e, err
	}
	for _, seq := range proven(p.Parts, size) {
		proof, err := l.ProveRecord(ctx, seq, size)
		if err != nil {
			return e, err
		}
		p.Proofs = append(p.Proofs, proof)
	}
	e.Proofs, err = canon.Marshal(p)
	return e, err
}

// gather reads the records and notes the parts that they form.
func gather(ctx context.Context, l *ledger.Ledger, task, from, size int64) ([]byte, []Part, error) {
	var buf bytes.Buffer
	parts := []Part{}
	if from >= size {
		return nil, parts, nil
	}
	for raw, err := range l.Lines(ctx, from, size-from) {
		if err != nil {
			return nil, nil, err
		}
		r, err := ledger.DecodeRecord(raw)
		if err != nil {
			return nil, nil, err
		}
		last := len(parts) - 1
		follows := last >= 0 && parts[last].Last == r.Seq-1
		switch {
		case r.Task != task && (!follows || r.Kind != kernel.KindReceipt):
			continue
		case follows:
			parts[last].Last = r.Seq
		default:
			parts = append(parts, Part{r.Seq, r.Seq})
		}
		buf.Write(raw)
		buf.WriteByte('\n')
		if buf.Len() > maxRecordsBytes {
			return nil, nil, fmt.Errorf("%s: the records are over %d bytes", kernel.CodeEvidenceTooLarge, maxRecordsBytes)
		}
	}
	return buf.Bytes(), parts, nil
}

// proven are the sequences that a pack has proofs of: the ends of its parts and
// the last record under the checkpoint.
func proven(parts []Part, size int64) []int64 {
	var out []int64
	add := func(seq int64) {
		if len(out) == 0 || out[len(out)-1] < seq {
			out = append(out, seq)
		}
	}
	for _, p := range parts {
		add(p.First)
		add(p.Last)
	}
	add(size - 1)
	return out
}

// sizeOf reads the number of records that our own checkpoint signs.
func sizeOf(checkpoint []byte) (int64, error) {
	lines := bytes.SplitN(checkpoint, []byte("\n"), 3)
	if len(lines) < 3 {
		return 0, fmt.Errorf("%s: the checkpoint can't be read back", kernel.CodeEvidenceInvalid)
	}
	return strconv.ParseInt(string(lines[1]), 10, 64)
}
