package ledger

import (
	"context"
	"errors"
	"fmt"

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
