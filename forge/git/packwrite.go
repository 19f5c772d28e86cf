package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the pack format's own checksum, not a security measure
	"encoding/binary"
)

// Pack is a pack file, and how many objects it holds. The zero value is no
// pack, for commands that only delete or point at objects the server has.
type Pack struct {
	Data    []byte
	Objects int
}

// packHeader is the fixed start of a pack: magic, version 2, number of objects.
func packHeader(n int) []byte {
	b := append([]byte("PACK"), 0, 0, 0, 2)
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// appendEntryHeader appends type and inflated size as a pack has them.
func appendEntryHeader(b []byte, kind objType, size int) []byte {
	c := byte(kind)<<4 | byte(size&15)
	size >>= 4
	for size > 0 {
		b = append(b, c|0x80)
		c = byte(size & 0x7f)
		size >>= 7
	}
	return append(b, c)
}

// Pack returns the set as a pack that holds every object whole.
func (o *Objects) Pack() Pack {
	var b bytes.Buffer
	b.Write(packHeader(len(o.list)))
	// One compressor for all: making one costs more than a small object.
	z, _ := zlib.NewWriterLevel(&b, zlib.BestSpeed) // the level is valid
	for _, obj := range o.list {
		b.Write(appendEntryHeader(nil, obj.kind, len(obj.data)))
		z.Reset(&b)
		_, _ = z.Write(obj.data) // memory does not fail
		_ = z.Close()
	}
	sum := sha1.Sum(b.Bytes()) //nolint:gosec // see the import
	b.Write(sum[:])
	return Pack{Data: b.Bytes(), Objects: len(o.list)}
}
