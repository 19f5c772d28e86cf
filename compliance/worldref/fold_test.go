package worldref

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const here, there = "forge#1", "old#9"

// at is the id of the i-th entry.
func at(i int) string { return fmt.Sprintf("%040x", i+1) }

// entryOf is an entry as reading makes it.
func entryOf(i int, act, signer, old, next string, marks ...Mark) Entry {
	return Entry{OID: at(i), Signer: signer, Old: old, New: next, Act: Act{Act: act, World: here, Old: old, New: next, Refs: marks}}
}

func history(list ...Entry) []Entry {
	for i := range list {
		list[i].OID = at(i)
	}
	return list
}

func lists(keys ...string) func(string) bool {
	return func(k string) bool { return slices.Contains(keys, k) }
}

func proven(e Entry) Entry    { e.Proven = true; return e }
func elsewhere(e Entry) Entry { e.Act.World = there; return e }

// TestL18_WhoCounts: which signer counts for which commit, under which acts and for
// whom.
func TestL18_WhoCounts(t *testing.T) {
	const ref, head, later = "refs/writ/task/7", "aa", "bb"
	mark := Mark{ref, head}
	rotate := entryOf(0, Rotate, "new", "old", "new", mark)
	revoke := entryOf(0, Revoke, "other", "old", "", mark)
	for name, c := range map[string]struct {
		acts   []Entry
		lists  []string
		signer string
		head   string
		want   bool
	}{
		"listed":                            {nil, []string{"old"}, "old", later, true},
		"unlisted":                          {nil, []string{"other"}, "old", head, false},
		"nobody":                            {nil, []string{""}, "", head, false},
		"rotated, up to":                    {history(rotate), []string{"new"}, "old", head, true},
		"rotated, newer":                    {history(rotate), []string{"new"}, "old", later, false},
		"rotated, newer, both listed":       {history(rotate), []string{"new", "old"}, "old", later, false},
		"rotated, by an unlisted key":       {history(rotate), []string{"old"}, "old", later, true},
		"rotated, proven, by an unlisted":   {history(proven(rotate)), []string{"old"}, "old", later, false},
		"rotated, proven, up to":            {history(proven(rotate)), []string{"old"}, "old", head, true},
		"a proof lists nobody":              {history(proven(rotate)), []string{"old"}, "new", later, false},
		"a proof of no listed key":          {history(proven(rotate)), []string{"other"}, "old", head, false},
		"rotated by a third key":            {history(entryOf(0, Rotate, "other", "old", "new", mark)), []string{"other", "old"}, "old", later, true},
		"revoked, up to":                    {history(revoke), []string{"other", "old"}, "old", head, true},
		"revoked, newer":                    {history(revoke), []string{"other", "old"}, "old", later, false},
		"revoked, no longer listed":         {history(revoke), []string{"other"}, "old", head, true},
		"revoked by an unlisted key":        {history(revoke), []string{"old"}, "old", later, true},
		"revoked by itself":                 {history(entryOf(0, Revoke, "old", "old", "")), []string{"old"}, "old", head, false},
		"revoked, then rotated with proof":  {history(entryOf(0, Revoke, "other", "old", ""), proven(entryOf(1, Rotate, "new", "old", "new", Mark{ref, later}))), []string{"other", "old", "new"}, "old", later, false},
		"rotated, then revoked":             {history(rotate, entryOf(1, Revoke, "new", "old", "")), []string{"new"}, "old", head, false},
		"revoked, then its revoker revoked": {history(revoke, entryOf(1, Revoke, "old", "other", "")), []string{"other", "old"}, "other", later, true},
		"unrevoked by itself":               {history(revoke, entryOf(1, Revoke, "old", "old", "", Mark{ref, later})), []string{"other", "old"}, "old", later, false},
		"an act of another world":           {history(elsewhere(revoke)), []string{"other", "old"}, "old", later, true},
		"no act":                            {history(func() Entry { e := revoke; e.Fault = "broken"; return e }()), []string{"other", "old"}, "old", later, true},
		"twice rotated":                     {history(entryOf(0, Rotate, "mid", "old", "mid", mark), entryOf(1, Rotate, "new", "mid", "new")), []string{"new"}, "old", head, true},
		"an act of another world that goes on here": {
			history(elsewhere(revoke), entryOf(1, Rebind, "other", there, here)), []string{"other", "old"}, "old", later, false},
		"what was made there after it went on here": {
			history(entryOf(0, Rebind, "other", there, here), elsewhere(revoke)), []string{"other", "old"}, "old", later, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := Fold(here, c.acts, lists(c.lists...))
			if got := s.Signs(c.signer, ref, c.head); got != c.want {
				t.Errorf("%v; acts %+v", got, s.Acts)
			}
			if s.Signs(c.signer, "refs/writ/task/8", head) && !slices.Contains(c.lists, c.signer) {
				t.Error("a mark counts on another ref")
			}
		})
	}
}

