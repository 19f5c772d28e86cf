package worldref

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Memory keeps what was seen of one world's ref across processes. Load of nothing
// is nil; Save replaces it whole.
type Memory interface {
	Load() ([]byte, error)
	Save(data []byte) error
}

// Error is a failure with its code.
type Error struct {
	Code   kernel.Code
	Detail string // a sentence
	Err    error
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// FailureCode is the error's code.
func (e *Error) FailureCode() kernel.Code { return e.Code }

// Room is the acts of one world, as they were seen. Its methods may be called
// concurrently.
type Room struct {
	repo   Repo
	world  string
	ref    string
	memory Memory
	most   int // acts

	mu     sync.Mutex
	links  []link // the acts that were seen, the oldest first
	acts   []Entry
	at     git.OID // where the ref was seen last
	looks  bool    // at is known
	there  int     // how many of the links are below at
	fault  *Error  // of the ref as it was seen last, which lacks what was seen
	barred bool    // the server refused to have the ref put back from at
	// theirs are the acts of a ref in the place of what was seen, fork is what is said of
	// them where they contradict it, and known are the keys, by their fingerprints, whose
	// acts can do that.
	theirs []link
	fork   *Error
	known  map[string]bool
}

// Open opens the room of a world. Nothing is asked of the repository yet.
func Open(repo Repo, world, ref string, memory Memory) (*Room, error) {
	r := &Room{repo: repo, world: world, ref: ref, memory: memory, most: maxActs, known: map[string]bool{}}
	data, err := memory.Load()
	if err == nil && data != nil {
		r.links, err = unpack(world, data)
	}
	if err != nil {
		return nil, &Error{kernel.CodeWorldMemory, fmt.Sprintf("What was seen of %s of %s can't be read: %v.", ref, world, err), err}
	}
	r.acts = entries(r.links)
	return r, nil
}

// Ref is the ref of the acts.
func (r *Room) Ref() string { return r.ref }

// Look takes in where the ref is, as an advertisement has it. What is new is read
// and kept. The error is that the repository doesn't answer; that the ref was set
// back or contradicts what was seen is told by [Room.Fault], and what was seen goes
// on to count.
func (r *Room) Look(ctx context.Context, tip git.OID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.look(ctx, tip)
}

func (r *Room) look(ctx context.Context, tip git.OID) error {
	if tip.IsZero() {
		tip = ""
	}
	if r.looks && r.at == tip {
		return nil
	}
	switch at := r.index(tip); {
	case tip == r.tip():
		r.there, r.fault, r.fork = len(r.links), nil, nil
	case tip == "" || at >= 0:
		r.there, r.fork = at+1, nil
		r.fault = &Error{Code: kernel.CodeWorldRollback, Detail: fmt.Sprintf("%s lacks the last %d acts that were seen there.", r.ref, len(r.links)-r.there)}
	default:
		h, err := chain(ctx, r.repo, tip, r.tip(), r.most)
		if err != nil {
			return err
		}
		if err := r.follow(tip, h); err != nil {
			return err
		}
	}
	r.at, r.looks, r.barred = tip, true, false
	return nil
}

// follow takes in a history that was read down from a tip nobody knew before.
func (r *Room) follow(tip git.OID, h walk) error {
	somebodys := func(why string) {
		r.fault = &Error{Code: kernel.CodeWorldRollback, Detail: fmt.Sprintf("%s is at %s, which isn't an act that follows what was seen there: %s.", r.ref, tip, why)}
	}
	r.fork = nil
	switch follows := h.met || r.tip() == ""; {
	case follows && h.broken == "":
		links, why := r.bounded(append(slices.Clip(r.links), h.acts(r.tip())...))
		if len(links) > len(r.links) {
			if err := r.keep(links); err != nil {
				return err
			}
		}
		if r.there, r.fault = len(r.links), nil; why != "" {
			somebodys(why)
		}
	case follows:
		r.there = 0
		somebodys(h.broken)
	default:
		r.there = 0
		somebodys(cmp.Or(h.broken, "it lacks the end of it"))
		r.theirs = h.acts("")
		r.fork = &Error{Code: kernel.CodeWorldFork, Detail: fmt.Sprintf("%s is at %s, which doesn't follow %s, seen there before.", r.ref, tip, r.tip())}
	}
	return nil
}

// bounded are the acts up to the first that is too much, and why it is. Acts of those
// whom the room knows don't count for that: whoever may push can make any number.
func (r *Room) bounded(links []link) ([]link, string) {
	size, strangers := 0, 0
	for i, l := range links {
		if r.known[l.entry().Signer] {
			continue
		}
		size, strangers = size+len(l.commit.Raw)+len(l.act), strangers+1
		if i >= len(r.links) && (strangers > r.most || size > maxKeptBytes) {
			return links[:i], fmt.Sprintf("there are more than %d acts, or %d MiB of them, of writers that nobody here lists", r.most, maxKeptBytes>>20)
		}
	}
	return links, ""
}

// Know names keys that are listed here. Acts of others contradict nothing.
func (r *Room) Know(listed ...ssh.PublicKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learn(listed...)
}

func (r *Room) learn(listed ...ssh.PublicKey) {
	for _, k := range listed {
		r.known[git.Fingerprint(k)] = true
	}
}

// Forked is that the ref has acts in the place of what was seen, of which something
// counts after that for those whom the room knows; nil otherwise. Neither a stranger nor
// a key that was replaced or revoked by what was seen contradicts it: what they wrote is
// put back over, or written over with the next act.
func (r *Room) Forked() *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.forked()
}

