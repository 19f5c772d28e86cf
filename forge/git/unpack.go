package git

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
)

// entryCost is in bytes: what an entry of a pack counts as at least, since a
// place must be kept for it. Without it a pack of millions of empty objects
// would be within every limit.
const entryCost = 1 << 10

// unpack calls f for each object of a received pack, a delta after its base. It
// does so in one pass over the pack and one over its deltas, whatever their
// order. It ends with ctx's error when ctx ends, and with git.too_large when the
// pack comes to more than Limits.Unpacked.
func unpack(ctx context.Context, r io.ReaderAt, size int64, l Limits, outside func(OID) (objType, []byte, error), f func(rawObject) error) error {
	return newUnpacker(r, size, l, outside, f).run(ctx)
}

// unpacker emits the objects of one pack.
type unpacker struct {
	src     packSource
	emit    func(rawObject) error
	held    int64 // bytes of the bases that are kept
	maxHeld int64 // bytes of bases that are kept at one time, but for the last one
	memory  hold  // of the process's, for what is held
	budget  *Budget

	// Deltas that wait for their base, by its offset or its id. The bases' ids are
	// also in the order in which they were first asked for.
	byOffset map[int64][]int64
	byID     map[OID][]int64
	asked    []OID

	ids   map[OID]int64 // where the bases of reference deltas are
	whole []wholeObject // all that are no deltas
}

type wholeObject struct {
	off int64
	oid OID
}

func newUnpacker(r io.ReaderAt, size int64, l Limits, outside func(OID) (objType, []byte, error), f func(rawObject) error) *unpacker {
	left := l.Unpacked
	u := &unpacker{
		emit: f, maxHeld: maxBaseCache, ids: map[OID]int64{}, byOffset: map[int64][]int64{}, byID: map[OID][]int64{},
		src: packSource{r: r, size: size, maxObject: l.Object, outside: outside},
	}
	u.src.byID = func(o OID) (int64, bool) { off, ok := u.ids[o]; return off, ok }
	u.src.spend = func(n int64) error {
		if left -= n; left < 0 {
			return tooLarge("what a pack holds, inflated,", l.Unpacked)
		}
		return u.budget.inflate(n)
	}
	u.memory.what = "memory"
	return u
}

func (u *unpacker) run(ctx context.Context) error {
	if err := u.scan(ctx); err != nil {
		return err
	}
	return u.resolve(ctx)
}

// scan emits whole objects, and notes which delta waits for which base.
func (u *unpacker) scan(ctx context.Context) error {
	var head [12]byte
	if _, err := u.src.r.ReadAt(head[:], 0); err != nil || !bytes.Equal(head[:8], packHeader(0)[:8]) {
		return badObject("this is no pack", err)
	}
	n := binary.BigEndian.Uint32(head[8:])
	if int64(n) > u.src.size { // an entry takes more than a byte
		return badObject("the pack promises more than it holds", nil)
	}
	if err := u.src.pay(int64(n) * entryCost); err != nil {
		return err
	}
	off := int64(len(head))
	c := &countReader{r: bufio.NewReaderSize(nil, 4096)}
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := u.src.head(off)
		if err != nil {
			return err
		}
		c.reset(io.NewSectionReader(u.src.r, h.data, u.src.size-h.data))
		if err := u.entry(off, h, c); err != nil {
			return err
		}
		off = h.data + c.n
	}
	return nil
}

// entry takes one entry, and reads its data to the end.
func (u *unpacker) entry(off int64, h entryHead, data io.Reader) error {
	if err := u.src.pay(h.size); err != nil {
		return err
	}
	switch h.kind {
	case objOfsDelta:
		u.byOffset[h.base] = append(u.byOffset[h.base], off)
	case objRefDelta:
		if u.byID[h.ref] == nil {
			u.asked = append(u.asked, h.ref)
		}
		u.byID[h.ref] = append(u.byID[h.ref], off)
	default:
		if err := u.memory.set(h.size); err != nil {
			return err
		}
		b, err := inflate(data, h.size)
		if err != nil {
			return err
		}
		o := rawObject{hashObject(h.kind, b), h.kind, b}
		u.whole = append(u.whole, wholeObject{off, o.oid})
		return u.emit(o)
	}
	return inflateTo(data, func(z io.Reader) error {
		_, err := io.CopyN(io.Discard, z, h.size)
		return err
	})
}

