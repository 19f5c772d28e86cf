package git

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the pack format's own checksum, not a security measure
	"encoding/binary"
)

// packSum is the length of the checksum that ends a pack.
const packSum = sha1.Size

// AgainPack adds the objects of a pack that [Objects.Pack] made, to be pushed once more
// with others.
func (o *Objects) AgainPack(p []byte) error {
	end := len(p) - packSum
	if end < len(packHeader(0)) || !bytes.Equal(p[:8], packHeader(0)[:8]) {
		return badObject("it is no pack", nil)
	}
	if sum := sha1.Sum(p[:end]); !bytes.Equal(sum[:], p[end:]) { //nolint:gosec // as above
		return badObject("the pack's checksum is wrong", nil)
	}
	src := packSource{r: bytes.NewReader(p[:end]), size: int64(end), maxObject: DefaultMaxObject}
	off := len(packHeader(0))
	for range binary.BigEndian.Uint32(p[8:]) {
		h, err := src.head(int64(off))
		if err != nil {
			return err
		}
		if h.kind.isDelta() || h.data > int64(end) {
			return badObject("the pack isn't one of ours", nil)
		}
		r := bytes.NewReader(p[h.data:end])
		data, err := inflate(r, h.size)
		if err != nil {
			return err
		}
		o.add(h.kind, hashObject(h.kind, data), data)
		off = end - r.Len()
	}
	if off != end {
		return badObject("the pack holds more than it says", nil)
	}
	return nil
}

// Added is a commit of the set.
func (o *Objects) Added(oid OID) (Commit, error) {
	for _, one := range o.list {
		if one.oid == oid && one.kind == objCommit {
			return ParseCommit(one.data)
		}
	}
	return Commit{}, fail(CodeObjectMissing, "the commit "+string(oid)+" isn't there", "", nil)
}
