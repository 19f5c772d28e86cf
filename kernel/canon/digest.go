package canon

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest is a SHA-256 hash in its written form, "sha256:" and 64 lower-case
// hexadecimal digits. The empty Digest means that there is none.
type Digest string

const digestPrefix = "sha256:"

// Sum hashes bytes that came from outside, bare: what sha256sum prints.
func Sum(b []byte) Digest {
	sum := sha256.Sum256(b)
	buf := make([]byte, 0, len(digestPrefix)+2*sha256.Size)
	return Digest(hex.AppendEncode(append(buf, digestPrefix...), sum[:]))
}

// Hash is SHA-256 of the canonical bytes of v, which must be an object with a
// non-empty string member "kind", the tag that keeps one kind of object from
// being read as another (seed 002, "Receipt Hashing"). The same
// bytes given to [Sum] give the same digest. Besides the errors of [Marshal]
// it fails with [ErrKind].
func Hash(v any) (Digest, error) {
	b, err := Marshal(v)
	if err != nil {
		return "", err
	}
	if err := requireKind(b); err != nil {
		return "", err
	}
	return Sum(b), nil
}

// requireKind looks for the domain tag in canonical bytes.
func requireKind(b []byte) error {
	found := false
	s := newScanner(b, Limits{MaxBytes: len(b)})
	if b[0] == '{' {
		err := s.object(func(key []byte) error {
			from := s.pos
			if err := s.skip(); err != nil {
				return err
			}
			value := b[from:s.pos]
			found = found || string(key) == "kind" && value[0] == '"' && len(value) > len(`""`)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !found {
		return refuse(ErrKind, `only an object with a non-empty string member "kind" is hashed; use Sum for bytes from outside`)
	}
	return nil
}

// ParseDigest accepts the written form and nothing else ([ErrDigest]).
func ParseDigest(s string) (Digest, error) {
	if d := Digest(s); d.Valid() {
		return d, nil
	}
	return "", refuse(ErrDigest, `a digest is "sha256:" and 64 lower-case hexadecimal digits`)
}

// Valid reports whether d is in the written form.
func (d Digest) Valid() bool {
	if len(d) != len(digestPrefix)+2*sha256.Size || d[:len(digestPrefix)] != digestPrefix {
		return false
	}
	for _, c := range []byte(d[len(digestPrefix):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Hex is the 64 digits without the prefix, "" if d isn't valid.
func (d Digest) Hex() string {
	if !d.Valid() {
		return ""
	}
	return string(d[len(digestPrefix):])
}

// Bytes is the hash itself; it fails with [ErrDigest] if d isn't valid.
func (d Digest) Bytes() (sum [sha256.Size]byte, err error) {
	if !d.Valid() {
		_, err := ParseDigest(string(d))
		return sum, err
	}
	_, err = hex.Decode(sum[:], []byte(d[len(digestPrefix):]))
	return sum, err
}
