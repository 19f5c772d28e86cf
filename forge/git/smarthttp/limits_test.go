package smarthttp_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/git/smarthttp"
)

// dial begins a request by hand.
func (s *server) dial(t testing.TB, method, path, headers string, body []byte) net.Conn {
	t.Helper()
	host := strings.TrimPrefix(s.base, "http://")
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	head := method + " /owner/repo.git" + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + headers + "\r\n"
	if _, err := c.Write(append([]byte(head), body...)); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// cut sends a push and leaves in the middle of it.
func (s *server) cut(t testing.TB, length string, body []byte) {
	t.Helper()
	c := s.dial(t, "POST", "/git-receive-pack", "Content-Type: application/x-git-receive-pack-request\r\n"+length, body)
	_ = c.Close()
}

// stubborn is a git that says who it is and then hears nothing any more: not the
// end of its input, not SIGTERM, and with a child of the same kind. Its process
// id comes out of the channel.
func stubborn(t *testing.T, service string) (binary string, started <-chan int) {
	dir := t.TempDir()
	binary = filepath.Join(dir, "git")
	fifo := filepath.Join(dir, "started")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v %s", err, out)
	}
	script := "#!/bin/sh\ncase \"$*\" in *" + service + "*)\ntrap '' TERM\nsleep 1000 &\necho $$ >" + fifo + "\nwait\nsleep 1000\n;; esac\nexec git \"$@\"\n"
	gittest.WriteProgram(t, binary, script)
	c := make(chan int, 1)
	go func() {
		text, _ := os.ReadFile(fifo)
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			c <- n
		}
	}()
	return binary, c
}

// endLater ends a process group behind a test that failed, which would otherwise
// wait for it.
func endLater(t *testing.T, pid int) {
	t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
}

// wantGone fails the test unless a process and its whole group have ended.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process is still there: %v", err)
	}
	// What was killed may wait for somebody to take its status.
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name)
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 2 && f[2] == strconv.Itoa(pid) && f[0] != "Z" {
			t.Errorf("a process of its group is still there: %s", text)
		}
	}
}

// TestK4_ClientLeavesMidPack: whatever git does, its group ends with a push that
// breaks off.
func TestK4_ClientLeavesMidPack(t *testing.T) {
	binary, started := stubborn(t, "receive-pack")
	s := serve(t, func(o *smarthttp.Options) { o.GitBinary = binary })
	o := git.NewObjects()
	one := string(commit(t, o, "", "one\n"))
	body := pushBody(o, "report-status", smarthttp.RefUpdate{Ref: refA, New: one})
	c := s.dial(t, "POST", "/git-receive-pack", fmt.Sprintf("Content-Type: application/x-git-receive-pack-request\r\nContent-Length: %d\r\n", len(body)+100), body)
	n := within(t, started, "the start of git")
	endLater(t, n)
	_ = c.Close()
	within(t, s.ended, "the request")
	wantGone(t, n)
	wantEvents(t, s)
}

