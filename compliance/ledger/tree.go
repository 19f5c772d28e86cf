package ledger

import (
	"crypto/sha256"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// maxLevels bounds the height of a tree: sequences are below 2^53.
const maxLevels = 53

// tree is the right edge of a Merkle tree: all that is needed to add leaves and
// to know the root. A copy is independent.
type tree struct {
	size int64
	edge [maxLevels]tlog.Hash // edge[l] is the last complete subtree of 2^l leaves
}

// leafOf is the leaf of a record: the tree's data are the record's hash.
func leafOf(recordHash [sha256.Size]byte) tlog.Hash { return tlog.RecordHash(recordHash[:]) }

// add appends a leaf and writes the hashes that it completes to nodes: the
// leaf, then its parents upwards.
func (t *tree) add(leaf tlog.Hash, nodes []byte) []byte {
	h, level := leaf, 0
	nodes = append(nodes, h[:]...)
	for n := t.size; n&1 == 1; n >>= 1 {
		h = tlog.NodeHash(t.edge[level], h)
		nodes = append(nodes, h[:]...)
		level++
	}
	t.edge[level] = h
	t.size++
	return nodes
}

// root is the hash of the tree as it stands.
func (t *tree) root() tlog.Hash {
	var h tlog.Hash
	some := false
	for level := range maxLevels {
		switch {
		case t.size>>level&1 == 0:
		case !some:
			h, some = t.edge[level], true
		default:
			h = tlog.NodeHash(t.edge[level], h)
		}
	}
	if !some {
		return sha256.Sum256(nil) // RFC 6962, the empty tree
	}
	return h
}

// nodeReader reads stored hashes: nodes gives what is kept with one record.
func nodeReader(nodes func(seq int64) ([]byte, error)) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			level, n := tlog.SplitStoredHashIndex(index)
			seq := (n+1)<<level - 1 // the record that completed this subtree
			stored, err := nodes(seq)
			if err != nil {
				return nil, err
			}
			if len(stored) < (level+1)*tlog.HashSize {
				return nil, fmt.Errorf("the tree hashes kept with record %d are too few", seq)
			}
			copy(out[i][:], stored[level*tlog.HashSize:])
		}
		return out, nil
	})
}
