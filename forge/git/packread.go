package git

import (
	"bufio"
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

// inflate reads exactly size bytes of a zlib stream.
func inflate(r io.Reader, size int64) ([]byte, error) {
	out := make([]byte, size)
	return out, inflateTo(r, func(z io.Reader) error {
		_, err := io.ReadFull(z, out)
		return err
	})
}

// inflateTo opens a zlib stream for take, which must read all of it.
func inflateTo(r io.Reader, take func(z io.Reader) error) error {
	f := inflaters.Get().(*inflater)
	defer inflaters.Put(f)
	if err := f.open(r); err != nil {
		return err
	}
	if err := take(f.z); err != nil {
		return badObject("it is cut short", err)
	}
	// The stream must end here; reading its end checks the checksum.
	if n, err := f.z.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return badObject("it is longer than it says", err)
	}
	return nil
}

// packSource reads objects of one pack.
type packSource struct {
	r         io.ReaderAt
	size      int64
	maxObject int64
	byID      func(OID) (int64, bool)            // the offset of an object in this pack
	outside   func(OID) (objType, []byte, error) // a delta's base outside this pack; may be nil
	spend     func(int64) error                  // is told of bytes before they are made; may be nil
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

// inflate returns the bytes of an entry: an object, or a delta.
func (p *packSource) inflate(h entryHead) ([]byte, error) {
	if err := p.pay(h.size); err != nil {
		return nil, err
	}
	return inflate(io.NewSectionReader(p.r, h.data, p.size-h.data), h.size)
}

func (p *packSource) pay(n int64) error {
	if p.spend == nil {
		return nil
	}
	return p.spend(n)
}

// at returns the object at an offset, its deltas resolved. It goes down to the
// chain's base and then up, so that only one object of it is held at a time.
func (p *packSource) at(off int64) (objType, []byte, error) {
	var chain []link
	for {
		if o, ok := p.cache[off]; ok {
			return p.climb(chain, o)
		}
		h, err := p.head(off)
		if err != nil {
			return 0, nil, err
		}
		if !h.kind.isDelta() {
			data, err := p.inflate(h)
			if err != nil {
				return 0, nil, err
			}
			return p.climb(chain, rawObject{kind: h.kind, data: data})
		}
		if len(chain) >= maxDeltaChain {
			return 0, nil, badObject("its chain of deltas is too long", nil)
		}
		next, inside := h.base, true
		if h.kind == objRefDelta {
			next, inside = p.byID(h.ref)
		}
		if !inside {
			o, err := p.fromOutside(h.ref)
			if err != nil {
				return 0, nil, err
			}
			return p.climb(append(chain, link{h, outsideThePack}), o)
		}
		chain = append(chain, link{h, next})
		off = next
	}
}

// link is one delta of a chain.
type link struct {
	entryHead
	from int64 // the offset of its base, or outsideThePack
}

const outsideThePack = -1

// climb applies a chain, whose last delta is the base's neighbour.
func (p *packSource) climb(chain []link, o rawObject) (objType, []byte, error) {
	for i := len(chain) - 1; i >= 0; i-- {
		if chain[i].from != outsideThePack {
			p.keep(chain[i].from, o)
		}
		data, err := p.apply(o.data, chain[i].entryHead)
		if err != nil {
			return 0, nil, err
		}
		o.data = data
	}
	return o.kind, o.data, nil
}

// keep caches a base, dropping all others when there are too many.
func (p *packSource) keep(off int64, o rawObject) {
	if p.cache == nil || p.cached > maxBaseCache {
		p.cache, p.cached = map[int64]rawObject{}, 0
	}
	if _, ok := p.cache[off]; !ok {
		p.cache[off] = o
		p.cached += int64(len(o.data))
	}
}

func (p *packSource) fromOutside(oid OID) (rawObject, error) {
	if p.outside == nil {
		return rawObject{}, badObject("its delta base is missing", nil)
	}
	kind, data, err := p.outside(oid)
	return rawObject{oid, kind, data}, err
}

// apply returns what the delta at h makes of base.
func (p *packSource) apply(base []byte, h entryHead) ([]byte, error) {
	delta, err := p.inflate(h)
	if err != nil {
		return nil, err
	}
	size, err := deltaResult(delta, p.maxObject)
	if err != nil {
		return nil, err
	}
	if err := p.pay(size); err != nil {
		return nil, err
	}
	out, err := packfile.PatchDelta(base, delta)
	if err != nil {
		return nil, badObject("its delta does not apply", err)
	}
	return out, nil
}

// deltaResult reads the size that a delta expands to before expanding it: a few
// bytes may stand for gigabytes.
func deltaResult(delta []byte, limit int64) (int64, error) {
	_, n := binary.Uvarint(delta)
	if n <= 0 {
		return 0, badObject("its delta is malformed", nil)
	}
	size, n := binary.Uvarint(delta[n:])
	if n <= 0 {
		return 0, badObject("its delta is malformed", nil)
	}
	if size > uint64(limit) {
		return 0, tooLarge("an object", limit)
	}
	return int64(size), nil
}
