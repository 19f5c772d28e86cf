package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// cgroup is the control group of one sandbox. A nil *cgroup is a host without:
// every method is then a no-op, rlimits and the meter hold the limits and the
// pid namespace takes the tree down.
type cgroup struct {
	dir    *os.File
	path   string
	memory bool
}

// cgroupName is the name of a group: process id of writ, and number.
const cgroupName = "writ-%d-%d"

// cgroupSeq makes names of groups unique within this process.
var cgroupSeq atomic.Int64

// newCgroup makes a group below parent, or below writ's own group, with what
// limits the controllers there allow. Nil if that isn't possible.
func newCgroup(parent string, l Limits, log *slog.Logger) *cgroup {
	if parent == "" {
		parent = ownCgroup()
	}
	if parent == "" {
		return nil
	}
	seq := cgroupSeq.Add(1)
	if seq == 1 {
		sweepCgroups(parent)
	}
	path := filepath.Join(parent, fmt.Sprintf(cgroupName, os.Getpid(), seq))
	if err := os.Mkdir(path, 0o750); err != nil {
		log.Debug("sandbox: no control group", "err", err)
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		_ = os.Remove(path)
		return nil
	}
	c := &cgroup{dir: dir, path: path}
	c.limit(l)
	return c
}

// HoldsMemory reports whether a control group of this host would hold a sandbox's
// memory limit; otherwise each Exit is Watched.
func HoldsMemory(cfg Config) bool {
	c := newCgroup(cfg.Cgroup, DefaultLimits(), cfg.logger())
	defer c.remove()
	return c.holdsMemory()
}

// sweepCgroups removes the groups that a killed writ left. The kernel removes a
// group only if it is empty, so no running one can be hit.
func sweepCgroups(parent string) {
	old, _ := filepath.Glob(filepath.Join(parent, "writ-*")) // the pattern is valid
	for _, path := range old {
		var pid, seq int
		if _, err := fmt.Sscanf(filepath.Base(path), cgroupName, &pid, &seq); err != nil {
			continue
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); os.IsNotExist(err) {
			_ = os.Remove(path)
		}
	}
}

// limit sets what this host's controllers know. A missing one is no failure:
// holdsMemory tells the caller, and rlimits hold the rest anyway.
func (c *cgroup) limit(l Limits) {
	if l.MemoryBytes > 0 {
		c.memory = c.write("memory.max", strconv.FormatInt(l.MemoryBytes, 10)) == nil
		_ = c.write("memory.swap.max", "0")
		_ = c.write("memory.oom.group", "1")
	}
	if l.Processes > 0 {
		// bwrap's own two processes are in the group as well.
		_ = c.write("pids.max", strconv.FormatInt(l.Processes+2, 10))
	}
}

func (c *cgroup) write(name, value string) error {
	f, err := os.OpenFile(filepath.Join(c.path, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// holdsMemory reports whether the kernel holds the tree's memory limit.
func (c *cgroup) holdsMemory() bool { return c != nil && c.memory }

// kill kills everything in the group at once.
func (c *cgroup) kill() {
	if c != nil {
		_ = c.write("cgroup.kill", "1")
	}
}

// remove deletes the group, which must be empty; a dying tree needs a moment.
func (c *cgroup) remove() {
	if c == nil {
		return
	}
	_ = c.dir.Close() // of a directory
	for wait := time.Millisecond; wait < KillGrace/4; wait *= 2 {
		if err := os.Remove(c.path); err == nil || os.IsNotExist(err) {
			return
		}
		time.Sleep(wait)
	}
}

// counter reads one line "key value" of a file, 0 if there is none.
func (c *cgroup) counter(name, key string) int64 {
	if c == nil {
		return 0
	}
	data, err := os.ReadFile(filepath.Join(c.path, name))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// peak is the highest use of memory, 0 if unknown.
func (c *cgroup) peak() int64 {
	if c == nil {
		return 0
	}
	data, _ := os.ReadFile(filepath.Join(c.path, "memory.peak"))
	return number(bytes.TrimSpace(data))
}

// cpu is the processor time of the group so far.
func (c *cgroup) cpu() time.Duration {
	return time.Duration(c.counter("cpu.stat", "usage_usec")) * time.Microsecond
}

// ownCgroup is this process's directory in the version 2 hierarchy.
func ownCgroup() string {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(groups)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			if root := cgroupMount(string(mounts)); root != "" {
				return filepath.Join(root, path)
			}
		}
	}
	return ""
}

// cgroupMount finds the mount point of the version 2 hierarchy.
func cgroupMount(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		left, right, _ := strings.Cut(line, " - ")
		if f := strings.Fields(left); strings.HasPrefix(right, "cgroup2 ") && len(f) > 4 {
			return f[4]
		}
	}
	return ""
}
