package git

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// maxDeltaChain bounds a chain of deltas; git itself makes at most 50, 250 with
// --aggressive, 4095 by its format.
const maxDeltaChain = 4096

func badObject(why string, cause error) error {
	return fail(CodeObjectInvalid, "an object can't be read: "+why, "run git fsck in the repository", cause)
}

func tooLarge(what string, limit int64) error {
	return fail(CodeTooLarge, what+" is larger than the limit of "+strconv.FormatInt(limit, 10)+" bytes",
		"raise the limit if this is right", nil)
}

// inflaters are kept for reuse: a zlib reader is 40 KiB of tables.
var inflaters = sync.Pool{New: func() any { return &inflater{buf: bufio.NewReaderSize(nil, 4096)} }}

type inflater struct {
	buf *bufio.Reader
	z   io.ReadCloser
}

// open begins a stream. It reads no further than the stream's end where r reads
// byte by byte.
func (f *inflater) open(r io.Reader) error {
	br, ok := r.(interface {
		io.Reader
		io.ByteReader
	})
	if !ok {
		f.buf.Reset(r)
		br = f.buf
	}
	var err error
	if f.z == nil {
		f.z, err = zlib.NewReader(br)
	} else {
		err = f.z.(zlib.Resetter).Reset(br, nil)
	}
	if err != nil {
		return badObject("its compression is broken", err)
	}
	return nil
}

// inflate reads exactly size bytes of a zlib stream, and says how many bytes of
// r were used if r counts them.
func inflate(r io.Reader, size int64) ([]byte, error) {
	f := inflaters.Get().(*inflater)
	defer inflaters.Put(f)
	if err := f.open(r); err != nil {
		return nil, err
	}
	out := make([]byte, size)
	if _, err := io.ReadFull(f.z, out); err != nil {
		return nil, badObject("it is cut short", err)
	}
	// The stream must end here; reading its end checks the checksum.
	if n, err := f.z.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return nil, badObject("it is longer than it says", err)
	}
	return out, nil
}

// packSource reads objects of one pack.
type packSource struct {
	r         io.ReaderAt
	size      int64
	maxObject int64
	byID      func(OID) (int64, bool)            // the offset of an object in this pack
	outside   func(OID) (objType, []byte, error) // a delta's base outside this pack; may be nil
	cache     map[int64]rawObject                // bases of deltas, filled by at
	cached    int64
}

// maxBaseCache bounds what a packSource keeps of delta bases, in bytes.
const maxBaseCache = 32 << 20

// entryHead is the head of one entry.
type entryHead struct {
	kind objType
	size int64
	data int64 // offset of the compressed data
	base int64 // of an offset delta
	ref  OID   // of a reference delta
}

// maxEntryHead is more than the longest head: size, and offset or id.
const maxEntryHead = 10 + 20

func (p *packSource) head(off int64) (entryHead, error) {
	var buf [maxEntryHead]byte
	n, err := p.r.ReadAt(buf[:], off)
	if n == 0 {
		return entryHead{}, badObject("the pack is cut short", err)
	}
	b := buf[:n]
	h := entryHead{kind: objType(b[0] >> 4 & 7), size: int64(b[0] & 15)}
	i, shift := 1, 4
	for b[i-1]&0x80 != 0 {
		if i >= n || shift > 56 {
			return h, badObject("its size is malformed", nil)
		}
		h.size |= int64(b[i]&0x7f) << shift
		shift += 7
		i++
	}
	switch h.kind {
	case objCommit, objTree, objBlob, objTag:
	case objOfsDelta:
		rel, k := ofsDelta(b[i:])
		if k == 0 || rel <= 0 || rel >= off {
			return h, badObject("its delta base is malformed", nil)
		}
		h.base, i = off-rel, i+k
	case objRefDelta:
		if n < i+oidLen/2 {
			return h, badObject("its delta base is malformed", nil)
		}
		h.ref, i = OID(hex.EncodeToString(b[i:i+oidLen/2])), i+oidLen/2
	default:
		return h, badObject("its type is unknown", nil)
	}
	if h.size > p.maxObject {
		return h, tooLarge("an object", p.maxObject)
	}
	h.data = off + int64(i)
	return h, nil
}

// ofsDelta reads the offset of a delta's base; the second result is its length.
func ofsDelta(b []byte) (int64, int) {
	var v int64
	for i, c := range b {
		if i > 8 {
			break
		}
		v |= int64(c & 0x7f)
		if c&0x80 == 0 {
			return v, i + 1
		}
		v = (v + 1) << 7
	}
	return 0, 0
}

// at returns the object at an offset, its deltas resolved.
func (p *packSource) at(off int64) (objType, []byte, error) { return p.resolve(off, 0) }

