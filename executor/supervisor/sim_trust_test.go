package supervisor

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
	"github.com/writbot/writ/kernel/lease"
)

// simPlace is where the simulated task's state belongs.
func simPlace() kernel.Stamp {
	return kernel.Stamp{World: "forge.example/owner/repo", Ref: "refs/writ/task/1", Task: 1}
}

// anotherIssue is none that a forge of these tests has.
var anotherIssue = kernel.IssueName(7, 1_700_000_000)

// elsewhere are places that a state commit may have been copied from.
func elsewhere() []kernel.Stamp {
	var out []kernel.Stamp
	for _, change := range []func(*kernel.Stamp){
		func(s *kernel.Stamp) { s.World = "forge.example/owner/other" }, func(s *kernel.Stamp) { s.Ref = "refs/heads/writ/task/1" },
		func(s *kernel.Stamp) { s.Ref, s.Task = "refs/writ/task/2", 2 }, func(s *kernel.Stamp) { s.Issue = anotherIssue },
	} {
		p := simPlace()
		change(&p)
		out = append(out, p)
	}
	return out
}

// foreign reports whether a commit's stamp names another place.
func (s *sim) foreign(id string) bool {
	o, _ := s.server.Object(id)
	commit, err := git.ParseCommit(o.Data)
	if err != nil {
		return false
	}
	ev, err := eventOf(commit, false)
	if err != nil {
		return false
	}
	stamp, err := kernel.ReadStamp(ev.Trailers)
	here := simPlace()
	if s.forged != nil && stamp.Issue != anotherIssue {
		here.Issue = stamp.Issue // the forge numbers its issues by itself
	}
	return err == nil && stamp.Binding(here) == kernel.BindElsewhere
}

// copied puts a commit at the state ref that a runner's key signed for a place. It
// says that the task is completed, on this approval.
func (s *sim) copied(r *simRunner, parent string, place kernel.Stamp) string {
	head := s.head()
	return s.forge(r.signer, parent, kernel.TaskCompleted, place.At(90), lease.Trailer{Key: kernel.TrailerAttempt, Value: "2"},
		lease.Trailer{Key: kernel.TrailerApproval, Value: head.Approval}, lease.Trailer{Key: kernel.TrailerRun, Value: s.choice.UUID()})
}

// forge puts a signed state commit at the state ref.
func (s *sim) forge(by git.Signer, parent string, state kernel.TaskState, stamp kernel.Stamp, more ...lease.Trailer) string {
	var extra []lease.Trailer
	for _, tr := range more {
		if tr.Value != "" {
			extra = append(extra, tr)
		}
	}
	msg, err := lease.Format(lease.Message{Title: "copied", Trailers: slices.Concat([]lease.Trailer{{Key: lease.KeyState, Value: string(state)}}, stamp.Trailers(), extra)})
	must(s.t, err)
	objs := git.NewObjects()
	tree, err := objs.Tree(nil)
	must(s.t, err)
	who := git.Person{Name: "writ", Email: "writ@localhost", Seconds: s.time.Now() / 1000, TZ: "+0000", OK: true}
	spec := git.CommitSpec{Tree: tree, Author: who, Committer: who, Message: msg}
	if parent != "" {
		spec.Parents = []git.OID{git.OID(parent)}
	}
	oid, err := objs.Commit(spec, by)
	must(s.t, err)
	list, err := kerneltest.ReadPack(objs.Pack().Data)
	must(s.t, err)
	s.server.Put(list...)
	s.server.Force(s.check.StateRef, string(oid))
	return string(oid)
}

// copyOf is a disk's ledger as it is now.
func copyOf(l *memLedger) *memLedger {
	return &memLedger{r: l.r, chain: l.chain, records: slices.Clone(l.records)}
}

// snapshot copies the runner's disk, or puts an earlier copy back, whole.
func (r *simRunner) snapshot() {
	if r.snap == nil {
		r.snap = copyOf(r.ledger)
		return
	}
	r.crash()
	r.s.logf("the disk of %s is put back to record %d", r.name, r.snap.chain.Head.Seq)
	r.ledger, r.snap = r.snap, nil
	r.s.check.Restored(r.instance(), r.ledger.chain.Head)
}

