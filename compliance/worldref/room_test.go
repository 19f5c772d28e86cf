package worldref

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const ref = "refs/writ/world"

// memo is a memory in a test's hands.
type memo struct {
	data []byte
	fail error
}

func (m *memo) Load() ([]byte, error)  { return m.data, nil }
func (m *memo) Save(data []byte) error { m.data = data; return m.fail }

// place is a real repository behind real HTTP, with a key.
type place struct {
	t    *testing.T
	dir  string
	http *gittest.HTTP
	key  ssh.Signer
}

func newPlace(t *testing.T) *place {
	dir := gittest.NewBare(t)
	return &place{t, dir, gittest.ServeHTTP(t, dir), gittest.NewKey(t)}
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) repo() *git.Repo {
	r, err := git.Open(p.t.Context(), git.Endpoint{URL: p.http.URL}, git.Options{})
	p.must(err)
	p.t.Cleanup(func() { _ = r.Close() })
	return r
}

func (p *place) room(m Memory) *Room {
	r, err := Open(p.repo(), here, ref, m)
	p.must(err)
	return r
}

func writer(key ssh.Signer) Writer {
	return Writer{Signer: git.NewSigner(key), Name: "writ", Email: "writ@example.org"}
}

// say writes a revocation of a fresh key.
func (p *place) say(r *Room, key ssh.Signer) (git.OID, ssh.Signer) {
	p.t.Helper()
	gone := gittest.NewKey(p.t)
	oid, err := r.Append(p.t.Context(), Act{Act: Revoke, Actor: "ada", Reason: "lost", Time: 1700000000000, Old: KeyLine(gone.PublicKey())}, writer(key))
	p.must(err)
	return oid, gone
}

// sayOn writes a revocation of a fresh key on top of any commit.
func (p *place) sayOn(r *Room, on git.OID, key ssh.Signer) (git.OID, ssh.Signer) {
	p.t.Helper()
	gone := gittest.NewKey(p.t)
	a := r.Draft(Act{Act: Revoke, Actor: "ada", Old: KeyLine(gone.PublicKey())})
	data, err := canon.Marshal(a)
	p.must(err)
	objs := git.NewObjects()
	who := git.Person{Name: "a", Email: "a@example.org"}
	spec := git.CommitSpec{Author: who, Committer: who, Message: a.message(), Parents: []git.OID{on}}
	spec.Tree, err = treeOf(objs, data)
	p.must(err)
	oid, err := objs.Commit(spec, git.NewSigner(key))
	p.must(err)
	if out := r.repo.CompareAndSwap(p.t.Context(), []git.Command{{Ref: ref, Old: on, New: oid}}, objs.Pack()); out.Status != git.Won {
		p.t.Fatalf("%+v", out)
	}
	return oid, gone
}

// see has a room look at where the ref is.
func (p *place) see(r *Room) {
	p.t.Helper()
	refs, err := r.repo.Refs(p.t.Context(), ref)
	p.must(err)
	p.must(r.Look(p.t.Context(), refs.OID(ref)))
}

func (p *place) tip() string { return gittest.RefOID(p.dir, ref) }

func (p *place) revoked(r *Room, gone ssh.Signer) bool {
	return r.Standing(p.key.PublicKey()).Revoked(git.Fingerprint(gone.PublicKey()))
}

