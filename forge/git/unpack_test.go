package git

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/git/internal/pkt"
)

// hostilePack is a pack that is written entry by entry, as nobody else would.
type hostilePack struct {
	body bytes.Buffer
	n    int
}

// entry appends one entry and returns its offset. base is what goes between the
// head and the data of a delta.
func (p *hostilePack) entry(kind objType, base, data []byte) int64 {
	off := int64(len(packHeader(0)) + p.body.Len())
	p.body.Write(appendEntryHeader(nil, kind, len(data)))
	p.body.Write(base)
	z := zlib.NewWriter(&p.body)
	_, _ = z.Write(data)
	_ = z.Close()
	p.n++
	return off
}

func (p *hostilePack) refDelta(base OID, delta []byte) int64 {
	raw, _ := hex.DecodeString(string(base))
	return p.entry(objRefDelta, raw, delta)
}

func (p *hostilePack) ofsDelta(base int64, delta []byte) int64 {
	rel := int64(len(packHeader(0))+p.body.Len()) - base
	enc := []byte{byte(rel & 0x7f)}
	for rel >>= 7; rel > 0; rel >>= 7 {
		rel--
		enc = append([]byte{byte(rel&0x7f) | 0x80}, enc...)
	}
	return p.entry(objOfsDelta, enc, delta)
}

func (p *hostilePack) data() []byte { return append(packHeader(p.n), p.body.Bytes()...) }

// deltaOf makes base into base[:keep] followed by tail, of up to 127 bytes.
func deltaOf(base []byte, keep int, tail string) []byte {
	d := binary.AppendUvarint(nil, uint64(len(base)))
	d = binary.AppendUvarint(d, uint64(keep+len(tail)))
	for at := 0; at < keep; at += 0xffff {
		n := min(keep-at, 0xffff)
		d = append(d, 0x80|0x0f|0x30, byte(at), byte(at>>8), byte(at>>16), byte(at>>24), byte(n), byte(n>>8))
	}
	if tail != "" {
		d = append(append(d, byte(len(tail))), tail...)
	}
	return d
}

// countedPack counts the reads of a pack.
type countedPack struct {
	*bytes.Reader
	reads int
}

func (c *countedPack) ReadAt(b []byte, off int64) (int, error) {
	c.reads++
	return c.Reader.ReadAt(b, off)
}

type unpacked struct {
	oids  []OID
	bytes int64
	reads int
}

func unpackAll(ctx context.Context, data []byte, l Limits, outside func(OID) (objType, []byte, error), each func()) (unpacked, error) {
	r := &countedPack{Reader: bytes.NewReader(data)}
	var got unpacked
	err := unpack(ctx, r, int64(len(data)), l.orDefaults(), outside, func(o rawObject) error {
		got.oids = append(got.oids, o.oid)
		got.bytes += int64(len(o.data))
		if each != nil {
			each()
		}
		return nil
	})
	got.reads = r.reads
	return got, err
}

// TestG2_UnpackedBytes: small packs that stand for much are given up in time.
func TestG2_UnpackedBytes(t *testing.T) {
	zeros := make([]byte, 64<<10)
	const limit = 1 << 20
	packs := map[string]*hostilePack{"many objects": {}, "many deltas": {}, "many empty objects": {}, "many deltas of nothing": {}}
	for i := range 20 {
		packs["many objects"].entry(objBlob, nil, append([]byte{byte(i)}, zeros...))
	}
	base := packs["many deltas"].entry(objBlob, nil, zeros)
	for i := range 30 {
		packs["many deltas"].ofsDelta(base, deltaOf(zeros, len(zeros), fmt.Sprint(i)))
	}
	for i := range 1100 {
		packs["many empty objects"].entry(objBlob, nil, nil)
		packs["many deltas of nothing"].refDelta(HashBlob(fmt.Append(nil, i)), nil)
	}
	for name, p := range packs {
		t.Run(name, func(t *testing.T) {
			got, err := unpackAll(t.Context(), p.data(), Limits{Unpacked: limit}, nil, nil)
			wantCode(t, err, CodeTooLarge)
			if got.bytes > limit || strings.Contains(name, "many empty") && len(got.oids) != 0 {
				t.Errorf("%d objects of %d bytes came out", len(got.oids), got.bytes)
			}
		})
	}
	got, err := unpackAll(t.Context(), packs["many objects"].data(), Limits{Unpacked: 2 * limit}, nil, nil)
	if err != nil || len(got.oids) != 20 {
		t.Errorf("within the limit: %d objects, %v", len(got.oids), err)
	}
}

