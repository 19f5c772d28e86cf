package sandbox

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The meter looks at the tree from outside and holds the limits that the kernel
// holds per process only, or not at all. It is what remains where no control
// group is delegated, and it is how a cause becomes known.
const (
	// meterFirst is the first look; later ones double the time up to meterEvery.
	meterFirst = 10 * time.Millisecond
	// meterEvery bounds by how much a limit can be overrun: what a tree can use
	// in a quarter of a second.
	meterEvery = 250 * time.Millisecond
	// meterShare keeps the meter below a twentieth of one processor, as long as
	// that leaves a look every meterSlowest: on a crowded machine each look is
	// slow, and a bomb must still be seen.
	meterShare   = 20
	meterSlowest = time.Second
	// crowdedLooks is how often in a row the limit on processes must be found
	// reached before that is an attack and not a busy moment.
	crowdedLooks = 4
	// crowdedPercent of the limit counts as reached: at the limit a count is
	// always a little behind.
	crowdedPercent = 95
	// clockTick is the unit of times in /proc/PID/stat: a hundredth of a second
	// on all architectures here.
	clockTick = 10 * time.Millisecond
	// bytesPerFile turns the reserve of bytes into one of files, at the ratio at
	// which common file systems have them.
	bytesPerFile = 16 << 10
	// maxTree bounds the processes looked at.
	maxTree = 100_000
)

// meter holds what was seen. Only its own goroutine writes until it stopped.
type meter struct {
	cpu     time.Duration
	peak    int64
	crowded bool // the limit on processes was reached once
	inARow  int
	tmpFull bool
	tmpfs   []int // O_PATH handles

	uncounted bool // no control group counts memory, and the filter bounds mappings
	reaper    bool // the root is a reaper, which isn't part of the tree
	tmp       []string
}

// startMeter runs the meter until the function it returns is called, which
// waits for it to stop.
func (l *launch) startMeter() (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-l.p.started:
			l.watch(quit)
		case <-quit:
		}
	})
	return func() { close(quit); wg.Wait() }
}

// watch looks again and again.
func (l *launch) watch(quit <-chan struct{}) {
	<-l.known
	root := l.inner
	if l.status == nil {
		root = l.cmd.Process.Pid
	} else {
		l.meter.uncounted = !l.cgroup.holdsMemory()
		l.meter.reaper, l.meter.tmp = l.confined, l.tmp
		if !l.confined {
			l.meter.openTmpfs(root)
		}
	}
	next := meterFirst
	for {
		timer := time.NewTimer(next)
		select {
		case <-quit:
			timer.Stop()
			return
		case <-timer.C:
		}
		begin := time.Now()
		if limit := l.meter.look(root, l.spec); limit != "" {
			l.kill(killReason{cause: CauseResource, limit: limit})
			return
		}
		next = max(min(2*next, meterEvery), min(meterShare*time.Since(begin), meterSlowest))
	}
}

// look takes one measure and names the limit that is exceeded.
func (m *meter) look(root int, spec Spec) Limit {
	limits, t := spec.Limits, m.measure(root)
	memory := t.memory
	if limits.MemoryBytes > 0 && memory > limits.MemoryBytes {
		memory = t.proportional() // pages shared after a fork were counted twice
	}
	m.cpu, m.peak = max(m.cpu, t.cpu), max(m.peak, memory)
	if limits.Processes > 0 && t.threads*100 >= limits.Processes*crowdedPercent {
		m.crowded, m.inARow = true, m.inARow+1
	} else {
		m.inARow = 0
	}
	switch {
	case limits.MemoryBytes > 0 && memory > limits.MemoryBytes:
		return LimitMemory
	case limits.MemoryBytes > 0 && int64(len(t.shared))*sharedBytes > limits.MemoryBytes:
		return LimitMemory
	case limits.CPU > 0 && t.cpu >= limits.CPU:
		return LimitCPU
	case m.inARow >= crowdedLooks, limits.Processes > 0 && t.threads > limits.Processes+2: // where the kernel doesn't hold it; a control group counts two of bwrap
		return LimitProcesses
	case diskLow(spec.Workspace, limits.DiskReserveBytes):
		return LimitDisk
	}
	if limit := m.lookTmp(limits); limit != "" {
		return limit
	}
	return m.lookTmpfs(limits)
}

