package ledger

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/writbot/writ/kernel"
)

// TestJ3_HostileStores: whatever somebody made of a store's file, who verifies it gets an
// error with a code or a report that names the fault, soon and without the memory that the
// file asks for.
func TestJ3_HostileStores(t *testing.T) {
	script := func(text string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", path)
			if err == nil {
				_, err = db.Exec(text)
			}
			if err == nil {
				err = db.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	endless := "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n)"
	replaced := func(table, view string) func(*testing.T, string) {
		return script("ALTER TABLE " + table + " RENAME TO was; CREATE VIEW " + table + " AS " + endless + view)
	}
	unchecked := func(change string) func(*testing.T, string) {
		return script("PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(replace(sql, ' STRICT', ' '), 'NOT NULL', ''); PRAGMA writable_schema = RESET; " + change)
	}
	beside := func(suffix string, put func(string) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			_ = os.Remove(path + suffix)
			if err := put(path + suffix); err != nil {
				t.Fatal(err)
			}
		}
	}
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	for name, spoil := range map[string]func(*testing.T, string){
		"records without end":              replaced("records", " SELECT 1 AS world, i AS seq, 0 AS task, x'00' AS nodes, x'00' AS raw FROM n"),
		"worlds without end":               replaced("worlds", " SELECT i AS id, 'w' || i AS world FROM n"),
		"a trigger":                        script("CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END"),
		"a computed column":                script("ALTER TABLE worlds ADD COLUMN more TEXT AS (hex(zeroblob(100000000)))"),
		"an index that computes":           script("CREATE INDEX slow ON records (abs(seq))"),
		"one more table":                   script("CREATE TABLE mine (a)"),
		"a table less":                     script("DROP TABLE records"),
		"a number as a name":               unchecked("UPDATE worlds SET world = 5"),
		"nothing as a record":              unchecked("UPDATE records SET raw = NULL WHERE seq = 2"),
		"text as a record":                 unchecked("UPDATE records SET raw = 'text' WHERE seq = 2"),
		"a huge record":                    script("UPDATE records SET raw = zeroblob(50000000) WHERE seq = 2"),
		"huge hashes":                      script("UPDATE records SET nodes = zeroblob(50000000) WHERE seq = 2"),
		"a huge checkpoint":                script("UPDATE worlds SET checkpoint = zeroblob(50000000)"),
		"a huge name":                      script("UPDATE worlds SET world = hex(zeroblob(1000000))"),
		"a huge head":                      script("UPDATE worlds SET head_hash = hex(zeroblob(1000000))"),
		"too many worlds":                  script(endless + " INSERT INTO worlds SELECT i + 10, 'w' || i, '', -1, '', 0, 0, x'' FROM n LIMIT 100001"),
		"rows of nonsense after the last":  script(endless + " INSERT INTO records SELECT 1, i + 100, 7, randomblob(32), randomblob(200) FROM n LIMIT 20000"),
		"rows of nonsense before the rest": script(endless + " INSERT INTO records SELECT 1, -1 - i, 7, randomblob(32), randomblob(200) FROM n LIMIT 20000"),
		"rows of nonsense of no world":     script("PRAGMA foreign_keys = 0; " + endless + " INSERT INTO records SELECT 99, i, 7, randomblob(32), randomblob(200) FROM n LIMIT 20000"),
		"a page that holds itself":         cyclic("records", func(_ int, root uint32) uint32 { return root }),
		"an index that holds itself":       cyclic("records_task", func(_ int, root uint32) uint32 { return root }),
		"segments that hold themselves":    cyclic("sqlite_autoindex_segments_1", func(_ int, root uint32) uint32 { return root }),
		"segments that stand for many":     cyclic("sqlite_autoindex_segments_1", func(child int, _ uint32) uint32 { return uint32(child) }),
		"a segment's pages that do":        cyclic("segments", func(_ int, root uint32) uint32 { return root }),
		"its tasks that do":                cyclic("segment_tasks", func(_ int, root uint32) uint32 { return root }),
		"segments of nonsense":             script(endless + " INSERT INTO segments SELECT 1, i * 512, x'00', randomblob(200) FROM n LIMIT 20000"),
		"segments of no world":             script("PRAGMA foreign_keys = 0; " + endless + " INSERT INTO segments SELECT 99, i * 512, x'00', randomblob(200) FROM n LIMIT 20000"),
		"segments beyond all numbers":      script("INSERT INTO segments VALUES (1, 9223372036854775807, x'00', x'00')"),
		"huge segments":                    script("INSERT INTO segments VALUES (1, 512, zeroblob(50000000), zeroblob(50000000))"),
		"a huge archive":                   script("INSERT INTO archives VALUES (1, 9223372036854775296, hex(zeroblob(50000000)), zeroblob(50000000))"),
		"pages that stand for many":        cyclic("records", func(child int, _ uint32) uint32 { return uint32(child) }),
		"a pipe":                           beside("", pipe),
		"a pipe as its log":                beside("-wal", pipe),
		"a directory":                      beside("", func(path string) error { return os.Mkdir(path, 0o700) }),
		"a log of something":               beside("-wal", func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("log", 9999)), 0o600) }),
		"a page of something": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := 4096; i < len(data); i++ {
				data[i] ^= 0x55
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), FileName)
			s, err := Open(t.Context(), path, testKey(t, 1), Options{})
			if err != nil {
				t.Fatal(err)
			}
			fill(t, openWorld(t, s, worldA), 5)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			spoil(t, path)
			code, said := verified(t.Context(), path)
			if harmless := name == "a log of something"; (code == "") != harmless {
				t.Errorf("%q: %s", code, said)
			}
		})
	}
}

