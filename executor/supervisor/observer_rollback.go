package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/marker"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// resumedAt is the HEAD that a person moves on from, be it none.
func resumedAt(head string) string { return cmp.Or(head, kernel.AbsentHead) }

// told is what writ's account wrote of the task on the issue last. Such an issue had a state.
func (o *observer) told(seen *approval.Facts) (last lastTold) {
	if seen == nil {
		return last
	}
	marks := o.marker()
	for _, k := range ownComments(*seen) {
		if run, ok := marks.Run(marker.Status, k.Body); ok && run != "" {
			seq := marks.Seq(k.Body)
			if last.at == 0 {
				last.kept, last.keptSeq = run, seq
			}
			last.seq = max(last.seq, seq)
			if when := max(k.UpdatedAt.UnixMilli(), k.CreatedAt.UnixMilli(), 1); when >= last.at {
				last.run, last.at, last.doubt = run, when, marks.Doubts(k.Body)
			}
		}
	}
	return last
}

// maxTold bounds the commits below HEAD that are looked through for the run that the
// issue tells of: two days of heartbeats. A task with more of them waits for a person.
const maxTold = 4096

// behind reports whether HEAD lacks the run that the issue tells of, where nothing else
// is known of the task: then somebody set it back.
func (o *observer) behind(ctx context.Context, h kernel.HeadFacts, v kernel.TaskView, told string) (bool, error) {
	if told == "" || v.Seen != "" || v.Unshown != "" && h.OID == v.Unshown || !h.Trusted() || h.Run() == told {
		return false, nil
	}
	has, err := o.hasBelow(ctx, h, func(was kernel.HeadFacts) bool { return was.Run() == told })
	return !has, err
}

// hasBelow reports whether such an event is at HEAD or below.
func (o *observer) hasBelow(ctx context.Context, h kernel.HeadFacts, such func(kernel.HeadFacts) bool) (bool, error) {
	below, _, err := o.s.deps.Repo.Log(ctx, []git.OID{git.OID(h.OID)}, nil, maxTold)
	switch git.CodeOf(err) {
	case git.CodeObjectMissing, git.CodeObjectInvalid, git.CodeCommitAmbiguous:
		err = nil
	}
	for _, commit := range below {
		var was kernel.HeadFacts
		if ev, err := eventOf(commit, false); err == nil {
			readTrailers(&was, ev)
			if was.State, was.RunID = ev.State, ev.RunID; such(was) {
				return true, nil
			}
		}
	}
	return false, err
}

// underAct is a state commit, and the act that its writer went by.
type underAct struct {
	act, ref, signer string
	oid              git.OID
	seconds          int64
}

// maxUnderActs bounds the HEADs that are read for it, the highest numbers first.
const maxUnderActs = 4096

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

// RollbackError says that the ledger is older than what its key has signed: a state
// directory was put back from a copy, or two copies of it are in use. Nothing is
// recorded any more, for the key would sign two histories.
type RollbackError struct {
	Ref, Head string
	Seq       int64
}

func (e *RollbackError) Error() string {
	return fmt.Sprintf("%s: %s is at %s, commit %d of the task, which this installation's key signed and its ledger doesn't hold: the state directory is older than that, or another copy of it is in use",
		kernel.CodeLedgerRollback, e.Ref, e.Head, e.Seq)
}

// FailureCode is the code of the failure table.
func (e *RollbackError) FailureCode() kernel.Code { return kernel.CodeLedgerRollback }

// own refuses to go on where HEAD shows that the ledger is older than its key. What was
// made in a world that goes on as this one is in that one's ledger, and the rebinding
// names the very commit.
func (o *observer) own(c *observation, h kernel.HeadFacts, v kernel.TaskView) (err error) {
	if world, _ := lease.Parse(c.head.Message).Get(kernel.TrailerWorld); world != o.s.cfg.World {
		return nil
	}
	o.s.locked(func() {
		if o.s.world.Disowns(o.number, h, v) {
			err = &RollbackError{Ref: o.StateRef(), Head: h.OID, Seq: h.Seq}
		}
	})
	return err
}
