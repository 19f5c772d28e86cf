package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/kernel"
)

// Proof shows that a record stands at Seq of the ledger that had Size records
// (an RFC 6962 audit path, from the leaf up, base64).
type Proof struct {
	Kind   string   `json:"kind"` // "inclusion_proof"
	World  string   `json:"world_id"`
	Seq    int64    `json:"seq"`
	Size   int64    `json:"size"`
	Hashes []string `json:"hashes"`
}

const kindProof = "inclusion_proof"

// maxProofHashes is the height of the largest tree.
const maxProofHashes = maxLevels

func (p Proof) path() (tlog.RecordProof, error) {
	if p.Kind != kindProof || len(p.Hashes) > maxProofHashes {
		return nil, fmt.Errorf("ledger: not an inclusion proof")
	}
	out := make(tlog.RecordProof, len(p.Hashes))
	for i, text := range p.Hashes {
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || copy(out[i][:], b) != len(out[i]) || len(b) != len(out[i]) {
			return nil, fmt.Errorf("ledger: hash %d of the proof of record %d can't be read", i, p.Seq)
		}
	}
	return out, nil
}

// VerifyInclusion reports whether the record with these exact bytes stands
// where its proof says, under a checkpoint signed by the key. It checks this
// record alone; the chain before it needs [VerifyLines]. names are those under which
// the key's instance writes; none: the key's own fingerprint.
func VerifyInclusion(raw []byte, p Proof, checkpoint []byte, key instancekey.Public, names ...string) error {
	r, err := DecodeRecord(raw)
	if err != nil {
		return err
	}
	cp, err := OpenCheckpoint(checkpoint, key)
	if err != nil {
		return err
	}
	path, err := p.path()
	if err != nil {
		return err
	}
	switch {
	case r.World != cp.World || p.World != cp.World:
		return corrupt(r.World, r.Seq, "record, proof and checkpoint are not of one world")
	case r.Instance != key.Fingerprint() && !slices.Contains(names, r.Instance):
		return corrupt(r.World, r.Seq, "the record is another instance's than the checkpoint's signer")
	case r.Seq != p.Seq || p.Size != cp.Size || p.Seq < 0 || p.Seq >= p.Size:
		return corrupt(r.World, r.Seq, "the proof is for another record or checkpoint")
	}
	if err := tlog.CheckRecord(path, cp.Size, cp.Root, r.Seq, leafOf(sha256.Sum256(raw))); err != nil {
		return corrupt(r.World, r.Seq, "the record does not stand in the ledger that the checkpoint signs")
	}
	return nil
}

// ProveRecord proves that record seq stands in the ledger of size records,
// which must have been stored.
func (l *Ledger) ProveRecord(ctx context.Context, seq, size int64) (Proof, error) {
	p := Proof{Kind: kindProof, World: l.world, Seq: seq, Size: size, Hashes: []string{}}
	err := l.withTree(ctx, size, func(r tlog.HashReader) error {
		if seq < 0 || seq >= size {
			return fmt.Errorf("there is no record %d among %d", seq, size)
		}
		path, err := tlog.ProveRecord(size, seq, r)
		for _, h := range path {
			p.Hashes = append(p.Hashes, h.String())
		}
		return err
	})
	return p, err
}

// Tree is the root of the ledger when it had size records.
func (l *Ledger) Tree(ctx context.Context, size int64) (root tlog.Hash, err error) {
	err = l.withTree(ctx, size, func(r tlog.HashReader) error {
		root, err = tlog.TreeHash(size, r)
		return err
	})
	return root, err
}

// ProveTree proves that the ledger of from records is the beginning of the one
// of size records; tlog.CheckTree checks it.
func (l *Ledger) ProveTree(ctx context.Context, from, size int64) (proof tlog.TreeProof, err error) {
	err = l.withTree(ctx, size, func(r tlog.HashReader) error {
		if from < 1 || from > size {
			return fmt.Errorf("a tree of %d is no beginning of one of %d", from, size)
		}
		proof, err = tlog.ProveTree(size, from, r)
		return err
	})
	return proof, err
}

// withTree gives f the stored hashes of a tree that is stored whole. f is called again
// where it needs one that isn't verified yet.
func (l *Ledger) withTree(ctx context.Context, size int64, f func(tlog.HashReader) error) error {
	err := l.tryTree(ctx, size, f)
	if errors.Is(err, errNotYet) {
		if err = l.past.wait(ctx); err == nil {
			err = l.tryTree(ctx, size, f)
		}
	}
	if errors.As(err, new(*segmentFault)) || errors.As(err, new(*absent)) {
		return readError(l.world, err)
	}
	if err != nil && CodeOf(err) == "" {
		return &Error{Code: kernel.CodeLedgerUnavailable, World: l.world, Seq: NoSeq, Detail: "no proof can be made", Err: err}
	}
	return err
}

func (l *Ledger) tryTree(ctx context.Context, size int64, f func(tlog.HashReader) error) error {
	return l.store.storage.view(ctx, func(s snapshot) error {
		w, ok, err := s.world(ctx, l.world)
		if err != nil {
			return err
		}
		if !ok || size < 0 || size > w.head.Seq+1 {
			return fmt.Errorf("the ledger never had %d records", size)
		}
		return f(nodeReader(l.past.node, func(level int, seq int64) (tlog.Hash, error) {
			if !l.past.vouched(seq) {
				return tlog.Hash{}, errNotYet
			}
			return s.node(ctx, w.id, seq, level)
		}))
	})
}

// nodeReader reads stored hashes: node gives one that a record completed, but for those
// that known has.
func nodeReader(known func(level int, seq int64) (tlog.Hash, bool), node func(level int, seq int64) (tlog.Hash, error)) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			level, n := tlog.SplitStoredHashIndex(index)
			seq := (n+1)<<level - 1 // the record that completed this subtree
			if h, ok := known(level, seq); ok {
				out[i] = h
				continue
			}
			h, err := node(level, seq)
			if err != nil {
				return nil, err
			}
			out[i] = h
		}
		return out, nil
	})
}
