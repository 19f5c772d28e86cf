package supervisor

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// underAct is a state commit, and the act that its writer went by.
type underAct struct {
	act, ref, signer string
	oid              git.OID
	seconds          int64
}

// underActs are those that the world's HEADs named when this process first went by
// somebody else's word.
type underActs struct {
	mu   sync.Mutex
	read bool
	list []underAct
}

// maxUnderActs bounds the HEADs that are read for it, the highest numbers first.
const maxUnderActs = 4096

// lackingAct is [Supervisor.LackingAct] where somebody else's HEAD counts: what the ref has
// is less than others saw, and the act that is lacking may have revoked his key. Who saw it
// puts it back.
func (o *observer) lackingAct(ctx context.Context, c *observation, head kernel.HeadFacts) error {
	if o.s.deps.Acts == nil || !head.Trusted() || head.Trust != kernel.TrustListed {
		return nil
	}
	return o.s.LackingAct(ctx, c.acts, o.s.underAct(o.StateRef(), c.head))
}

// LackingAct is an error where a state commit by a key that counts was signed under an
// act which isn't known: one of those that were at HEAD when this was asked first, or of
// these.
func (s *Supervisor) LackingAct(ctx context.Context, acts worldref.Standing, also ...underAct) error {
	all, err := s.readUnderActs(ctx)
	if err != nil {
		return err
	}
	ref := s.deps.Acts.Ref()
	for _, u := range slices.Concat(all, also) {
		if u.act != "" && !acts.Has(u.act) && acts.Signs(u.signer, u.ref, string(u.oid)) && !acts.Settled(ref, u.seconds) {
			return &worldref.Error{Code: kernel.CodeWorldRollback, Detail: fmt.Sprintf(
				"%s at %s was signed under the act %s, which %s lacks: that ref was set back or removed, and who counts can't be told without it.", u.ref, u.oid, u.act, ref)}
		}
	}
	return nil
}

// underAct reads a state commit; of one that names no act, or another world, it is zero.
func (s *Supervisor) underAct(ref string, c git.Commit) underAct {
	m := lease.Parse(c.Message)
	act, _ := m.Get(kernel.TrailerWorldAct)
	if world, _ := m.Get(kernel.TrailerWorld); act == "" || world != s.cfg.World {
		return underAct{}
	}
	signer, err := c.Verify(nil)
	if err != nil && git.CodeOf(err) != git.CodeUntrusted {
		return underAct{}
	}
	return underAct{act, ref, signer, c.OID, c.Committer.Seconds}
}

// readUnderActs reads them once.
func (s *Supervisor) readUnderActs(ctx context.Context) ([]underAct, error) {
	s.under.mu.Lock()
	defer s.under.mu.Unlock()
	if s.under.read {
		return s.under.list, nil
	}
	refs, err := s.deps.Repo.Refs(ctx, s.cfg.RefPrefix)
	if err != nil {
		return nil, err
	}
	numbers := TasksAt(refs.Names(), s.cfg.RefPrefix)
	at, oids := map[git.OID]string{}, []git.OID{}
	for _, n := range numbers[max(0, len(numbers)-maxUnderActs):] {
		ref := (&subject{s: s, number: n}).StateRef()
		at[refs.OID(ref)], oids = ref, append(oids, refs.OID(ref))
	}
	var list []underAct
	err = s.deps.Repo.Commits(ctx, oids, func(c git.Commit) {
		if u := s.underAct(at[c.OID], c); u.act != "" {
			list = append(list, u)
		}
	})
	if err != nil {
		return nil, err
	}
	s.under.read, s.under.list = true, list
	return list, nil
}
