package replay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/report"
	"github.com/writbot/writ/compliance/sealed"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
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
	v.signer = git.Fingerprint(key)
	v.event, v.eventErr = eventOf(v.head.Commit) // it names the world, whose acts are read
	v.readActs()
	v.rep.Signer, v.rep.Vouched = v.signer, v.vouchedResult(v.signer)
	if c := v.head.Completion; c != nil {
		v.rep.Signer = ""
		if last, err := signer(c.Commit); err == nil {
			v.rep.Signer = git.Fingerprint(last)
		}
		v.rep.Vouched = v.rep.Vouched && v.vouched(v.rep.Signer)
	}
	public, err := instancekey.ParsePublic(string(ssh.MarshalAuthorizedKey(key)))
	if err != nil {
		v.keyErr = err
		return
	}
	v.key = &public
}

func (v *verifier) checkSignature(f *findings) string {
	if v.keyErr != nil {
		by := v.head.Commit.Committer
		f.file("", "HEAD %s of task %d has no good signature of an instance: %v. It says that it is by %q <%s>, which anybody may write.",
			v.head.Commit.OID, v.head.Task, v.keyErr, by.Name, by.Email)
		return ""
	}
	what := "HEAD"
	if v.head.Completion != nil {
		what = "The result"
	}
	return v.checkSigner(f, what, v.signer, v.head.Commit.OID)
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
		kernel.TrailerFormat, kernel.TrailerSeq, kernel.TrailerWorld, kernel.TrailerRef, kernel.TrailerTask, kernel.TrailerIssue,
		kernel.TrailerWorldAct, kernel.TrailerBase, kernel.TrailerAttempt, kernel.TrailerInterruptions, kernel.TrailerNotBefore,
		kernel.TrailerApproval, kernel.TrailerGovernance, kernel.TrailerDispatch, kernel.TrailerLedgerHead,
		kernel.TrailerWaitingFor, kernel.TrailerChange, kernel.TrailerBranch, kernel.TrailerCodes, kernel.TrailerPlan, kernel.TrailerAct, kernel.TrailerAccepts, kernel.TrailerRun, kernel.TrailerResumes,
		kernel.TrailerRefreshes, kernel.TrailerRefreshAct, kernel.TrailerRefreshInterruptions, kernel.TrailerRefreshWaits, kernel.TrailerFixes, kernel.TrailerFix,
	}
}

func (v *verifier) checkHead(f *findings) string {
	if v.eventErr != nil {
		f.add(kernel.CodeLockViolation, "", NoSeq, "HEAD is no state event: %v.", v.eventErr)
		return ""
	}
	if v.state == kernel.TaskNone {
		f.add(kernel.CodeLockViolation, "", NoSeq, "HEAD has a state that no task has.")
	}
	if wait := v.said(kernel.TrailerWaitingFor); v.state == kernel.TaskWaiting && !slices.Contains(kernel.Waits(), wait) {
		f.file("", "HEAD waits for %q, which no task does.", wait)
	}
	for _, x := range v.event.Faults {
		f.file("", "A trailer at HEAD can't be read: %s.", x)
	}
	for _, key := range writs() {
		if n := len((lease.Message{Trailers: v.event.Trailers}).Values(key)); n > 1 {
			f.file("", "HEAD has the trailer %s %d times.", key, n)
		}
	}
	run := cmp.Or(v.said(kernel.TrailerRun), v.event.StalledRun)
	if v.claim != nil && !v.live() && (v.ofRun() || v.leaseTree()) && run != v.claim.RunID {
		f.file("", "HEAD tells of the run %q, the lease below it is of run %s.", run, v.claim.RunID)
	}
	if n := v.said(kernel.TrailerRefreshInterruptions); n != "" && !v.live() {
		f.file("", "HEAD says that an act is to be done again, which was interrupted %q times, and puts no result back.", n)
	}
	if what := v.said(kernel.TrailerRefreshWaits); what != "" {
		f.file("", "HEAD says that an act waits for %q, and puts no result back.", what)
	}
	v.checkAct(f)
	return v.standing()
}