// TestL18_ActsOverHTTP: what one writes another reads, git itself verifies it, and
// said once more it is the same act.
func TestL18_ActsOverHTTP(t *testing.T) {
	p := newPlace(t)
	mine, theirs := p.room(&memo{}), p.room(&memo{})
	old := gittest.NewKey(t)
	a := mine.Draft(Act{Act: Rotate, Actor: "ada", Reason: "yearly", Time: 1700000000000,
		Old: KeyLine(old.PublicKey()), New: KeyLine(p.key.PublicKey()), Refs: []Mark{{"refs/writ/task/9", strings.Repeat("b", 40)}, {"refs/writ/task/10", strings.Repeat("a", 40)}}})
	p.must(a.Prove(old))
	oid, err := mine.Append(t.Context(), a, writer(p.key))
	p.must(err)
	if again, err := mine.Append(t.Context(), a, writer(p.key)); again != oid || err != nil || p.tip() != string(oid) {
		t.Errorf("said again it is %s, %v", again, err)
	}
	_, gone := p.say(theirs, p.key)
	p.see(mine)
	for _, r := range []*Room{mine, theirs} {
		s := r.Standing(p.key.PublicKey())
		if len(s.Acts) != 2 || !s.Acts[0].Counts || !s.Acts[0].Proven || !p.revoked(r, gone) || r.Fault() != nil ||
			!s.Signs(git.Fingerprint(old.PublicKey()), "refs/writ/task/10", strings.Repeat("a", 40)) || s.Signs(git.Fingerprint(old.PublicKey()), "refs/writ/task/11", strings.Repeat("a", 40)) {
			t.Errorf("%+v", s.Acts)
		}
	}
	if out := gittest.Git(t, p.dir, "show", "--no-patch", "--format=%B", string(oid)); !strings.Contains(out, "writ-act: rotate\n") && !strings.HasSuffix(out, "writ-act: rotate") {
		t.Errorf("git shows %q", out)
	}
	if err := exec.Command("git", "-C", p.dir, "fsck", "--strict").Run(); err != nil {
		t.Errorf("git finds a fault: %v", err)
	}
	// A proof is of this very act.
	a.Refs = nil
	if a.proven() {
		t.Error("another act has the same proof")
	}
}

