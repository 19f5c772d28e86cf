package instancekey_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/kernel"
)

func TestCreatedOnceAndTight(t *testing.T) {
	dir := t.TempDir()
	if _, err := instancekey.Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no key yet: %v", err)
	}
	key, created, err := instancekey.LoadOrCreate(dir)
	if err != nil || !created {
		t.Fatal(created, err)
	}
	info, err := os.Stat(filepath.Join(dir, instancekey.PrivateFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	again, created, err := instancekey.LoadOrCreate(dir)
	if err != nil || created || again.Fingerprint() != key.Fingerprint() {
		t.Errorf("second start: created %v, %v", created, err)
	}
	pub, err := os.ReadFile(filepath.Join(dir, instancekey.PublicFile))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := instancekey.ParsePublic(string(pub))
	if err != nil || parsed.Fingerprint() != key.Fingerprint() || parsed.PublicOpenSSH() != key.PublicOpenSSH() {
		t.Errorf("key.pub: %s (%v)", pub, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left over: %v (%v)", entries, err)
	}
}

func TestPublicFileIsRestored(t *testing.T) {
	dir := t.TempDir()
	key, _, err := instancekey.LoadOrCreate(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, instancekey.PublicFile)
	if err := os.WriteFile(path, []byte("ssh-ed25519 stale\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := instancekey.LoadOrCreate(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(got), key.PublicOpenSSH()) {
		t.Errorf("%s (%v)", got, err)
	}
}

func TestLooseModesAreRefused(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := instancekey.LoadOrCreate(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, instancekey.PrivateFile)
	for _, mode := range []fs.FileMode{0o400, 0o600, 0o700} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := instancekey.Load(dir); err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o610, 0o644, 0o666, 0o601} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, dir, "chmod 600 "+path)
	}
}

// wantRefused also looks for the remedy and against the key's own bytes.
func wantRefused(t *testing.T, dir, remedy string) {
	t.Helper()
	_, created, err := instancekey.LoadOrCreate(dir)
	var e *instancekey.Error
	if !errors.As(err, &e) || e.FailureCode() != kernel.CodeEnvKeyUnusable || created {
		t.Fatalf("%v, want %s", err, kernel.CodeEnvKeyUnusable)
	}
	if !strings.Contains(err.Error(), remedy) {
		t.Errorf("%q does not say %q", err, remedy)
	}
	if strings.Contains(err.Error(), "PRIVATE KEY") {
		t.Error("the error holds the key")
	}
}

func TestWhatIsNoKey(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"empty":     func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"text":      func(p string) error { return os.WriteFile(p, []byte("not a key"), 0o600) },
		"large":     func(p string) error { return os.WriteFile(p, bytes.Repeat([]byte("k"), 1<<20), 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"symlink":   func(p string) error { return os.Symlink("/dev/null", p) },
	} {
		dir := t.TempDir()
		if err := put(filepath.Join(dir, instancekey.PrivateFile)); err != nil {
			t.Fatal(err)
		}
		if _, created, err := instancekey.LoadOrCreate(dir); err == nil || created {
			t.Errorf("%s was taken for a key", name)
		}
	}
}

func TestOthersKeysOfSSH(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		ok   bool
	}{
		{"ed25519", []string{"-t", "ed25519", "-N", ""}, true},
		{"passphrase", []string{"-t", "ed25519", "-N", "secret-word"}, false},
		{"rsa", []string{"-t", "rsa", "-b", "2048", "-N", ""}, false},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, instancekey.PrivateFile)
		args := slices.Concat(c.args, []string{"-q", "-f", path})
		if out, err := exec.CommandContext(t.Context(), "ssh-keygen", args...).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v %s (install openssh-client)", err, out)
		}
		key, err := instancekey.Load(dir)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-l", "-f", path).Output()
		if err != nil || !strings.Contains(string(out), key.Fingerprint()) {
			t.Errorf("ssh-keygen says %q, we say %s", out, key.Fingerprint())
		}
	}
}

func TestOneKeyForAllThatStartAtOnce(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var wg sync.WaitGroup
	prints, creators := map[string]bool{}, 0
	for range 8 {
		wg.Go(func() {
			key, created, err := instancekey.LoadOrCreate(dir)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if prints[key.Fingerprint()] = true; created {
				creators++
			}
		})
	}
	wg.Wait()
	if len(prints) != 1 || creators != 1 {
		t.Errorf("%d keys, %d creators", len(prints), creators)
	}
}

func TestNotes(t *testing.T) {
	key, err := instancekey.New(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := key.NoteSigner()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: "hello\n"}, signer)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.NoteVerifierKey()
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open(signed, note.VerifierList(verifier)); err != nil {
		t.Error(err)
	}
}

func TestPrintingHidesTheKey(t *testing.T) {
	seed := bytes.Repeat([]byte("s"), ed25519.SeedSize)
	key, err := instancekey.New(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, key); got != key.Fingerprint() {
			t.Errorf("%s prints %q", format, got)
		}
	}
}

// TestR2_NoKeyTakesALostOnesPlace: where a key was, none is made anew, and its
// public half stays.
func TestR2_NoKeyTakesALostOnesPlace(t *testing.T) {
	for _, left := range []string{"key.pub", "writ.db", "checkpoint-0123456789abcdef"} {
		dir := filepath.Join(t.TempDir(), "a[b]*") // no pattern of ours
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, left), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, created, err := instancekey.LoadOrCreate(dir, "writ.db", "checkpoint-*")
		var e *instancekey.Error
		if created || !errors.As(err, &e) || e.FailureCode() != kernel.CodeEnvKey || !strings.Contains(err.Error(), left) {
			t.Errorf("beside %s: %v", left, err)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("beside %s there is now %v (%v)", left, names, err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, created, err := instancekey.LoadOrCreate(dir, "writ.db", "checkpoint-*"); err != nil || !created {
		t.Errorf("a new directory: %v", err)
	}
}
