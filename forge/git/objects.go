package git

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// objType is the type of an object, numbered as in a pack.
type objType byte

const (
	objCommit   objType = 1
	objTree     objType = 2
	objBlob     objType = 3
	objTag      objType = 4
	objOfsDelta objType = 6
	objRefDelta objType = 7
)

func (t objType) isDelta() bool { return t == objOfsDelta || t == objRefDelta }

// hashObject names an object. The hash is SHA-1 with collision detection, as
// git's own.
func hashObject(t objType, data []byte) OID {
	return OID(plumbing.ComputeHash(plumbing.ObjectType(t), data).String())
}

// HashBlob returns the id that git gives to a blob of these bytes.
func HashBlob(data []byte) OID { return hashObject(objBlob, data) }

type rawObject struct {
	oid  OID
	kind objType
	data []byte
}

// Objects is a set of new objects in memory, to be sent in one pack. It is not
// safe for concurrent use.
type Objects struct {
	list []rawObject
	have map[OID]struct{}
}

// NewObjects returns an empty set. What the base trees hold is known to be at
// the server and is never added, so that only what changed travels.
func NewObjects(base ...Tree) *Objects {
	o := &Objects{have: map[OID]struct{}{}}
	for _, t := range base {
		for oid := range t.trees {
			o.have[oid] = struct{}{}
		}
		for _, e := range t.Entries {
			o.have[e.OID] = struct{}{}
		}
	}
	return o
}

func (o *Objects) add(kind objType, oid OID, data []byte) {
	if _, ok := o.have[oid]; ok {
		return
	}
	o.have[oid] = struct{}{}
	o.list = append(o.list, rawObject{oid, kind, data})
}

// Len returns the number of new objects.
func (o *Objects) Len() int { return len(o.list) }

// Bare reports whether no blob is in it: no rule about contents can be against it.
func (o *Objects) Bare() bool {
	return !slices.ContainsFunc(o.list, func(one rawObject) bool { return one.kind == objBlob })
}

// Blob adds a blob and returns its id. The set keeps data.
func (o *Objects) Blob(data []byte) OID {
	oid := HashBlob(data)
	o.add(objBlob, oid, data)
	return oid
}

// Tree adds the trees that the entries make, nested from their paths, and
// returns the root's id. Trees that a base holds are reused by id. An entry's
// blob need not be in the set: the server may have it.
func (o *Objects) Tree(entries []Entry) (OID, error) {
	return encodeTrees(entries, func(oid OID, data []byte) { o.add(objTree, oid, data) })
}

// CommitSpec is a commit to be made.
type CommitSpec struct {
	Tree      OID
	Parents   []OID
	Author    Person // Seconds from 0 to the year 9999; TZ empty: +0000; OK is not read
	Committer Person
	Message   []byte // no NUL; written as it is
}

// Commit adds a commit, signed if signer is not nil, and returns its id.
func (o *Objects) Commit(spec CommitSpec, signer Signer) (OID, error) {
	raw, err := encodeCommit(spec, signer)
	if err != nil {
		return "", err
	}
	// What is written must read back as what was meant, by our own strict reader.
	c, err := ParseCommit(raw)
	if err != nil {
		return "", err
	}
	o.add(objCommit, c.OID, raw)
	return c.OID, nil
}

// Again adds a commit that was read before, byte for byte.
func (o *Objects) Again(c Commit) { o.add(objCommit, c.OID, c.Raw) }

func encodeCommit(spec CommitSpec, signer Signer) ([]byte, error) {
	var b bytes.Buffer
	for _, oid := range append([]OID{spec.Tree}, spec.Parents...) {
		if !oid.Valid() || oid.IsZero() {
			return nil, fail(CodeOIDInvalid, "a commit names "+fmt.Sprintf("%q", oid)+", which is no object", "", nil)
		}
	}
	fmt.Fprintf(&b, "tree %s\n", spec.Tree)
	for _, p := range spec.Parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	for _, h := range []struct {
		key string
		who Person
	}{{"author", spec.Author}, {"committer", spec.Committer}} {
		if strings.ContainsAny(h.who.Name+h.who.Email, "<>\n\x00") || strings.TrimSpace(h.who.Name) != h.who.Name {
			return nil, fail(CodeObjectInvalid, "the "+h.key+" holds a character that git forbids there", "", nil)
		}
		zone := h.who.TZ
		if zone == "" {
			zone = "+0000"
		}
		fmt.Fprintf(&b, "%s %s <%s> %d %s\n", h.key, h.who.Name, h.who.Email, h.who.Seconds, zone)
	}
	return appendMessage(b.Bytes(), spec.Message, signer)
}

// appendMessage ends the headers with the signature, which covers everything
// but itself, and adds the message.
func appendMessage(head, message []byte, signer Signer) ([]byte, error) {
	tail := append([]byte("\n"), message...)
	if signer == nil {
		return append(head, tail...), nil
	}
	payload := append(bytes.Clone(head), tail...)
	sig, err := signer.Sign(payload)
	if err != nil {
		return nil, err
	}
	folded := strings.ReplaceAll(strings.TrimRight(string(sig), "\n"), "\n", "\n ")
	head = append(head, "gpgsig "+folded+"\n"...)
	return append(head, tail...), nil
}
