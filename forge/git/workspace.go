package git

import (
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // git's object ids and checksums; nothing here is trusted afterwards
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// workspaceBranch is the branch of a throw-away repository.
const workspaceBranch = "refs/heads/main"

const workspaceConfig = `[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = false
[gc]
	auto = 0
`

// RepositorySpec says what WriteRepository writes.
type RepositorySpec struct {
	Entries []Entry // the whole tree; the files are in the directory already
	// At is the directory in which .git is made. Empty: that of the files.
	At string
	// Read returns an entry's blob. nil: it is read from the file.
	Read    func(Entry) ([]byte, error)
	Author  Person // and committer
	Message []byte
}

// WriteRepository makes a .git for the files of dir, for tools that want one: a single
// commit without a parent, on the branch main, and an index that matches the
// files, so that git status is clean. No git process runs and nothing is checked
// out. Objects are stored, not compressed. The result is for the builder alone;
// it is never read back (case S9). Errors: git.local, git.path_invalid,
// git.object_invalid if a file's bytes are not its entry's.
func WriteRepository(dir string, spec RepositorySpec) error {
	entries := slices.Clone(spec.Entries)
	sortEntries(entries)
	w := workspace{dir: dir, git: filepath.Join(cmp.Or(spec.At, dir), ".git")}
	if err := w.mkdirs(); err != nil {
		return localError(err)
	}
	index, size, err := w.index(entries)
	if err != nil {
		return localError(err)
	}
	w.pack.Grow(size)
	w.pack.Write(packHeader(0)) // the number comes last
	commit, err := w.objects(entries, spec)
	if err != nil {
		return err
	}
	if err := w.writePack(); err != nil {
		return localError(err)
	}
	return w.finish(index, commit)
}

func localError(err error) error {
	var coded *Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return fail(CodeLocal, "the workspace's repository can't be written", "check the disk", err)
}

type workspace struct {
	dir, git string
	pack     bytes.Buffer
	list     []packedObject
	seen     map[OID]bool
}

// packedObject is one line of a pack's index.
type packedObject struct {
	raw    [rawOID]byte
	crc    uint32
	offset uint32
}

// mkdirs makes what git needs to see a repository, and no more: making a file or
// directory is what costs most here.
func (w *workspace) mkdirs() error {
	for _, d := range []string{"", "objects", "objects/pack", "refs"} {
		if err := os.Mkdir(filepath.Join(w.git, d), 0o755); err != nil { //nolint:gosec // as git makes it; the builder reads it
			return err
		}
	}
	return nil
}

// objects adds blobs, trees and the commit.
func (w *workspace) objects(entries []Entry, spec RepositorySpec) (OID, error) {
	w.seen = make(map[OID]bool, len(entries))
	read := spec.Read
	if read == nil {
		read = w.readFile
	}
	for _, e := range entries {
		if e.Mode == ModeGitlink || w.seen[e.OID] {
			continue
		}
		data, err := read(e)
		if err != nil {
			return "", localError(err)
		}
		if plainHash("blob", data) != e.OID {
			return "", fail(CodeObjectInvalid, fmt.Sprintf("the file %q is not what the tree says", e.Path), "", nil)
		}
		w.add(objBlob, e.OID, data)
	}
	root, err := encodeTrees(entries, func(oid OID, data []byte) { w.add(objTree, oid, data) })
	if err != nil {
		return "", err
	}
	raw, err := encodeCommit(CommitSpec{Tree: root, Author: spec.Author, Committer: spec.Author, Message: spec.Message}, nil)
	if err != nil {
		return "", err
	}
	commit := plainHash("commit", raw)
	w.add(objCommit, commit, raw)
	return commit, nil
}

func (w *workspace) readFile(e Entry) ([]byte, error) {
	path := filepath.Join(w.dir, filepath.FromSlash(e.Path))
	if e.Mode == ModeSymlink {
		target, err := os.Readlink(path)
		return []byte(target), err
	}
	return os.ReadFile(path)
}

// plainHash is hashObject without collision detection: three times as fast, and
// enough for what nobody reads back.
func plainHash(kind string, data []byte) OID {
	h := sha1.New() //nolint:gosec // see the import
	fmt.Fprintf(h, "%s %d\x00", kind, len(data))
	h.Write(data)
	return OID(hex.EncodeToString(h.Sum(nil)))
}

// storedBlock is the most that one stored block of a deflate stream holds, in bytes.
const storedBlock = 65535

// add appends an object to the pack, in stored blocks.
func (w *workspace) add(kind objType, oid OID, data []byte) {
	if w.seen[oid] {
		return
	}
	w.seen[oid] = true
	start := w.pack.Len()
	w.pack.Write(appendEntryHeader(nil, kind, len(data)))
	w.pack.Write([]byte{0x78, 0x01})
	rest := data
	for {
		n := min(len(rest), storedBlock)
		last := byte(0)
		if n == len(rest) {
			last = 1
		}
		w.pack.Write([]byte{last, byte(n), byte(n >> 8), ^byte(n), ^byte(n >> 8)})
		w.pack.Write(rest[:n])
		if rest = rest[n:]; last == 1 {
			break
		}
	}
	w.pack.Write(binary.BigEndian.AppendUint32(nil, adler32.Checksum(data)))
	o := packedObject{offset: uint32(start), crc: crc32.ChecksumIEEE(w.pack.Bytes()[start:])}
	_, _ = hex.Decode(o.raw[:], []byte(oid)) // made by us, or compared with what was
	w.list = append(w.list, o)
}

// maxWorkspacePack is in bytes: the index's offsets are 31 bits wide.
const maxWorkspacePack = 1<<31 - 1

func (w *workspace) writePack() error {
	if w.pack.Len() > maxWorkspacePack {
		return tooLarge("the workspace", maxWorkspacePack)
	}
	b := w.pack.Bytes()
	binary.BigEndian.PutUint32(b[8:], uint32(len(w.list)))
	sum := sha1.Sum(b) //nolint:gosec // see the import
	w.pack.Write(sum[:])
	base := filepath.Join(w.git, "objects", "pack", "pack-"+hex.EncodeToString(sum[:]))
	if err := os.WriteFile(base+".pack", w.pack.Bytes(), 0o644); err != nil { //nolint:gosec // as git makes it
		return err
	}
	return os.WriteFile(base+".idx", encodePackIndex(w.list, sum), 0o644) //nolint:gosec // as git makes it
}

// encodePackIndex writes version 2 of a pack's index.
func encodePackIndex(list []packedObject, packSum [rawOID]byte) []byte {
	slices.SortFunc(list, func(a, b packedObject) int { return bytes.Compare(a.raw[:], b.raw[:]) })
	out := []byte(indexMagic)
	n := 0
	for first := range 256 {
		for n < len(list) && int(list[n].raw[0]) <= first {
			n++
		}
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	for _, o := range list {
		out = append(out, o.raw[:]...)
	}
	for _, o := range list {
		out = binary.BigEndian.AppendUint32(out, o.crc)
	}
	for _, o := range list {
		out = binary.BigEndian.AppendUint32(out, o.offset)
	}
	out = append(out, packSum[:]...)
	sum := sha1.Sum(out) //nolint:gosec // see the import
	return append(out, sum[:]...)
}

func (w *workspace) finish(index []byte, commit OID) error {
	for name, text := range map[string]string{
		"index": string(index), "config": workspaceConfig,
		"HEAD": "ref: " + workspaceBranch + "\n", "packed-refs": string(commit) + " " + workspaceBranch + "\n",
	} {
		if err := os.WriteFile(filepath.Join(w.git, name), []byte(text), 0o644); err != nil { //nolint:gosec // as git makes it
			return localError(err)
		}
	}
	return nil
}

// maxIndexName is the longest name whose length the flags hold; longer ones say so.
const maxIndexName = 0xfff

// perObject is about what an object costs in the pack beside its bytes: head,
// checksum, and a tree's share.
const perObject = 128

// index writes version 2 of git's index from the files as they are, and says
// how large the pack will be, about.
func (w *workspace) index(entries []Entry) ([]byte, int, error) {
	be := binary.BigEndian
	size := len(packHeader(0)) + rawOID
	out := be.AppendUint32([]byte("DIRC\x00\x00\x00\x02"), uint32(len(entries)))
	for _, e := range entries {
		start := len(out)
		st, err := w.stat(e)
		if err != nil {
			return nil, 0, err
		}
		size += int(min(st.Size, maxWorkspacePack)) + perObject
		for _, v := range []uint32{
			uint32(st.Ctim.Sec), uint32(st.Ctim.Nsec), uint32(st.Mtim.Sec), uint32(st.Mtim.Nsec),
			uint32(st.Dev), uint32(st.Ino), uint32(e.Mode), st.Uid, st.Gid, uint32(st.Size),
		} {
			out = be.AppendUint32(out, v)
		}
		out, _ = hex.AppendDecode(out, []byte(e.OID)) // encodeTrees has validated it
		out = be.AppendUint16(out, uint16(min(len(e.Path), maxIndexName)))
		out = append(out, e.Path...)
		out = append(out, strings.Repeat("\x00", 8-(len(out)-start)%8)...)
	}
	sum := sha1.Sum(out) //nolint:gosec // see the import
	return append(out, sum[:]...), min(size, maxWorkspacePack), nil
}

func (w *workspace) stat(e Entry) (syscall.Stat_t, error) {
	var st syscall.Stat_t
	path := filepath.Join(w.dir, filepath.FromSlash(e.Path))
	err := syscall.Lstat(path, &st)
	if e.Mode == ModeGitlink && err != nil {
		return syscall.Stat_t{}, nil //nolint:nilerr // a submodule that is not checked out
	}
	if err != nil {
		return st, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return st, nil
}