// older reports whether the runner found that its ledger is older than its key.
func (r *simRunner) older() bool {
	var e *RollbackError
	return errors.As(r.lastError, &e)
}

// adopt is a person who goes on with the older ledger.
func (r *simRunner) adopt() {
	r.up()
	_, err := r.ledger.Write(context.Background(), r.clock.Now().WallMs, kernel.Draft{Kind: kernel.KindAdoption, Body: kernel.Adoption{
		Kind: string(kernel.KindAdoption), Actor: "alice", Reason: "the disk was put back", History: 2, Abandoned: []string{}, Heads: []string{r.s.head().OID},
	}})
	must(r.s.t, err)
	r.crash()
	r.up()
}

// TestSim_L18_Copied: a signed result of another world, ref, task or issue is nobody's
// result here. On a task that was seen it waits for a person; on a young one it is a
// parent, and the task begins with its first attempt.
func TestSim_L18_Copied(t *testing.T) {
	t.Parallel()
	for _, place := range elsewhere() {
		s := newSim(t, 1, 0, 0)
		a, b := s.runners[0], s.runners[1]
		foreign := s.copied(a, "", place)
		a.until(kernel.StandFinal)
		s.expect("completed", 1, 1, 1)
		s.expectCounts(1, 0)
		b.until(kernel.StandFinal)
		if !s.below(foreign) {
			s.fail("%s: the copy isn't below HEAD", place)
		}

		s = newSim(t, 1, 0, 0)
		a, b = s.runners[0], s.runners[1]
		a.build = "bad"
		a.reach(kernel.ActionResult)
		b.tick()
		s.copied(b, s.head().OID, place)
		s.waitsForRepair(a, kernel.CodeStateForeign)
		s.waitsForRepair(b, kernel.CodeStateForeign)
		must(t, b.proc.sup.Resume(t.Context(), 1, "alice", "I looked"))
		b.build = "good"
		b.until(kernel.StandFinal)
		a.until(kernel.StandFinal) // one act settles it for all
		s.expect("completed", 2, 2, 1)
	}
}

// below reports whether a commit lies below HEAD.
func (s *sim) below(id string) bool {
	for h := s.head(); h.OID != ""; {
		if h.OID == id {
			return true
		}
		o, _ := s.server.Object(h.Parent)
		h = kerneltest.ReadHead(h.Parent, o)
	}
	return false
}

// TestSim_L19_SetBack: a state that is removed, set back to a signed commit of ours,
// or split, waits for a person, by whomever and whenever it is looked at, restarts
// included; nothing is counted. One act settles it, and a second roll-back to the same
// commit waits again.
func TestSim_L19_SetBack(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(s *sim, was kerneltest.Head) string{
		"removed":    func(*sim, kerneltest.Head) string { return "" },
		"its parent": func(_ *sim, was kerneltest.Head) string { return was.Parent },
		"the first": func(s *sim, was kerneltest.Head) string {
			for was.Parent != "" {
				o, _ := s.server.Object(was.Parent)
				was = kerneltest.ReadHead(was.Parent, o)
			}
			return was.OID
		},
		"another of its number": func(s *sim, was kerneltest.Head) string {
			return s.forge(s.runners[1].signer, was.Parent, kernel.TaskOpen, simPlace().At(3))
		},
	} {
		s := newSim(t, 1, 0, 0)
		a, b := s.runners[0], s.runners[1]
		a.build = "bad"
		a.reach(kernel.ActionResult) // retry_pending, commit 3
		a.tick()
		b.tick()
		was := s.head()
		to := back(s, was)
		s.server.Force(s.check.StateRef, to)
		for range 2 {
			s.waitsForRepair(a, kernel.CodeStateRollback)
			s.waitsForRepair(b, kernel.CodeStateRollback)
			a.crash()
			a.up()
		}
		must(t, a.proc.sup.Resume(t.Context(), 1, "alice", "I looked"))
		a.build = "bad"
		a.reach(kernel.ActionResult)
		if st := b.tick(); st.Decision.WaitingFor == kernel.WaitRepair {
			s.fail("%s: the act doesn't settle it for the other: %v", name, st.Decision.Codes)
		}
		s.server.Force(s.check.StateRef, to)
		s.waitsForRepair(a, kernel.CodeStateRollback)
		s.waitsForRepair(b, kernel.CodeStateRollback)
	}
}

