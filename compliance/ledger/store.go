package ledger

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"unicode"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
)

// FileName is the store's name in the state directory.
const FileName = store.FileName

// maxWorldBytes bounds a world's name: forge host, owner and repository, each
// at most 255 bytes where forges set a limit.
const maxWorldBytes = 1 << 10

// Options of a store.
type Options struct {
	Logger *slog.Logger // nil is silent
	// Archive is where archived segments are looked for; "": where they were put.
	Archive string
}

// Store is an instance's ledgers, in its database. It is safe for concurrent
// use. One process at a time should write it (the caller holds the state
// directory's lock); if two do, each head has one winner and the other gets
// ledger.fork.
//
// Once storing has failed, the store stores nothing more (ledger.unavailable):
// what the failed write left is known only after it was opened and verified
// anew.
type Store struct {
	storage storage
	db      store.Store      // nil with a storage of a test's
	own     *store.DB        // the same, if Close is to close it
	key     *instancekey.Key // nil if read-only
	log     *slog.Logger

	living context.Context // ends with Close
	die    context.CancelFunc
	behind sync.WaitGroup // verifications that go on behind

	opening sync.Mutex // one ledger at a time is verified; appends to others go on

	mu       sync.Mutex
	ledgers  map[string]*Ledger
	poisoned error
}

// Open opens the store at path for writing in the name of the key, and makes
// it if there is none (mode 0600). Errors have the code
// environment.store.unavailable.
func Open(ctx context.Context, path string, key *instancekey.Key, o Options) (*Store, error) {
	if key == nil {
		return nil, &Error{Code: kernel.CodeEnvStore, Seq: NoSeq, Detail: "a store is written in the name of a key; none was given"}
	}
	return open(ctx, path, key, o)
}

// OpenReadOnly opens an existing store beside its writer; nothing can be
// appended. It needs no key.
func OpenReadOnly(ctx context.Context, path string, o Options) (*Store, error) {
	return open(ctx, path, nil, o)
}

func open(ctx context.Context, path string, key *instancekey.Key, o Options) (*Store, error) {
	openDB := store.Open
	if key == nil {
		openDB = store.OpenReadOnly
	}
	db, err := openDB(ctx, path, store.Options{Logger: o.Logger})
	if err != nil {
		return nil, &Error{Code: kernel.CodeEnvStore, Seq: NoSeq, Detail: "the ledgers can't be opened", Err: err}
	}
	if err := db.CheckTables(ctx); err != nil {
		return nil, &Error{Code: kernel.CodeEnvStore, Seq: NoSeq, Detail: "the ledgers can't be opened", Err: errors.Join(err, db.Close())}
	}
	s := New(db, key, o)
	s.own = db
	return s, nil
}

// New is the ledgers of a database that is open already, and stays open after
// [Store.Close]. A nil key is for reading only.
func New(db store.Store, key *instancekey.Key, o Options) *Store {
	return newStore(tables{db: db, dir: o.Archive}, db, key, o)
}

func newStore(s storage, db store.Store, key *instancekey.Key, o Options) *Store {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	living, die := context.WithCancel(context.Background())
	return &Store{storage: s, db: db, key: key, log: log, living: living, die: die, ledgers: map[string]*Ledger{}}
}

// Close ends the store; its ledgers are dead afterwards.
func (s *Store) Close() error {
	s.poison(errors.New("it was closed"))
	s.die()
	s.behind.Wait()
	if s.own == nil {
		return nil
	}
	if err := s.own.Close(); err != nil {
		return unavailable("", "the store can't be closed", err)
	}
	return nil
}

// Worlds names the worlds that the store holds, sorted.
func (s *Store) Worlds(ctx context.Context) (names []string, err error) {
	err = s.storage.view(ctx, func(v snapshot) error {
		names, err = v.worlds(ctx)
		return err
	})
	if err != nil {
		return nil, readError("", err)
	}
	return names, nil
}

// World opens the ledger of a world, which may be empty. A writable one is
// verified as it is opened: ledger.corrupt names the first bad record, and
// [Store.Quarantine] is the explicit way on. All callers share one Ledger of a
// world.
func (s *Store) World(ctx context.Context, world string) (*Ledger, error) {
	if err := checkWorld(world); err != nil {
		return nil, err
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if err := s.refuse(world); err != nil {
		return nil, err
	}
	if l := s.opened(world); l != nil {
		return l, nil
	}
	l := &Ledger{store: s, world: world}
	load := l.loadWriter
	if s.key == nil {
		load = l.loadReader
	}
	if err := load(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledgers[world] = l
	return l, nil
}

// loadWriter verifies the ledger and goes on from its end.
func (l *Ledger) loadWriter(ctx context.Context) error {
	v, err := l.verify(ctx, VerifyOptions{})
	if err != nil {
		return err
	}
	if err := v.report.Err(); err != nil {
		return err
	}
	l.state = v.c
	instance := l.store.key.Fingerprint()
	if v.c.tree.size == 0 {
		if l.state, err = newChecker(l.world, instance); err != nil {
			return err
		}
	} else if err := l.mine(v.c, instance); err != nil {
		return err
	} else {
		instance = v.report.Instance // its name stays that of its first key
	}
	l.chain = kernel.Chain{World: l.world, Instance: instance, Head: l.state.head(), Time: l.state.time}
	return nil
}

// loadReader takes the stored head's word.
func (l *Ledger) loadReader(ctx context.Context) error {
	err := l.store.storage.view(ctx, func(s snapshot) error {
		w, ok, err := s.world(ctx, l.world)
		if !ok {
			w.head = kernel.NoHead()
		}
		l.chain = kernel.Chain{World: l.world, Instance: w.instance, Head: w.head, Time: w.time}
		return err
	})
	if err != nil {
		return readError(l.world, err)
	}
	return nil
}

func (s *Store) opened(world string) *Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledgers[world]
}

func checkWorld(world string) error {
	bad := func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsSpace(r) || unicode.IsControl(r) }
	if world == "" || len(world) > maxWorldBytes || strings.ContainsFunc(world, bad) {
		return corrupt("", NoSeq, "a world's name is forge host, owner and repository, without spaces")
	}
	return nil
}

// poison ends all appending.
func (s *Store) poison(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poisoned == nil {
		s.poisoned = cause
	}
}

// refuse is the error of a store that failed before, or nil.
func (s *Store) refuse(world string) error {
	s.mu.Lock()
	cause := s.poisoned
	s.mu.Unlock()
	if cause == nil && s.db != nil && s.key != nil {
		cause = s.db.Err() // what others wrote may have failed
	}
	if cause == nil {
		return nil
	}
	return unavailable(world, "the store takes nothing more until writ is started again", cause)
}

// checkFile has the database look at its own structure.
func (s *Store) checkFile(ctx context.Context, v *verification) error {
	if s.db == nil {
		return nil
	}
	fault, err := tables{db: s.db}.check(ctx)
	if err != nil {
		return readError(v.want.World, err)
	}
	if fault != "" {
		v.fail(kernel.CodeLedgerCorrupt, NoSeq, "the database's own check fails: "+fault)
	}
	return nil
}
