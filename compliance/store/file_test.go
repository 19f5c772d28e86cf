package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/kernel"
)

func wantMode(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("%s has mode %v: others can read it", filepath.Base(path), info.Mode())
	}
}

func TestOpen_OnlyTheOwnerReads(t *testing.T) {
	db := sample(t)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		wantMode(t, db.path+suffix)
	}
}

// What was released never changes: a file that has had a migration will not
// have it again.
func TestMigrations_AreFixed(t *testing.T) {
	want := []string{
		"1700826c1d3ee4dc8612d7896067212aa33d7ae213b2e1bcf2abc9d8f39697b3",
	}
	var got []string
	for _, text := range migrations() {
		sum := sha256.Sum256([]byte(text))
		got = append(got, hex.EncodeToString(sum[:]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("migrations (-want +got); add the new one's hash, never change another:\n%s", diff)
	}
}

// oldFile is a database as an early commit wrote it: a ledger of five records under a
// checkpoint of four.
func oldFile(t *testing.T) string {
	t.Helper()
	packed, err := os.Open("testdata/v1.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOpen_RefusesAnEarlierForm: a file of a form from before the first release is named
// as that, with what to do, and left as it is.
func TestOpen_RefusesAnEarlierForm(t *testing.T) {
	path := oldFile(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(context.Context, string, Options) (*DB, error){"writing": Open, "reading": OpenReadOnly} {
		_, err := open(t.Context(), path, Options{})
		var e *Error
		if !errors.As(err, &e) || e.FailureCode() != kernel.CodeEnvStore || errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range []string{path, "version 1", "Keep the state directory aside and begin with a new one"} {
			if !strings.Contains(err.Error()+e.Remedy(), want) {
				t.Errorf("%s doesn't say %q: %v", name, want, err)
			}
		}
	}
	// Its head is set to the log's way of writing when it is opened; its tables and rows stay.
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before[100:], after[100:]) {
		t.Errorf("the file was changed: %v", err)
	}
}

// TestOpenReadOnly_LeavesNothing: who only reads leaves no file in the operator's directory
// and the store's bytes as they are, also of a store that it can't read; beside its writer
// the log stays.
func TestOpenReadOnly_LeavesNothing(t *testing.T) {
	db := sample(t)
	path := db.path
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.Write(t.Context(), insert("a")))
	ro, err := OpenReadOnly(t.Context(), path, Options{})
	must(err)
	must(ro.Close())
	if _, err := os.Lstat(path + "-wal"); err != nil {
		t.Errorf("the log of the writer is gone: %v", err)
	}
	must(db.Write(t.Context(), insert("b")))
	must(db.Close())
	listed := func() (names []string) {
		entries, err := os.ReadDir(filepath.Dir(path))
		must(err)
		for _, e := range entries {
			data, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
			must(err)
			names = append(names, fmt.Sprintf("%s %x", e.Name(), sha256.Sum256(data)))
		}
		return names
	}
	before := listed()
	ro, err = OpenReadOnly(t.Context(), path, Options{})
	must(err)
	wantNames(t, ro, "a", "b")
	must(ro.Close())
	if after := listed(); !slices.Equal(before, after) {
		t.Errorf("before: %q\nafter: %q", before, after)
	}
	c, err := connect(t.Context(), "file:"+path)
	must(err)
	_, err = c.exec(t.Context(), "PRAGMA user_version = 99999", nil)
	must(errors.Join(err, c.close()))
	before = listed()
	if _, err = OpenReadOnly(t.Context(), path, Options{}); err == nil {
		t.Error("a store of another version was opened")
	}
	if after := listed(); !slices.Equal(before, after) {
		t.Errorf("another version, before: %q\nafter: %q", before, after)
	}
}

// unprivileged runs f as somebody whom the modes of files bind, also where the tests are
// run as root: for the one thread that it runs on, which ends with it.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()                                               // for good: nobody else gets this thread
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // of this thread
		var none [2]unix.CapUserData
		if err := unix.Capset(&head, &none[0]); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// readersOnly lets nobody write into a directory of the tests, and into what is there.
func readersOnly(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Chmod(filepath.Join(dir, e.Name()), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // what is below it is removed
}

// TestOpenReadOnly_WhereNothingMayBeWritten: a store is read where nothing may be written:
// one that was closed, and one beside its writer. One whose last writes are in a log that
// can't be read there is refused by name, and never read without them.
func TestOpenReadOnly_WhereNothingMayBeWritten(t *testing.T) {
	read := func(t *testing.T, path string) (found []string, err error) {
		unprivileged(t, func() {
			var ro *DB
			if ro, err = OpenReadOnly(t.Context(), path, Options{}); err != nil {
				return
			}
			found = names(t, ro)
			err = errors.Join(ro.CheckTables(t.Context()), ro.Close())
			if errors.Is(err, ErrDamaged) {
				err = nil // the table of the tests is none of writ's
			}
		})
		return found, err
	}
	db := sample(t)
	dir := filepath.Dir(db.path)
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(t.TempDir(), FileName) // as a process leaves it that was killed
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(db.path + suffix)
		if err == nil {
			err = os.WriteFile(left+suffix, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	readersOnly(t, filepath.Dir(left))
	var e *Error
	if found, err := read(t, left); !errors.Is(err, errUnread) || !errors.As(err, &e) || !strings.Contains(e.Remedy(), "copy the directory") {
		t.Errorf("with a log alone: %q %v", found, err)
	}
	readersOnly(t, dir)
	if found, err := read(t, db.path); err != nil || !slices.Equal(found, []string{"a"}) {
		t.Errorf("beside its writer: %q %v", found, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, log := range []bool{false, true} {
		if log {
			if err := os.WriteFile(db.path+"-wal", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		readersOnly(t, dir)
		if found, err := read(t, db.path); err != nil || !slices.Equal(found, []string{"a"}) {
			t.Errorf("closed, with an empty log %t: %q %v", log, found, err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// TestView_OfAFileThatMoved: what is read as a file that nobody changes counts for nothing
// once somebody did.
func TestView_OfAFileThatMoved(t *testing.T) {
	path := filled(t)
	dir := filepath.Dir(path)
	readersOnly(t, dir)
	unprivileged(t, func() {
		ro, err := OpenReadOnly(t.Context(), path, Options{})
		if err != nil {
			t.Error(err)
			return
		}
		defer ro.Close()
		if err := ro.View(t.Context(), func(Queries) error { return nil }); err != nil {
			t.Error(err)
		}
		own := errors.New("the function's own")
		if err := ro.View(t.Context(), func(Queries) error {
			done := make(chan struct{})
			go func() { // somebody who may
				defer close(done)
				if err := errors.Join(os.Chmod(path, 0o600), os.Chtimes(path, time.Time{}, time.Unix(1, 0))); err != nil {
					t.Error(err)
				}
			}()
			<-done
			return own
		}); !errors.Is(err, errMeanwhile) || errors.Is(err, own) {
			t.Errorf("changed meanwhile: %v", err)
		}
	})
}

// still is a store that is read as a file that nobody changes.
func still(t *testing.T) *DB {
	t.Helper()
	db, err := OpenReadOnly(t.Context(), filled(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // it was only read
	if db.still, err = os.Stat(db.path); err != nil {
		t.Fatal(err)
	}
	return db
}

// spoil changes a store's file as a reader sees it that meets parts of two states.
func spoil(t *testing.T, db *DB) {
	t.Helper()
	if err := os.WriteFile(db.path, bytes.Repeat([]byte("torn"), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantMeanwhile: what somebody else's writing spoilt is not called damaged, and reading it
// again is what helps.
func wantMeanwhile(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, errMeanwhile) || errors.Is(err, ErrDamaged) || !strings.Contains(e.Remedy(), "Call it again") ||
		strings.Count(err.Error(), string(e.FailureCode())) != 1 {
		t.Errorf("changed meanwhile: %v", err)
	}
}

// TestBackup_OfAFileThatMoved: what was copied of a file that somebody changed meanwhile is no
// back-up, and isn't left.
func TestBackup_OfAFileThatMoved(t *testing.T) {
	db, to := still(t), t.TempDir()
	if err := db.Backup(t.Context(), filepath.Join(to, "still.db")); err != nil {
		t.Error(err)
	}
	if err := os.Chtimes(db.path, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	wantMeanwhile(t, db.Backup(t.Context(), filepath.Join(to, "moved.db")))
	spoil(t, db)
	wantMeanwhile(t, db.Backup(t.Context(), filepath.Join(to, "torn.db")))
	if left, err := os.ReadDir(to); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestOpenReadOnly_OfAFileThatMoved: the first that is read may be torn, too.
func TestOpenReadOnly_OfAFileThatMoved(t *testing.T) {
	was := still(t)
	db := newDB(was.path, Options{})
	db.still = was.still
	spoil(t, db)
	_, err := db.opened(t.Context())
	wantMeanwhile(t, err)
}

// TestCheck_OfAFileThatMoved: SQLite's look at a file that somebody changes finds no damage.
func TestCheck_OfAFileThatMoved(t *testing.T) {
	db := still(t)
	if fault, err := db.Check(t.Context()); fault != "" || err != nil {
		t.Errorf("nobody changed it: %q %v", fault, err)
	}
	spoil(t, db)
	fault, err := db.Check(t.Context())
	if fault != "" {
		t.Errorf("it is said to be damaged: %s", fault)
	}
	wantMeanwhile(t, err)
}

// TestOpenReadOnly_NamesTheCause: whoever can't read the store is told why, and what helps
// against that.
func TestOpenReadOnly_NamesTheCause(t *testing.T) {
	sound := filled(t)
	whole, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) func(string) error {
		return func(path string) error { return os.WriteFile(path, data, 0o600) }
	}
	with := func(pragma string) func(string) error {
		return func(path string) error {
			if err := write(whole)(path); err != nil {
				return err
			}
			c, err := connect(t.Context(), "file:"+path)
			if err == nil {
				_, err = c.exec(t.Context(), pragma, nil)
				err = errors.Join(err, c.close())
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		make         func(path string) error
		text, remedy string
	}{
		"gone":       {func(string) error { return nil }, "there is no such file", "the file was removed"},
		"a link":     {func(path string) error { return os.Symlink("nowhere", path) }, "there is no such file", "the file was removed"},
		"no byte":    {write(nil), "it is empty", "its next start fills the file"},
		"no table":   {func(path string) error { return made(t.Context(), path) }, "it is empty", "its next start fills the file"},
		"cut off":    {write(whole[:5000]), "is damaged", "keep the file aside"},
		"cut early":  {write(whole[:500]), "is damaged", "keep the file aside"},
		"something":  {write(bytes.Repeat([]byte("no database "), 1000)), "is damaged", "keep the file aside"},
		"newer":      {with("PRAGMA user_version = 99"), "has version 99", "or a newer one"},
		"another's":  {with("PRAGMA application_id = 5"), "another program's", "another state directory"},
		"unreleased": {with("PRAGMA user_version = 3"), "no release had", "begin with a new one"},
		"directory":  {func(path string) error { return os.Mkdir(path, 0o700) }, "no regular file", "Move aside"},
		"closed":     {func(path string) error { return os.WriteFile(path, whole, 0) }, "permission denied", "must belong to the user"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, FileName)
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadDir(dir)
			var e *Error
			unprivileged(t, func() {
				db, err := OpenReadOnly(t.Context(), path, Options{})
				if db != nil || !errors.As(err, &e) {
					t.Errorf("it was opened: %v", err)
					return
				}
				if !strings.Contains(e.Error(), c.text) || !strings.Contains(e.Remedy(), c.remedy) || strings.Contains(e.Error(), "\n") {
					t.Errorf("%v\n%s", e, e.Remedy())
				}
			})
			if after, _ := os.ReadDir(dir); len(after) != len(before) {
				t.Errorf("it left %v", after)
			}
		})
	}
}

// made makes a database without a table.
func made(ctx context.Context, path string) error {
	c, err := connect(ctx, "file:"+path)
	if err != nil {
		return err
	}
	_, err = c.exec(ctx, "PRAGMA journal_mode = WAL", nil)
	return errors.Join(err, c.close())
}

func TestOpenReadOnly(t *testing.T) {
	db := sample(t)
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	ro, err := OpenReadOnly(t.Context(), db.path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	wantNames(t, ro, "a")
	if err := ro.Write(t.Context(), insert("b")); err == nil {
		t.Error("a store opened for reading was written")
	}
	if _, err := OpenReadOnly(t.Context(), db.path+"absent", Options{}); err == nil {
		t.Error("an absent store was opened")
	}
	if _, err := os.Stat(db.path + "absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("reading made a file")
	}
}

func TestOpen_Refuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	made := func(name, pragma string) string {
		path := filepath.Join(dir, name)
		if err := openAt(t, path).Write(t.Context(), run(pragma)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, path := range []string{
		text, made("newer", "PRAGMA user_version = 99"), made("foreign", "PRAGMA application_id = 5"),
		filepath.Join(dir, "no", "directory"), dir,
	} {
		_, err := Open(t.Context(), path, Options{})
		var e *Error
		if !errors.As(err, &e) || e.FailureCode() != kernel.CodeEnvStore {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
		if damaged := errors.Is(err, ErrDamaged); damaged != (path == text) {
			t.Errorf("%s is damaged: %v", filepath.Base(path), damaged)
		}
	}
}

func TestCheck_FindsADamagedIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	db := openAt(t, path)
	var root, size int64
	for _, f := range []func(Tx) error{run(table), insert("a"), insert("b"), func(tx Tx) error {
		_, err := tx.Row(`SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name LIKE 'sqlite_autoindex_things%'`, nil, &root, &size)
		return err
	}} {
		if err := db.Write(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if fault, err := db.Check(t.Context()); fault != "" || err != nil {
		t.Fatalf("%q %v", fault, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const cellCount = 4 // low byte of the number of entries in a page's header
	data[(root-1)*size+cellCount]--
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	ro, err := OpenReadOnly(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if fault, err := ro.Check(t.Context()); fault == "" {
		t.Errorf("an entry is gone from an index: %q %v", fault, err)
	}
	if err := ro.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + sumSuffix); err != nil { // as after an end without order
		t.Fatal(err)
	}
	if db, err := Open(t.Context(), path, Options{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("opened for writing: %v %v", db, err)
	}
}

// filled is a closed store in which every kind of byte is, and its path.
func filled(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	db := openAt(t, path)
	if err := db.Write(t.Context(), run(table)); err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		if err := db.Write(t.Context(), insert(fmt.Sprintf("%0200d", n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// A byte that changes while nobody has the store open is noticed, wherever it is.
func TestR12_FlippedBytesAreNoticed(t *testing.T) {
	path := filled(t)
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(path + sumSuffix)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	put := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		data := slices.Clone(sound)
		at := r.IntN(len(data))
		data[at] ^= 1 << r.IntN(8)
		put(path, data)
		put(path+sumSuffix, sum)
		db, err := Open(t.Context(), path, Options{})
		if err == nil && !db.Altered() {
			t.Errorf("the byte %d of %d", at, len(data))
		}
		if err == nil {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, rest := range []string{"-wal", "-shm"} {
			_ = os.Remove(path + rest)
		}
	}
	put(path, sound)
	put(path+sumSuffix, sum)
	if db := openAt(t, path); db.Altered() {
		t.Error("as it was, it is taken for another")
	}
	if _, err := os.Lstat(path + sumSuffix); err == nil {
		t.Error("while the store is open, its last closing is still noted")
	}
}

// A back-up in the place of the store is another file, and no alteration.
func TestR12_ABackupIsNoAlteration(t *testing.T) {
	path, other := filled(t), filled(t)
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if db := openAt(t, path); db.Altered() {
		t.Error("it is taken for the store that was altered")
	}
}

func TestBackup_WhileTheStoreGoesOn(t *testing.T) {
	db := sample(t)
	if err := db.Write(t.Context(), insert("before")); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			name := string(rune('A' + i%26))
			if err := db.Write(context.Background(), func(tx Tx) error {
				_, err := tx.Exec(`DELETE FROM things WHERE name <> 'before'`)
				return errors.Join(err, insert(name+"1")(tx), insert(name+"2")(tx))
			}); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 5 {
		path := filepath.Join(t.TempDir(), "copy")
		if err := db.Backup(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		wantMode(t, path)
		copied := openAt(t, path)
		got := names(t, copied)
		if n := len(got); n != 1 && (n != 3 || got[0][0] != got[1][0]) || got[len(got)-1] != "before" {
			t.Errorf("the copy holds no state that ever was: %q", got)
		}
		if fault, err := copied.Check(t.Context()); fault != "" || err != nil {
			t.Errorf("%q %v", fault, err)
		}
		if err := copied.Write(t.Context(), insert("goes on")); err != nil {
			t.Errorf("the copy can't take the store's place: %v", err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBackup_OverwritesNothing(t *testing.T) {
	db := sample(t)
	dir := t.TempDir()
	for name, occupy := range map[string]func(path string) error{
		"file":      func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"link":      func(path string) error { return os.Symlink("nowhere", path) },
	} {
		path := filepath.Join(dir, name)
		if err := occupy(path); err != nil {
			t.Fatal(err)
		}
		if err := db.Backup(t.Context(), path); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := db.Backup(t.Context(), filepath.Join(dir, "no", "directory")); err == nil {
		t.Error("a back-up without a directory")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Backup(ctx, filepath.Join(dir, "given up")); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("%v %v: the failed back-ups left something", left, err)
	}
}