// lookTmp counts what stands in directories instead of a tmpfs. What was removed
// and is still open is missed; the reserve on the disk bounds it.
func (m *meter) lookTmp(limits Limits) Limit {
	for _, dir := range m.tmp {
		var bytes, files int64
		_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it was removed meanwhile
			}
			files++
			if info, err := d.Info(); err == nil {
				bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
			if over(bytes, limits.TmpBytes) || over(files, limits.TmpFiles) {
				return fs.SkipAll
			}
			return nil
		})
		switch {
		case over(bytes, limits.TmpBytes):
			return LimitTmpBytes
		case over(files, limits.TmpFiles):
			return LimitTmpFiles
		}
	}
	return ""
}

func over(n, limit int64) bool { return limit > 0 && n > limit }

// openTmpfs opens the places in memory as the namespace's first process sees
// them. They are mount points, which nothing inside can move.
func (m *meter) openTmpfs(pid int) {
	for _, dir := range []string{TmpDir, HomeDir, "/dev/shm"} {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/root%s", pid, dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			m.tmpfs = append(m.tmpfs, fd)
		}
	}
}

// lookTmpfs counts files, for which bwrap sets no limit.
func (m *meter) lookTmpfs(limits Limits) Limit {
	for _, fd := range m.tmpfs {
		var st unix.Statfs_t
		if unix.Fstatfs(fd, &st) != nil || st.Type != unix.TMPFS_MAGIC {
			continue
		}
		if limits.TmpBytes > 0 && st.Bfree == 0 {
			m.tmpFull = true
		}
		if limits.TmpFiles > 0 && int64(st.Files-st.Ffree) > limits.TmpFiles {
			return LimitTmpFiles
		}
	}
	return ""
}