func (r *Room) forked() *Error {
	if r.fork == nil {
		return nil
	}
	theirs := slices.DeleteFunc(entries(r.theirs), func(e Entry) bool { return r.index(git.OID(e.OID)) >= 0 })
	if s := r.fold(slices.Concat(r.acts, theirs)); !slices.ContainsFunc(s.Acts[len(r.acts):], s.matters) {
		return nil
	}
	return r.fork
}

// fold judges acts for those whom the room knows.
func (r *Room) fold(acts []Entry) Standing {
	return Fold(r.world, acts, func(signer string) bool { return r.known[signer] })
}

// PutBack puts the acts that were seen back onto a ref which was set back or removed,
// and reports whether it did. The ref moves forward by that, or over what counts for
// nobody whom the room knows. Where nothing that is lacking counts for them, it is left
// alone, and so is a fork: see [Room.Know]. A server that refuses is asked again once the
// ref has moved. Where only strangers' acts were seen, it is what the ref has that is
// gone on from.
func (r *Room) PutBack(ctx context.Context) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.giveWay(); err != nil {
		return false, err
	}
	if r.fault == nil || r.barred || r.forked() != nil || !r.lacks() {
		return false, nil
	}
	objs := git.NewObjects()
	if err := r.lacking(objs); err != nil {
		return false, err
	}
	out := r.repo.CompareAndSwap(ctx, []git.Command{{Ref: r.ref, Old: r.at, New: r.tip()}}, objs.Pack())
	switch out.Status {
	case git.Won:
		r.at, r.there, r.fault, r.fork = r.tip(), len(r.links), nil, nil
		return true, nil
	case git.Refused:
		r.barred = true
		return false, &Error{kernel.CodePushRefused, fmt.Sprintf("%s could not be put back: %s", r.ref, out.Reason), out.Err}
	case git.Unable:
		return false, &Error{kernel.CodeForgeUnreachable, fmt.Sprintf("%s could not be put back: %s", r.ref, out.Reason), out.Err}
	}
	r.looks = false // lost or unknown: who looks again sees what is there
	return false, nil
}

// giveWay goes on from what the ref has, where of what was seen nothing counts for those
// whom the room knows, and of that something does: strangers had covered it when it was
// looked at first.
func (r *Room) giveWay() error {
	s := r.fold(r.acts)
	if r.forked() == nil || slices.ContainsFunc(s.Acts, s.matters) {
		return nil
	}
	seen := r.links
	r.links = nil
	theirs, _ := r.bounded(r.theirs)
	r.links = seen
	if err := r.keep(theirs); err != nil {
		return err
	}
	r.there = len(theirs)
	return nil
}