// chainPack is a chain of reference deltas, the last one first: each comes before
// its base.
func chainPack(n int) *hostilePack {
	versions := [][]byte{[]byte("version")}
	for i := 1; i <= n; i++ {
		versions = append(versions, fmt.Append(versions[0][:7:7], i))
	}
	p := &hostilePack{}
	for i := n; i > 0; i-- {
		p.refDelta(HashBlob(versions[i-1]), deltaOf(versions[i-1], 7, fmt.Sprint(i)))
	}
	p.entry(objBlob, nil, versions[0])
	return p
}

// TestG2_DeltasInTheWorstOrder: the work grows with the pack, not with its square.
func TestG2_DeltasInTheWorstOrder(t *testing.T) {
	const n = 3000
	star := &hostilePack{}
	for i := range n {
		star.refDelta(HashBlob([]byte("version")), deltaOf([]byte("version"), 7, fmt.Sprint(i)))
	}
	star.entry(objBlob, nil, []byte("version"))
	for name, p := range map[string]*hostilePack{"chain": chainPack(n), "star": star} {
		t.Run(name, func(t *testing.T) {
			got, err := unpackAll(t.Context(), p.data(), Limits{}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[OID]bool{}
			for _, o := range got.oids {
				seen[o] = true
			}
			for i := 1; i < n; i++ {
				if !seen[HashBlob(fmt.Append([]byte("version"), i))] {
					t.Fatalf("version %d is missing", i)
				}
			}
			if len(got.oids) != n+1 || got.reads > 10*n {
				t.Errorf("%d objects in %d reads of the pack", len(got.oids), got.reads)
			}
		})
	}
	_, err := unpackAll(t.Context(), chainPack(maxDeltaChain+1).data(), Limits{}, nil, nil)
	wantCode(t, err, CodeObjectInvalid)
}

// TestG2_UnpackStopsWithContext: not one more object comes after the end.
func TestG2_UnpackStopsWithContext(t *testing.T) {
	whole := &hostilePack{}
	for i := range 100 {
		whole.entry(objBlob, nil, fmt.Append(nil, i))
	}
	for name, p := range map[string]*hostilePack{"whole objects": whole, "deltas": chainPack(100)} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			got, err := unpackAll(ctx, p.data(), Limits{}, nil, func() {
				if n++; n == 5 {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) || len(got.oids) != 5 {
				t.Errorf("%d objects, %v", len(got.oids), err)
			}
		})
	}
}

// TestUnpackOutside: bases outside the pack are asked for; one that is nowhere is
// an error, and what can be resolved comes first.
func TestUnpackOutside(t *testing.T) {
	one, two := []byte("base one"), []byte("base one+")
	p := &hostilePack{}
	p.refDelta(HashBlob(two), deltaOf(two, len(two), "+"))
	p.refDelta(HashBlob(one), deltaOf(one, len(one), "+"))
	outside := func(oid OID) (objType, []byte, error) {
		if oid == HashBlob(one) {
			return objBlob, one, nil
		}
		return 0, nil, badObject("its delta base is missing", nil)
	}
	got, err := unpackAll(t.Context(), p.data(), Limits{}, outside, nil)
	if err != nil || len(got.oids) != 2 || got.oids[1] != HashBlob([]byte("base one++")) {
		t.Errorf("%v, %v", got.oids, err)
	}
	p.refDelta(HashBlob([]byte("nowhere")), deltaOf(one, 1, ""))
	for name, outside := range map[string]func(OID) (objType, []byte, error){"asked": outside, "nobody to ask": nil} {
		got, err = unpackAll(t.Context(), p.data(), Limits{}, outside, nil)
		if want := map[string]int{"asked": 2}[name]; len(got.oids) != want {
			t.Errorf("%s: %v", name, got.oids)
		}
		if wantCode(t, err, CodeObjectInvalid); !strings.Contains(err.Error(), "delta base is missing") {
			t.Errorf("%s: %v", name, err)
		}
	}
	inside := &hostilePack{} // the middle of an entry is no base
	off := inside.entry(objBlob, nil, bytes.Repeat([]byte("x"), 100))
	inside.ofsDelta(off+1, deltaOf(one, 1, ""))
	_, err = unpackAll(t.Context(), inside.data(), Limits{}, nil, nil)
	wantCode(t, err, CodeObjectInvalid)
}

