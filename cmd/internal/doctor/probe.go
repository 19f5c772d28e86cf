package doctor

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/lease"
)

const (
	headsPrefix = "refs/heads/writ/task/"
	// probeAge is after how long a probe's ref is one that was left behind: a probe
	// takes seconds.
	probeAge = 10 * time.Minute
	// probeLease is what the probe's commit asks for, in seconds. Nobody reads it.
	probeLease = 60
)

// probeForm is the name of a probe's ref, below the state refs: no number, with
// its time in Unix seconds.
var probeForm = lazyregexp.New(`^probe-([0-9]{1,12})-[0-9a-f]{12}(-b)?$`)

func (t Target) statePrefix() string {
	if t.Refs == config.RefsHeads {
		return headsPrefix
	}
	return supervisor.DefaultRefPrefix
}

// probe pushes refs as a task does, and takes them away again.
func (p *patient) probe(ctx context.Context) {
	if p.NoProbe {
		p.skip("Nothing was pushed (--no-probe).", NameStateRefs, NameAtomic)
		return
	}
	pr, err := p.newProbe()
	if err != nil {
		p.add(NameStateRefs, bad("Check the instance's key and `identity`.", "No state commit can be made: %s.", plain(err)))
		p.skip("No state commit can be made.", NameAtomic)
		return
	}
	if p.check(ctx, NameStateRefs, pr.single) {
		p.check(ctx, NameAtomic, pr.atomic)
	} else {
		p.skip("A state ref can't be pushed.", NameAtomic)
	}
	pr.leave(ctx)
}

// probe is two refs and the commits that they are moved to.
type probe struct {
	p       *patient
	ref     string // as one task's
	other   string
	signer  git.Signer
	seconds int64
	objects *git.Objects
	commits []git.OID // each on the one before
	tree    git.OID
	pack    git.Pack
}

// steps is how many commits the probe has: one to begin with, and one for each
// of the requests after it.
const steps = 3

func (p *patient) newProbe() (*probe, error) {
	nonce := make([]byte, 6)
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	pr := &probe{p: p, signer: p.Signer, seconds: p.Now().Unix(), objects: git.NewObjects()}
	pr.ref = fmt.Sprintf("%sprobe-%d-%s", p.statePrefix(), pr.seconds, hex.EncodeToString(nonce))
	pr.other = pr.ref + "-b"
	if pr.signer == nil {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		signer, err := ssh.NewSignerFromKey(key)
		if err != nil {
			return nil, err
		}
		pr.signer = git.NewSigner(signer)
	}
	return pr, pr.write()
}

// write makes commits in the very form of a claim's: with its trailers, signed,
// evidence in their tree and no code.
func (pr *probe) write() (err error) {
	pr.tree, err = pr.objects.Tree([]git.Entry{
		{Path: replay.FileContract, Mode: git.ModeFile, OID: pr.objects.Blob(contract.Template())},
		{Path: replay.FileSeedPack, Mode: git.ModeFile, OID: pr.objects.Blob([]byte(`{"kind":"doctor-probe"}`))},
	})
	if err != nil {
		return err
	}
	run := uuid.NewString()
	hash := string(canon.Sum([]byte(run)))
	extra := []lease.Trailer{
		{Key: kernel.TrailerAttempt, Value: "1"}, {Key: kernel.TrailerInterruptions, Value: "0"},
		{Key: kernel.TrailerApproval, Value: hash}, {Key: kernel.TrailerGovernance, Value: hash},
		{Key: kernel.TrailerDispatch, Value: hash}, {Key: kernel.TrailerLedgerHead, Value: hash},
	}
	parent := git.OID("")
	for i := range steps {
		msg, err := lease.Working(lease.Claim{
			OriginState: string(kernel.TaskOpen), RunID: run, RunnerID: "doctor", LeaseSeconds: probeLease,
			Title: fmt.Sprintf("writ: attempt %d at a probe of writ doctor", i+1),
			Body:  "A probe: writ doctor looks whether this server takes state refs, and deletes this one again.", Extra: extra,
		})
		if err != nil {
			return err
		}
		who := git.Person{Name: pr.p.Identity.Name, Email: pr.p.Identity.Email, Seconds: pr.seconds + int64(i), TZ: "+0000", OK: true}
		spec := git.CommitSpec{Tree: pr.tree, Author: who, Committer: who, Message: msg}
		if !parent.IsZero() {
			spec.Parents = []git.OID{parent}
		}
		if parent, err = pr.objects.Commit(spec, pr.signer); err != nil {
			return err
		}
		pr.commits = append(pr.commits, parent)
	}
	pr.pack = pr.objects.Pack()
	return nil
}

// single creates one ref, and reads it back.
func (pr *probe) single(ctx context.Context) result {
	pr.clean(ctx)
	out := pr.p.repo.CompareAndSwap(ctx, []git.Command{{Ref: pr.ref, New: pr.commits[0]}}, pr.pack)
	if out.Status != git.Won {
		return pr.refusal(out)
	}
	refs, err := pr.p.repo.Refs(ctx, pr.p.statePrefix())
	if err != nil {
		return pr.p.gitTrouble(err, "The refs can't be read back")
	}
	if refs.OID(pr.ref) != pr.commits[0] {
		return bad(pr.remedy(), "The server takes %s and doesn't show it again.", pr.ref)
	}
	if _, err := pr.p.repo.Commit(ctx, pr.commits[0]); err != nil {
		return pr.p.gitTrouble(err, "The commit of a state ref can't be read back")
	}
	return ok("Refs below %s are taken, with a signed state commit. %s", pr.p.statePrefix(), pr.p.leavesOpen())
}

