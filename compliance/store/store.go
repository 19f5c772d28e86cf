package store

import "context"

// FileName is the database's name in the state directory.
const FileName = "writ.db"

// Store is what the rooms need of a database. It is safe for concurrent use.
type Store interface {
	// Write runs f in a transaction. Nil means that what f wrote is durable; an
	// error, that nothing of it counts. f's own error is returned as it is and
	// undoes nothing but f's part. Other callers wait for f: it computes, uses
	// its Tx and nothing else that waits, and never calls Write.
	//
	// A context that ends before f was begun gives its error, and nothing was
	// stored; f that has begun is seen through.
	Write(ctx context.Context, f func(Tx) error) error
	// View runs f on one consistent state; later writes don't show.
	View(ctx context.Context, f func(Queries) error) error
	// Check has the database look at its own structure and says what is wrong.
	Check(ctx context.Context) (fault string, err error)
	// Err is nil as long as the store takes writes.
	Err() error
}

// Queries reads. Arguments are int64, string or []byte, and so are results:
// a stored value of another type than asked for is an error. Nothing may be
// used after the function that it was given to.
type Queries interface {
	// Row reads the first row into dest (*int64, *string, *[]byte).
	Row(text string, args []any, dest ...any) (found bool, err error)
	// Rows calls f for each row; f's error ends it.
	Rows(text string, args []any, f func(Row) error) error
}

// Tx reads and writes.
type Tx interface {
	Queries
	// Exec runs one statement and says how many rows it changed.
	Exec(text string, args ...any) (changed int64, err error)
}
