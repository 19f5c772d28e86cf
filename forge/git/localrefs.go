package git

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxSymref is how many symbolic refs are followed, as in git.
const maxSymref = 5

// refs reads refs from their files, as git does: the loose file first, then
// packed-refs. That order is what makes it right while others write: packing
// writes packed-refs before it removes the loose file, and deleting rewrites
// packed-refs before it removes the loose file.
func (l *local) refs(names []string) (Refs, error) {
	out := Refs{byName: map[string]OID{}}
	head, err := readSmall(filepath.Join(l.dir, "HEAD"))
	if err != nil {
		return out, refsError(err)
	}
	if target, ok := strings.CutPrefix(string(head), "ref:"); ok {
		out.Head = strings.TrimSpace(target)
		if out.head, err = l.followSymref(out.Head, 0); err != nil {
			return out, err
		}
	} else if oid := OID(strings.TrimSpace(string(head))); oid.Valid() {
		out.head = oid // detached
	}
	exact := true
	for _, n := range names {
		exact = exact && !strings.HasSuffix(n, "/")
	}
	if exact && len(names) > 0 {
		return out, l.exactRefs(names, out)
	}
	return out, l.allRefs(names, out)
}

func refsError(err error) error {
	return fail(CodeLocal, "the repository's refs can't be read", "check its permissions", err)
}

func (l *local) exactRefs(names []string, out Refs) error {
	var packed []byte
	read := false
	for _, n := range names {
		if n == OnlyHead {
			continue
		}
		oid, err := l.looseRef(n, 0)
		if err != nil {
			return err
		}
		if oid == "" {
			if !read { // after the loose file, see refs
				if packed, err = l.packedRefs(); err != nil {
					return err
				}
				read = true
			}
			oid = packedRef(packed, n)
		}
		if !oid.IsZero() {
			out.byName[n] = oid
		}
	}
	return nil
}

func (l *local) allRefs(names []string, out Refs) error {
	loose := map[string]struct{}{}
	note := func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil // removed while we walk, or never there
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(l.common, p)
		if name := filepath.ToSlash(rel); err == nil && wanted(name, names) && ValidateRef(name) == nil {
			loose[name] = struct{}{}
		}
		return err
	}
	for _, n := range names {
		if !strings.HasSuffix(n, "/") && n != OnlyHead {
			loose[n] = struct{}{}
		}
	}
	for _, root := range prefixes(names) {
		if err := filepath.WalkDir(filepath.Join(l.common, filepath.FromSlash(root)), note); err != nil {
			return refsError(err)
		}
	}
	for n := range loose {
		oid, err := l.looseRef(n, 0)
		if err != nil {
			return err
		}
		if !oid.IsZero() {
			out.byName[n] = oid
		}
	}
	packed, err := l.packedRefs()
	if err != nil {
		return err
	}
	for line := range bytes.Lines(packed) {
		oid, name, ok := strings.Cut(strings.TrimRight(string(line), "\n"), " ")
		if _, have := out.byName[name]; ok && !have && OID(oid).Valid() && wanted(name, names) {
			out.byName[name] = OID(oid)
		}
	}
	return nil
}

// prefixes are the directories that are asked for, refs/ for all refs.
func prefixes(names []string) (out []string) {
	for _, n := range names {
		if strings.HasSuffix(n, "/") {
			out = append(out, n)
		}
	}
	if len(names) == 0 {
		out = []string{"refs/"}
	}
	return out
}

// wanted says whether a ref is asked for: by its name, or by a prefix that ends in a slash.
func wanted(name string, names []string) bool {
	for _, n := range names {
		if n == name || strings.HasSuffix(n, "/") && strings.HasPrefix(name, n) {
			return true
		}
	}
	return len(names) == 0
}

// looseRef reads a ref's own file, "" if there is none. A symbolic one is followed.
func (l *local) looseRef(name string, depth int) (OID, error) {
	text, err := readSmall(filepath.Join(l.common, filepath.FromSlash(name)))
	if err != nil {
		if info, statErr := os.Stat(filepath.Join(l.common, filepath.FromSlash(name))); errors.Is(err, fs.ErrNotExist) ||
			errors.Is(err, fs.ErrInvalid) || statErr != nil || info.IsDir() {
			return "", nil //nolint:nilerr // absent; a directory of that name holds other refs
		}
		return "", refsError(err)
	}
	s := strings.TrimSpace(string(text))
	if target, ok := strings.CutPrefix(s, "ref:"); ok {
		return l.followSymref(strings.TrimSpace(target), depth)
	}
	if oid := OID(s); oid.Valid() {
		return oid, nil
	}
	return "", fail(CodeObjectInvalid, "the ref "+name+" is broken", "run git fsck in the repository", nil)
}

func (l *local) followSymref(target string, depth int) (OID, error) {
	if depth >= maxSymref || ValidateRef(target) != nil {
		return "", nil //nolint:nilerr // leads nowhere, as a ref that is absent
	}
	oid, err := l.looseRef(target, depth+1)
	if err != nil || oid != "" {
		return oid, err
	}
	packed, err := l.packedRefs()
	return packedRef(packed, target), err
}

func (l *local) packedRefs() ([]byte, error) {
	f, err := openFile(filepath.Join(l.common, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refsError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(&limitReader{r: f, n: DefaultMaxAdvert, what: "the file of packed refs"})
	if err != nil && CodeOf(err) == "" {
		err = refsError(err)
	}
	return b, err
}

// packedRef finds "<oid> <name>\n".
func packedRef(packed []byte, name string) OID {
	needle := []byte(" " + name + "\n")
	for from := 0; ; {
		i := bytes.Index(packed[from:], needle)
		if i < 0 {
			return ""
		}
		i += from
		if i >= oidLen && (i == oidLen || packed[i-oidLen-1] == '\n') {
			if oid := OID(packed[i-oidLen : i]); oid.Valid() {
				return oid
			}
		}
		from = i + 1
	}
}