// leavesOpen says what the form of the state refs leaves to those who may push. What
// protects them is looked for by branches.
func (p *patient) leavesOpen() string {
	const all = "Whoever may push there can set them back or remove them, and the task then waits for a person (state.rollback). "
	if p.Refs == config.RefsHeads {
		return "refs: heads is in force. " + all + "A ruleset or protected branch for writ/task/** that only writ's account may pass keeps others out; without one nothing does."
	}
	return "refs: hidden is in force. " + all + "No ruleset covers hidden refs: where people with push rights aren't trusted, set refs: heads and a ruleset for writ/task/**."
}

// atomic moves two refs at once, and then tries to move them where one must be
// refused: neither may move.
func (pr *probe) atomic(ctx context.Context) result {
	const remedy = "Use a git server that moves several refs at once or none (atomic pushes). Without it nothing may be delivered: a result could be half there."
	first, second, third := pr.commits[0], pr.commits[1], pr.commits[2]
	out := pr.p.repo.CompareAndSwap(ctx, []git.Command{{Ref: pr.ref, Old: first, New: second}, {Ref: pr.other, New: second}}, pr.pack)
	if out.Status != git.Won {
		return result{Failed, "Two refs in one push are not taken: " + words(out) + ".", remedy}
	}
	// The second ref is there already, so that this must be refused as a whole.
	out = pr.p.repo.CompareAndSwap(ctx, []git.Command{{Ref: pr.ref, Old: second, New: third}, {Ref: pr.other, New: third}}, pr.pack)
	refs, err := pr.p.repo.Refs(ctx, pr.p.statePrefix())
	if err != nil {
		return pr.p.gitTrouble(err, "The refs can't be read back")
	}
	if out.Status == git.Won || refs.OID(pr.ref) != second || refs.OID(pr.other) != second {
		return bad(remedy, "Of two refs in one push the server moved one and refused the other.")
	}
	return ok("Two refs move at once, and neither does where one is refused.")
}

// refusal explains a push that was not taken.
func (pr *probe) refusal(out git.Outcome) result {
	if out.Status == git.Refused {
		return bad(pr.remedy(), "The server refuses %s: %s.", pr.ref, words(out))
	}
	return pr.p.gitTrouble(out.Err, "A state ref can't be pushed")
}

func (pr *probe) remedy() string {
	if pr.p.Refs == config.RefsHeads {
		return "Let writ's account create and update branches whose names begin with writ/: see its rules and push rules."
	}
	return "If the words above are about the name, set `refs: heads` in the configuration: state refs are then branches, writ/task/<n>. " +
		"If they are about the commit or about rights, mend the rule that they name."
}

func words(out git.Outcome) string {
	if out.Reason != "" {
		return strings.TrimSuffix(oneLine(out.Reason), ".")
	}
	return plain(out.Err)
}

// leave deletes what the probe made, also when the caller has given up.
func (pr *probe) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CheckTime)
	defer cancel()
	refs, err := pr.p.repo.Refs(ctx, pr.p.statePrefix())
	if err == nil {
		err = pr.remove(ctx, refs, func(name string) bool { return name == pr.ref || name == pr.other })
	}
	if err != nil {
		pr.blame(fmt.Sprintf("The probe's ref %s may be left: %s. Nobody takes it for a task, and the next `writ doctor` tries to delete it.", pr.ref, plain(err)))
	}
}

// blame turns a probe that went well into a warning, which never ends in worse
// than it was.
func (pr *probe) blame(detail string) {
	done := pr.p.done
	for i := range done {
		if done[i].Name == NameStateRefs && done[i].Status == OK {
			done[i].Status, done[i].Detail = Warning, done[i].Detail+" "+detail
			done[i].Remedy = "Delete it by hand if it stays: `git push origin :" + pr.ref + "`."
		}
	}
}

// clean deletes what probes before this one left, when they were interrupted.
func (pr *probe) clean(ctx context.Context) {
	refs, err := pr.p.repo.Refs(ctx, pr.p.statePrefix())
	if err == nil {
		err = pr.remove(ctx, refs, pr.stale)
	}
	if err != nil {
		pr.p.Log.DebugContext(ctx, "an older probe could not be deleted", "error", err)
	}
}

// stale reports whether a ref is of a probe that is over.
func (pr *probe) stale(name string) bool {
	m := probeForm().FindStringSubmatch(strings.TrimPrefix(name, pr.p.statePrefix()))
	if m == nil {
		return false
	}
	at, err := strconv.ParseInt(m[1], 10, 64)
	age := pr.p.Now().Sub(time.Unix(at, 0))
	return err == nil && (age > probeAge || age < -probeAge)
}

func (pr *probe) remove(ctx context.Context, refs git.Refs, which func(string) bool) (err error) {
	for _, name := range refs.Names() {
		if !which(name) {
			continue
		}
		out := pr.p.repo.CompareAndSwap(ctx, []git.Command{{Ref: name, Old: refs.OID(name)}}, git.Pack{})
		if out.Status != git.Won && err == nil {
			err = out.Err
		}
	}
	return err
}