// checkAct: HEAD rests on the act on the forge that its run was claimed on. Where the work
// waited at the ref, a newer one may have been taken in.
func (v *verifier) checkAct(f *findings) {
	if v.claim == nil || !v.ofRun() && !v.live() && !awaitsRule(v.event) {
		return // it may take in what a person did since
	}
	of, says := trailer(*v.claim, kernel.TrailerAct), v.said(kernel.TrailerAct)
	if says != of && (len(v.head.Waits) == 0 && !awaitsRule(v.event) || !kernel.NewerAct(says, of)) {
		f.file("", "HEAD rests on the act %q, its run was claimed on %q.", says, of)
	}
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
	case v.accepted() && v.state == kernel.TaskWaiting:
		return fmt.Sprintf("The task was verified in attempt %s and waits for the merge of its change.", v.said(kernel.TrailerAttempt))
	case v.awaitsPaths():
		return fmt.Sprintf("The work of run %s is done, and waits for somebody to accept what its guarded paths hold. Its pack comes with its delivery.", v.said(kernel.TrailerRun))
	case v.awaitsEnvironment():
		return fmt.Sprintf("The work of run %s is done, and waits for what its checks lack, on the base as well. Nobody has verified it yet.", v.said(kernel.TrailerRun))
	case awaitsRule(ev):
		return fmt.Sprintf("The work of run %s is done and waits: the server refuses it by a rule of its own. Its pack comes with it.", v.said(kernel.TrailerRun))
	case v.state == kernel.TaskWaiting:
		return fmt.Sprintf("The task waits for %s; no pack belongs to that state.", v.said(kernel.TrailerWaitingFor))
	case !v.ofRun():
		return fmt.Sprintf("The task is %s without a run's result; no pack belongs to that state.", v.state)
	}
	return fmt.Sprintf("The task is %s after attempt %s.", v.state, v.said(kernel.TrailerAttempt))
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
	said := fmt.Sprintf("%s, those of the signed commit.", report.Counted(len(v.pack), "file"))
	if c := v.head.Carried; c != nil {
		return said + fmt.Sprintf(" They are carried along from the commit %s below it: they tell of that one, and what is in them is not verified here.", c.OID)
	}
	work := false
	for _, name := range slices.Sorted(maps.Keys(v.pack)) {
		if !v.own(name) {
			f.file(name, "The evidence has a file %q that it can't have.", name)
		}
		work = work || sealed.Is(name) && !v.ofRun()
	}
	if !work {
		return said
	}
	if v.awaitsSealed() {
		v.checkHeld(f)
	} else if v.inputs().sealed != v.head.Commit.Tree {
		f.file(FileSealed, "The sealed work is not what its manifest says.")
	}
	return said + " The sealed work among them is not verified: nobody has judged it yet."
}

// own reports whether HEAD, as it stands, has such a file of its own.
func (v *verifier) own(name string) bool {
	switch {
	case v.ofRun():
		return known[name] && name != FileMerge && name != FileRefresh
	case name == FileSeedPack || name == FileContract:
		return true
	case name == FileReport || name == FileMarkdown:
		return v.state == kernel.TaskBlocked || v.state == kernel.TaskWaiting && v.said(kernel.TrailerWaitingFor) != kernel.WaitRule
	}
	return (v.leaseTree() || v.awaitsSealed()) && sealed.Is(name)
}

// awaitsSealed reports whether HEAD waits with sealed work.
func (v *verifier) awaitsSealed() bool {
	return v.state == kernel.TaskWaiting && kernel.SealedWait(v.said(kernel.TrailerWaitingFor))
}

// awaitsPaths reports whether HEAD waits with sealed work for its guarded paths.
func (v *verifier) awaitsPaths() bool {
	return v.state == kernel.TaskWaiting && v.said(kernel.TrailerWaitingFor) == kernel.WaitPaths
}

// awaitsEnvironment reports whether HEAD waits with sealed work for what its checks lack.
func (v *verifier) awaitsEnvironment() bool {
	return v.state == kernel.TaskWaiting && v.said(kernel.TrailerWaitingFor) == kernel.WaitEnvironment
}

