package git

import (
	"bufio"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// errMissing says that a store does not hold an object.
var errMissing = errors.New("object missing")

// diskStore reads the objects directory of a repository on disk: loose objects,
// packs, alternates. An index is searched where it lies, never read whole, so
// that the first read of an object does not grow with the history. Replacements
// and grafts are not looked at (case S9).
type diskStore struct {
	dirs      []string // objects directories: the own one first, then alternates
	maxObject int64

	mu    sync.Mutex
	packs map[string]*diskPack // by path of the index
}

type diskPack struct {
	index *packIndex
	file  *os.File
	src   packSource
}

func newDiskStore(objects string, maxObject int64) *diskStore {
	s := &diskStore{maxObject: maxObject, packs: map[string]*diskPack{}}
	s.addDir(objects, 0)
	return s
}

// addDir adds an objects directory and its alternates.
func (s *diskStore) addDir(dir string, depth int) {
	for _, d := range s.dirs {
		if d == dir {
			return
		}
	}
	s.dirs = append(s.dirs, dir)
	text, err := readSmall(filepath.Join(dir, "info", "alternates"))
	if err != nil || depth >= maxAlternates {
		return
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\n"); line != "" && line[0] != '#' {
			s.addDir(resolvePath(dir, line), depth+1)
		}
	}
}

func (s *diskStore) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.packs {
		p.close()
	}
	s.packs = map[string]*diskPack{}
}

func (p *diskPack) close() {
	_ = p.file.Close() // opened for reading
	p.index.close()
}

// get returns an object, or errMissing. Its bytes are the caller's to read, not to change.
func (s *diskStore) get(oid OID) (objType, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookup(oid)
}

// lookup searches as git does: packs that are open, loose files, then packs
// that came since.
func (s *diskStore) lookup(oid OID) (objType, []byte, error) {
	if kind, data, err := s.packed(oid); !errors.Is(err, errMissing) {
		return kind, data, err
	}
	for _, dir := range s.dirs {
		kind, data, err := s.loose(dir, oid)
		if !errors.Is(err, errMissing) {
			return kind, data, err
		}
	}
	if s.rescan() {
		return s.packed(oid)
	}
	return 0, nil, errMissing
}

func (s *diskStore) packed(oid OID) (objType, []byte, error) {
	for _, p := range s.packs {
		if off, ok := p.index.find(oid); ok {
			return p.src.at(off)
		}
	}
	return 0, nil, errMissing
}

// rescan opens packs that are new and closes those that are gone. It says
// whether there are new ones. One that goes between the list and its opening was
// joined to another, which the next list has.
func (s *diskStore) rescan() bool {
	found, gone := s.scan()
	for tries := 1; gone && tries < maxScans; tries++ {
		var more bool
		more, gone = s.scan()
		found = found || more
	}
	return found
}

// maxScans bounds the lists of packs for one object, should they come and go all the time.
const maxScans = 4

func (s *diskStore) scan() (found, gone bool) {
	seen := map[string]bool{}
	for _, dir := range s.dirs {
		names, _ := filepath.Glob(filepath.Join(dir, "pack", "pack-*.idx")) // the pattern is valid
		for _, name := range names {
			seen[name] = true
			if s.packs[name] != nil {
				continue
			}
			p, err := s.openPack(name)
			if err == nil {
				s.packs[name] = p
				found = true
			}
			gone = gone || errors.Is(err, fs.ErrNotExist)
		}
	}
	for name, p := range s.packs {
		if !seen[name] {
			p.close()
			delete(s.packs, name)
		}
	}
	return found, gone
}

func (s *diskStore) openPack(name string) (*diskPack, error) {
	index, err := openIndex(name)
	if err != nil {
		return nil, err
	}
	file, err := openFile(strings.TrimSuffix(name, ".idx") + ".pack")
	if err != nil {
		index.close()
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		index.close()
		_ = file.Close()
		return nil, err
	}
	// A pack on disk must be complete: nothing is looked for outside, or two broken
	// ones that point at each other would never end.
	return &diskPack{index: index, file: file, src: packSource{
		r: file, size: info.Size(), maxObject: s.maxObject, byID: index.find,
	}}, nil
}

// loose reads objects/ab/cdef….
func (s *diskStore) loose(dir string, oid OID) (kind objType, data []byte, err error) {
	err = openLoose(dir, oid, func(f *os.File) error {
		kind, data, err = readLoose(f, s.maxObject)
		return err
	})
	return kind, data, err
}

