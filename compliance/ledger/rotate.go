package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Rotated is a key of a ledger: that of its genesis, or one that took its place.
type Rotated struct {
	Seq    int64  `json:"seq"` // the record that says so; [NoSeq] for the genesis' own
	Time   int64  `json:"time"`
	Key    string `json:"key"` // fingerprint
	Actor  string `json:"actor"`
	Reason string `json:"reason"`

	public instancekey.Public
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

// key is the key that signs now.
func (c *checker) key() instancekey.Public { return c.keys[len(c.keys)-1].public }

// open opens a checkpoint with the key that signed at its size. One of a key that
// was replaced, over records that came after, is nobody's.
func (c *checker) open(signed []byte) (cp Checkpoint, err error) {
	err = errors.New("the ledger has no key yet")
	for i := len(c.keys) - 1; i >= 0; i-- {
		if cp, err = OpenCheckpoint(signed, c.keys[i].public); err != nil {
			continue
		}
		if i+1 < len(c.keys) && cp.Size > c.keys[i+1].Seq {
			return cp, fmt.Errorf("ledger: the checkpoint is signed by %s, which was replaced before its last record", c.keys[i].Key)
		}
		return cp, nil
	}
	return cp, err
}

// intentRotate is what a rotation asks of its kernel.
const intentRotate = "rotate"

// Rotate declares, in one durable append, that another key signs this world's
// ledger from here on: a request to the kernel of the ledger's key, the first of the epoch
// that begins with it. The store's own key signs what stands before. A ledger that
// has the key already, and one that is empty, stay as they are. The ledger takes
// nothing more in this process: it is opened again with the new key.
func (s *Store) Rotate(ctx context.Context, world string, next instancekey.Public, now int64, actor, reason string) error {
	v, err := (&Ledger{store: s, world: world}).verify(ctx, VerifyOptions{})
	if err != nil {
		return err
	}
	if err := v.report.Err(); err != nil {
		return err
	}
	if v.c.tree.size == 0 || v.c.key().Fingerprint() == next.Fingerprint() {
		return nil
	}
	l, err := s.World(ctx, world)
	if err != nil {
		return err
	}
	last, err := l.Checkpoint(ctx)
	if err != nil {
		return err
	}
	body, err := canon.Seal(kernel.KeyRotation{
		Kind: string(kernel.KindKeyRotation), Actor: actor, Reason: reason, Key: next.PublicOpenSSH(), Last: string(last),
	})
	if err != nil {
		return corrupt(world, NoSeq, err.Error())
	}
	return l.declare(ctx, now, nil, declaration{kernel.KindKeyRotation, body, kernel.MachineOfKey(world), int64(len(v.c.keys)), actor, intentRotate})
}