// checkHeld: the sealed work is whole, for the task's own dispatch, and changes guarded
// paths where it waits for these.
func (v *verifier) checkHeld(f *findings) {
	files := map[string][]byte{}
	for name, data := range v.pack {
		if sealed.Is(name) {
			files[name] = data
		}
	}
	work, err := sealed.Read(files)
	if err != nil {
		f.file(FileSealed, "The sealed work is not what its manifest says: %v.", err)
		return
	}
	hash, err := canon.Hash(work.Dispatch)
	if err != nil || string(hash) != v.said(kernel.TrailerDispatch) || v.awaitsPaths() && len(work.Diff.Guarded) == 0 {
		f.file(FileSealed, "The sealed work is of another dispatch than HEAD's, or changes no guarded path.")
	}
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
	v.checkWaits(f)
	inputs := v.inputs()
	begins := inputs.plain
	if v.resumes() != "" && v.refreshes() == "" {
		if v.sealed != nil { // otherwise the server didn't take it, and it lay in the signer's store
			begins = inputs.sealed
		}
		v.checkEarlier(f)
	}
	if begins != leases[len(leases)-1].Tree {
		f.file("", "The claim %s was made with another seed pack, contract or sealed work.", leases[len(leases)-1].OID)
	}
	for i, c := range leases {
		v.checkOneLease(f, c)
		if c.Tree != inputs.plain && c.Tree != inputs.sealed || i > 0 && c.Tree == inputs.sealed && leases[i-1].Tree != c.Tree {
			f.file("", "The lease %s has other inputs than the claim.", c.OID)
		}
		if i > 0 && !slices.Equal(leases[i-1].Parents, []git.OID{c.OID}) {
			f.file("", "The lease %s was not put on %s.", leases[i-1].OID, c.OID)
		}
		if i > 0 && leases[i-1].Committer.Seconds < c.Committer.Seconds {
			f.file("", "The lease %s is dated before the one that it renews.", leases[i-1].OID)
		}
	}
	return fmt.Sprintf("Run %s was claimed with commit %s and has %s after it, all by the signer.",
		v.claim.RunID, leases[len(leases)-1].OID, report.Counted(len(leases)-1, "renewal"))
}

// checkWaits: between HEAD and the run's last lease is nothing but its own waits for a
// rule of the server's, each with the lease's tree.
func (v *verifier) checkWaits(f *findings) {
	last := v.head.Leases[0]
	under := append(slices.Clone(v.head.Waits), last)
	if !v.live() && !slices.Equal(v.head.Commit.Parents, []git.OID{under[0].OID}) {
		f.file("", "HEAD was not put on the run's lease %s.", last.OID)
	}
	for i, c := range v.head.Waits {
		key, err := signer(c)
		if err != nil || git.Fingerprint(key) != v.signer {
			f.file("", "The wait %s is not signed by the signer of HEAD.", c.OID)
		}
		ev, err := eventOf(c)
		if err != nil || !awaitsRule(ev) || trailer(ev, kernel.TrailerRun) != v.claim.RunID || c.Tree != last.Tree {
			f.file("", "The commit %s between HEAD and the lease is no wait of run %s.", c.OID, v.claim.RunID)
		}
		if !slices.Equal(c.Parents, []git.OID{under[i+1].OID}) {
			f.file("", "The wait %s was not put on %s.", c.OID, under[i+1].OID)
		}
	}
}

// leaseTrees are the trees that the leases of a run may have: its inputs, and these with
// the sealed work, where there is any.
type leaseTrees struct{ plain, sealed git.OID }

func (v *verifier) inputs() (out leaseTrees) {
	var entries []git.Entry
	for _, name := range []string{FileContract, FileSeedPack} {
		entries = append(entries, git.Entry{Path: name, Mode: git.ModeFile, OID: git.HashBlob(v.pack[name])})
	}
	out.plain, _ = git.NewObjects().Tree(entries)
	if v.sealed == nil {
		return out
	}
	entries = append(entries, v.sealed.Entries(git.HashBlob(v.pack[FileSealed]))...)
	slices.SortFunc(entries, byPath)
	out.sealed, _ = git.NewObjects().Tree(entries)
	return out
}