func openLoose(dir string, oid OID, read func(*os.File) error) error {
	f, err := openFile(filepath.Join(dir, string(oid[:2]), string(oid[2:])))
	if errors.Is(err, fs.ErrNotExist) {
		return errMissing
	}
	if err != nil {
		return fail(CodeLocal, "an object file can't be read", "check the repository's permissions", err)
	}
	defer f.Close()
	return read(f)
}

// looseTypes are the names of types in a loose object's header.
func looseType(name string) objType {
	switch name {
	case "commit":
		return objCommit
	case "tree":
		return objTree
	case "blob":
		return objBlob
	case "tag":
		return objTag
	}
	return 0
}

func (t objType) String() string {
	return map[objType]string{objCommit: "commit", objTree: "tree", objBlob: "blob", objTag: "tag"}[t]
}

func readLoose(r io.Reader, limit int64) (objType, []byte, error) {
	var kind objType
	var data []byte
	err := withLoose(r, func(k objType, size int64, content io.Reader) error {
		if kind = k; size > limit {
			return tooLarge("an object", limit)
		}
		data = make([]byte, size)
		if _, err := io.ReadFull(content, data); err != nil {
			return badObject("it is cut short", err)
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	return kind, data, nil
}

// withLoose reads the head of a loose object and hands the rest on.
func withLoose(r io.Reader, take func(kind objType, size int64, content io.Reader) error) error {
	f := inflaters.Get().(*inflater)
	defer inflaters.Put(f)
	if err := f.open(r); err != nil {
		return err
	}
	b := bufio.NewReaderSize(f.z, 64)
	head, err := b.ReadSlice(0)
	if err != nil {
		return badObject("its header is broken", err)
	}
	name, text, _ := strings.Cut(string(head[:len(head)-1]), " ")
	size, err := strconv.ParseInt(text, 10, 64)
	kind := looseType(name)
	if err != nil || kind == 0 || size < 0 {
		return badObject("its header is broken", err)
	}
	return take(kind, size, b)
}

// packIndex searches a version 2 index where it lies.
type packIndex struct {
	file   *os.File
	fanout [256]uint32
	count  uint32
}

const (
	indexHead  = 8                 // magic and version
	indexNames = indexHead + 256*4 // object ids begin here
	indexLarge = uint32(1) << 31   // marks an offset in the table of large ones
	indexMagic = "\xfftOc\x00\x00\x00\x02"
	rawOID     = oidLen / 2
)

func openIndex(name string) (*packIndex, error) {
	f, err := openFile(name)
	if err != nil {
		return nil, err
	}
	var head [indexNames]byte
	_, err = f.ReadAt(head[:], 0)
	if err != nil || string(head[:indexHead]) != indexMagic {
		_ = f.Close() // opened for reading
		return nil, badObject("a pack's index is not of version 2", err)
	}
	x := &packIndex{file: f}
	for i := range x.fanout {
		x.fanout[i] = be32(head[indexHead+4*i:])
		if i > 0 && x.fanout[i] < x.fanout[i-1] {
			_ = f.Close() // opened for reading
			return nil, badObject("a pack's index is broken", nil)
		}
	}
	x.count = x.fanout[255]
	return x, nil
}

func (x *packIndex) close() { _ = x.file.Close() } // opened for reading

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// find returns the offset of an object in the pack.
func (x *packIndex) find(oid OID) (int64, bool) {
	want, err := hex.DecodeString(string(oid))
	if err != nil || len(want) != rawOID {
		return 0, false
	}
	lo, hi := uint32(0), x.fanout[want[0]]
	if want[0] > 0 {
		lo = x.fanout[want[0]-1]
	}
	var got [rawOID]byte
	for lo < hi {
		mid := lo + (hi-lo)/2
		if _, err := x.file.ReadAt(got[:], indexNames+int64(mid)*rawOID); err != nil {
			return 0, false
		}
		switch c := strings.Compare(string(got[:]), string(want)); {
		case c == 0:
			return x.offset(mid)
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return 0, false
}

func (x *packIndex) offset(i uint32) (int64, bool) {
	n := int64(x.count)
	table := indexNames + n*(rawOID+4) // behind ids and checksums
	var b [8]byte
	if _, err := x.file.ReadAt(b[:4], table+int64(i)*4); err != nil {
		return 0, false
	}
	off := be32(b[:])
	if off&indexLarge == 0 {
		return int64(off), true
	}
	if _, err := x.file.ReadAt(b[:], table+n*4+int64(off&^indexLarge)*8); err != nil {
		return 0, false
	}
	return int64(be32(b[:]))<<32 | int64(be32(b[4:])), true
}
