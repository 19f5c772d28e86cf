// Package store is an instance's one database: deliveries, the schedule of
// ticks and the ledger stand in one file, so that one transaction can hold any
// of them together (docs/architecture.md, "Parts").
//
// It knows no tasks and no records. It opens the file, brings its tables up to
// date, runs the callers' functions in transactions, and says honestly whether
// what they wrote is durable. What the tables mean is the business of the one
// room that each belongs to: compliance/ledger, compliance/pushed,
// compliance/shelf, webhook/inbox.
//
// # Writing
//
// There is one writer. Callers of [DB.Write] that wait for each other share
// one transaction and one flush to the disk; each one's function runs in a
// savepoint of its own, so that its error undoes its own part only. Write
// returns nil when the whole transaction is durable, and not before.
//
// After a commit failed, nobody can tell what is on the disk. Everybody who
// waited gets [ErrFailed], and so does every later Write until the file is
// opened again, which tidies it. [DB.Failed] tells the process to stop.
//
// # Reading
//
// [DB.View] runs a function on one consistent state; the writer goes on
// meanwhile. A view that lasts keeps the log beside the file from being
// folded back into it, so views are short.
//
// # The SQL
//
// Rooms write statements that SQLite and PostgreSQL read alike: $1, $2 … for
// arguments, ON CONFLICT, RETURNING, CASE instead of two-argument min; 64-bit
// integers, text and bytes are the only types, and no column is null. Whatever
// isn't alike, such as the tables' definitions, stands in this package. A
// limit that is an argument is written LIMIT $1 + 0: SQLite plans a statement
// anew for each use of a bare one, which takes longer than most statements.
//
// # Another writer
//
// One process at a time should write: it holds the state directory's lock. A
// second one, such as a command beside the server, waits for its turn for
// [busyTimeout] and then gets [ErrBusy].
package store
