package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// signer verifies a commit's signature with the key that the signature itself
// names; whose key that is, is another question.
func signer(c git.Commit) (ssh.PublicKey, error) {
	if len(c.Signature) == 0 {
		return nil, errors.New("it is not signed")
	}
	sig, err := sshsig.Unarmor(c.Signature)
	if err != nil {
		return nil, errors.New("its signature can't be read")
	}
	_, err = c.Verify([]ssh.PublicKey{sig.PublicKey})
	return sig.PublicKey, err
}

func (v *verifier) readSigner() {
	key, err := signer(v.head.Commit)
	if err != nil {
		v.keyErr = err
		return
	}
	v.rep.Signer = git.Fingerprint(key)
	v.rep.Vouched = slices.ContainsFunc(v.opts.Keys, func(k ssh.PublicKey) bool { return git.Fingerprint(k) == v.rep.Signer })
	public, err := instancekey.ParsePublic(string(ssh.MarshalAuthorizedKey(key)))
	if err != nil {
		v.keyErr = err
		return
	}
	v.key = &public
}

func (v *verifier) checkSignature(f *findings) string {
	if v.keyErr != nil {
		f.file("", "HEAD %s has no good signature of an instance: %v.", v.head.Commit.OID, v.keyErr)
		return ""
	}
	if len(v.opts.Keys) > 0 && !v.rep.Vouched {
		f.add(kernel.CodeLeaseUntrusted, "", NoSeq, "HEAD is signed by %s, which is none of the keys that you vouch for.", v.rep.Signer)
	}
	if !v.rep.Vouched {
		return fmt.Sprintf("HEAD %s is signed by %s; nobody vouched for this key.", v.head.Commit.OID, v.rep.Signer)
	}
	return fmt.Sprintf("HEAD %s is signed by %s, a key that you trust.", v.head.Commit.OID, v.rep.Signer)
}

// eventOf reads a commit as a state event.
func eventOf(c git.Commit) (lease.Event, error) {
	ev, err := lease.ReadEvent(lease.Head{
		OID: string(c.OID), Message: c.Message,
		CommitterSeconds: c.Committer.Seconds, CommitterOK: c.Committer.OK && len(c.Ambiguous) == 0,
	})
	var fault *lease.Error
	if errors.As(err, &fault) {
		return ev, errors.New(fault.Detail)
	}
	return ev, err
}

// writs are Writ's own trailers; none may stand at HEAD twice.
func writs() []string {
	return []string{
		kernel.TrailerBase, kernel.TrailerAttempt, kernel.TrailerInterruptions, kernel.TrailerNotBefore,
		kernel.TrailerApproval, kernel.TrailerGovernance, kernel.TrailerDispatch, kernel.TrailerLedgerHead,
		kernel.TrailerWaitingFor, kernel.TrailerChange, kernel.TrailerCodes, kernel.TrailerPlan, kernel.TrailerAct,
	}
}

func (v *verifier) checkHead(f *findings) string {
	if v.eventErr != nil {
		f.add(kernel.CodeLockViolation, "", NoSeq, "HEAD is no state event: %v.", v.eventErr)
		return ""
	}
	if v.rep.State == kernel.TaskNone {
		f.add(kernel.CodeLockViolation, "", NoSeq, "HEAD has a state that no task has.")
	}
	for _, x := range v.event.Faults {
		f.file("", "A trailer at HEAD can't be read: %s.", x)
	}
	for _, key := range writs() {
		if n := len((lease.Message{Trailers: v.event.Trailers}).Values(key)); n > 1 {
			f.file("", "HEAD has the trailer %s %d times.", key, n)
		}
	}
	return v.standing()
}

// standing says how the task stands.
func (v *verifier) standing() string {
	ev := v.event
	switch {
	case v.live():
		until := kernel.Timestamp(ev.CommitterSeconds + ev.LeaseSeconds)
		return fmt.Sprintf("The task is in progress: attempt %s, run %s of %s, lease until %s. There is no result yet.",
			v.said(kernel.TrailerAttempt), ev.RunID, ev.RunnerID, until)
	case ev.State == kernel.HeadStalled:
		return fmt.Sprintf("Nobody works on the task: run %s ended without a result, of which there is no pack.", ev.StalledRun)
	case v.rep.State == kernel.TaskWaiting:
		return fmt.Sprintf("The task waits for %s; no pack belongs to that state.", v.said(kernel.TrailerWaitingFor))
	case !v.ofRun():
		return fmt.Sprintf("The task is %s without a run's result; no pack belongs to that state.", v.rep.State)
	}
	return fmt.Sprintf("The task is %s after attempt %s.", v.rep.State, v.said(kernel.TrailerAttempt))
}

