package gittest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Disk is a small disk of its own with one bare repository on it, served over
// HTTP. It can be filled or made read-only under the server, as disks are. It is
// a file system in memory inside a namespace, so that nobody needs to be root;
// what works on it is run by Run.
type Disk struct {
	*HTTP
	Repo string // the repository's directory, as Run sees it

	dir string
	pid int // of a process in the namespace
}

// NewDisk makes a disk with room for small tests, a few MiB.
func NewDisk(t testing.TB) *Disk {
	t.Helper()
	d := &Disk{dir: t.TempDir()}
	d.Repo = filepath.Join(d.dir, "repo.git")
	d.hold(t)
	d.Run(t, "git", "init", "--quiet", "--bare", "--initial-branch=main", d.Repo)
	d.Run(t, "git", "-C", d.Repo, "config", "uploadpack.allowFilter", "true")
	program := filepath.Join(t.TempDir(), "git")
	script := fmt.Sprintf("#!/bin/sh\nexec nsenter --preserve-credentials --user --mount --target %d git \"$@\"\n", d.pid)
	WriteProgram(t, program, script)
	d.HTTP = serveHTTP(t, d.Repo, program)
	return d
}

// hold starts the process that keeps the namespace, and mounts the disk in it.
// Outside, there is only the outline of a repository, by which the server knows
// that there is one.
func (d *Disk) hold(t testing.TB) {
	t.Helper()
	Git(t, "/", "init", "--quiet", "--bare", d.Repo)
	keeper := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=16m tmpfs "$0" && echo ready && exec sleep infinity`, d.dir)
	keeper.Stderr = os.Stderr
	out, err := keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Start(); err != nil {
		t.Fatalf("unshare (apt-get install util-linux): %v", err)
	}
	t.Cleanup(func() {
		_ = keeper.Process.Kill() // it sleeps
		_ = keeper.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
		t.Fatalf("no namespace for a small disk: %q, %v", line, err)
	}
	d.pid = keeper.Process.Pid
}

// Run runs a program where the disk is. It must succeed.
func (d *Disk) Run(t testing.TB, args ...string) {
	t.Helper()
	args = append([]string{"--preserve-credentials", "--user", "--mount", "--target", strconv.Itoa(d.pid)}, args...)
	cmd := exec.Command("nsenter", args...)
	cmd.Env = Env()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Fill fills the disk to its last byte, and Drain takes that away again.
func (d *Disk) Fill(t testing.TB) {
	t.Helper()
	d.Run(t, "sh", "-c", `dd if=/dev/zero of="$0/ballast" bs=4k 2>/dev/null; true`, d.dir)
}

// Drain ends what Fill began.
func (d *Disk) Drain(t testing.TB) {
	t.Helper()
	d.Run(t, "rm", "-f", filepath.Join(d.dir, "ballast"))
}

// ReadOnly makes the disk read-only, or writable again.
func (d *Disk) ReadOnly(t testing.TB, on bool) {
	t.Helper()
	word := "rw"
	if on {
		word = "ro"
	}
	d.Run(t, "mount", "-o", "remount,"+word, d.dir)
}