// TestClientLeavesMidPack_Git: the same with git as it is: no ref, no lock and no
// half of a pack is left.
func TestClientLeavesMidPack_Git(t *testing.T) {
	s := serve(t)
	o := git.NewObjects()
	one := string(commit(t, o, "", "one\n"))
	random := make([]byte, 1<<20)
	_, _ = rand.Read(random) // never fails
	o.Blob(random)
	body := pushBody(o, "report-status", smarthttp.RefUpdate{Ref: refA, New: one})
	s.cut(t, fmt.Sprintf("Content-Length: %d\r\n", len(body)), body[:len(body)/2])
	within(t, s.ended, "the request")
	if left, _ := filepath.Glob(filepath.Join(s.dir, "objects", "*", "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "objects", "*incoming*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if at := gittest.RefOID(s.dir, refA); at != "" {
		t.Errorf("the ref is at %s", at)
	}
}

// TestClientLeavesAfterPush: a push that has arrived is carried out, and told of.
func TestClientLeavesAfterPush(t *testing.T) {
	s := serve(t)
	dir := t.TempDir()
	arrived, proceed := filepath.Join(dir, "arrived"), filepath.Join(dir, "proceed")
	if out, err := exec.Command("mkfifo", arrived, proceed).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v %s", err, out)
	}
	gittest.Hook(t, s.dir, "pre-receive", "cat >/dev/null; cat "+arrived+" "+proceed)
	o := git.NewObjects()
	one := string(commit(t, o, "", "one\n"))
	body := pushBody(o, "report-status", smarthttp.RefUpdate{Ref: refA, New: one})
	c := s.dial(t, "POST", "/git-receive-pack", fmt.Sprintf("Content-Type: application/x-git-receive-pack-request\r\nContent-Length: %d\r\n", len(body)), body)
	release := func(fifo string) {
		if err := os.WriteFile(fifo, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	release(arrived)
	_ = c.Close()
	release(proceed)
	within(t, s.ended, "the push")
	wantEvents(t, s, event(refA, "", one))
}

// TestClientLeavesMidClone: git does not go on for nobody, whether it has much to
// say or nothing.
func TestClientLeavesMidClone(t *testing.T) {
	t.Run("much", func(t *testing.T) {
		binary := filepath.Join(t.TempDir(), "git")
		gittest.WriteProgram(t, binary, "#!/bin/sh\nexec yes\n")
		s := serve(t, func(o *smarthttp.Options) { o.GitBinary = binary })
		c := s.dial(t, "GET", "/info/refs?service=git-upload-pack", "", nil)
		if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 200 ") {
			t.Errorf("%q, %v", line, err)
		}
		_ = c.Close()
		within(t, s.ended, "the clone")
	})
	t.Run("nothing", func(t *testing.T) {
		binary, started := stubborn(t, "upload-pack")
		s := serve(t, func(o *smarthttp.Options) { o.GitBinary = binary })
		c := s.dial(t, "GET", "/info/refs?service=git-upload-pack", "", nil)
		n := within(t, started, "the start of git")
		endLater(t, n)
		_ = c.Close()
		within(t, s.ended, "the clone")
		wantGone(t, n)
	})
}

// TestClientTakesNothing: who asks for much and does not read it is let go.
func TestClientTakesNothing(t *testing.T) {
	s := serve(t, func(o *smarthttp.Options) { o.Timeout = 3 * time.Second })
	random := make([]byte, 12<<20)
	_, _ = rand.Read(random) // never fails
	blob := gittest.GitInput(t, s.dir, string(random), "hash-object", "-w", "--stdin")
	want := "command=fetch\n"
	body := fmt.Appendf(nil, "%04x%s00010009done\n%04xwant %s\n0000", len(want)+4, want, 4+5+40+1, blob)
	c := s.dial(t, "POST", "/git-upload-pack", fmt.Sprintf(
		"Content-Type: application/x-git-upload-pack-request\r\nGit-Protocol: version=2\r\nContent-Length: %d\r\n", len(body)), body)
	defer c.Close()
	line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
	// A slow machine may not come to answer in time.
	if !strings.HasPrefix(line, "HTTP/1.1 200 ") && !strings.HasPrefix(line, "HTTP/1.1 503 ") {
		t.Errorf("%q, %v", line, err)
	}
	within(t, s.ended, "the clone")
}

// flatPack is the beginning of a pack, a megabyte of zeros that are not compressed.
func flatPack() []byte {
	b := bytes.NewBufferString("PACK\x00\x00\x00\x02\x00\x00\x00\x01\xb0\x80\x80\x04")
	z, _ := zlib.NewWriterLevel(b, zlib.NoCompression) // the level is valid
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Close()
	return b.Bytes()
}

// TestLimits_Request: a request over the limit is refused, as it is sent or as
// it is inflated, and changes nothing.
func TestLimits_Request(t *testing.T) {
	s := serve(t, func(o *smarthttp.Options) { o.MaxRequest = 64 << 10 })
	o := git.NewObjects()
	one := string(commit(t, o, "", "one\n"))
	small := pushBody(o, "report-status", smarthttp.RefUpdate{Ref: refA, New: one})
	random := make([]byte, 100<<10)
	_, _ = rand.Read(random) // never fails
	o.Blob(random)
	large := pushBody(o, "report-status", smarthttp.RefUpdate{Ref: refA, New: one})
	flat := append(pushBody(nil, "report-status", smarthttp.RefUpdate{Ref: refA, New: one}), flatPack()...)
	bomb := append(bytes.Clone(small), make([]byte, 10<<20)...)
	zip := func(b []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, _ = z.Write(b)
		_ = z.Close()
		return out.Bytes()
	}
	type chunked struct{ io.Reader } // a length that net/http does not know
	for name, c := range map[string]struct {
		body   io.Reader
		header []string
	}{
		"by its length": {bytes.NewReader(large), nil},
		"in chunks":     {chunked{bytes.NewReader(large)}, nil},
		"compressed":    {bytes.NewReader(zip(large)), []string{"Content-Encoding", "gzip"}},
		"inflated":      {bytes.NewReader(zip(flat)), []string{"Content-Encoding", "gzip"}},
	} {
		t.Run(name, func(t *testing.T) {
			if status, text := s.post(t, c.body, c.header...); status != http.StatusRequestEntityTooLarge {
				t.Errorf("%d %s", status, text)
			}
			if at := gittest.RefOID(s.dir, refA); at != "" {
				t.Fatalf("the ref is at %s", at)
			}
		})
	}
	// What follows a whole pack is read away and counted; git has answered by then.
	s.post(t, bytes.NewReader(zip(bomb)), "Content-Encoding", "gzip")
	if gittest.RefOID(s.dir, refA) != "" {
		gittest.Git(t, s.dir, "update-ref", "-d", refA)
	}
	s.pushed()
	if status, text := s.post(t, bytes.NewReader(zip(small)), "Content-Encoding", "gzip"); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	wantEvents(t, s, event(refA, "", one))
}

// TestLimits_Time: git is ended when the time is over, with all that it started.
func TestLimits_Time(t *testing.T) {
	binary, started := stubborn(t, "upload-pack")
	s := serve(t, func(o *smarthttp.Options) { o.GitBinary, o.Timeout = binary, 3*time.Second })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/info/refs?service=git-upload-pack", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, text := do(t, req); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, text)
	}
	select {
	case n := <-started:
		wantGone(t, n)
	default: // a slow machine: it was ended before it had begun
	}
}

// TestLimits_Silence: who opens a push and says nothing is let go.
func TestLimits_Silence(t *testing.T) {
	s := serve(t, func(o *smarthttp.Options) { o.Timeout = time.Second })
	c := s.dial(t, "POST", "/git-receive-pack", "Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 1000\r\n", []byte("00"))
	defer c.Close()
	within(t, s.ended, "the push")
}

// TestLimits_Processes: no more of them run at one time than may; the others wait.
func TestLimits_Processes(t *testing.T) {
	dir := t.TempDir()
	binary, busy, overlap := filepath.Join(dir, "git"), filepath.Join(dir, "busy"), filepath.Join(dir, "overlap")
	script := "#!/bin/sh\nmkdir " + busy + " || : >" + overlap + "\ngit \"$@\"\nrmdir " + busy + "\n"
	gittest.WriteProgram(t, binary, script)
	s := serve(t, func(o *smarthttp.Options) { o.GitBinary, o.MaxProcesses = binary, 1 })
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			res, err := http.Get(s.url + "/info/refs?service=git-upload-pack")
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%s, %v", res.Status, err)
			}
		})
	}
	wg.Wait()
	if _, err := os.Stat(overlap); err == nil {
		t.Error("two processes ran at one time")
	}
}
