package worlds

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
)

// Fault points of a rotation and of a revocation, for crash tests.
const (
	faultRotateBegun  supervisor.Point = "key.rotate.begun"
	faultRotateActed  supervisor.Point = "key.rotate.acted"
	faultRotateLedger supervisor.Point = "key.rotate.ledger"
	faultRotateDone   supervisor.Point = "key.rotate.done"
	faultRevokeActed  supervisor.Point = "key.revoke.acted"
)

// Count is for which commits of a place a key counts that counts no further.
type Count struct {
	*Place
	Marks   []worldref.Mark
	Remarks []Remark // refs that are not as they were seen, or that nobody looked at
}

// Count works out for which commits of a place a key counts that counts no further: those
// that this installation saw, and with unseen also what the key has at HEAD of others.
func (s *Acting) Count(ctx context.Context, p *Place, key ssh.PublicKey, unseen bool) (Count, error) {
	c := Count{Place: p}
	stands, err := s.stands(ctx, p, p.World, key)
	if err != nil {
		return c, err
	}
	signer := git.Fingerprint(key)
	until := func(st supervisor.Stand) git.OID { return st.Until(signer, unseen) }
	c.Marks = p.marks(stands, until)
	for _, st := range stands {
		moved := st.Code != "" && (st.Signer == signer || until(st) != "")
		if moved || st.Code == "" && st.Legitimate() && st.Signer == signer && !st.Known && !unseen {
			c.Remarks = append(c.Remarks, Remark{Stand: st, Until: until(st)})
		}
	}
	return c, nil
}

// Rotate gives the installation another key, in an order in which whatever was done
// already is found done: the new key, the statement in each repository, the record in each
// ledger, and last the one step that makes the new key the installation's.
func (s *Acting) Rotate(ctx context.Context, counts []Count, reason string) (*instancekey.Key, error) {
	if err := forked(counts); err != nil { // before anything is begun that only a rotation ends
		return nil, err
	}
	old := s.Key.SSHSigner()
	next, err := instancekey.Next(s.Dir.Path)
	if err != nil {
		return nil, err
	}
	s.proc.Reach(faultRotateBegun)
	for _, c := range counts {
		act := c.Room.Draft(s.act(worldref.Rotate, reason, worldref.KeyLine(old.PublicKey()), worldref.KeyLine(next.SSHSigner().PublicKey()), c.Marks))
		if err := act.Prove(old); err != nil {
			return nil, err
		}
		if _, err := c.Room.Append(ctx, act, s.Writer(next.SSHSigner())); err != nil {
			return nil, err
		}
		s.proc.Reach(faultRotateActed)
	}
	return next, s.handOver(ctx, next, reason)
}

// forked is an error where the acts of a place go two ways, so that none can be added.
func forked(counts []Count) error {
	for _, c := range counts {
		if f := c.Room.Forked(); f != nil {
			return f
		}
	}
	return nil
}

// handOver gives ledgers and state directory to the next key.
func (s *Acting) handOver(ctx context.Context, next *instancekey.Key, reason string) error {
	names, err := s.Store.Worlds(ctx)
	if err != nil {
		return err
	}
	for _, w := range names {
		if err := s.Store.Rotate(ctx, w, next.Public, installation.NewClock().Now().WallMs, s.proc.LocalActor(), reason); err != nil {
			return err
		}
		s.proc.Reach(faultRotateLedger)
	}
	if err := s.ForgetOlder(); err != nil { // what the old key has signed besides counts no more
		return err
	}
	if err := instancekey.Replace(s.Dir.Path); err != nil {
		return err
	}
	s.proc.Reach(faultRotateDone)
	return nil
}

// Revoke says in each place that a key counts for no more than this, and reports whether
// the configuration still lists it.
func (s *Acting) Revoke(ctx context.Context, counts []Count, key ssh.PublicKey, reason string) (listed bool, err error) {
	if err := forked(counts); err != nil { // before it counts in some of them, and not in others
		return false, err
	}
	for _, c := range counts {
		act := s.act(worldref.Revoke, reason, worldref.KeyLine(key), "", c.Marks)
		if _, err := c.Room.Append(ctx, act, s.Writer(s.Key.SSHSigner())); err != nil {
			return false, err
		}
		s.proc.Reach(faultRevokeActed)
	}
	return slices.ContainsFunc(s.Cfg.TrustedRunners, func(line string) bool { return strings.HasPrefix(line, worldref.KeyLine(key)) }), nil
}
