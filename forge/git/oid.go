package git

import "strings"

// OID is the id of a git object: 40 lower-case hexadecimal digits (SHA-1).
type OID string

// oidLen is the number of hexadecimal digits of an OID.
const oidLen = 40

// ZeroOID stands for "no object": as the old value of a command it says that
// the ref must not exist, as the new value that it is to be deleted.
const ZeroOID OID = "0000000000000000000000000000000000000000"

// Valid says whether o has the form of an object id. The zero id is valid.
func (o OID) Valid() bool {
	if len(o) != oidLen {
		return false
	}
	return strings.Trim(string(o), "0123456789abcdef") == ""
}

// IsZero says whether o stands for "no object". The empty string does, too, so
// that the zero value of a struct means the same.
func (o OID) IsZero() bool { return o == "" || o == ZeroOID }

// orZero returns o, or the zero id if o is empty.
func (o OID) orZero() OID {
	if o == "" {
		return ZeroOID
	}
	return o
}
