package ledger

import (
	"context"
	"errors"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writbot/writ/kernel"
)

// storage is what the ledger needs of a database. Its writes are durable when
// they return nil. The ledger trusts it to keep bytes, not to keep them
// unchanged: Verify looks.
type storage interface {
	// archivedIn is the same storage, for which archived segments lie in dir.
	archivedIn(dir string) storage
	// view runs f on one consistent state; later commits don't show.
	view(ctx context.Context, f func(snapshot) error) error
	// commit stores a change whole or not at all, if the stored head is the
	// expected one; otherwise errFork, and nothing has changed. After any other
	// error it is unknown whether the change will be found later.
	commit(ctx context.Context, c change) error
	// keep stores a world's newest checkpoint.
	keep(ctx context.Context, world string, size int64, signed []byte) error
	// setAside moves the rows of a world that aren't before the new head's
	// successor out of the ledger, and sets the head.
	setAside(ctx context.Context, a aside) error
	// close puts a segment in the place of its rows; errFork where they aren't all there.
	close(ctx context.Context, c closing) error
	// archive forgets the data of a world's segments before an archive's end, and where
	// they lie from now on.
	archive(ctx context.Context, world string, a archive) error
}

// snapshot is a consistent state.
type snapshot interface {
	worlds(ctx context.Context) ([]string, error)
	world(ctx context.Context, name string) (worldRow, bool, error)
	// rows calls f for each row in the order of seq, with those of closed segments; its
	// error ends the call. A segment that can't be read is a *segmentFault.
	rows(ctx context.Context, q rowQuery, f func(row) error) error
	// node is the tree's hash of a level that record seq completed.
	node(ctx context.Context, world, seq int64, level int) (tlog.Hash, error)
	// segment is a closed segment, with its data where these are at hand: an *absent says
	// that they are archived and not there.
	segment(ctx context.Context, world worldRow, first int64) (segment, error)
	// missing is the first archived segment that isn't at hand, nil where all are.
	missing(ctx context.Context, world worldRow) *absent
	// completed are the hashes that the last record of a segment completed.
	completed(ctx context.Context, world worldRow, first int64) ([]byte, error)
}

// errFork: another writer moved the head.
var errFork = errors.New("the stored head is not the expected one")

// errBusy: another writer held the storage all the time. Nothing was changed.
var errBusy = errors.New("another process holds the store")

// worldRow is what is stored of a world beside its records.
type worldRow struct {
	id         int64
	name       string
	instance   string
	head       kernel.Head
	time       int64
	size       int64  // of the newest checkpoint; 0 for none
	checkpoint []byte // signed
	closed     int64  // the sequence after the last closed segment; 0 for none
	archive    archive
}

// archive is where the first closed segments of a world lie.
type archive struct {
	size int64  // of the records that they have; 0: nothing is archived
	dir  string // absolute
	mark []byte // of that size, signed
}

// row is a stored record: its bytes, the tree hashes that it completed, and
// what is searched for.
type row struct {
	seq, task  int64
	nodes, raw []byte

	// in is the segment that it is in, nil for none. Of such a row there are raw and seq
	// only, and raw is good until the next one.
	in *closedRows
}

// closedRows is what is stored of a segment beside its records.
type closedRows struct {
	segment
	tasks []int64 // sorted
}

// rowQuery selects rows of a world. A task other than 0 selects its rows only;
// limit 0 is no limit.
type rowQuery struct {
	world, from, limit, task int64
}

// change is one append.
type change struct {
	world, instance string
	expected, head  kernel.Head
	time            int64 // of the new head
	rows            []row
}

// aside is a tail that is taken out of a ledger.
type aside struct {
	world  string
	head   kernel.Head // the last record that stays
	time   int64       // of that record
	at     int64       // when this was done, Unix milliseconds
	reason string
}
