package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// checker follows a chain record by record. Appending and verifying go through
// it alike, so nothing can be stored that verification would refuse. It reads
// the bytes once and builds no record. A copy is independent; after a failed
// add it is spent.
type checker struct {
	tree     tree
	world    []byte // canonical JSON string, as it stands in each record
	instance []byte // the same; both may be nil until the genesis is read
	prev     [len(`"sha256:"`) + 2*sha256.Size]byte
	hash     [sha256.Size]byte // of the last record
	time     int64
	genesis  kernel.Genesis
	adopted  []Adopted // never changed in place: copies of the checker share it
	keys     []Rotated // the key of the genesis and those after it, shared likewise
}

// broken is a record that doesn't fit its place.
type broken struct {
	reason string
	link   bool // prev isn't the hash of the record before; either may be the bad one
	twice  bool // the record before has the same sequence; either may be the bad one
}

func (b *broken) Error() string { return b.reason }

func breaks(format string, args ...any) *broken {
	return &broken{reason: fmt.Sprintf(format, args...)}
}

// newChecker expects a chain of this world and instance; "" takes what the
// genesis says.
func newChecker(world, instance string) (*checker, error) {
	c := &checker{}
	var err error
	if world != "" {
		if c.world, err = canon.Marshal(world); err != nil {
			return nil, fmt.Errorf("ledger: name of the world: %w", err)
		}
	}
	if instance != "" {
		if c.instance, err = canon.Marshal(instance); err != nil {
			return nil, fmt.Errorf("ledger: name of the instance: %w", err)
		}
	}
	return c, nil
}

// head is the chain's last record.
func (c *checker) head() kernel.Head {
	if c.tree.size == 0 {
		return kernel.NoHead()
	}
	return kernel.Head{Seq: c.tree.size - 1, Hash: c.lastHash()}
}

func (c *checker) lastHash() canon.Digest {
	return canon.Digest("sha256:" + hex.EncodeToString(c.hash[:]))
}

// add checks that raw is the next record of the chain, and appends to nodes the
// tree's hashes that it completes. The error is a *broken.
func (c *checker) add(raw, nodes []byte) (envelope, []byte, error) {
	e, plain := c.plain(raw)
	if !plain {
		var err error
		if e, err = c.read(raw); err != nil {
			return e, nodes, err
		}
	}
	if c.tree.size == 0 {
		if err := c.begin(e); err != nil {
			return e, nodes, err
		}
	} else if e.kind == kernel.KindGenesis {
		return e, nodes, breaks("a second genesis; a chain begins once")
	}
	if e.kind == kernel.KindAdoption {
		if err := c.adopt(e); err != nil {
			return e, nodes, err
		}
	}
	if e.kind == kernel.KindKeyRotation {
		if err := c.rotate(e); err != nil {
			return e, nodes, err
		}
	}
	last := c.time
	c.hash, c.time = sha256.Sum256(raw), e.time
	nodes = c.tree.add(leafOf(c.hash), nodes)
	c.setPrev()
	if !e.link {
		return e, nodes, &broken{reason: "it does not follow the record before: prev is not that record's hash", link: true}
	}
	if e.time < last {
		return e, nodes, breaks("the time goes back from %d to %d; the virtual clock never does", last, e.time)
	}
	return e, nodes, nil
}

// rotate checks the declaration of another key: the one before has signed all that
// stands before it, and signs nothing after. The error is a *broken.
func (c *checker) rotate(e envelope) error {
	var body kernel.KeyRotation
	if err := canon.UnmarshalCanonical(e.body, &body); err != nil {
		return breaks("the rotation of the key can't be read: %v", err)
	}
	next, err := instancekey.ParsePublic(body.Key)
	switch {
	case body.Kind != string(kernel.KindKeyRotation) || e.task != 0:
		return breaks("the rotation of the key is of another kind, or of a task")
	case body.Actor == "" || body.Reason == "":
		return breaks("the rotation of the key doesn't say who or why")
	case err != nil || next.PublicOpenSSH() != body.Key:
		return breaks("the rotation names no usable key")
	case slices.ContainsFunc(c.keys, func(r Rotated) bool { return r.Key == next.Fingerprint() }):
		return breaks("the rotation brings back a key that was replaced")
	}
	last, err := OpenCheckpoint([]byte(body.Last), c.key())
	if err != nil || last != (Checkpoint{World: c.genesis.World, History: c.history(), Size: c.tree.size, Root: c.tree.root()}) {
		return breaks("the key that is replaced hasn't signed what stands before its rotation")
	}
	c.keys = append(slices.Clip(c.keys), Rotated{
		Seq: c.tree.size, Time: e.time, Key: next.Fingerprint(), Actor: body.Actor, Reason: body.Reason, public: next,
	})
	return nil
}

func (c *checker) setPrev() {
	b := append(c.prev[:0], `"sha256:`...)
	b = hex.AppendEncode(b, c.hash[:])
	_ = append(b, '"')
}

// begin checks what the first record binds the chain to (case R6).
func (c *checker) begin(e envelope) error {
	if e.kind != kernel.KindGenesis {
		return breaks("the first record is not a genesis")
	}
	if err := canon.UnmarshalCanonical(e.body, &c.genesis); err != nil {
		return breaks("the genesis can't be read: %v", err)
	}
	g := c.genesis
	key, err := instancekey.ParsePublic(g.InstanceKey)
	if err != nil {
		return breaks("the genesis names no usable key: %v", err)
	}
	world, err := canon.Marshal(g.World)
	if err != nil || g.Kind != string(kernel.KindGenesis) || !bytes.Equal(world, c.world) {
		return breaks("the genesis binds another world")
	}
	fingerprint, err := canon.Marshal(key.Fingerprint())
	if err != nil || !bytes.Equal(fingerprint, c.instance) {
		return breaks("the genesis binds another instance's key")
	}
	if g.InstanceKey != key.PublicOpenSSH() {
		return breaks("the genesis writes the instance's key in another form")
	}
	c.keys = []Rotated{{Seq: NoSeq, Key: key.Fingerprint(), public: key}}
	return nil
}
