package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

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

// instance reports whether a name is one of them.
func (v *verifier) instance(name string) bool { return slices.Contains(v.instances(), name) }

// here reports whether a world is the one that the evidence must be of: by its name,
// or because it goes on as that one up to this HEAD.
func (v *verifier) here(world string) bool {
	return v.opts.World == "" || v.acts.Bound(world, v.head.Ref, v.top())
}