// checkTree binds the bytes to the signed commit.
func (v *verifier) checkTree(f *findings) string {
	id, err := treeOf(v.pack)
	switch {
	case err != nil:
		f.file("", "The files can't form the tree of HEAD: %v.", err)
	case id != v.head.Commit.Tree:
		f.file("", "The files are not those of the signed commit: they make the tree %s, HEAD names %s.", id, v.head.Commit.Tree)
	}
	for _, name := range slices.Sorted(maps.Keys(v.pack)) {
		if !known[name] {
			f.file(name, "The evidence has a file %q that it can't have.", name)
		}
	}
	return fmt.Sprintf("The %d files are those of the signed commit.", len(v.pack))
}

// treeOf is the git id of a tree of these files.
func treeOf(p Pack) (git.OID, error) {
	entries := make([]git.Entry, 0, len(p))
	for name, data := range p {
		entries = append(entries, git.Entry{Path: name, Mode: git.ModeFile, OID: git.HashBlob(data)})
	}
	slices.SortFunc(entries, byPath)
	return git.NewObjects().Tree(entries)
}

// checkLease follows the run's commits from HEAD to its claim.
func (v *verifier) checkLease(f *findings) string {
	leases := v.head.Leases
	if len(leases) == 0 || v.claim == nil {
		f.file("", "There is no lease of a run below HEAD.")
		return ""
	}
	if !v.live() && !slices.Equal(v.head.Commit.Parents, []git.OID{leases[0].OID}) {
		f.file("", "HEAD was not put on the run's lease %s.", leases[0].OID)
	}
	inputs, err := treeOf(Pack{FileSeedPack: v.pack[FileSeedPack], FileContract: v.pack[FileContract]})
	if err != nil || inputs != leases[len(leases)-1].Tree {
		f.file("", "The claim %s was made with another seed pack or contract.", leases[len(leases)-1].OID)
	}
	for i, c := range leases {
		v.checkOneLease(f, c)
		if i > 0 && !slices.Equal(leases[i-1].Parents, []git.OID{c.OID}) {
			f.file("", "The lease %s was not put on %s.", leases[i-1].OID, c.OID)
		}
		if i > 0 && leases[i-1].Committer.Seconds < c.Committer.Seconds {
			f.file("", "The lease %s is dated before the one that it renews.", leases[i-1].OID)
		}
	}
	return fmt.Sprintf("Run %s was claimed with commit %s and renewed %d times, all by the signer.",
		v.claim.RunID, leases[len(leases)-1].OID, len(leases)-1)
}

// sameInLeases are the trailers that a run keeps from its claim to its result.
func sameInLeases() []string {
	return []string{
		kernel.TrailerBase, kernel.TrailerAttempt, kernel.TrailerApproval, kernel.TrailerGovernance,
		kernel.TrailerPlan, kernel.TrailerDispatch,
	}
}

func (v *verifier) checkOneLease(f *findings, c git.Commit) {
	key, err := signer(c)
	if err != nil || git.Fingerprint(key) != v.rep.Signer {
		f.file("", "The lease %s is not signed by the signer of HEAD.", c.OID)
	}
	ev, err := eventOf(c)
	switch {
	case err != nil || ev.State != lease.StateWorking || ev.Malformed():
		f.file("", "The lease %s can't be read as one.", c.OID)
		return
	case ev.RunID != v.claim.RunID:
		f.file("", "The lease %s is of run %s, the claim of run %s.", c.OID, ev.RunID, v.claim.RunID)
	case c.Tree != v.head.Leases[len(v.head.Leases)-1].Tree:
		f.file("", "The lease %s has other inputs than the claim.", c.OID)
	}
	for _, key := range sameInLeases() {
		if got, want := trailer(ev, key), v.said(key); got != want {
			f.file("", "The lease %s says %s %q, HEAD %q.", c.OID, key, got, want)
		}
	}
}

// number is a trailer that is a number, -1 if it isn't.
func (v *verifier) number(key string) int64 {
	s := v.said(key)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != s {
		return -1
	}
	return n
}
