package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Archived says what [Ledger.Archive] did.
type Archived struct {
	World string `json:"world_id"`
	Dir   string `json:"dir"`
	Files int64  `json:"files"` // that were written
	// Records is how many first records are archived now, of all that there are.
	Records int64 `json:"records"`
	Of      int64 `json:"of"`
}

// absent is an archived segment that isn't at hand.
type absent struct {
	first int64
	path  string
	err   error
}

func (a *absent) Error() string {
	return fmt.Sprintf("records %d to %d are archived, and can't be read at %s: %v", a.first, a.first+segmentRecords-1, a.path, a.err)
}

// archiveFile is the name of an archived segment: what it holds is the data of the
// segment, one zstd frame of records, a newline after each.
func archiveFile(w worldRow, first int64) string {
	const digits = 16 // as of checkpoints
	return filepath.Join(w.archive.dir, fmt.Sprintf("segment-%s-%012d.zst", canon.Sum([]byte(w.name)).Hex()[:digits], first))
}

func statArchived(w worldRow, first int64) *absent {
	path := archiveFile(w, first)
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSegmentBytes) {
		err = errors.New("it is no file of a size that it may have")
	}
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err // the path is said
		}
		return &absent{first, path, err}
	}
	return nil
}

// Archive verifies the ledger, copies the closed segments whose last record is older than
// a time, Unix milliseconds, to files in dir, and lets the store forget their data. What it keeps of
// them is their hashes, and a mark that the instance signs: from there the rest is
// verified where the archive isn't at hand. Files that are there already with these very
// bytes are as good; what was archived before must lie in dir, too, so that this is also
// how an archive is moved. After a crash it is done again.
func (l *Ledger) Archive(ctx context.Context, dir string, before int64) (out Archived, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return out, unavailable(l.world, "the archive has no path", err)
	}
	l.closing.Lock()
	defer l.closing.Unlock()
	w, c, err := l.cut(ctx, dir, before)
	if err != nil {
		return out, err
	}
	out = Archived{World: l.world, Dir: dir, Of: w.head.Seq + 1, Records: w.archive.size}
	w.archive.dir = dir
	a := w.archive
	if c != nil {
		for first := w.archive.size; first < c.tree.size; first += segmentRecords {
			if err := l.export(ctx, w, first); err != nil {
				return out, err
			}
			out.Files++
		}
		out.Records, a.size = c.tree.size, c.tree.size
		if a.mark, err = c.mark(l.world, l.chain.Instance).Sign(l.store.key, []byte("{}")); err != nil {
			return out, unavailable(l.world, "the mark of the archive can't be signed", err)
		}
	}
	if a.size == 0 {
		return out, nil
	}
	if err := syncDir(dir); err != nil {
		return out, unavailable(l.world, "the archive can't be made durable", err)
	}
	if err := l.store.storage.archive(context.WithoutCancel(ctx), l.world, a); err != nil {
		return out, l.failed(l.Chain().Head, err)
	}
	return out, nil
}

// cut verifies the whole ledger, with what is archived already as it lies in dir, and says
// where the segments end that may be archived, and how the chain stands there; nil if there
// are no more of them.
func (l *Ledger) cut(ctx context.Context, dir string, before int64) (w worldRow, at *checker, err error) {
	switch {
	case l.store.key == nil:
		return w, nil, unavailable(l.world, "the store was opened for reading", nil)
	case !l.past.done():
		return w, nil, unavailable(l.world, "the records before are still being verified", nil)
	}
	if err := l.store.refuse(l.world); err != nil {
		return w, nil, err
	}
	v := newVerification(Expect{World: l.world, Instance: l.chain.Instance})
	from, moves := l.store.storage, false
	err = from.view(ctx, func(s snapshot) error {
		w, _, err = s.world(ctx, l.world)
		return err
	})
	if moves = err == nil && w.archive.size > 0 && w.archive.dir != dir; moves { // what lies there is to count from now on
		from = from.archivedIn(dir)
	}
	if err != nil {
		return w, nil, readError(l.world, err)
	}
	err = from.view(ctx, func(s snapshot) error {
		var ok bool
		if w, ok, err = s.world(ctx, l.world); err != nil || !ok {
			return err
		}
		v.want.Head, v.stored = &w.head, w.checkpoint
		if err := v.begin(ctx, s, w, moves); err != nil {
			return err
		}
		end := w.archive.size
		v.segmentEnds = func(r row) {
			if r.in.first == end && v.c.time < before {
				end = r.in.end()
				at = v.c.clone()
			}
		}
		return v.read(ctx, s, rowQuery{world: w.id, from: v.from()})
	})
	if err != nil {
		return w, nil, readError(l.world, err)
	}
	return w, at, v.finish().Err()
}