// TestL18_WhichWorldCounts: a commit of another world counts where a rebinding that
// counts names it, and nowhere else.
func TestL18_WhichWorldCounts(t *testing.T) {
	const ref, head = "refs/writ/task/7", "aa"
	bind := entryOf(0, Rebind, "k", there, here, Mark{ref, head})
	listed, unlisted := Fold(here, history(bind), lists("k")), Fold(here, history(bind), lists("x"))
	for name, c := range map[string]struct {
		s          Standing
		world, ref string
		head       string
		want       bool
	}{
		"this world":           {listed, here, ref, "cc", true},
		"no world":             {listed, "", ref, head, false},
		"up to":                {listed, there, ref, head, true},
		"newer":                {listed, there, ref, "bb", false},
		"another ref":          {listed, there, "refs/writ/task/8", head, false},
		"a third world":        {listed, "x#1", ref, head, false},
		"by an unlisted key":   {unlisted, there, ref, head, false},
		"an act made there":    {Fold(here, history(elsewhere(bind)), lists("k")), there, ref, head, false},
		"bound to a third one": {Fold("x#1", history(bind), lists("k")), there, ref, head, false},
	} {
		if got := c.s.Bound(c.world, c.ref, c.head); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestL19_Witnessed: what an act that counts names on a ref was there, until a later act
// names something else, or says that a person went on from something else.
func TestL19_Witnessed(t *testing.T) {
	const ref, third = "refs/writ/task/7", "third#2"
	bind := entryOf(0, Rebind, "k", there, here, Mark{ref, "aa"})
	further := entryOf(0, Rebind, "k", here, third)
	further.Act.World = third
	for name, c := range map[string]struct {
		acts  []Entry
		world string
		want  string
	}{
		"nothing":                     {nil, here, ""},
		"rebound":                     {history(bind), here, "aa"},
		"by an unlisted key":          {history(entryOf(0, Rebind, "x", there, here, Mark{ref, "aa"})), here, ""},
		"rotated":                     {history(entryOf(0, Rotate, "k", "old", "k", Mark{ref, "bb"})), here, "bb"},
		"rotated after it":            {history(bind, entryOf(1, Rotate, "k", "old", "k", Mark{ref, "bb"})), here, "bb"},
		"repaired":                    {history(bind, entryOf(1, Repair, "k", "", "", Mark{ref, "bb"})), here, ""},
		"another was repaired":        {history(bind, entryOf(1, Repair, "k", "", "", Mark{"refs/writ/task/8", "bb"})), here, "aa"},
		"repaired by a stranger":      {history(bind, entryOf(1, Repair, "x", "", "", Mark{ref, "bb"})), here, "aa"},
		"said anew without it":        {history(bind, entryOf(1, Rebind, "k", there, here)), here, ""},
		"another world goes on too":   {history(bind, entryOf(1, Rebind, "k", "x#1", here)), here, "aa"},
		"it goes on without it":       {history(bind, further), third, ""},
		"it goes on, and was rotated": {history(entryOf(0, Rotate, "k", "old", "k", Mark{ref, "bb"}), further), third, ""},
	} {
		if got := Fold(c.world, c.acts, lists("k")).Witnessed(ref); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestL18_ActsOutliveTheirKey: what a key said before it was replaced counts for
// whoever lists the new one; but it says nothing against the key that vouches.
func TestL18_ActsOutliveTheirKey(t *testing.T) {
	rebind := entryOf(0, Rebind, "old", there, here, Mark{"r", "aa"})
	rotate := entryOf(1, Rotate, "new", "old", "new")
	if s := Fold(here, history(rebind, rotate), lists("new")); !s.Bound(there, "r", "aa") || s.Successor("old") != "new" || !slices.Equal(s.Former("new"), []string{"old"}) {
		t.Errorf("%+v", s.Acts)
	}
	if s := Fold(here, history(rotate, rebind), lists("new", "old")); s.Bound(there, "r", "aa") {
		t.Error("a key that was replaced goes on to speak")
	}
	hostile := entryOf(0, Revoke, "old", "new", "")
	if s := Fold(here, history(hostile, rotate), lists("new")); !s.Signs("new", "r", "aa") || !s.Acts[1].Counts || s.Acts[0].Counts {
		t.Errorf("the key that vouches is undone: %+v", s.Acts)
	}
	// A revocation vouches where it says so.
	for marks, want := range map[*[]Mark]bool{{{"refs/writ/world", at(0)}}: true, {}: false} {
		s := Fold(here, history(rebind, entryOf(1, Revoke, "new", "old", "", *marks...)), lists("new"))
		if s.Bound(there, "r", "aa") != want {
			t.Errorf("with %v: %v", *marks, !want)
		}
	}
}

// TestL18_StrangersChangeNothing: whatever somebody writes who isn't listed, and
// who has no listed key's proof, nothing counts or ceases to count by it.
func TestL18_StrangersChangeNothing(t *testing.T) {
	keys := []string{"a", "b", "c", "stranger"}
	marks := []Mark{{"r", "aa"}, {"r", "bb"}}
	rapid.Check(t, func(t *rapid.T) {
		var honest, all []Entry
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			act := rapid.SampledFrom([]string{Rebind, Rotate, Revoke, Repair}).Draw(t, "act")
			signer := rapid.SampledFrom([]string{"a", "b", "stranger"}).Draw(t, "signer")
			old, next := rapid.SampledFrom(keys).Draw(t, "old"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "new")
			if act == Rebind {
				old, next = there, here
			}
			e := entryOf(len(all), act, signer, old, next, rapid.SampledFrom(marks).Draw(t, "mark"))
			e.OID = fmt.Sprintf("%040x", len(all))
			if all = append(all, e); signer != "stranger" && old != "stranger" {
				honest = append(honest, e)
			} else if old == "stranger" {
				all = all[:len(all)-1] // nobody lists or replaces the stranger
			}
		}
		with, without := Fold(here, all, lists("a", "b")), Fold(here, honest, lists("a", "b"))
		for _, m := range []Mark{{"r", "aa"}, {"r", "bb"}, {"r", "cc"}} {
			for _, k := range keys {
				if with.Signs(k, m.Ref, m.Head) != without.Signs(k, m.Ref, m.Head) {
					t.Fatalf("%s on %v: %v with the stranger's acts", k, m, with.Signs(k, m.Ref, m.Head))
				}
			}
			if with.Bound(there, m.Ref, m.Head) != without.Bound(there, m.Ref, m.Head) {
				t.Fatalf("bound on %v: %v", m, with.Bound(there, m.Ref, m.Head))
			}
		}
		if with.Signs("stranger", "r", "aa") {
			t.Fatal("the stranger counts")
		}
	})
}