// checkEarlier: the run whose sealed work this one went on with was claimed below, with
// the very inputs and by somebody whom the caller vouches for, too.
func (v *verifier) checkEarlier(f *findings) {
	c := v.head.Earlier
	if c == nil || v.earlier == nil {
		f.file("", "There is no claim of run %s, whose sealed work this one went on with.", v.resumes())
		return
	}
	key, err := signer(*c)
	switch {
	case err != nil:
		f.file("", "The claim %s of run %s has no good signature.", c.OID, v.resumes())
	case len(v.opts.Keys) > 0 && !v.vouchedBelow(git.Fingerprint(key)):
		f.add(kernel.CodeLeaseUntrusted, "", NoSeq, "Run %s was claimed by %s, which is none of the keys that you vouch for.", v.resumes(), git.Fingerprint(key))
	}
	if c.Tree != v.inputs().plain {
		f.file("", "Run %s was claimed with another seed pack or contract.", v.resumes())
	}
	for _, key := range sameInLeases() {
		if got, want := trailer(*v.earlier, key), v.said(key); key != kernel.TrailerResumes && got != want {
			f.file("", "Run %s was claimed with %s %q, HEAD says %q.", v.resumes(), key, got, want)
		}
	}
}

// sameInLeases are the trailers that a run keeps from its claim to its result.
func sameInLeases() []string {
	return []string{
		kernel.TrailerBase, kernel.TrailerAttempt, kernel.TrailerApproval, kernel.TrailerGovernance,
		kernel.TrailerPlan, kernel.TrailerDispatch, kernel.TrailerResumes, kernel.TrailerRefreshes, kernel.TrailerRefreshAct,
		kernel.TrailerFixes, kernel.TrailerFix,
	}
}