// TestG2_UnpackHoldsLittle: a chain with branches would keep all of its objects;
// what is let go of is made again, and the pack pays for it.
func TestG2_UnpackHoldsLittle(t *testing.T) {
	const size, depth = 1 << 10, 40
	p := &hostilePack{}
	data := bytes.Repeat([]byte("x"), size)
	off := p.entry(objBlob, nil, data)
	for i := range depth {
		next := p.ofsDelta(off, deltaOf(data, size-10, fmt.Sprintf("chain %04d", i)))
		p.ofsDelta(off, deltaOf(data, size-10, fmt.Sprintf("leave %04d", i)))
		off = next
	}
	run := func(limit, maxHeld int64) (n int, held int64, err error) {
		var u *unpacker
		u = newUnpacker(bytes.NewReader(p.data()), int64(len(p.data())), Limits{Unpacked: limit}.orDefaults(), nil,
			func(rawObject) error {
				n++
				held = max(held, u.held)
				return nil
			})
		u.maxHeld = maxHeld
		err = u.run(t.Context())
		return n, held, err
	}
	n, held, err := run(0, 4*size)
	if err != nil || n != 2*depth+1 || held > 5*size {
		t.Errorf("%d objects, %d bytes held, %v", n, held, err)
	}
	n, _, err = run(180<<10, maxBaseCache)
	if err != nil || n != 2*depth+1 {
		t.Errorf("made once: %d objects, %v", n, err)
	}
	_, _, err = run(180<<10, size)
	wantCode(t, err, CodeTooLarge)
}

// TestUnpackAsGit: deltas by reference and by offset, as git makes them.
func TestUnpackAsGit(t *testing.T) {
	dir := gittest.NewBare(t)
	parent := ""
	for i := range 30 {
		files := map[string]string{"log": strings.Repeat("a line of many\n", 200+i), "dir/x": fmt.Sprint(i)}
		parent = gittest.Commit(t, dir, "refs/heads/main", parent, files)
	}
	want := map[OID]bool{}
	for _, line := range strings.Split(gittest.Git(t, dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"), "\n") {
		want[OID(line)] = true
	}
	for name, args := range map[string][]string{"reference": nil, "offset": {"--delta-base-offset"}} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"pack-objects", "--quiet", "--all", "--no-reuse-delta", "--stdout"}, args...)
			pack, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).Output()
			if err != nil {
				t.Fatal(err)
			}
			got, err := unpackAll(t.Context(), pack, Limits{}, nil, nil)
			if err != nil || len(got.oids) != len(want) {
				t.Fatalf("%d of %d objects, %v", len(got.oids), len(want), err)
			}
			for _, oid := range got.oids {
				if !want[oid] {
					t.Errorf("%s is no object of the repository", oid)
				}
			}
		})
	}
}

// packServer answers every fetch with one pack, whatever was asked for.
func packServer(t *testing.T, pack []byte) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = io.WriteString(w, "000eversion 2\n0011fetch=filter\n0000")
			return
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		b := pkt.Append(nil, "packfile\n")
		for chunk := range slices.Chunk(pack, 60_000) {
			b = pkt.Append(b, "\x01%s", chunk)
		}
		_, _ = w.Write(append(b, "0000"...))
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/r"
}

// TestG2_TreesOfAServer: what comes for one tree is bounded, too, before any of
// it is looked at.
func TestG2_TreesOfAServer(t *testing.T) {
	p := &hostilePack{}
	for i := range 100 {
		p.entry(objTree, nil, append([]byte{byte(i)}, make([]byte, 1000)...))
	}
	url := packServer(t, p.data())
	root := hashObject(objTree, nil)
	for _, c := range []struct {
		limits Limits
		code   string
	}{
		{Limits{Trees: 100 << 10}, CodeTooLarge},
		{Limits{Unpacked: 100 << 10}, CodeTooLarge},
		{Limits{Object: 500}, CodeTooLarge},
		{Limits{}, CodeObjectMissing},
	} {
		r := openAt(t, Endpoint{URL: url}, Options{Limits: c.limits})
		_, err := r.Tree(t.Context(), root)
		if wantCode(t, err, c.code); c.code == CodeTooLarge && !strings.Contains(err.Error(), "limit") {
			t.Errorf("%v", err)
		}
	}
	small := openAt(t, Endpoint{URL: packServer(t, chainPack(50).data())}, Options{Limits: Limits{Trees: 1000}})
	_, err := small.Tree(t.Context(), root) // blobs are not kept, so they don't count
	wantCode(t, err, CodeObjectMissing)
}

// TestG2_PacksThatPointAtEachOther: git keeps packs complete; broken ones are an
// error, not a search without an end.
func TestG2_PacksThatPointAtEachOther(t *testing.T) {
	dir := gittest.NewBare(t)
	a, b := HashBlob([]byte("a")), HashBlob([]byte("b"))
	for oid, base := range map[OID]OID{a: b, b: a} {
		p := &hostilePack{}
		o := packedObject{offset: uint32(p.refDelta(base, deltaOf([]byte("a"), 1, "")))}
		_, _ = hex.Decode(o.raw[:], []byte(oid))
		name := filepath.Join(dir, "objects", "pack", "pack-"+string(oid))
		for ext, data := range map[string][]byte{".pack": p.data(), ".idx": encodePackIndex([]packedObject{o}, [rawOID]byte{})} {
			if err := os.WriteFile(name+ext, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := openAt(t, Endpoint{URL: dir}, Options{}).Blob(t.Context(), a)
	wantCode(t, err, CodeObjectInvalid)
}
