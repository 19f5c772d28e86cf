package canon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Reason says why a document or value was refused. It is an error itself, so
// errors.Is(err, canon.ErrFloat) works on what the functions here return.
type Reason string

// The reasons. Their text is stable: it may be recorded.
const (
	// ErrSyntax: not JSON, or the document ends early.
	ErrSyntax Reason = "syntax"
	// ErrTrailing: something other than white space follows the document.
	ErrTrailing Reason = "trailing"
	// ErrFloat: a fraction, an exponent, −0, or a Go float.
	ErrFloat Reason = "float"
	// ErrRange: an integer beyond ±(2^53−1) or beyond its field's Go type.
	ErrRange Reason = "range"
	// ErrUTF8: text that is not valid UTF-8.
	ErrUTF8 Reason = "utf8"
	// ErrSurrogate: a \u escape that is one half of a surrogate pair.
	ErrSurrogate Reason = "surrogate"
	// ErrKey: an object key that is not ASCII.
	ErrKey Reason = "key"
	// ErrDuplicate: the same key twice in one object.
	ErrDuplicate Reason = "duplicate"
	// ErrUnknown: a member that the struct doesn't have.
	ErrUnknown Reason = "unknown"
	// ErrMissing: members that the struct requires; see [Error.Missing].
	ErrMissing Reason = "missing"
	// ErrNull: null for something that can't be null.
	ErrNull Reason = "null"
	// ErrType: JSON of another type than the field, or a Go type without a
	// canonical form.
	ErrType Reason = "type"
	// ErrDepth: nested deeper than the limit, or a Go value with a cycle.
	ErrDepth Reason = "depth"
	// ErrSize: more bytes than the limit.
	ErrSize Reason = "size"
	// ErrNotCanonical: strict JSON, but not in canonical form.
	ErrNotCanonical Reason = "not_canonical"
	// ErrKind: what is to be hashed is no object with a "kind".
	ErrKind Reason = "kind"
	// ErrDigest: not "sha256:" and 64 lower-case hexadecimal digits.
	ErrDigest Reason = "digest"
)

// Error makes a reason an error by itself.
func (r Reason) Error() string { return "canon: " + string(r) }

// NoOffset is the offset of an error that has no place in a document,
// because a Go value was being written.
const NoOffset = -1

// Error is every failure of this package.
type Error struct {
	// Reason is the stable cause; errors.Is finds it.
	Reason Reason
	// Path is the place as a JSON Pointer (RFC 6901); "" is the document.
	Path string
	// Offset is the place in bytes from the start, or [NoOffset].
	Offset int
	// Missing names the absent members, sorted; only with [ErrMissing].
	Missing []string
	// Detail is a sentence about what was found and what to write instead.
	// It quotes no value, only keys.
	Detail string
}

// Error is one line with all of it.
func (e *Error) Error() string {
	where := e.Path
	if where == "" {
		where = "/"
	}
	if e.Offset != NoOffset {
		where += " (byte " + strconv.Itoa(e.Offset) + ")"
	}
	return fmt.Sprintf("%v at %s: %s", e.Reason, where, e.Detail)
}

// Unwrap gives the reason to errors.Is.
func (e *Error) Unwrap() error { return e.Reason }

// refuse makes an error about a Go value.
func refuse(r Reason, detail string) error {
	return &Error{Reason: r, Offset: NoOffset, Detail: detail}
}

// in prefixes the error's path with a key on the way out of an object. The
// path costs nothing while all goes well.
func in[T string | []byte](err error, key T) error {
	var e *Error
	if errors.As(err, &e) {
		e.Path = "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(string(key)) + e.Path
	}
	return err
}

// at prefixes the error's path with an index on the way out of an array.
func at(err error, index int) error { return in(err, strconv.Itoa(index)) }
