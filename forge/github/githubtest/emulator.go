package githubtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Emulator is a running GitHub.
type Emulator struct {
	URL  string // of its REST API, without a slash at the end
	http *http.Client
	key  []byte // of every App, PEM: making one takes long
	next atomic.Int64
}

// firstID keeps the ids of Apps and installations apart from those of other things.
const firstID = 7000

// startLimit is how long an emulator may take to start on a loaded machine.
const startLimit = 2 * time.Minute

// Start runs an emulator until the test ends. Places on it don't see each other.
func Start(t testing.TB) *Emulator {
	t.Helper()
	dir := Tools(t)
	at, err := here()
	must(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), node(t, dir), filepath.Join(at, "emulator.mjs"), filepath.Join(dir, "node_modules", "emulate", "dist"))
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // it ends by that
		over := time.AfterFunc(startLimit, func() { _ = cmd.Process.Kill() })
		defer over.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the emulator: %v\n%s", err, said.String())
		}
	})
	lines := make(chan string, 1)
	go func() {
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n') // nothing, if it failed
		lines <- line
		_, _ = io.Copy(io.Discard, r)
	}()
	select {
	case line := <-lines:
		var ready struct{ URL string }
		if err := json.Unmarshal([]byte(line), &ready); err != nil {
			t.Fatalf("the emulator did not start: %q", line)
		}
		u, err := url.Parse(ready.URL)
		must(t, err)
		key, err := appKey()
		must(t, err)
		// Node ends an idle connection after five seconds, at which moment a request on it
		// fails: each has its own.
		e := &Emulator{URL: "http://127.0.0.1:" + u.Port(), http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, key: key}
		e.next.Store(firstID)
		return e
	case <-time.After(startLimit):
		t.Fatal("the emulator did not start")
		return nil
	}
}

// Tools is the directory of the npm packages that .ci/npm pins.
func Tools(t testing.TB) string {
	t.Helper()
	dir, err := toolsDir()
	must(t, err)
	return dir
}

func toolsDir() (string, error) {
	at, err := here()
	if err != nil {
		return "", err
	}
	lock, err := os.ReadFile(filepath.Join(at, "..", "..", "..", ".ci", "npm", "package-lock.json"))
	if err != nil {
		return "", err
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "writ", "npm-"+hex.EncodeToString(sum[:])[:16])
	if _, err := os.Stat(filepath.Join(dir, "complete")); err != nil {
		return "", fmt.Errorf("the npm packages of .ci/npm are not installed in %s: run make setup", dir)
	}
	return dir, nil
}

// node is the pinned one where npm has it, or the system's.
func node(t testing.TB, dir string) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	pinned := filepath.Join(dir, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node")
	if _, err := os.Stat(pinned); err == nil {
		return pinned
	}
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("no Node is there: run make setup, or install Node 22")
	}
	return path
}

// here is this package's directory in the module that the test belongs to, which runs in its
// own package's. A program that was built with -trimpath doesn't know it by runtime.Caller.
func here() (string, error) {
	root, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return filepath.Join(root, "forge", "github", "githubtest"), nil
		}
		if root == filepath.Dir(root) {
			return "", errors.New("no go.mod is above the test's directory")
		}
		root = filepath.Dir(root)
	}
	return "", err
}

// appKey is the key of each emulator's Apps: making one takes more than a test that needs it.
var appKey = sync.OnceValues(func() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
})

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// admin does something to the emulator from outside.
func (e *Emulator) admin(ctx context.Context, what string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+"/_writ/"+what, bytes.NewReader(b))
	if err != nil {
		return err
	}
	res, err := e.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", what, res.Status, strings.TrimSpace(string(answer)))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