// lacks reports whether something counts, for those whom the room knows, of what the ref
// lacks.
func (r *Room) lacks() bool {
	s := r.fold(r.acts)
	return slices.ContainsFunc(s.Acts[r.there:], s.matters)
}

// lacking adds the acts to a pack that the ref lacks.
func (r *Room) lacking(objs *git.Objects) error {
	for _, l := range r.links[r.there:] {
		if err := l.add(objs); err != nil {
			return err
		}
	}
	return nil
}

// Last is the act that the next one will stand on, "" for none: what somebody else put
// on the ref is none.
func (r *Room) Last() git.OID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tip()
}

// tip is the end of what was seen, "" for nothing.
func (r *Room) tip() git.OID {
	if len(r.links) == 0 {
		return ""
	}
	return r.links[len(r.links)-1].commit.OID
}

// index is where a commit stands in what was seen, -1 for nowhere.
func (r *Room) index(oid git.OID) int {
	return slices.IndexFunc(r.links, func(l link) bool { return l.commit.OID == oid })
}

// keep remembers, durably, before anything is decided by it.
func (r *Room) keep(links []link) error {
	data, err := pack(r.world, links)
	if err == nil {
		err = r.memory.Save(data)
	}
	if err != nil {
		return &Error{kernel.CodeWorldMemory, "What was seen of " + r.ref + " can't be kept.", err}
	}
	r.links, r.acts, r.fault, r.fork = links, entries(links), nil, nil
	return nil
}

// Fault is what is wrong with the ref as it was seen last; nil for nothing. It is a fork
// only where [Room.Forked] says so.
func (r *Room) Fault() *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.forked(), r.fault)
}

// Standing is who counts, for a reader who lists these keys.
func (r *Room) Standing(listed ...ssh.PublicKey) Standing {
	r.mu.Lock()
	r.learn(listed...)
	acts := r.acts
	r.mu.Unlock()
	return Fold(r.world, acts, Lists(listed))
}

// Lists are keys as [Fold] takes them.
func Lists(keys []ssh.PublicKey) func(string) bool {
	set := map[string]bool{}
	for _, k := range keys {
		set[git.Fingerprint(k)] = true
	}
	return func(signer string) bool { return set[signer] }
}

// Writer signs acts and gives them author and date.
type Writer struct {
	Signer      git.Signer
	Name, Email string
}

// tries bounds how often an act is put on top of what others wrote meanwhile.
const tries = 8

// Append writes an act on top of all others and returns its commit. An act that is
// there already, by the same signer and with at least these refs, is the answer
// itself: so whoever was interrupted does the same again. Kind, version and world
// are filled in; a rotation must be proven after that, by [Room.Draft].
func (r *Room) Append(ctx context.Context, a Act, w Writer) (git.OID, error) {
	return r.append(ctx, a, w, false)
}

// Settle writes a repair on top of what the ref has now, although that contradicts
// what was seen: a person looked, and what is there counts from here on.
func (r *Room) Settle(ctx context.Context, a Act, w Writer) (git.OID, error) {
	return r.append(ctx, a, w, true)
}

// Draft fills in what every act of this world has.
func (r *Room) Draft(a Act) Act {
	a.Kind, a.V, a.World = actKind, actVersion, r.world
	a.Refs = slices.SortedFunc(slices.Values(a.Refs), func(x, y Mark) int {
		if x.Ref < y.Ref {
			return -1
		}
		return 1
	})
	if a.Refs == nil {
		a.Refs = []Mark{}
	}
	return a
}

