package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/writbot/writ/kernel"
)

const (
	// segmentLevel: the records of a closed segment are the leaves of one complete
	// subtree of this height, so that its hashes follow from its own bytes.
	segmentLevel = 9
	// segmentRecords is how many records a segment has. Half as many take a tenth more
	// room, twice as many save a twentieth.
	segmentRecords = 1 << segmentLevel
	// openRecords stay rows behind the last closed segment: what is packed as evidence
	// and read again is mostly among the newest.
	openRecords = segmentRecords
	// maxSegmentBytes bounds a segment's records, in bytes. What is larger stays in rows.
	maxSegmentBytes = 32 << 20
)

// segment is what is stored of a closed segment: the hashes that its last record
// completed, and its records, a newline after each, as one zstd frame.
type segment struct {
	first int64
	nodes []byte
	data  []byte
}

// end is the sequence after its last record.
func (s segment) end() int64 { return s.first + segmentRecords }

// segmentFault is a closed segment that can't be read. Nothing can be said of its single
// records, so the first of them is named.
type segmentFault struct {
	first  int64
	reason string
}

func (f *segmentFault) Error() string {
	return fmt.Sprintf("the closed segment of records %d to %d %s", f.first, f.first+segmentRecords-1, f.reason)
}

// frames compress and decompress; both may be used by many at once.
var frames = sync.OnceValues(func() (*framing, error) {
	const window = 1 << 20 // bytes; a larger one saves nothing and takes tens of megabytes
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxSegmentBytes+1))
	return &framing{enc, dec}, err
})

type framing struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// pack makes the data of a segment.
func pack(lines [][]byte) ([]byte, error) {
	f, err := frames()
	if err != nil {
		return nil, err
	}
	return f.enc.EncodeAll(joined(lines), nil), nil
}

func joined(lines [][]byte) []byte {
	return append(bytes.Join(lines, []byte("\n")), '\n')
}

// lines are the segment's records. scratch is used where it is large enough; they stand
// in what is returned.
func (s segment) lines(scratch []byte) (lines [][]byte, used []byte, err error) {
	f, err := frames()
	if err != nil {
		return nil, scratch, err
	}
	if s.first < 0 || s.first%segmentRecords != 0 {
		return nil, scratch, &segmentFault{s.first, "stands out of place"}
	}
	used, err = f.dec.DecodeAll(s.data, scratch[:0])
	if err != nil || len(used) > maxSegmentBytes {
		return nil, used, &segmentFault{s.first, "can't be read: it was changed"}
	}
	lines = make([][]byte, 0, segmentRecords)
	for line := range bytes.Lines(used) {
		if line[len(line)-1] != '\n' || len(lines) == segmentRecords {
			lines = nil
			break
		}
		lines = append(lines, line[:len(line)-1])
	}
	if len(lines) != segmentRecords {
		return nil, used, &segmentFault{s.first, fmt.Sprintf("doesn't hold %d records: it was changed", segmentRecords)}
	}
	return lines, used, nil
}

// subtree gives the hashes that each record of a segment completes within it.
func subtree(lines [][]byte) [][]byte {
	var t tree
	out := make([][]byte, len(lines))
	for i, raw := range lines {
		out[i] = t.add(leafOf(sha256.Sum256(raw)), nil)
	}
	return out
}

// taskOf finds the task of a record without reading it. It stands after the body, and
// none of the members after it can have an unescaped quote.
func taskOf(raw []byte) (int64, error) {
	const name = `,"task":`
	_, rest, _ := bytes.Cut(raw[max(bytes.LastIndex(raw, []byte(name)), 0):], []byte(name))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	return strconv.ParseInt(string(digits), 10, 64)
}

// tasksOf are the tasks that records are of, sorted; 0 is none.
func tasksOf(lines [][]byte) ([]int64, error) {
	var tasks []int64
	for _, raw := range lines {
		task, err := taskOf(raw)
		if err != nil {
			return nil, err
		}
		if task != 0 {
			tasks = append(tasks, task)
		}
	}
	slices.Sort(tasks)
	return slices.Compact(tasks), nil
}

// closing puts a segment in the place of its rows.
type closing struct {
	world string
	segment
	tasks []int64
}

// closeBehind closes what may be closed, while everything else goes on.
func (l *Ledger) closeBehind() {
	if l.closing.TryLock() {
		l.store.behind.Go(func() {
			defer l.closing.Unlock()
			if err := l.closeSegments(l.store.living); err != nil && l.store.living.Err() == nil {
				l.store.log.Error("ledger: records can't be compressed, and stay as they are", "world", l.world, "err", err)
			}
		})
	}
}

// closeSegments compresses what a stored checkpoint signs and is no longer among the
// newest records. A segment replaces its rows in one transaction. What was changed since
// it was written stays as it is: closing would hide which record that was.
func (l *Ledger) closeSegments(ctx context.Context) error {
	for ctx.Err() == nil && l.past.done() {
		c, ok, err := l.nextClosing(ctx)
		if err != nil || !ok || l.store.refuse(l.world) != nil {
			return err // of a store that takes nothing more it is said already
		}
		err = l.store.storage.close(ctx, c)
		switch {
		case errors.Is(err, errBusy), errors.Is(err, errFork):
			return nil // with the next checkpoint
		case err != nil:
			return l.failed(kernel.Head{Seq: c.first - 1}, err)
		}
		l.closed = c.end()
	}
	return nil
}

// nextClosing makes the next segment, if there is one. Rows that are too large for one
// are passed over.
func (l *Ledger) nextClosing(ctx context.Context) (c closing, ok bool, err error) {
	var rows []row
	err = l.store.storage.view(ctx, func(s snapshot) error {
		w, found, err := s.world(ctx, l.world)
		if err != nil || !found {
			return err
		}
		l.closed = max(l.closed, w.closed)
		for end := min(w.size, w.head.Seq+1-openRecords); l.closed+segmentRecords <= end; l.closed += segmentRecords {
			bytes := 0
			rows = rows[:0]
			q := rowQuery{world: w.id, from: l.closed, limit: segmentRecords}
			err := s.rows(ctx, q, func(r row) error {
				bytes += len(r.raw) + 1
				rows = append(rows, r)
				return nil
			})
			if err != nil || bytes <= maxSegmentBytes {
				ok = err == nil
				return err
			}
		}
		return nil
	})
	if err != nil || !ok {
		return c, false, err
	}
	c, err = closingOf(l.world, l.closed, rows)
	return c, err == nil, err
}

// closingOf makes a segment of rows, if they are what was written: their hashes are those
// that were stored with them, down to the root that the last one completed.
func closingOf(world string, first int64, rows []row) (closing, error) {
	c := closing{world: world, segment: segment{first: first}}
	if len(rows) != segmentRecords {
		return c, fmt.Errorf("records %d to %d are not all there", first, c.end()-1)
	}
	lines := make([][]byte, len(rows))
	for i, r := range rows {
		lines[i] = r.raw
	}
	for i, nodes := range subtree(lines) {
		r := rows[i]
		if r.seq != first+int64(i) || !bytes.HasPrefix(r.nodes, nodes) || len(r.nodes) != len(nodes) && i+1 < len(rows) {
			return c, fmt.Errorf("record %d was changed since it was written", r.seq)
		}
		if task, err := taskOf(r.raw); err != nil || task != r.task {
			return c, fmt.Errorf("record %d is filed under another task", r.seq)
		}
	}
	var err error
	c.nodes = rows[len(rows)-1].nodes
	if c.tasks, err = tasksOf(lines); err == nil {
		c.data, err = pack(lines)
	}
	return c, err
}
