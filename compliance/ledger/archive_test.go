package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
)

// archived is a ledger of which two of three closed segments are archived.
func archived(t *testing.T) (s *Store, l *Ledger, path, dir string, note []byte) {
	t.Helper()
	s, l, path, note = segmented(t)
	dir = t.TempDir()
	// fillFast gives 500 records the time of the first: the last of the third segment has
	// 2001, the last of the second 1001.
	got, err := l.Archive(t.Context(), dir, 2501)
	if err != nil {
		t.Fatal(err)
	}
	if got != (Archived{World: worldA, Dir: dir, Files: 2, Records: 1024, Of: segmentSample}) {
		t.Fatalf("%+v", got)
	}
	return s, l, path, dir, note
}

// away moves an archive to another directory.
func away(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(dir, to); err != nil {
		t.Fatal(err)
	}
	return to
}

func wantArchived(t *testing.T, what string, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != kernel.CodeLedgerArchived || e.Seq != 0 || !strings.Contains(err.Error(), "segment-") {
		t.Errorf("%s: %v", what, err)
	}
}

// TestArchive_AtHand: with the archive at hand a ledger gives what it gave before.
func TestArchive_AtHand(t *testing.T) {
	_, before, _, _ := segmented(t)
	s, l, path, dir, note := archived(t)
	want, got := allOf(t, before), allOf(t, l)
	if strings.Join(want.Lines, "\n") != strings.Join(got.Lines, "\n") || want.Root != got.Root || len(got.Tasks[1]) != len(want.Tasks[1]) {
		t.Error("the records are others")
	}
	if r := got.Verified; !r.OK || r.Archived != 1024 || r.ArchiveMissing != "" {
		t.Errorf("%+v", r)
	}
	if data := numberIn(t, s, `SELECT sum(length(data)) FROM segments WHERE first < 1024`); data != 0 {
		t.Errorf("the store still has %d bytes of it", data)
	}
	// A file of an archive needs nothing of writ to be read.
	packed, err := os.ReadFile(filepath.Join(dir, archiveName(t, dir, 1)))
	if err != nil {
		t.Fatal(err)
	}
	dec, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	var plain bytes.Buffer
	if _, err := plain.ReadFrom(dec); err != nil || plain.String() != strings.Join(want.Lines[512:1024], "\n")+"\n" {
		t.Errorf("the second file isn't its records (%v)", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	next := openWorld(t, openStore(t, path, testKey(t, 1)), worldA)
	fillFast(t, next, segmentSample+10)
	if r := mustVerify(t, next, VerifyOptions{Checkpoint: note, Archived: true, Deep: true}); !r.OK || r.Records != segmentSample+10 {
		t.Errorf("%+v", r)
	}
}

// archiveName is the name of an archive's n-th file.
func archiveName(t *testing.T, dir string, n int) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list[n].Name()
}

// TestArchive_Away: without its archive a ledger is opened, goes on, proves and verifies
// what is there, and says what isn't; whoever needs an archived record is told where it
// was. With the archive in another place it is read there.
func TestArchive_Away(t *testing.T) {
	s, _, path, dir, note := archived(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	elsewhere := away(t, dir)
	s = openStore(t, path, testKey(t, 1))
	l := openWorld(t, s, worldA)
	fillFast(t, l, segmentSample+700)
	if err := l.Check(t.Context(), note); err != nil {
		t.Error(err)
	}
	note = closeAll(t, l)
	if _, err := l.ProveRecord(t.Context(), 1100, segmentSample+700); err != nil {
		t.Error(err)
	}
	r := mustVerify(t, l, VerifyOptions{Checkpoint: note, Outside: true})
	if !r.OK || r.Archived != 1024 || filepath.Dir(r.ArchiveMissing) != dir || r.Records != segmentSample+700 || r.Instance != testKey(t, 1).Fingerprint() {
		t.Errorf("%+v", r)
	}
	if r := mustVerify(t, l, VerifyOptions{Archived: true}); r.OK || r.Code != kernel.CodeLedgerArchived || r.FirstBad == nil || *r.FirstBad != 0 {
		t.Errorf("%+v", r)
	}
	var failed error
	for _, err := range l.Records(t.Context(), 0, 0) {
		failed = err
	}
	wantArchived(t, "all records", failed)
	for _, err := range l.RecordsOfTask(t.Context(), 1) {
		failed = err
	}
	wantArchived(t, "those of a task", failed)
	_, err := l.ProveRecord(t.Context(), 5, segmentSample)
	wantArchived(t, "a proof", err)
	if got := len(linesFrom(t, l, 1024)); got != segmentSample+700-1024 {
		t.Errorf("%d records after it", got)
	}

	ro, err := OpenReadOnly(t.Context(), path, Options{Archive: elsewhere})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if r := mustVerify(t, openWorld(t, ro, worldA), VerifyOptions{Checkpoint: note, Archived: true}); !r.OK || r.ArchiveMissing != "" {
		t.Errorf("with the archive elsewhere: %+v", r)
	}
	// More is archived to the new place only with what was archived before.
	if _, err := l.Archive(t.Context(), t.TempDir(), 1<<60); CodeOf(err) != kernel.CodeLedgerArchived {
		t.Errorf("an archive in two places: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.CopyFS(bad, os.DirFS(elsewhere)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(bad, "segment-*"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	if err := os.WriteFile(files[0], []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Archive(t.Context(), bad, 1<<60); CodeOf(err) != kernel.CodeLedgerCorrupt {
		t.Errorf("a copy that isn't what was archived: %v", err)
	}
	got, err := l.Archive(t.Context(), elsewhere, 1<<60)
	if err != nil || got.Records != 4*segmentRecords || got.Files != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if r := mustVerify(t, l, VerifyOptions{Archived: true}); !r.OK || r.Archived != 4*segmentRecords {
		t.Errorf("%+v", r)
	}
}

func linesFrom(t *testing.T, l *Ledger, from int64) (lines [][]byte) {
	t.Helper()
	for raw, err := range l.Lines(t.Context(), from, 0) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, raw)
	}
	return lines
}

// TestArchive_Mark: a ledger is gone on with from a mark though its archive is away, and
// what is archived isn't a fault behind.
func TestArchive_Mark(t *testing.T) {
	s, l, path, dir, note := archived(t)
	mark, err := l.Mark()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	away(t, dir)
	for _, fault := range []bool{false, true} {
		ended := make(chan error, 1)
		s := openStore(t, path, testKey(t, 1))
		if fault {
			replaceData(t, s, 1024, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		}
		if _, err := s.WorldFrom(t.Context(), mark, note, func(err error) { ended <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; fault != (CodeOf(err) == kernel.CodeLedgerCorrupt) || !fault && err != nil {
			t.Errorf("fault %v: %v", fault, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestR1_Archive: whatever is changed of an archive, or of what the store keeps of it, is
// named, whether or not the archive is at hand.
func TestR1_Archive(t *testing.T) {
	sql := func(text string) func(*testing.T, *Store, string) {
		return func(t *testing.T, s *Store, _ string) { tamper(t, s, text) }
	}
	file := func(n int, change func([]byte) []byte) func(*testing.T, *Store, string) {
		return func(t *testing.T, _ *Store, dir string) {
			path := filepath.Join(dir, archiveName(t, dir, n))
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	other := func(t *testing.T, s *Store, _ string) { // a mark of another ledger of the same key
		t.Helper()
		l := openWorld(t, s, worldB)
		fillFast(t, l, segmentSample)
		closeAll(t, l)
		if _, err := l.Archive(t.Context(), t.TempDir(), 2501); err != nil {
			t.Fatal(err)
		}
		tamper(t, s, `UPDATE archives SET mark = (SELECT mark FROM archives o WHERE o.world <> archives.world)`)
	}
	foreign := func(t *testing.T, s *Store, _ string) { // another key's word
		t.Helper()
		m, err := openWorld(t, s, worldA).Mark()
		if err != nil {
			t.Fatal(err)
		}
		m.Head.Seq = 1023
		m.Edge = m.Edge[:1]
		doc, err := m.Sign(testKey(t, 9), []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		err = s.db.Write(t.Context(), func(tx store.Tx) error {
			_, err := tx.Exec(`UPDATE archives SET mark = $1`, doc)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fork := func(t *testing.T, s *Store, _ string) { // the same ledger, but for its last archived records
		t.Helper()
		other, l, _ := sample(t, 1)
		fillFast(t, l, 1000)
		for i := range 24 {
			if _, err := l.Write(t.Context(), 2000, audit(i)); err != nil {
				t.Fatal(err)
			}
		}
		fillFast(t, l, segmentSample)
		closeAll(t, l)
		if got, err := l.Archive(t.Context(), t.TempDir(), 2501); err != nil || got.Records != 1024 {
			t.Fatal(got, err)
		}
		var mark []byte
		err := other.storage.view(t.Context(), func(v snapshot) error {
			w, _, err := v.world(t.Context(), worldA)
			mark = w.archive.mark
			return err
		})
		if err == nil {
			err = s.db.Write(t.Context(), func(tx store.Tx) error {
				_, err := tx.Exec(`UPDATE archives SET mark = $1`, mark)
				return err
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const none = -1
	for _, c := range []struct {
		name         string
		do           func(*testing.T, *Store, string)
		here, absent int64 // the record that is named; none: no single one
		says         string
	}{
		{"a byte of a file", file(1, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), 512, sound, "can't be read"},
		{"a record of a file", file(1, repacked(t, func(lines [][]byte) [][]byte {
			lines[3] = bytes.Replace(lines[3], []byte(`"IDLE"`), []byte(`"IDLF"`), 1)
			return lines
		})), 515, sound, "changed"},
		{"the last record of the archive", file(1, repacked(t, func(lines [][]byte) [][]byte {
			lines[511] = bytes.Replace(lines[511], []byte(`"IDLE"`), []byte(`"IDLF"`), 1)
			return lines
		})), 1023, sound, "tree hashes"},
		{"the hashes of a segment", sql(`UPDATE segments SET nodes = zeroblob(length(nodes)) WHERE first = 0`), 511, 512, "tree hashes"},
		{"a higher hash", sql(`UPDATE segments SET nodes = CAST(substr(nodes, 1, length(nodes) - 32) || zeroblob(32) AS BLOB) WHERE first = 512`), 1023, 512, "tree hashes"},
		{"an archived segment", sql(`DELETE FROM segments WHERE first = 512`), 512, 512, ""},
		{"the mark", sql(`UPDATE archives SET mark = CAST(replace(CAST(mark AS TEXT), '"time":', '"time":1') AS BLOB)`), none, none, "stands for the archived"},
		{"the mark's absence", sql(`UPDATE archives SET mark = x''`), none, none, "stands for the archived"},
		{"its size", sql(`UPDATE archives SET size = 512`), none, none, "stands for the archived"},
		{"a mark of another ledger", other, none, none, "stands for the archived"},
		{"a mark of another key", foreign, none, none, "stands for the archived"},
		{"a mark of a fork", fork, 1023, none, "not those that were signed for"},
		{"that it is archived", sql(`DELETE FROM archives`), 0, 0, "doesn't hold 512 records"},
		{"a record after it", sql(`UPDATE records SET task = 77 WHERE seq = 1600`), 1600, 1600, "another task"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, l, _, dir, note := archived(t)
			c.do(t, s, dir)
			for _, gone := range []bool{false, true} {
				want := c.here
				if gone {
					want = c.absent
					away(t, dir)
				}
				r := mustVerify(t, l, VerifyOptions{Checkpoint: note})
				bad := int64(none)
				if r.FirstBad != nil {
					bad = *r.FirstBad
				}
				if want == sound && r.OK {
					continue
				}
				if r.OK || r.Code != kernel.CodeLedgerCorrupt || bad != want || !strings.Contains(r.Reason, c.says) && !gone {
					t.Errorf("away %v: %v, first bad %d: %s; want %d, %q", gone, r.Code, bad, r.Reason, want, c.says)
				}
			}
		})
	}
}

// sound is where nothing can be found without the archive.
const sound = -2

// TestArchive_OldCheckpoint: a checkpoint of fewer records than are archived isn't passed
// over where it can't be held against them.
func TestArchive_OldCheckpoint(t *testing.T) {
	_, l, _ := sample(t, 1)
	fillFast(t, l, 700)
	old := closeAll(t, l)
	fillFast(t, l, segmentSample)
	note := closeAll(t, l)
	dir := t.TempDir()
	if _, err := l.Archive(t.Context(), dir, 2501); err != nil {
		t.Fatal(err)
	}
	o := VerifyOptions{Checkpoint: note, Others: [][]byte{old}}
	if r := mustVerify(t, l, o); !r.OK {
		t.Errorf("%+v", r)
	}
	away(t, dir)
	if r := mustVerify(t, l, o); r.OK || r.Code != kernel.CodeLedgerArchived || !strings.Contains(r.Reason, "700 records") {
		t.Errorf("%+v", r)
	}
}

// TestR4_ArchiveAgain: an archive that was cut off before the store forgot anything is made
// again over the files that are there; a file that isn't the segment's is never replaced.
func TestR4_ArchiveAgain(t *testing.T) {
	s, l, _, note := segmented(t)
	dir := t.TempDir()
	w := worldRow{name: worldA, archive: archive{dir: dir}}
	err := s.storage.view(t.Context(), func(v snapshot) error {
		found, _, err := v.world(t.Context(), worldA)
		if err != nil {
			return err
		}
		one, err := v.segment(t.Context(), found, 0)
		if err != nil {
			return err
		}
		return os.WriteFile(archiveFile(w, 0), one.data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archiveFile(w, 512), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Archive(t.Context(), dir, 2501); CodeOf(err) != kernel.CodeLedgerArchived {
		t.Errorf("over another file: %v", err)
	}
	if r := mustVerify(t, l, VerifyOptions{Checkpoint: note}); !r.OK || r.Archived != 0 {
		t.Errorf("after an archive that failed: %+v", r)
	}
	if err := os.Remove(archiveFile(w, 512)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // said again, it is done
		if got, err := l.Archive(t.Context(), dir, 2501); err != nil || got.Records != 1024 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if r := mustVerify(t, l, VerifyOptions{Checkpoint: note, Archived: true}); !r.OK || r.Archived != 1024 {
		t.Errorf("%+v", r)
	}
	if _, err := l.Archive(t.Context(), filepath.Join(dir, "no", "directory"), 1<<60); err == nil {
		t.Error("to a directory that isn't there")
	}
}

// TestArchive_Nothing: nothing is archived of a ledger that has no old segment, of one that
// doesn't verify, and beside its writer.
func TestArchive_Nothing(t *testing.T) {
	s, l, path, _ := segmented(t)
	dir := t.TempDir()
	if got, err := l.Archive(t.Context(), dir, 1000); err != nil || got.Records != 0 || got.Files != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	ro, err := OpenReadOnly(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if _, err := openWorld(t, ro, worldA).Archive(t.Context(), dir, 1<<60); CodeOf(err) != kernel.CodeLedgerUnavailable {
		t.Errorf("a reader archives: %v", err)
	}
	tamper(t, s, `UPDATE records SET task = 77 WHERE seq = 1600`)
	if _, err := l.Archive(t.Context(), dir, 1<<60); CodeOf(err) != kernel.CodeLedgerCorrupt {
		t.Errorf("a ledger that doesn't verify is archived: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}