// TestSim_L19_TwoSeeDifferentHeads: where the ref was set back to what one of two
// installations saw last, that one goes on; the other, which saw more, doesn't follow
// it until a person looked.
func TestSim_L19_TwoSeeDifferentHeads(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	a.build, b.build = "bad", "bad"
	a.reach(kernel.ActionResult)
	b.tick()
	early := s.head().OID
	s.advance(60_000)
	a.reach(kernel.ActionDispatch) // one commit more, which B doesn't see
	a.crash()
	s.server.Force(s.check.StateRef, early)
	b.reach(kernel.ActionClaim)
	a.up()
	s.waitsForRepair(a, kernel.CodeStateRollback)
}

// TestSim_L19_UnlistedNumbers: an unlisted key's number neither leads nor misleads.
func TestSim_L19_UnlistedNumbers(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	s.isolate()
	a.build = "bad"
	a.reach(kernel.ActionResult)
	s.forge(b.signer, s.head().OID, kernel.TaskOpen, simPlace().At(kernel.MaxStateSeq))
	s.waitsForRepair(a, kernel.CodeLeaseUntrusted)
	must(t, a.proc.sup.Resume(t.Context(), 1, "alice", "I looked"))
	a.build = "good"
	a.until(kernel.StandFinal)
	s.expect("completed", 2, 2, 1)
}

// TestSim_R10_Snapshot: a disk that was put back from a copy is noticed at the first
// HEAD of its key that it doesn't know, before anything is recorded or pushed; a
// person adopts it, and it goes on.
func TestSim_R10_Snapshot(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.reach(kernel.ActionClaim)
	a.snapshot()
	a.reach(kernel.ActionDispatch)
	s.advance(45_000)
	a.reach(kernel.ActionHeartbeat)
	a.snapshot()
	a.up()
	pushes, records := a.pushes, len(a.ledger.records)
	for range 3 {
		a.tick()
		if !a.older() || Passing(a.lastError) {
			s.fail("it isn't noticed: %v", a.lastError)
		}
		s.advance(600_000)
	}
	if a.pushes != pushes || len(a.ledger.records) != records {
		s.fail("%d pushes and %d records after it was noticed", a.pushes-pushes, len(a.ledger.records)-records)
	}
	a.adopt()
	a.until(kernel.StandFinal)
	s.expect("completed", 2, 2, 1)
}

// TestSim_R10_TwoCopies: of two live copies of one disk, the one that meets the
// other's commit stops. A commit of its key that was copied from another task, or to
// which the ref was set back, shows nothing of the kind.
func TestSim_R10_TwoCopies(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, 0)
	a, b := s.runners[0], s.runners[1]
	b.crash()
	b.signer, b.ledger = a.signer, copyOf(a.ledger)
	b.ledger.r = b
	s.check.Restored(b.instance(), b.ledger.chain.Head)
	b.up()
	a.reach(kernel.ActionClaim)
	b.tick()
	if !b.older() {
		s.fail("the other copy's lease is taken for its own: %v %s", b.lastError, b.last.Decision.Standing)
	}
	a.until(kernel.StandFinal)
	if a.older() {
		s.fail("%v", a.lastError)
	}

	for _, place := range elsewhere() {
		s := newSim(t, 1, 0)
		a := s.runners[0]
		a.build = "bad"
		a.reach(kernel.ActionResult)
		s.copied(a, s.head().OID, place)
		s.waitsForRepair(a, kernel.CodeStateForeign)
	}
}

// TestSim_R10_LatePush: an own push that was given up as lost and arrives all the same
// is no other copy's.
func TestSim_R10_LatePush(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0)
	a := s.runners[0]
	a.beforePush = func() { a.push, a.noReads = kerneltest.Delayed, 9 }
	a.tick()
	a.crash()
	a.noReads = 0
	a.up()
	a.beforePush = func() { a.crash() }
	a.tick() // looks up what became of it, finds nothing, and dies
	for s.server.Late() > 0 {
		s.server.Deliver()
	}
	a.up()
	a.tick()
	if a.older() {
		s.fail("%v", a.lastError)
	}
	a.until(kernel.StandFinal)
}