// resolve emits the deltas: first those whose chain ends in the pack, then those
// whose chain ends outside.
func (u *unpacker) resolve(ctx context.Context) error {
	for _, w := range u.whole {
		b := u.base(w.off, w.oid)
		if len(b.deltas) == 0 {
			continue
		}
		if err := u.walk(ctx, b); err != nil {
			return err
		}
	}
	var missing error
	for _, oid := range u.asked {
		if len(u.byID[oid]) == 0 {
			continue
		}
		o, err := u.src.fromOutside(oid)
		if err != nil {
			missing = err // it may yet come out of another base's deltas
			continue
		}
		b := u.base(outsideThePack, oid)
		b.object, b.loaded = o, true
		if err := u.walk(ctx, b); err != nil {
			return err
		}
	}
	if len(u.byOffset)+len(u.byID) == 0 {
		return nil
	}
	if missing == nil {
		missing = badObject("its delta base is missing", nil)
	}
	return missing
}

// base is an object while the deltas on it are being resolved.
type base struct {
	off    int64 // or outsideThePack
	oid    OID
	depth  int     // its own chain
	deltas []int64 // that are yet to be resolved
	object rawObject
	loaded bool
}

// base takes the deltas that wait for an object.
func (u *unpacker) base(off int64, oid OID) base {
	b := base{off: off, oid: oid, deltas: u.byOffset[off]}
	delete(u.byOffset, off)
	if waiting, ok := u.byID[oid]; ok {
		b.deltas = append(b.deltas, waiting...)
		delete(u.byID, oid)
		if off != outsideThePack {
			u.ids[oid] = off
		}
	}
	return b
}

// walk resolves all deltas that stand on b, depth first. A base is let go with
// its last delta; when too much is held, the lowest ones are let go before, and
// made again, at the pack's cost, when the walk is back at them.
func (u *unpacker) walk(ctx context.Context, b base) error {
	stack := []base{b}
	low := 0 // stack[:low] is not loaded
	u.held = int64(len(b.object.data))
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if !top.loaded {
			if err := u.load(top); err != nil {
				return err
			}
			u.held += int64(len(top.object.data))
			low = min(low, len(stack)-1)
		}
		next, err := u.delta(ctx, top)
		if err != nil {
			return err
		}
		if top.deltas = top.deltas[1:]; len(top.deltas) == 0 {
			u.held -= int64(len(top.object.data))
			stack = stack[:len(stack)-1]
		}
		if len(next.deltas) == 0 {
			continue
		}
		stack = append(stack, next)
		u.held += int64(len(next.object.data))
		if err := u.memory.set(u.held); err != nil {
			return err
		}
		for ; u.held > u.maxHeld && low < len(stack)-1; low++ {
			u.held -= int64(len(stack[low].object.data))
			stack[low].object, stack[low].loaded = rawObject{}, false
		}
	}
	return nil
}

func (u *unpacker) load(b *base) (err error) {
	if b.off == outsideThePack {
		b.object, err = u.src.fromOutside(b.oid)
	} else {
		b.object.kind, b.object.data, err = u.src.at(b.off)
	}
	b.loaded = err == nil
	return err
}

// delta resolves the first of b's deltas, emits it, and returns it as a base.
func (u *unpacker) delta(ctx context.Context, b *base) (base, error) {
	if err := ctx.Err(); err != nil {
		return base{}, err
	}
	if b.depth >= maxDeltaChain {
		return base{}, badObject("its chain of deltas is too long", nil)
	}
	off := b.deltas[0]
	h, err := u.src.head(off)
	if err != nil {
		return base{}, err
	}
	data, err := u.src.apply(b.object.data, h)
	if err != nil {
		return base{}, err
	}
	o := rawObject{hashObject(b.object.kind, data), b.object.kind, data}
	next := u.base(off, o.oid)
	next.depth, next.object, next.loaded = b.depth+1, o, true
	return next, u.emit(o)
}

// countReader counts what is read through it, byte by byte where asked so.
type countReader struct {
	r *bufio.Reader
	n int64
}

func (c *countReader) reset(r io.Reader) {
	c.r.Reset(r)
	c.n = 0
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