func (v *verifier) checkOneLease(f *findings, c git.Commit) {
	key, err := signer(c)
	if err != nil || git.Fingerprint(key) != v.signer {
		f.file("", "The lease %s is not signed by the signer of HEAD.", c.OID)
	}
	ev, err := eventOf(c)
	switch {
	case err != nil || ev.State != lease.StateWorking || ev.Malformed():
		f.file("", "The lease %s can't be read as one.", c.OID)
		return
	case ev.RunID != v.claim.RunID:
		f.file("", "The lease %s is of run %s, the claim of run %s.", c.OID, ev.RunID, v.claim.RunID)
	}
	for _, key := range sameInLeases() {
		if got, want := trailer(ev, key), v.said(key); got != want {
			f.file("", "The lease %s says %s %q, HEAD %q.", c.OID, key, got, want)
		}
	}
	if got, want := trailer(ev, kernel.TrailerAct), trailer(*v.claim, kernel.TrailerAct); got != want {
		f.file("", "The lease %s rests on the act %q, the claim on %q.", c.OID, got, want)
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

// readActs folds what was said of keys and worlds, for the keys that the caller
// vouches for. Where he vouches for none, it is for somebody who believes HEAD's
// signer: that nobody vouched for him is told.
func (v *verifier) readActs() {
	listed := worldref.Lists(v.opts.Keys)
	if len(v.opts.Keys) == 0 {
		believed := []string{v.signer}
		if c := v.head.Completion; c != nil {
			if key, err := signer(c.Commit); err == nil {
				believed = append(believed, git.Fingerprint(key))
			}
		}
		listed = func(signer string) bool { return slices.Contains(believed, signer) }
	}
	world := v.opts.World
	if world == "" {
		world = v.said(kernel.TrailerWorld)
	}
	v.acts = worldref.Fold(world, v.head.Acts, listed)
	v.rep.Acts = v.acts.Acts
}

// top is HEAD of the ref, which acts name: the completion, where there is one.
func (v *verifier) top() string {
	if v.head.Completion != nil {
		return string(v.head.Completion.Commit.OID)
	}
	return string(v.head.Commit.OID)
}

// counts reports whether a key's signature counts on HEAD, for the caller.
func (v *verifier) counts(signer string) bool {
	return v.acts.Signs(signer, v.head.Ref, v.top())
}

// vouched reports whether the caller vouches for a key, himself or by acts of keys
// that he vouches for.
func (v *verifier) vouched(signer string) bool {
	return len(v.opts.Keys) > 0 && v.counts(signer)
}

// countsOnResult reports whether a key's signature counts on the result: on HEAD, or
// below a HEAD that counts and completes it, whose writer has judged it.
func (v *verifier) countsOnResult(who string) bool {
	if v.counts(who) || v.head.Completion == nil {
		return v.counts(who)
	}
	key, err := signer(v.head.Completion.Commit)
	oid := string(v.head.Commit.OID)
	return err == nil && v.counts(git.Fingerprint(key)) && (v.acts.SignsBelow(who, v.head.Ref, oid) || v.acts.Signs(who, v.head.Ref, oid))
}

// vouchedResult reports whether the caller vouches for the key of the result.
func (v *verifier) vouchedResult(who string) bool {
	return len(v.opts.Keys) > 0 && v.countsOnResult(who)
}

// vouchedBelow reports whether the caller vouches for the key that claimed the earlier
// run, below HEAD.
func (v *verifier) vouchedBelow(signer string) bool {
	return v.vouchedResult(signer) || v.acts.SignsBelow(signer, v.head.Ref, string(v.head.Earlier.OID))
}

// under is an act that a state commit names as the last one which its writer went by.
type under struct {
	act, ref string
	seconds  int64 // of the commit
}

// under are the acts that HEAD names, and other tasks' HEADs by keys that count here.
func (v *verifier) under() (list []under) {
	name := func(ref string, c git.Commit) {
		if act := act(c); act != "" && !slices.ContainsFunc(list, func(u under) bool { return u.act == act }) {
			list = append(list, under{act, ref, c.Committer.Seconds})
		}
	}
	name("HEAD", v.head.Commit)
	if c := v.head.Completion; c != nil {
		name("HEAD", c.Commit)
	}
	for _, o := range v.head.Others {
		world, _ := lease.Parse(o.Commit.Message).Get(kernel.TrailerWorld)
		if key, err := signer(o.Commit); err == nil && world == v.acts.World && v.acts.Signs(git.Fingerprint(key), o.Ref, string(o.Commit.OID)) {
			name(o.Ref, o.Commit)
		}
	}
	return list
}

// act is the act that a state commit names, "" for none.
func act(c git.Commit) string {
	act, _ := lease.Parse(c.Message).Get(kernel.TrailerWorldAct)
	return act
}

// checkActs: the ref of the world's acts has those that state commits were signed under.
// Without them a key counts that was revoked, and one doesn't whose place another took.
func (v *verifier) checkActs(f *findings) string {
	ref := worldref.Ref(v.head.Ref[:strings.LastIndexByte(v.head.Ref, '/')+1])
	for _, u := range v.under() {
		if !v.acts.Has(u.act) && !v.acts.Settled(ref, u.seconds) {
			f.add(kernel.CodeWorldRollback, "", NoSeq, "%s was signed under the act %s, which %s lacks: that ref was set back or removed, or wasn't copied with the rest. Who counts can't be told without it.", u.ref, u.act, ref)
		}
	}
	return fmt.Sprintf("%s has the acts that state commits name.", ref)
}

// replaced is what is said of a key that counts for this very commit alone, or no
// more; "" for any other.
func (v *verifier) replaced(signer string) string {
	how := "was replaced"
	if v.acts.Revoked(signer) {
		how = "was revoked"
	}
	switch {
	case v.acts.Successor(signer) == signer && !v.acts.Revoked(signer):
		return ""
	case v.counts(signer):
		return "its key " + how + "; it counts for this very commit"
	case v.countsOnResult(signer):
		return "its key " + how + " since; it counts below HEAD"
	}
	return "its key " + how + " before this commit, or this commit isn't one that the act names"
}

// checkSigner says of whom a commit is.
func (v *verifier) checkSigner(f *findings, what, signer string, oid git.OID) string {
	said := v.replaced(signer)
	switch {
	case said != "" && !v.countsOnResult(signer), len(v.opts.Keys) > 0 && !v.vouchedResult(signer):
		why := "which is none of the keys that you vouch for"
		if said != "" {
			why = said
		}
		f.add(kernel.CodeLeaseUntrusted, "", NoSeq, "%s is signed by %s: %s.", what, signer, why)
		return ""
	case !v.vouchedResult(signer):
		said = "nobody vouched for this key" + also(said)
	default:
		said = "a key that you trust" + also(said)
	}
	return fmt.Sprintf("%s %s is signed by %s: %s.", what, oid, signer, said)
}

func also(said string) string {
	if said == "" {
		return ""
	}
	return ", and " + said
}

// instances are the names under which the signer's records stand: its own, and that
// of each key whose place it took.
func (v *verifier) instances() []string { return append(v.acts.Former(v.signer), v.signer) }

// here reports whether a world is the one that the evidence must be of: by its name,
// or because it goes on as that one up to this HEAD.
func (v *verifier) here(world string) bool {
	return v.opts.World == "" || v.acts.Bound(world, v.head.Ref, v.top())
}
