package replay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// stride is how many bytes of a record or file one flip stands for: every
// record is hit several times, and the test stays within seconds.
const stride = 97

// TestR1_AnyByteOfThePackIsFound flips bytes all over the pack, and has the
// instance's own key sign the spoilt pack, so that no commit id gives it away.
func TestR1_AnyByteOfThePackIsFound(t *testing.T) {
	x := completed(t)
	if r := x.verify(); !r.OK {
		t.Fatalf("the intact pack fails:\n%s", r.Plain())
	}
	flips := 0
	for name, data := range x.pack {
		if name == FileRecords {
			continue
		}
		step := max(1, min(stride, len(data)/40))
		for i := 0; i < len(data); i += step {
			y := x.clone()
			y.pack[name] = flipped(data, i)
			y.sign()
			r := y.verify()
			switch {
			case r.OK || r.FirstBad == nil:
				t.Errorf("%s, byte %d (%q): not found", name, i, data[i])
			case name == FileSealed: // it or the record that it contradicts: which of them was changed can't be told
			case name != FileProofs && name != FileCheckpoint && r.FirstBad.File != name:
				t.Errorf("%s, byte %d (%q): named is %s", name, i, data[i], r.FirstBad)
			}
			flips++
		}
	}
	t.Logf("%d flips", flips)
}

// TestR1_AnyByteOfARecordNamesIt does the same with the records: the flipped one
// is the one that is named.
func TestR1_AnyByteOfARecordNamesIt(t *testing.T) {
	x := completed(t)
	seqs := x.seqs()
	at := 0
	for n, l := range x.lines() {
		for i := n % 7; i < len(l); i += stride {
			y := x.clone()
			y.pack[FileRecords] = flipped(x.pack[FileRecords], at+i)
			y.sign()
			wantBad(t, y.verify(), seqs[n], fmt.Sprintf("record %d, byte %d (%q)", seqs[n], i, l[i]))
		}
		at += len(l)
	}
}

func flipped(data []byte, i int) []byte {
	out := bytes.Clone(data)
	out[i] ^= 1
	return out
}

func wantBad(t *testing.T, r Report, seq int64, what string) {
	t.Helper()
	if r.OK || r.FirstBad == nil || r.FirstBad.Seq != seq || r.FirstBad.File != FileRecords {
		t.Errorf("%s: first bad %v, want record %d", what, r.FirstBad, seq)
	}
}

// TestR1_RecordsOutOfPlace drops, doubles and swaps each record in turn.
func TestR1_RecordsOutOfPlace(t *testing.T) {
	x := completed(t)
	lines, seqs := x.lines(), x.seqs()
	for n := range lines {
		for what, list := range map[string][][]byte{
			"dropped": slices.Delete(slices.Clone(lines), n, n+1),
			"doubled": slices.Insert(slices.Clone(lines), n, lines[n]),
			"cut off": lines[:n],
		} {
			y := x.clone()
			y.pack[FileRecords] = bytes.Join(list, nil)
			y.sign()
			if what == "cut off" && n == 0 {
				if r := y.verify(); r.OK || r.FirstBad == nil || r.FirstBad.File != FileRecords {
					t.Errorf("no records: %v", r.FirstBad)
				}
				continue
			}
			wantBad(t, y.verify(), seqs[n], fmt.Sprintf("record %d %s", seqs[n], what))
		}
		if n == 0 {
			continue
		}
		y := x.clone()
		swapped := slices.Clone(lines)
		swapped[n-1], swapped[n] = swapped[n], swapped[n-1]
		y.pack[FileRecords] = bytes.Join(swapped, nil)
		y.sign()
		wantBad(t, y.verify(), seqs[n-1], fmt.Sprintf("records %d and %d swapped", seqs[n-1], seqs[n]))
	}
}

// TestR1_FilesNotOfTheCommit: nobody needs to know what a byte means to find
// that HEAD did not sign it; nor may a file go or come.
func TestR1_FilesNotOfTheCommit(t *testing.T) {
	x := completed(t)
	for name, data := range x.pack {
		y := x.clone()
		y.pack[name] = flipped(data, len(data)/2)
		wantFailed(t, y.verify(), "tree")
		y = x.clone()
		delete(y.pack, name)
		wantFailed(t, y.verify(), "tree")
	}
	y := x.clone()
	y.pack["main.go"] = []byte("package main\n")
	y.sign()
	wantFailed(t, y.verify(), "tree")
}

// TestR1_AnotherLedgerHead: the head that HEAD names is the one that the
// checkpoint ends with, so that no later record can be left out.
func TestR1_AnotherLedgerHead(t *testing.T) {
	x := completed(t)
	lines := x.lines()
	for n, head := range map[string]canon.Digest{
		"an earlier record": canon.Sum(bytes.TrimSuffix(lines[len(lines)-2], []byte("\n"))), "no record": canon.Sum(nil), "no digest": "x",
	} {
		y := x.clone()
		y.signMessage(strings.Replace(string(x.head.Commit.Message), trailerOf(x.head.Commit, kernel.TrailerLedgerHead), string(head), 1))
		r := y.verify()
		wantFailed(t, r, "proofs")
		for _, c := range r.Checks {
			if c.Name != "proofs" && !c.OK {
				t.Errorf("%s: %s failed, too: %s", n, c.Name, c.Detail)
			}
		}
	}
}

func wantFailed(t *testing.T, r Report, names ...string) {
	t.Helper()
	for _, name := range names {
		i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == name })
		if i < 0 || r.Checks[i].OK || r.OK {
			t.Errorf("check %s didn't fail:\n%s", name, r.Plain())
		}
	}
}