// lastLook looks at the disk when nothing runs any more: what was written since
// the meter's last look is there, too. Another reason to end it stands.
func (l *launch) lastLook() {
	if l.p.exit.DiskLow = diskLow(l.spec.Workspace, l.spec.Limits.DiskReserveBytes); !l.p.exit.DiskLow {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == nil {
		l.reason = &killReason{cause: CauseResource, limit: LimitDisk}
	}
}

// diskLow reports whether the file system of the workspace has less than
// reserve bytes, or less than its share of files, left for everybody else.
func diskLow(dir string, reserve int64) bool {
	var st unix.Statfs_t
	if reserve <= 0 || unix.Statfs(dir, &st) != nil {
		return false
	}
	free := int64(st.Bavail) * st.Bsize
	return free < reserve || st.Files > 0 && int64(st.Ffree) < reserve/bytesPerFile
}

func (m *meter) close() {
	for _, fd := range m.tmpfs {
		unix.Close(fd)
	}
	m.tmpfs = nil
}

func (m *meter) hints() []Limit {
	var hints []Limit
	if m.crowded {
		hints = append(hints, LimitProcesses)
	}
	if m.tmpFull {
		hints = append(hints, LimitTmpBytes)
	}
	return hints
}

// tree is a measure of all processes below one.
type tree struct {
	pids    []int
	places  []string // the directories that tell their memory
	threads int64
	cpu     time.Duration   // of the living and of the dead they waited for
	memory  int64           // bytes that aren't of a file on disk; shared ones count for each process
	shared  map[string]bool // shared anonymous mappings by their inodes; nil: not looked for
}

// measure walks the tree. Orphans are children of the namespace's first
// process, so nothing in the namespace is missed for longer than a moment.
func (m *meter) measure(root int) tree {
	t := tree{pids: []int{root}}
	if m.reaper {
		t.pids = children(root)
		t.addWaitedFor(root)
	}
	if m.uncounted {
		t.shared = map[string]bool{}
	}
	for i := 0; i < len(t.pids) && len(t.pids) < maxTree; i++ {
		t.add(t.pids[i])
		t.pids = append(t.pids, children(t.pids[i])...)
	}
	return t
}

// children lists the children of all threads of a process.
func children(pid int) []int {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []int
	for _, thread := range threads {
		data, _ := os.ReadFile(dir + "/" + thread.Name() + "/children")
		for _, field := range bytes.Fields(data) {
			if n, err := strconv.Atoi(string(field)); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// Fields of /proc/PID/stat after the command, which ends with a parenthesis,
// counted from there; see proc(5).
const (
	statParent  = 1
	statUtime   = 11
	statThreads = 17
)

// statOf gives these fields of a process, nil if it has gone.
func statOf(pid int) [][]byte {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	f := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(f) <= statThreads {
		return nil
	}
	return f
}

// add counts one process; one that has gone counts nothing.
func (t *tree) add(pid int) {
	f := statOf(pid)
	if f == nil {
		return
	}
	for _, field := range f[statUtime : statUtime+4] { // own and waited-for, user and system
		t.cpu += time.Duration(number(field)) * clockTick
	}
	t.threads += number(f[statThreads])
	dir := memoryOf(pid, f[0])
	t.places = append(t.places, dir)
	t.memory += sumFields(dir+"/status", "RssAnon:", "RssShmem:", "VmSwap:")
	if t.shared != nil {
		t.addShared(dir + "/maps")
	}
}

// addWaitedFor counts the time of the dead whom a reaper waited for.
func (t *tree) addWaitedFor(pid int) {
	if f := statOf(pid); f != nil {
		t.cpu += time.Duration(number(f[statUtime+2])+number(f[statUtime+3])) * clockTick
	}
}

// memoryOf is the directory that tells the memory of a process. When its first
// thread has ended and others go on, only theirs do.
func memoryOf(pid int, state []byte) string {
	dir := fmt.Sprintf("/proc/%d", pid)
	if string(state) != "Z" {
		return dir
	}
	threads, _ := os.ReadDir(dir + "/task")
	for _, thread := range threads {
		other := dir + "/task/" + thread.Name()
		if thread.Name() != strconv.Itoa(pid) && sumFields(other+"/status", "VmRSS:") > 0 {
			return other
		}
	}
	return dir
}

// sharedName is how the kernel shows a shared anonymous mapping.
var sharedName = []byte("/dev/zero (deleted)")

// addShared notes the shared anonymous mappings of a process. One that it has in
// common with others has the same inode. How much of one is in memory can't be
// seen, only that the filter bounds it.
func (t *tree) addShared(path string) {
	data, _ := os.ReadFile(path)
	for line := range bytes.Lines(data) {
		if !bytes.Contains(line, sharedName) {
			continue
		}
		// address, rights, offset, device, inode, name
		if f := bytes.Fields(line); len(f) > 4 {
			t.shared[string(f[4])] = true
		}
	}
}

// proportional is the memory of the tree with shared pages counted once. It is
// exact and slow, so it has the last word only.
func (t *tree) proportional() int64 {
	var sum int64
	for _, dir := range t.places {
		sum += sumFields(dir+"/smaps_rollup", "Pss_Anon:", "Pss_Shmem:", "SwapPss:")
	}
	return sum
}

// sumFields adds lines like "RssAnon: 12 kB" of a file up, in bytes.
func sumFields(path string, keys ...string) int64 {
	data, _ := os.ReadFile(path)
	var sum int64
	for line := range bytes.Lines(data) {
		if f := bytes.Fields(line); len(f) > 1 && slices.Contains(keys, string(f[0])) {
			sum += number(f[1]) << 10
		}
	}
	return sum
}

// number reads digits; anything else is 0.
func number(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}
