package instancekey

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/kernel"
)

// Names of the files in the state directory.
const (
	PrivateFile = "key"
	PublicFile  = "key.pub"
	// NextFile is the key that is about to take the place of the private one.
	NextFile = "key.next"
)

const (
	privateMode = 0o600 // nobody but the owner
	publicMode  = 0o644 // it is public
	looseBits   = 0o077 // any right of group or others

	// maxFileBytes bounds a key file; an ed25519 key has about 400 bytes.
	maxFileBytes = 16 << 10
)

// Error is a key that can't be used: environment.key.unusable, or
// environment.key.missing where a directory had a key and has none now.
type Error struct {
	Path   string
	Lost   bool   // the key is not there
	Detail string // a sentence and the remedy; never holds key material
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.FailureCode(), e.Path, e.Detail)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// FailureCode is the error's code.
func (e *Error) FailureCode() kernel.Code {
	if e.Lost {
		return kernel.CodeEnvKey
	}
	return kernel.CodeEnvKeyUnusable
}

// LoadOrCreate reads the key of the state directory dir, or makes one if there
// is none. A new key is durable before the call returns. Two processes that
// start at once end with the same key.
//
// No key is made beside key.pub, nor beside a file that matches one of traces
// (patterns as filepath.Match has them, in dir): these are of an installation
// whose key is lost, and a new one could neither continue its ledger nor be told
// from it.
func LoadOrCreate(dir string, traces ...string) (key *Key, created bool, err error) {
	key, err = Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := orphaned(dir, traces); err != nil {
			return nil, false, err
		}
		err = create(filepath.Join(dir, PrivateFile))
		if created = err == nil; !created && !errors.Is(err, fs.ErrExist) {
			return nil, false, err
		}
		key, err = Load(dir)
	}
	if err != nil {
		return nil, false, err
	}
	return key, created, key.publish(dir)
}

// orphaned is the error of a directory that had a key and has none now.
func orphaned(dir string, traces []string) error {
	path := filepath.Join(dir, PrivateFile)
	for _, pattern := range append([]string{PublicFile}, traces...) {
		found, err := filepath.Glob(filepath.Join(globbed(dir), pattern))
		if err != nil {
			return &Error{Path: dir, Detail: "the directory can't be searched: " + cause(err), Err: err}
		}
		if len(found) == 0 {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			return nil // another process has made it meanwhile
		}
		return &Error{Path: path, Lost: true, Detail: "the signing key is missing beside " + filepath.Base(found[0]) + ", and a new one can't take its place"}
	}
	return nil
}

// globbed is a path that a pattern takes literally.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// Load reads the key of the state directory dir. A missing key gives an error
// that is fs.ErrNotExist.
func Load(dir string) (*Key, error) { return load(filepath.Join(dir, PrivateFile)) }

// Next is the key that is about to take the place of the one in the state directory
// dir. It is made once, durably; asked again, also after a crash, it is the same.
func Next(dir string) (*Key, error) {
	path := filepath.Join(dir, NextFile)
	next, err := load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return next, err
	}
	if err := create(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return load(path)
}

// Replacing reports whether another key is about to take the place of the one in
// the state directory dir.
func Replacing(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, NextFile))
	return err == nil
}

// Replace gives the next key the place of the one that there is, in one step. The
// old private half is gone then.
func Replace(dir string) error {
	next, err := load(filepath.Join(dir, NextFile))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, PrivateFile)
	err = os.Rename(filepath.Join(dir, NextFile), path)
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return &Error{Path: path, Detail: "the next key can't be put in its place: " + cause(err), Err: err}
	}
	return next.publish(dir)
}

func load(path string) (*Key, error) {
	data, err := readPrivate(path)
	if err != nil {
		return nil, err
	}
	parsed, err := ssh.ParseRawPrivateKey(data)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		return nil, &Error{Path: path, Detail: "the key has a passphrase; writ needs one without: ssh-keygen -p -N '' -f " + path}
	}
	private, ok := parsed.(*ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, &Error{Path: path, Detail: "not an OpenSSH ed25519 private key; restore it from a backup"}
	}
	return New(*private)
}

// readPrivate looks at the very file that it opened, not at its name again.
func readPrivate(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Path: path, Lost: true, Detail: "there is no signing key", Err: err}
	}
	if err != nil {
		return nil, &Error{Path: path, Detail: "the key can't be opened: " + cause(err) + "; it must be a regular file of yours", Err: err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, &Error{Path: path, Detail: "the key can't be examined: " + cause(err), Err: err}
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{Path: path, Detail: "the key is not a regular file; remove it and restore the key"}
	}
	if mode := info.Mode().Perm(); mode&looseBits != 0 {
		return nil, &Error{Path: path, Detail: fmt.Sprintf("others may use the key (mode %04o); run: chmod 600 %s; if others could read it, treat it as stolen", mode, path)}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil || len(data) > maxFileBytes {
		return nil, &Error{Path: path, Detail: "the key can't be read or is too large; restore it from a backup", Err: err}
	}
	return data, nil
}

// create makes a key and gives it its name last, and only if nothing has that
// name: a crash leaves no key or a whole one, and a rival's key stays.
func create(path string) error {
	dir := filepath.Dir(path)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return &Error{Path: dir, Detail: "no randomness for a key: " + cause(err), Err: err}
	}
	block, err := ssh.MarshalPrivateKey(private, "writ")
	if err != nil {
		return fmt.Errorf("instancekey: %w", err)
	}
	return install(path, pem.EncodeToMemory(block), privateMode, os.Link)
}

// publish makes key.pub what the private key says. It is a copy for people and
// tools; nothing here reads it.
func (k *Key) publish(dir string) error {
	path, want := filepath.Join(dir, PublicFile), []byte(k.PublicOpenSSH()+" writ\n")
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, want) {
		return nil
	}
	return install(path, want, publicMode, os.Rename)
}

// install makes a whole, durable file appear at path. With os.Link as place it
// fails with fs.ErrExist if something is there.
func install(path string, data []byte, mode os.FileMode, place func(from, to string) error) error {
	dir := filepath.Dir(path)
	temp, err := writeTemp(dir, data, mode)
	if err == nil {
		err = place(temp, path)
		if rmErr := os.Remove(temp); err == nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = rmErr
		}
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return &Error{Path: path, Detail: "the file can't be put in place: " + cause(err), Err: err}
	}
	return nil
}

// writeTemp writes a durable file under a name of its own (O_EXCL, mode 0600).
func writeTemp(dir string, data []byte, mode os.FileMode) (name string, err error) {
	f, err := os.CreateTemp(dir, ".key.new-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	return f.Name(), err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// cause is the system's word without the path, which the error names already.
func cause(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err.Error()
	}
	return err.Error()
}