func (p *packSource) resolve(off int64, depth int) (objType, []byte, error) {
	if o, ok := p.cache[off]; ok {
		return o.kind, o.data, nil
	}
	if depth > maxDeltaChain {
		return 0, nil, badObject("its chain of deltas is too long", nil)
	}
	h, err := p.head(off)
	if err != nil {
		return 0, nil, err
	}
	data, err := inflate(io.NewSectionReader(p.r, h.data, p.size-h.data), h.size)
	if err != nil {
		return 0, nil, err
	}
	if h.kind != objOfsDelta && h.kind != objRefDelta {
		return h.kind, data, nil
	}
	kind, base, err := p.base(h, depth)
	if err != nil {
		return 0, nil, err
	}
	if err := checkDeltaSize(data, p.maxObject); err != nil {
		return 0, nil, err
	}
	out, err := packfile.PatchDelta(base, data)
	if err != nil {
		return 0, nil, badObject("its delta does not apply", err)
	}
	return kind, out, nil
}

func (p *packSource) base(h entryHead, depth int) (objType, []byte, error) {
	off := h.base
	if h.kind == objRefDelta {
		var ok bool
		if off, ok = p.byID(h.ref); !ok {
			if p.outside == nil {
				return 0, nil, badObject("its delta base is missing", nil)
			}
			return p.outside(h.ref)
		}
	}
	kind, data, err := p.resolve(off, depth+1)
	if err != nil {
		return 0, nil, err
	}
	if p.cache == nil || p.cached > maxBaseCache {
		p.cache, p.cached = map[int64]rawObject{}, 0
	}
	if _, ok := p.cache[off]; !ok {
		p.cache[off] = rawObject{kind: kind, data: data}
		p.cached += int64(len(data))
	}
	return kind, data, nil
}

// checkDeltaSize reads the size that a delta expands to before expanding it: a
// few bytes may stand for gigabytes.
func checkDeltaSize(delta []byte, limit int64) error {
	_, n := binary.Uvarint(delta)
	if n <= 0 {
		return badObject("its delta is malformed", nil)
	}
	size, n := binary.Uvarint(delta[n:])
	if n <= 0 {
		return badObject("its delta is malformed", nil)
	}
	if size > uint64(limit) {
		return tooLarge("an object", limit)
	}
	return nil
}

// unpack calls f for each object of a received pack. r is read twice: once to
// find the entries, once to resolve them.
func unpack(r io.ReaderAt, size int64, l Limits, outside func(OID) (objType, []byte, error), f func(rawObject) error) error {
	src := &packSource{r: r, size: size, maxObject: l.Object, outside: outside}
	ids := map[OID]int64{}
	src.byID = func(o OID) (int64, bool) { off, ok := ids[o]; return off, ok }
	offsets, err := src.offsets()
	if err != nil {
		return err
	}
	// Whole objects first, so that reference deltas find their bases.
	var waiting []int64
	for _, off := range offsets {
		h, err := src.head(off)
		if err != nil {
			return err
		}
		if h.kind == objRefDelta || h.kind == objOfsDelta {
			waiting = append(waiting, off)
			continue
		}
		if err := src.emit(off, ids, f); err != nil {
			return err
		}
	}
	return src.emitWaiting(waiting, ids, f)
}

// emitWaiting resolves deltas until no more can be.
func (p *packSource) emitWaiting(waiting []int64, ids map[OID]int64, f func(rawObject) error) error {
	for len(waiting) > 0 {
		var still []int64
		var last error
		for _, off := range waiting {
			if last = p.emit(off, ids, f); last != nil {
				still = append(still, off)
			}
		}
		if len(still) == len(waiting) {
			return last
		}
		waiting = still
	}
	return nil
}

func (p *packSource) emit(off int64, ids map[OID]int64, f func(rawObject) error) error {
	kind, data, err := p.at(off)
	if err != nil {
		return err
	}
	oid := hashObject(kind, data)
	ids[oid] = off
	return f(rawObject{oid, kind, data})
}

// offsets finds where each entry begins.
func (p *packSource) offsets() ([]int64, error) {
	var head [12]byte
	if _, err := p.r.ReadAt(head[:], 0); err != nil || !bytes.Equal(head[:8], packHeader(0)[:8]) {
		return nil, badObject("this is no pack", err)
	}
	n := binary.BigEndian.Uint32(head[8:])
	if int64(n) > p.size { // an entry takes more than a byte
		return nil, badObject("the pack promises more than it holds", nil)
	}
	out := make([]int64, 0, min(n, 1<<16))
	off := int64(len(head))
	for range n {
		h, err := p.head(off)
		if err != nil {
			return nil, err
		}
		out = append(out, off)
		c := &countReader{r: bufio.NewReaderSize(io.NewSectionReader(p.r, h.data, p.size-h.data), 4096)}
		if _, err := inflate(c, h.size); err != nil {
			return nil, err
		}
		off = h.data + c.n
	}
	return out, nil
}

// countReader counts what is read through it, byte by byte where asked so.
type countReader struct {
	r *bufio.Reader
	n int64
}

func (c *countReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

func (c *countReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}