func (r *Room) append(ctx context.Context, a Act, w Writer, settle bool) (oid git.OID, err error) {
	a = r.Draft(a)
	if err := a.check(); err != nil {
		return "", fmt.Errorf("worldref: the act can't be written: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learn(w.Signer.PublicKey())
	signer, seen, settled := git.Fingerprint(w.Signer.PublicKey()), r.links, false
	defer func() {
		if err != nil && settled { // what was seen counts until the repair is there
			r.links, r.acts, r.looks = seen, entries(seen), false
		}
	}()
	for range tries {
		refs, err := r.repo.Refs(ctx, r.ref)
		if err != nil {
			return "", err
		}
		at := refs.OID(r.ref)
		r.looks = false
		if err := r.look(ctx, at); err != nil {
			return "", err
		}
		if err := r.giveWay(); err != nil {
			return "", err
		}
		if fork := r.forked(); fork != nil {
			if !settle {
				return "", fork
			}
			r.links, r.acts, r.there, r.fault, r.fork, settled = r.theirs, entries(r.theirs), len(r.theirs), nil, nil, true
		}
		if oid := r.said(a, signer); oid != "" && r.fault == nil {
			if settled {
				err = r.keep(r.links)
			}
			return oid, err
		}
		out, err := r.push(ctx, at, a, w)
		if err != nil {
			return "", err
		}
		switch out.Status {
		case git.Won, git.Lost, git.Unknown: // who looks again sees what is there, and whose it is
		case git.Unable:
			return "", errors.Join(&Error{kernel.CodeForgeUnreachable, fmt.Sprintf("The act could not be written to %s: %s", r.ref, out.Reason), out.Err}, ctx.Err())
		default:
			return "", errors.Join(&Error{kernel.CodePushRefused, fmt.Sprintf("The act could not be written to %s: %s", r.ref, out.Reason), out.Err}, ctx.Err())
		}
	}
	return "", &Error{Code: kernel.CodeForgeUnreachable, Detail: "The act could not be written to " + r.ref + ": others write there, or the server doesn't say what it did."}
}

// said finds an act that says all of this. Where the acts themselves are differs,
// for that act is one of them.
func (r *Room) said(a Act, signer string) git.OID {
	for i := len(r.acts) - 1; i >= 0; i-- {
		e := r.acts[i]
		if e.Fault != "" || e.Signer != signer || e.Act.Act != a.Act || e.Act.World != a.World || e.Act.Old != a.Old || e.Act.New != a.New {
			continue
		}
		if a.Act == Repair && (e.Act.Actor != a.Actor || e.Act.Reason != a.Reason) {
			continue // the same may be set back again
		}
		have := setOf(e.Act.Refs)
		if !slices.ContainsFunc(a.Refs, func(m Mark) bool { return m.Ref != r.ref && !have.has(m.Ref, m.Head) }) {
			return git.OID(e.OID)
		}
	}
	return ""
}

// push writes the act on top of those that were seen, and with it what the ref
// lacks of them. What somebody else put there is no parent of it.
func (r *Room) push(ctx context.Context, at git.OID, a Act, w Writer) (git.Outcome, error) {
	objs := git.NewObjects()
	if err := r.lacking(objs); err != nil {
		return git.Outcome{}, err
	}
	data, err := canon.Marshal(a)
	if err != nil {
		return git.Outcome{}, err
	}
	who := git.Person{Name: w.Name, Email: w.Email, Seconds: a.Time / 1000, TZ: "+0000", OK: true}
	spec := git.CommitSpec{Author: who, Committer: who, Message: a.message()}
	if spec.Tree, err = treeOf(objs, data); err != nil {
		return git.Outcome{}, err
	}
	if tip := r.tip(); tip != "" {
		spec.Parents = []git.OID{tip}
	}
	oid, err := objs.Commit(spec, w.Signer)
	if err != nil {
		return git.Outcome{}, err
	}
	return r.repo.CompareAndSwap(ctx, []git.Command{{Ref: r.ref, Old: at, New: oid}}, objs.Pack()), nil
}

// treeOf adds the tree of an act.
func treeOf(objs *git.Objects, act []byte) (git.OID, error) {
	return objs.Tree([]git.Entry{{Path: File, Mode: git.ModeFile, OID: objs.Blob(act)}})
}

// add puts a commit that was seen into a pack.
func (l link) add(objs *git.Objects) error {
	if tree, err := treeOf(objs, l.act); err != nil || tree != l.commit.Tree {
		return errors.Join(err, errors.New("worldref: an act's tree isn't the one that was seen"))
	}
	objs.Again(l.commit)
	return nil
}