// TestL18_ForeignCommitsOnTheRef: whatever somebody pushes there is passed over, and
// the next act takes the place of what is no act.
func TestL18_ForeignCommitsOnTheRef(t *testing.T) {
	p := newPlace(t)
	r := p.room(&memo{})
	_, first := p.say(r, p.key)
	stranger := gittest.NewKey(t)
	_, theirs := p.say(p.room(&memo{}), stranger)
	gittest.Commit(t, p.dir, ref, p.tip(), map[string]string{File: "{}"})
	gittest.Commit(t, p.dir, ref, p.tip(), map[string]string{"a": "1", File: "{}"})
	tree := gittest.Git(t, p.dir, "rev-parse", ref+"^{tree}")
	merge := gittest.Git(t, p.dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-p", p.tip(), "-p", p.tip()+"~1", "-m", "x", tree)
	gittest.Git(t, p.dir, "update-ref", ref, merge)
	_, last := p.say(r, p.key)
	fresh := p.room(&memo{})
	p.see(fresh)
	s := fresh.Standing(p.key.PublicKey())
	if !p.revoked(fresh, first) || !p.revoked(fresh, last) || p.revoked(fresh, theirs) || len(s.Acts) != 3 || len(s.PassedOver()) != 1 || fresh.Fault() != nil {
		t.Errorf("%+v, %v", s.Acts, fresh.Fault())
	}
}

// TestL19_ActsThatWereSetBack: a ref that lost its end, or all of it, brings no
// revoked key to life for who has seen more, in the next process too; and the next
// act puts the lost ones back as they were.
func TestL19_ActsThatWereSetBack(t *testing.T) {
	for name, to := range map[string]int{"to an ancestor": 1, "deleted": 0} {
		t.Run(name, func(t *testing.T) {
			p, seen := newPlace(t), &memo{}
			r := p.room(seen)
			p.say(r, p.key)
			lost, gone := p.say(r, p.key)
			if to == 0 {
				gittest.Git(t, p.dir, "update-ref", "-d", ref)
			} else {
				gittest.Git(t, p.dir, "update-ref", ref, p.tip()+"~1")
			}
			gittest.Git(t, p.dir, "-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
			for _, r := range []*Room{r, p.room(seen)} {
				p.see(r)
				if f := r.Fault(); f == nil || f.Code != kernel.CodeWorldRollback || !p.revoked(r, gone) {
					t.Errorf("%v, revoked %v", f, p.revoked(r, gone))
				}
			}
			p.say(p.room(seen), p.key)
			if back := gittest.Git(t, p.dir, "rev-parse", ref+"~1"); back != string(lost) {
				t.Errorf("put back is %s, not %s", back, lost)
			}
			p.see(r)
			if r.Fault() != nil || len(r.Standing().Acts) != 3 {
				t.Errorf("%v, %d acts", r.Fault(), len(r.Standing().Acts))
			}
		})
	}
}

// TestL19_WhatIsNoActStopsNobody: somebody who may push, and has no key, can put
// anything there and take it away again: what was seen counts, and the next act is
// written as if he had not been there.
func TestL19_WhatIsNoActStopsNobody(t *testing.T) {
	for name, put := range map[string]func(p *place) string{
		"a commit": func(p *place) string { return gittest.Commit(p.t, p.dir, ref, p.tip(), map[string]string{"a": "1"}) },
		"a commit on an ancestor": func(p *place) string {
			return gittest.Commit(p.t, p.dir, "refs/heads/x", p.tip()+"~1", map[string]string{"a": "3"})
		},
		"another root": func(p *place) string {
			return gittest.Commit(p.t, p.dir, "refs/heads/x", "", map[string]string{"a": "2"})
		},
		"a blob":        func(p *place) string { return gittest.Git(p.t, p.dir, "hash-object", "-w", "HEAD") },
		"a tree":        func(p *place) string { return gittest.Git(p.t, p.dir, "rev-parse", p.tip()+"^{tree}") },
		"many, above":   func(p *place) string { return p.flood(p.tip(), 40) },
		"many, instead": func(p *place) string { return p.flood("", 40) },
		"an unsigned act": func(p *place) string {
			tree := gittest.Git(p.t, p.dir, "rev-parse", p.tip()+"^{tree}")
			message := gittest.Git(p.t, p.dir, "log", "-1", "--format=%B", p.tip())
			return gittest.Git(p.t, p.dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-p", p.tip(), "-m", message, tree)
		},
	} {
		for _, then := range []string{"stays", "set back", "deleted"} {
			t.Run(name+" "+then, func(t *testing.T) {
				p, seen := newPlace(t), &memo{}
				r := p.room(seen)
				r.most = 30
				_, first := p.say(r, p.key)
				last, second := p.say(r, p.key)
				kept := len(seen.data)
				gittest.Git(t, p.dir, "update-ref", ref, put(p))
				p.see(r)
				switch then {
				case "set back":
					gittest.Git(t, p.dir, "update-ref", ref, string(last))
				case "deleted":
					gittest.Git(t, p.dir, "update-ref", "-d", ref)
				}
				if then != "stays" {
					gittest.Git(t, p.dir, "-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
				}
				again := p.room(seen)
				again.most = r.most
				p.see(again)
				if again.Last() != last {
					t.Errorf("the next act is to stand on %s", again.Last())
				}
				if f := again.Fault(); f != nil && f.Code != kernel.CodeWorldRollback || !p.revoked(again, first) || !p.revoked(again, second) || len(seen.data) != kept {
					t.Errorf("%v, kept %d bytes, were %d", f, len(seen.data), kept)
				}
				_, third := p.say(again, p.key)
				if on := gittest.Git(t, p.dir, "rev-parse", ref+"~1"); on != string(last) {
					t.Errorf("the next act stands on %s, not on %s", on, last)
				}
				fresh := p.room(&memo{})
				p.see(fresh)
				p.see(r)
				for _, r := range []*Room{again, r, fresh} {
					if r.Fault() != nil || !p.revoked(r, first) || !p.revoked(r, second) || !p.revoked(r, third) {
						t.Errorf("%v, %+v", r.Fault(), r.Standing(p.key.PublicKey()).Acts)
					}
				}
			})
		}
	}
}

// TestL19_UnreadableForTheFirst: who has seen nothing and finds what can't be read
// is told so, and goes on with what it knows.
func TestL19_UnreadableForTheFirst(t *testing.T) {
	p := newPlace(t)
	p.say(p.room(&memo{}), p.key)
	flood := p.flood(p.tip(), 40)
	gittest.Git(t, p.dir, "update-ref", ref, flood)
	r := p.room(&memo{})
	r.most = 30
	p.see(r)
	if f := r.Fault(); f == nil || f.Code != kernel.CodeWorldRollback || len(r.Standing(p.key.PublicKey()).Acts) != 0 {
		t.Errorf("%v", f)
	}
	blob := gittest.Git(t, p.dir, "hash-object", "-w", "HEAD")
	list, err := Read(t.Context(), r.repo, git.OID(blob))
	if err != nil || len(list) != 1 || list[0].Fault == "" {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestL19_StrangersForkNothing: well-signed acts of somebody whom nobody lists, in
// the place of what was seen, keep nobody from the next act, and a repair doesn't
// take them for what counts. Nor do those of a key that is still listed, after what was
// seen revoked or replaced it. Without another act, too, what was seen is put back.
func TestL19_StrangersForkNothing(t *testing.T) {
	for covering, cover := range map[string]func(p *place, thief ssh.Signer){
		"a stranger": func(p *place, _ ssh.Signer) { p.say(p.room(&memo{}), gittest.NewKey(p.t)) },
		"a stranger, above an ancestor": func(p *place, _ ssh.Signer) {
			gittest.Git(p.t, p.dir, "update-ref", ref, gittest.Git(p.t, p.dir, "rev-list", "--max-parents=0", "refs/seen"))
			p.say(p.room(&memo{}), gittest.NewKey(p.t))
		},
		"the revoked key": func(p *place, thief ssh.Signer) { p.say(p.room(&memo{}), thief) },
		"the revoked key, against the one that revoked it": func(p *place, thief ssh.Signer) {
			_, err := p.room(&memo{}).Append(p.t.Context(), Act{Act: Revoke, Actor: "eve", Old: KeyLine(p.key.PublicKey())}, writer(thief))
			p.must(err)
		},
		"a key that the revoked one hands over to": func(p *place, thief ssh.Signer) {
			r, next := p.room(&memo{}), gittest.NewKey(p.t)
			a := r.Draft(Act{Act: Rotate, Actor: "eve", Old: KeyLine(thief.PublicKey()), New: KeyLine(next.PublicKey())})
			p.must(a.Prove(thief))
			_, err := r.Append(p.t.Context(), a, writer(next))
			p.must(err)
		},
	} {
		for _, then := range []string{"an act", "a repair", "put back", "put back by the next process"} {
			t.Run(covering+", "+then, func(t *testing.T) {
				p, seen, thief := newPlace(t), &memo{}, gittest.NewKey(t)
				r := p.room(seen)
				p.say(r, p.key)
				last, err := r.Append(t.Context(), Act{Act: Revoke, Actor: "ada", Old: KeyLine(thief.PublicKey())}, writer(p.key))
				p.must(err)
				gittest.Git(t, p.dir, "update-ref", "refs/seen", string(last))
				gittest.Git(t, p.dir, "update-ref", "-d", ref)
				cover(p, thief)
				if then == "put back by the next process" {
					r = p.room(seen)
				}
				r.Know(p.key.PublicKey(), thief.PublicKey())
				p.see(r)
				if f := r.Fault(); f == nil || f.Code != kernel.CodeWorldRollback || r.Forked() != nil {
					t.Errorf("%v, forked %v", f, r.Forked())
				}
				repair := Act{Act: Repair, Actor: "ada", Time: 1700000000000, Refs: []Mark{{"refs/writ/task/1", strings.Repeat("a", 40)}}}
				done, at := true, ref+"~1"
				switch then {
				case "an act":
					_, err = r.Append(t.Context(), repair, writer(p.key))
				case "a repair":
					_, err = r.Settle(t.Context(), repair, writer(p.key))
				default:
					done, err = r.PutBack(t.Context())
					at = ref
				}
				p.must(err)
				if !done || r.Fault() != nil || !p.revoked(r, thief) || gittest.Git(t, p.dir, "rev-parse", at) != string(last) {
					t.Errorf("%v, %v, %+v", done, r.Fault(), r.Standing(p.key.PublicKey()).Acts)
				}
				fresh := p.room(&memo{})
				p.see(fresh)
				if !fresh.Standing(p.key.PublicKey(), thief.PublicKey()).Revoked(git.Fingerprint(thief.PublicKey())) {
					t.Error("who sees it for the first time doesn't know that the key was revoked")
				}
			})
		}
	}
}

// TestL19_StrangersSeenFirst: who looked first while a stranger's act covered the others goes
// on from those once they are put back, and neither puts the stranger's back nor waits for
// a person.
func TestL19_StrangersSeenFirst(t *testing.T) {
	for _, then := range []string{"put back", "an act"} {
		t.Run(then, func(t *testing.T) {
			p, seen, late := newPlace(t), &memo{}, &memo{}
			r := p.room(seen)
			last, gone := p.say(r, p.key)
			gittest.Git(t, p.dir, "update-ref", "-d", ref)
			p.say(p.room(&memo{}), gittest.NewKey(t))
			fresh := p.room(late)
			fresh.Know(p.key.PublicKey())
			p.see(fresh)
			gittest.Git(t, p.dir, "update-ref", ref, string(last))
			p.see(fresh)
			if then == "put back" {
				if done, err := fresh.PutBack(t.Context()); done || err != nil {
					t.Errorf("%v, %v", done, err)
				}
			} else {
				p.say(fresh, p.key)
			}
			for _, r := range []*Room{fresh, p.room(late)} {
				p.see(r)
				if r.Fault() != nil || !p.revoked(r, gone) {
					t.Errorf("%v, %+v", r.Fault(), r.Standing(p.key.PublicKey()).Acts)
				}
			}
		})
	}
}

// TestL19_FullOfStrangers: however many acts strangers wrote, those who are listed
// write theirs.
func TestL19_FullOfStrangers(t *testing.T) {
	p := newPlace(t)
	r := p.room(&memo{})
	r.most = 3
	other, stranger := p.room(&memo{}), gittest.NewKey(t)
	for range 3 {
		p.say(other, stranger)
	}
	_, gone := p.say(r, p.key)
	_, also := p.say(r, p.key)
	if r.Fault() != nil || !p.revoked(r, gone) || !p.revoked(r, also) {
		t.Errorf("%v, %+v", r.Fault(), r.Standing(p.key.PublicKey()).Acts)
	}
}

// TestL19_NoMoreActsThanThat: acts of strangers, each well signed, are kept up to a
// bound; beyond it nothing is, what was seen counts, and the fault says so.
func TestL19_NoMoreActsThanThat(t *testing.T) {
	p, seen := newPlace(t), &memo{}
	r := p.room(seen)
	r.most = 4
	_, gone := p.say(r, p.key)
	other, stranger := p.room(&memo{}), gittest.NewKey(t)
	for range 6 {
		p.say(other, stranger)
		p.see(r)
	}
	if f := r.Fault(); f == nil || f.Code != kernel.CodeWorldRollback || !strings.Contains(f.Detail, "more than 4 acts") || !p.revoked(r, gone) || len(r.Standing().Acts) != 5 {
		t.Errorf("%v, %d acts", f, len(r.Standing().Acts))
	}
}

// flood is the last of many commits, each without a signature.
func (p *place) flood(on string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "commit refs/heads/flood\ncommitter a <a@b> %d +0000\ndata 1\nx", i)
		if i == 0 && on != "" {
			fmt.Fprintf(&b, "\nfrom %s", on)
		}
		b.WriteByte('\n')
	}
	c := exec.Command("git", "-C", p.dir, "fast-import", "--quiet", "--force")
	c.Stdin = strings.NewReader(b.String())
	if out, err := c.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	return gittest.Git(p.t, p.dir, "rev-parse", "refs/heads/flood")
}

// TestL19_ActsPutBack: a room that saw more than the ref has puts it back, over what is
// no act as well, and leaves it where nothing that it lacks counts for anybody listed. A
// server that refuses is asked once for each place where the ref is.
func TestL19_ActsPutBack(t *testing.T) {
	p := newPlace(t)
	r := p.room(&memo{})
	r.Know(p.key.PublicKey())
	first, _ := p.say(r, p.key)
	last, gone := p.say(r, p.key)
	put := func(want bool) {
		t.Helper()
		p.see(r)
		if done, err := r.PutBack(t.Context()); done != want || err != nil {
			t.Errorf("put back is %v, %v", done, err)
		}
	}
	put(false)
	for _, back := range []string{"", string(first), p.flood("", 2), p.flood(string(first), 3)} {
		if back == "" {
			gittest.Git(t, p.dir, "update-ref", "-d", ref)
		} else {
			gittest.Git(t, p.dir, "update-ref", ref, back)
		}
		put(true)
		if p.tip() != string(last) || r.Fault() != nil || !p.revoked(p.room(&memo{}), gone) && !p.revoked(r, gone) {
			t.Errorf("after %q: at %s, %v", back, p.tip(), r.Fault())
		}
		fresh := p.room(&memo{})
		p.see(fresh)
		if !p.revoked(fresh, gone) {
			t.Errorf("after %q: the act is not there for others", back)
		}
	}

	p.say(p.room(&memo{}), gittest.NewKey(t)) // a stranger's, on top
	p.see(r)
	gittest.Git(t, p.dir, "update-ref", ref, string(last))
	put(false)
	if f := r.Fault(); f == nil || f.Code != kernel.CodeWorldRollback {
		t.Errorf("%v", f)
	}

	gittest.Hook(t, p.dir, "update", "echo no >&2; exit 1")
	gittest.Git(t, p.dir, "update-ref", ref, string(first))
	p.see(r)
	var e *Error
	if done, err := r.PutBack(t.Context()); done || !errors.As(err, &e) || e.Code != kernel.CodePushRefused {
		t.Errorf("%v, %v", done, err)
	}
	put(false)
	gittest.Git(t, p.dir, "update-ref", "-d", ref)
	p.see(r)
	if _, err := r.PutBack(t.Context()); err == nil {
		t.Error("it isn't tried again where the ref has moved")
	}
}

// forked is a room that saw an act on a ref that was removed since, and where another
// instance then wrote one: the keys that the two acts revoke.
func (p *place) forked(seen *memo) (r *Room, gone, other ssh.Signer) {
	p.t.Helper()
	r = p.room(seen)
	_, gone = p.say(r, p.key)
	gittest.Git(p.t, p.dir, "update-ref", "-d", ref)
	_, other = p.say(p.room(&memo{}), p.key)
	return r, gone, other
}

// TestL19_SettlingRefused: a repair that can't be written settles nothing: what was seen
// counts as before, in this process and the next.
func TestL19_SettlingRefused(t *testing.T) {
	p, seen := newPlace(t), &memo{}
	r, gone, other := p.forked(seen)
	before := string(seen.data)
	p.http.Set(gittest.OnPush(gittest.Status(503, "down")))
	repair := Act{Act: Repair, Actor: "ada", Reason: "looked", Time: 1700000000000, Refs: []Mark{{ref, string(r.tip())}}}
	if _, err := r.Settle(t.Context(), repair, writer(p.key)); err == nil {
		t.Fatal("it was written")
	}
	again := p.room(seen)
	if string(seen.data) != before || !p.revoked(again, gone) || !p.revoked(r, gone) || p.revoked(r, other) {
		t.Error("what was seen doesn't count any more")
	}
	p.http.Set(nil)
	_, err := r.Settle(t.Context(), repair, writer(p.key))
	p.must(err)
	again = p.room(seen)
	if p.revoked(again, gone) || !p.revoked(again, other) {
		t.Error("it isn't settled")
	}
}

// TestL19_ForkedActs: a ref that contradicts what was seen counts for nothing, and
// nothing is written over it, until a person has settled it.
func TestL19_ForkedActs(t *testing.T) {
	p, seen := newPlace(t), &memo{}
	r, gone, other := p.forked(seen)
	before := p.tip()
	p.see(r)
	if done, err := r.PutBack(t.Context()); done || err != nil || p.tip() != before {
		t.Errorf("put back: %v, %v", done, err)
	}
	if f := r.Fault(); f == nil || f.Code != kernel.CodeWorldFork || !p.revoked(r, gone) || p.revoked(r, other) {
		t.Errorf("%v", f)
	}
	repair := Act{Act: Repair, Actor: "ada", Reason: "looked", Time: 1700000000000, Refs: []Mark{{ref, string(r.tip())}}}
	var e *Error
	if _, err := r.Append(t.Context(), repair, writer(p.key)); !errors.As(err, &e) || e.Code != kernel.CodeWorldFork || p.tip() != before {
		t.Errorf("written over: %v", err)
	}
	_, err := r.Settle(t.Context(), repair, writer(p.key))
	p.must(err)
	if r.Fault() != nil || p.revoked(r, gone) || !p.revoked(r, other) || gittest.Git(t, p.dir, "rev-parse", ref+"~1") != before {
		t.Errorf("settled: %v, %+v", r.Fault(), r.Standing(p.key.PublicKey()).Acts)
	}
}

// TestL6_ActsAndLostReplies: an act whose answer was lost is there once, and those
// who write at once all get theirs in.
func TestL6_ActsAndLostReplies(t *testing.T) {
	p := newPlace(t)
	r := p.room(&memo{})
	p.http.Set(gittest.OnPush(gittest.DropResponse))
	if _, err := r.Append(t.Context(), Act{Act: Repair, Actor: "ada", Time: 1700000000000, Refs: []Mark{{"refs/writ/task/1", strings.Repeat("a", 40)}}}, writer(p.key)); err != nil {
		t.Fatal(err)
	}
	p.http.Set(nil)
	if n := len(strings.Fields(gittest.Git(t, p.dir, "rev-list", ref))); n != 1 {
		t.Errorf("it is there %d times", n)
	}
	var all sync.WaitGroup
	for range 4 {
		room := p.room(&memo{})
		all.Go(func() { p.say(room, p.key) })
	}
	all.Wait()
	if n := len(strings.Fields(gittest.Git(t, p.dir, "rev-list", ref))); n != 5 {
		t.Errorf("there are %d acts", n)
	}
}

// says is a repository that says of pushes that they won, and does nothing.
type says struct {
	*git.Repo
	lies int
}

func (s *says) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	if s.lies--; s.lies >= 0 {
		return git.Outcome{Status: git.Won}
	}
	return s.Repo.CompareAndSwap(ctx, cmds, pack)
}

// TestG7_ActThatTheServerOnlySaysItHas: an act is said once it is seen there, and is
// no act before.
func TestG7_ActThatTheServerOnlySaysItHas(t *testing.T) {
	p := newPlace(t)
	gone := gittest.NewKey(t)
	revoke := Act{Act: Revoke, Actor: "ada", Time: 1700000000000, Old: KeyLine(gone.PublicKey())}
	r, err := Open(&says{Repo: p.repo(), lies: 100}, here, ref, &memo{})
	p.must(err)
	var e *Error
	if oid, err := r.Append(t.Context(), revoke, writer(p.key)); !errors.As(err, &e) || e.Code != kernel.CodeForgeUnreachable || p.tip() != "" || p.revoked(r, gone) {
		t.Errorf("said %s, %v", oid, err)
	}
	r, err = Open(&says{Repo: p.repo(), lies: 2}, here, ref, &memo{})
	p.must(err)
	if oid, err := r.Append(t.Context(), revoke, writer(p.key)); err != nil || p.tip() != string(oid) || !p.revoked(r, gone) {
		t.Errorf("said %s, %v", oid, err)
	}
}

// TestF1_ActsOnOneLine: nobody writes a line of his own into a list of acts.
func TestF1_ActsOnOneLine(t *testing.T) {
	p := newPlace(t)
	r := p.room(&memo{})
	_, err := r.Append(t.Context(), Act{Act: Revoke, Actor: "mal\u202e", Reason: "x\nforged\x1b[2K", Time: 1700000000000, Old: KeyLine(p.key.PublicKey())}, writer(gittest.NewKey(t)))
	p.must(err)
	for _, j := range r.Standing(p.key.PublicKey()).Acts {
		if text := j.String(); strings.ContainsAny(text, "\n\x1b\u202e") {
			t.Errorf("%q", text)
		}
	}
}

// TestL19_MemoryOfActs: what can't be kept isn't decided by, and what was kept is
// read back strictly.
func TestL19_MemoryOfActs(t *testing.T) {
	p, seen := newPlace(t), &memo{}
	p.say(p.room(seen), p.key)
	full := &memo{fail: errors.New("no space")}
	var e *Error
	r := p.room(full)
	refs, err := r.repo.Refs(t.Context(), ref)
	p.must(err)
	if err := r.Look(t.Context(), refs.OID(ref)); !errors.As(err, &e) || e.Code != kernel.CodeWorldMemory || len(r.Standing().Acts) != 0 {
		t.Errorf("%v", err)
	}
	for name, data := range map[string]string{
		"no JSON": "x", "another world": strings.Replace(string(seen.data), here, "x#1", 1), "damaged": strings.Replace(string(seen.data), `"commit":"d`, `"commit":"e`, 1),
	} {
		if _, err := Open(r.repo, here, ref, &memo{data: []byte(data)}); !errors.As(err, &e) || e.Code != kernel.CodeWorldMemory {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestG4_ActsAreStrict: an act that isn't written in its one form is none.
func TestG4_ActsAreStrict(t *testing.T) {
	key, other := KeyLine(gittest.NewKey(t).PublicKey()), KeyLine(gittest.NewKey(t).PublicKey())
	good := Act{Kind: actKind, V: actVersion, Act: Rotate, World: here, Actor: "ada", Old: key, New: other, Refs: []Mark{{"refs/writ/task/1", strings.Repeat("a", 40)}}}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Act){
		"kind": func(a *Act) { a.Kind = "seed_pack" }, "version": func(a *Act) { a.V = 2 }, "word": func(a *Act) { a.Act = "grant" },
		"no world": func(a *Act) { a.World = "" }, "a world of two lines": func(a *Act) { a.World = "a\nwrit-act: revoke" }, "nobody": func(a *Act) { a.Actor = "" },
		"a comment at the key": func(a *Act) { a.Old += " ada" }, "two keys": func(a *Act) { a.Old += "\n" + other }, "the same key": func(a *Act) { a.New = a.Old },
		"a bad ref": func(a *Act) { a.Refs[0].Ref = "../x" }, "a short id": func(a *Act) { a.Refs[0].Head = "aa" }, "zero": func(a *Act) { a.Refs[0].Head = string(git.ZeroOID) },
		"a ref twice": func(a *Act) { a.Refs = append(a.Refs, a.Refs[0]) }, "a proof of a revocation": func(a *Act) { a.Act, a.New, a.Proof = Revoke, "", "x" },
		"a rebinding to elsewhere": func(a *Act) { a.Act, a.Old, a.New = Rebind, there, "x#2" }, "a repair of nothing": func(a *Act) { a.Act, a.Old, a.New, a.Refs = Repair, "", "", nil },
	} {
		a := good
		a.Refs = append([]Mark{}, good.Refs...)
		if change(&a); a.check() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestG4_SignedButNoAct: a good signature by a listed key makes no act of a commit
// that says something else than its file, or that joins two histories.
func TestG4_SignedButNoAct(t *testing.T) {
	p := newPlace(t)
	r := p.room(&memo{})
	first, _ := p.say(r, p.key)
	a := r.Draft(Act{Act: Revoke, Actor: "ada", Old: KeyLine(gittest.NewKey(t).PublicKey())})
	data, err := canon.Marshal(a)
	p.must(err)
	tip := first
	for _, c := range []git.CommitSpec{{Message: []byte("writ: hello\n"), Parents: []git.OID{first}}, {Message: a.message()}} {
		objs := git.NewObjects()
		c.Tree, err = treeOf(objs, data)
		p.must(err)
		c.Author = git.Person{Name: "a", Email: "a@example.org"}
		if c.Committer = c.Author; c.Parents == nil {
			c.Parents = []git.OID{first, tip}
		}
		oid, err := objs.Commit(c, git.NewSigner(p.key))
		p.must(err)
		out := r.repo.CompareAndSwap(t.Context(), []git.Command{{Ref: ref, Old: tip, New: oid}}, objs.Pack())
		if out.Status != git.Won {
			t.Fatalf("%+v", out)
		}
		tip = oid
		p.see(r)
		if s := r.Standing(p.key.PublicKey()); len(s.Acts) != 1 || len(s.PassedOver()) != 0 {
			t.Errorf("%+v", s.Acts)
		}
	}
	_, ok := p.sayOn(r, tip, p.key)
	p.see(r)
	if s := r.Standing(p.key.PublicKey()); len(s.Acts) != 1 || len(s.PassedOver()) != 0 {
		t.Errorf("%+v", s.Acts)
	}
	// Who reads it for the first time judges the same, and is told why.
	list, err := Read(t.Context(), r.repo, git.OID(p.tip()))
	p.must(err)
	s := Fold(here, list, Lists([]ssh.PublicKey{p.key.PublicKey()}))
	if len(s.Acts) != 3 || len(s.PassedOver()) != 2 || s.Revoked(git.Fingerprint(ok.PublicKey())) || !strings.Contains(s.Acts[2].Why, "stands on what is no act") {
		t.Errorf("%+v", s.Acts)
	}
}
