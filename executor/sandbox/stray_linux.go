package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// KillStrays kills what a killed writ left of sandboxes whose workspace is below
// dir, and says how many processes there were. A writ that dies while bwrap starts
// leaves bwrap's inner child behind: it waits for its parent for good, before it
// is bound to die with it. Nothing of a builder runs in it. They are known by
// their command line. The caller must be sure that no live sandbox is below dir.
// Whether by another name of a directory or not makes no difference to it.
func KillStrays(dir string) int {
	dir = realPath(dir)
	n := 0
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || !strayOf(pid, dir) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if strayOf(pid, dir) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil { // the number may be another's by now
			n++
		}
		_ = unix.Close(fd)
	}
	return n
}

// strayOf reports whether a process is a bwrap with a workspace below dir.
func strayOf(pid int, dir string) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := bytes.Split(data, []byte{0})
	if err != nil || filepath.Base(string(args[0])) != "bwrap" {
		return false
	}
	below := filepath.Clean(dir) + "/"
	for i := 0; i+2 < len(args); i++ { // --bind or --ro-bind, source, target
		if bytes.HasSuffix(args[i], []byte("bind")) && isWorkspace(string(args[i+2])) && strings.HasPrefix(realPath(string(args[i+1])), below) {
			return true
		}
	}
	return false
}

// isWorkspace reports whether what a program writes goes to a place inside.
func isWorkspace(target string) bool { return target == WorkspaceDir || target == upperPlace }

// realPath is a path without symbolic links, as far as it is there.
func realPath(path string) string {
	rest := ""
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if found, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(found, rest)
		}
		if at == filepath.Dir(at) {
			return filepath.Clean(path)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}