// export writes a segment's file durably, or finds it there.
func (l *Ledger) export(ctx context.Context, w worldRow, first int64) error {
	var s segment
	err := l.store.storage.view(ctx, func(v snapshot) (err error) {
		s, err = v.segment(ctx, w, first)
		return err
	})
	if err != nil {
		return readError(l.world, err)
	}
	path := archiveFile(w, first)
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, s.data) {
		return nil
	} else if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return &Error{Code: kernel.CodeLedgerArchived, World: l.world, Seq: first, Detail: "another file is at " + path + "; nothing is overwritten", Err: err}
	}
	if err := replaceFile(path, s.data); err != nil {
		return &Error{Code: kernel.CodeLedgerArchived, World: l.world, Seq: first, Detail: "the archive can't be written; nothing was taken out of the store", Err: err}
	}
	return nil
}

// from is the sequence of the next record, from before any where none was read.
func (v *verification) from() int64 {
	if v.c.tree.size == 0 {
		return allRows
	}
	return v.c.tree.size
}

// begin settles from where a stored ledger is verified: from its first record, or, where
// archived segments aren't at hand, from the mark that stands for them. needed: they must
// be at hand.
func (v *verification) begin(ctx context.Context, s snapshot, w worldRow, needed bool) error {
	if w.archive.size == 0 {
		return nil
	}
	m, c, why := openArchiveMark(w)
	if why != "" {
		v.fail(kernel.CodeLedgerCorrupt, NoSeq, "what stands for the archived records can't be read: "+why)
		return nil
	}
	v.report.Archived, v.archive = w.archive.size, &m
	gone := s.missing(ctx, w)
	switch {
	case gone == nil:
		return nil
	case needed:
		v.fail(kernel.CodeLedgerArchived, gone.first, gone.Error())
		return nil
	}
	v.report.ArchiveMissing, v.c, v.archive = gone.path, c, nil
	v.goOn(m)
	for _, signed := range v.given() {
		if cp, err := c.open(signed); err == nil && cp.Size < m.Size() {
			v.fail(kernel.CodeLedgerArchived, gone.first, fmt.Sprintf("a checkpoint of %d records can be held only against archived ones; %s", cp.Size, gone.Error()))
			return nil
		}
	}
	return v.completes(ctx, s, w)
}

// completes checks the hashes that are kept of archived segments.
func (v *verification) completes(ctx context.Context, s snapshot, w worldRow) error {
	var t tree
	for first := int64(0); first < w.archive.size; first += segmentRecords {
		nodes, err := s.completed(ctx, w, first)
		if err != nil {
			return err
		}
		var h tlog.Hash
		few := len(nodes) < (segmentLevel+1)*hashSize
		if !few {
			copy(h[:], nodes[segmentLevel*hashSize:])
		}
		if few || !bytes.Equal(t.addComplete(segmentLevel, h, nil), nodes[segmentLevel*hashSize:]) {
			v.fail(kernel.CodeLedgerCorrupt, first, "the tree hashes that were kept of its archived segment were changed")
			return nil
		}
	}
	if t.root() != v.c.tree.root() {
		v.fail(kernel.CodeLedgerCorrupt, NoSeq, "the tree hashes that were kept of the archived records are not those that were signed")
	}
	return nil
}

// openArchiveMark opens the mark of what is archived, by the key that signed then. Whose
// that is shows like the genesis' own, in the report and against checkpoints.
func openArchiveMark(w worldRow) (m Mark, c *checker, why string) {
	line, _, _ := bytes.Cut(w.archive.mark, []byte("\n"))
	err := canon.UnmarshalCanonical(line, &m)
	if err == nil {
		c, err = m.checker()
	}
	if err == nil {
		m, _, err = OpenMark(w.archive.mark, c.key())
	}
	switch {
	case err != nil:
		return m, nil, err.Error()
	case m.World != w.name || m.Size() != w.archive.size || m.Size()%segmentRecords != 0:
		return m, nil, "it is of another ledger or size"
	}
	return m, c, ""
}

// clone is a checker that goes on by itself.
func (c *checker) clone() *checker {
	next := *c
	next.world, next.instance = bytes.Clone(c.world), bytes.Clone(c.instance)
	return &next
}
