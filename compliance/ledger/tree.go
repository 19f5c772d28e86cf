package ledger

import (
	"crypto/sha256"

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
func leafOf(recordHash [sha256.Size]byte) tlog.Hash {
	var b [1 + sha256.Size]byte // RFC 6962: 0 before a leaf
	copy(b[1:], recordHash[:])
	return sha256.Sum256(b[:])
}

// parentOf is tlog.NodeHash without a hash object made for each.
func parentOf(left, right *tlog.Hash) tlog.Hash {
	b := [1 + 2*sha256.Size]byte{1} // RFC 6962: 1 before two children
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// add appends a leaf and writes the hashes that it completes to nodes: the
// leaf, then its parents upwards.
func (t *tree) add(leaf tlog.Hash, nodes []byte) []byte {
	return t.addComplete(0, leaf, nodes)
}

// addComplete is add for a complete subtree, where the tree has complete ones of its
// height only.
func (t *tree) addComplete(level int, h tlog.Hash, nodes []byte) []byte {
	grown := t.size + 1<<level
	nodes = append(nodes, h[:]...)
	for n := t.size >> level; n&1 == 1; n >>= 1 {
		h = parentOf(&t.edge[level], &h)
		nodes = append(nodes, h[:]...)
		level++
	}
	t.edge[level], t.size = h, grown
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
			h = parentOf(&t.edge[level], &h)
		}
	}
	if !some {
		return sha256.Sum256(nil) // RFC 6962, the empty tree
	}
	return h
}
