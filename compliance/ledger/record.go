package ledger

import (
	"fmt"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// MaxRecordBytes is 4 MiB: a record holds decisions and digests, never the
// blobs, which lie beside it; what is larger is a mistake. It stays far below
// what the strict reader takes.
const MaxRecordBytes = 4 << 20

// EncodeRecord writes a record in the form that is hashed and stored, without a
// newline.
func EncodeRecord(r kernel.Record) ([]byte, error) {
	raw, err := canon.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("ledger: record %d: %w", r.Seq, err)
	}
	return raw, fits(r.Seq, raw)
}

// fits reports whether a record isn't larger than one may be.
func fits(seq int64, raw []byte) error {
	if len(raw) > MaxRecordBytes {
		return fmt.Errorf("ledger: record %d has %d bytes, over the limit of %d", seq, len(raw), MaxRecordBytes)
	}
	return nil
}

// DecodeRecord reads what [EncodeRecord] wrote and nothing else: other white
// space, order, members or escapes are errors. It doesn't look at the chain.
func DecodeRecord(raw []byte) (kernel.Record, error) {
	var r kernel.Record
	if len(raw) > MaxRecordBytes {
		return r, fmt.Errorf("ledger: a record of %d bytes is over the limit of %d", len(raw), MaxRecordBytes)
	}
	if err := canon.UnmarshalCanonical(raw, &r); err != nil {
		return kernel.Record{}, fmt.Errorf("ledger: %w", err)
	}
	if r.V != kernel.RecordVersion {
		return kernel.Record{}, fmt.Errorf("ledger: record version %d is not known; use a newer writ", r.V)
	}
	if _, ok := r.Kind.Class(); !ok {
		return kernel.Record{}, fmt.Errorf("ledger: record kind %q is not known", r.Kind)
	}
	return r, nil
}