// cyclic makes the b-tree of a table or index, which must have inner pages, one whose
// inner pages point where they never do: child gets the first child's page and the root's.
func cyclic(name string, child func(first int, root uint32) uint32) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		var root, size int
		_, err = db.Exec("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) INSERT INTO records SELECT 1, i + 100, 7, randomblob(32), randomblob(200) FROM n LIMIT 5000")
		for _, more := range []string{"segments SELECT 1, (i + 1) * 512, x'', randomblob(200)", "segment_tasks SELECT 1, i + 1, 512"} {
			if err == nil {
				_, err = db.Exec("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) INSERT INTO " + more + " FROM n LIMIT 5000")
			}
		}
		if err == nil {
			err = db.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = ?", name).Scan(&root)
		}
		if err == nil {
			err = db.QueryRow("PRAGMA page_size").Scan(&size)
		}
		if err == nil {
			_, err = db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
		}
		if err == nil {
			err = db.Close()
		}
		data, err2 := os.ReadFile(path)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		page := data[(root-1)*size : root*size]
		if page[0] != 2 && page[0] != 5 {
			t.Fatalf("the root of %s is no inner page: %d", name, page[0])
		}
		cells := int(binary.BigEndian.Uint16(page[3:]))
		first := int(binary.BigEndian.Uint32(page[binary.BigEndian.Uint16(page[12:]):]))
		to := child(first, uint32(root))
		for i := range cells {
			at := binary.BigEndian.Uint16(page[12+2*i:])
			binary.BigEndian.PutUint32(page[at:], to)
		}
		binary.BigEndian.PutUint32(page[8:], to)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// verified reads a store as somebody who trusts nothing of it.
func verified(ctx context.Context, path string) (kernel.Code, string) {
	s, err := OpenReadOnly(ctx, path, Options{})
	if err != nil {
		return CodeOf(err), err.Error()
	}
	defer s.Close()
	names, err := s.Worlds(ctx)
	if err != nil {
		return CodeOf(err), err.Error()
	}
	for _, name := range append(names, worldA) {
		l, err := s.World(ctx, name)
		if err != nil {
			return CodeOf(err), err.Error()
		}
		r, err := l.Verify(ctx, VerifyOptions{Deep: true})
		if err != nil || !r.OK || r.Records == 0 {
			return r.Code, fmt.Sprint(r.Reason, err)
		}
	}
	return "", ""
}
