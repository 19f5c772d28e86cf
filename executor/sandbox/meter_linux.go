package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
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
	answer    *answerer
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
	runtime.LockOSThread() // see meter.look
	defer func() {
		if l.answer.lend(0) {
			runtime.UnlockOSThread()
		}
	}()
	<-l.known
	root := l.inner
	if l.status == nil {
		root = l.cmd.Process.Pid
	} else {
		l.meter.uncounted = !l.cgroup.holdsMemory()
		l.meter.reaper, l.meter.tmp, l.meter.answer = l.confined, l.tmp, l.answer
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
		limit, cause := l.meter.look(root, l.spec), CauseResource
		if limit == "" {
			limit, cause = l.lookDisk()
		}
		if limit != "" {
			l.kill(killReason{cause: cause, limit: limit})
			return
		}
		next = max(min(2*next, meterEvery), min(meterShare*time.Since(begin), meterSlowest))
	}
}

// look takes one measure and names the limit that is exceeded.
func (m *meter) look(root int, spec Spec) Limit {
	limits := spec.Limits
	// A root without CAP_SYS_PTRACE, as in a container, is shown the memory of its
	// own processes only.
	_ = m.answer.lend(m.answer.user())
	t := m.measure(root)
	memory := t.memory + t.filesInMemory() + t.mappings
	if limits.MemoryBytes > 0 && memory > limits.MemoryBytes {
		memory = t.proportional() // pages shared after a fork were counted twice
	}
	_ = m.answer.lend(0)
	t.cpu += m.answer.cost()
	m.cpu, m.peak = max(m.cpu, t.cpu), max(m.peak, memory)
	if limits.Processes > 0 && t.threads*100 >= limits.Processes*crowdedPercent {
		m.crowded, m.inARow = true, m.inARow+1
	} else {
		m.inARow = 0
	}
	switch {
	case limits.MemoryBytes > 0 && (memory > limits.MemoryBytes || t.unseen):
		return LimitMemory
	case limits.MemoryBytes > 0 && int64(len(t.shared))*sharedBytes > limits.MemoryBytes:
		return LimitMemory
	case limits.CPU > 0 && t.cpu >= limits.CPU:
		return LimitCPU
	case m.inARow >= crowdedLooks, limits.Processes > 0 && t.threads > limits.Processes+2: // where the kernel doesn't hold it; a control group counts two of bwrap
		return LimitProcesses
	}
	if limit := m.lookTmp(limits); limit != "" {
		return limit
	}
	return m.lookTmpfs(limits)
}

// pageTables is the key of what a process's page tables take: a gigabyte where
// little memory is touched in many places.
const pageTables = "VmPTE:"

// sharedPart is the key of what a process's mappings hold of files in memory.
const sharedPart = "Pss_Shmem:"

// proportional is the memory of the tree with shared pages counted once. It is
// exact and slow, so it has the last word only.
func (t *tree) proportional() int64 {
	sum := t.filesInMemory() + t.mappings
	for _, dir := range t.places {
		rollup := dir + "/smaps_rollup"
		sum += sumFields(rollup, "Pss_Anon:", "SwapPss:") + sumFields(dir+"/status", pageTables)
		shared := sumFields(rollup, sharedPart)
		if len(t.files) > 0 {
			// A process that maps or ends between two looks isn't charged for both.
			twice := t.mappedTwice(dir + "/smaps")
			shared = max(min(shared, sumFields(rollup, sharedPart))-twice, 0)
		}
		sum += shared
	}
	return sum
}

// memoryFileName is how the kernel shows a file in memory.
const memoryFileName = "/memfd:"

// mappedTwice is what a process's mappings hold of files that are counted as such.
func (t *tree) mappedTwice(path string) int64 {
	data, _ := os.ReadFile(path)
	var sum int64
	counted := false
	for line := range bytes.Lines(data) {
		f := bytes.Fields(line)
		switch {
		case len(f) > 5 && bytes.HasPrefix(f[5], []byte(memoryFileName)): // address, rights, offset, device, inode, name
			_, counted = t.files[uint64(number(f[4]))]
		case len(f) > 0 && !bytes.HasSuffix(f[0], []byte(":")):
			counted = false
		case counted && len(f) > 1 && string(f[0]) == "Pss:":
			sum += number(f[1]) << 10
		}
	}
	return sum
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

// lookDisk ends a tree without which the reserve would be free. Others share the
// file system: what they took is no fault of this one, which goes on until so
// little is left that nobody may go on.
func (l *launch) lookDisk() (Limit, Cause) {
	reserve := l.spec.Limits.DiskReserveBytes
	switch lacks := shortOf(l.spec.Workspace, reserve); {
	case !lacks.any():
		return "", ""
	case l.spent(lacks):
		return LimitDisk, CauseResource
	case shortOf(l.spec.Workspace, reserve/lastShare).any():
		return LimitDisk, CauseKilled
	}
	return "", ""
}

// lastShare of the reserve is what no tree may go below, whoever took the rest.
const lastShare = 4

// DiskLow reports whether the file system of a directory has less than reserve
// bytes, or less than its share of files, left for everybody else.
func DiskLow(dir string, reserve int64) bool { return shortOf(dir, reserve).any() }

// DiskSpent reports whether so many more bytes would take what no tree may go below,
// with that reserve.
func DiskSpent(dir string, need, reserve int64) bool {
	return reserve > 0 && shortOf(dir, reserve/lastShare+need).any()
}

// shortage is what a file system has less than it should.
type shortage struct{ bytes, files int64 }

// since is how much more lacks than before; before may be less than nothing.
func (s shortage) since(before shortage) shortage {
	return shortage{s.bytes - before.bytes, s.files - before.files}
}

func (s shortage) any() bool { return s.bytes > 0 || s.files > 0 }

func shortOf(dir string, reserve int64) (s shortage) {
	var st unix.Statfs_t
	if reserve <= 0 || unix.Statfs(dir, &st) != nil {
		return s
	}
	s.bytes = reserve - int64(st.Bavail)*st.Bsize
	if st.Files > 0 {
		s.files = reserve/bytesPerFile - int64(st.Ffree)
	}
	return s
}

// spent reports whether what the tree wrote since its begin makes up for what
// lacks. The time that counts is that of the inode's last change, which no program
// can set; a mode or a link changes it, too, so that no more is charged than the
// file system has lost since. What was removed and is still open is missed.
func (l *launch) spent(lacks shortage) bool {
	if lost := lacks.since(l.lacked); lost.bytes < lacks.bytes || lost.files < lacks.files {
		return false
	}
	begin := l.begin.UnixNano()
	var wrote shortage
	inodes := map[uint64]bool{}
	for _, dir := range append([]string{l.spec.Workspace}, l.tmp...) {
		_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it was removed meanwhile
			}
			if info, err := d.Info(); err == nil {
				if st := info.Sys().(*syscall.Stat_t); st.Ctim.Nano() >= begin && !inodes[st.Ino] {
					inodes[st.Ino] = true
					wrote.bytes, wrote.files = wrote.bytes+st.Blocks*512, wrote.files+1
				}
			}
			return nil
		})
	}
	return wrote.bytes >= lacks.bytes && wrote.files >= lacks.files
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
	pids     []int
	places   []string // the directories that tell their memory
	threads  int64
	cpu      time.Duration    // of the living and of the dead they waited for
	memory   int64            // bytes that aren't of a file on disk, page tables included; shared ones count for each process
	shared   map[string]bool  // shared anonymous mappings by their inodes; nil: not looked for
	mappings int64            // bytes that the kernel has for them
	files    map[uint64]int64 // bytes of files in memory that somebody has open, by their inodes
	unseen   bool             // a process of the program doesn't let its memory be read
}

// filesInMemory are the bytes of them.
func (t *tree) filesInMemory() int64 {
	var sum int64
	for _, n := range t.files {
		sum += n
	}
	return sum
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
		t.shared, t.files = map[string]bool{}, map[uint64]int64{}
	}
	for i := 0; i < len(t.pids) && len(t.pids) < maxTree; i++ {
		t.add(t.pids[i], m.reaper || i > 0)
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

// add counts one process; one that has gone counts nothing. The first one inside a
// namespace is bwrap's own.
func (t *tree) add(pid int, untrusted bool) {
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
	t.memory += sumFields(dir+"/status", "RssAnon:", "RssShmem:", "VmSwap:", pageTables)
	if t.shared != nil {
		if err := t.addShared(dir + "/maps"); untrusted && errors.Is(err, fs.ErrPermission) {
			t.unseen = true
		}
		t.addFiles(dir)
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

// mappingBytes is what the kernel has for one mapping of a process, about.
const mappingBytes = 256

// sharedName is how the kernel shows a shared anonymous mapping.
var sharedName = []byte("/dev/zero (deleted)")

// addShared counts the mappings of a process and notes the shared anonymous ones. One that it has in
// common with others has the same inode. How much of one is in memory can't be
// seen, only that the filter bounds it. An error says that nothing could be seen.
func (t *tree) addShared(path string) error {
	data, err := os.ReadFile(path)
	for line := range bytes.Lines(data) {
		t.mappings += mappingBytes
		if !bytes.Contains(line, sharedName) {
			continue
		}
		// address, rights, offset, device, inode, name
		if f := bytes.Fields(line); len(f) > 4 {
			t.shared[string(f[4])] = true
		}
	}
	return err
}

// addFiles counts the files in memory that a process has open, given the directory
// that tells of it. One that is open nowhere counts as far as it is mapped; one that
// is on its way from one process to another isn't seen.
func (t *tree) addFiles(dir string) {
	dir += "/fd/"
	list, err := os.Open(dir)
	if err != nil {
		return
	}
	defer list.Close()
	names, _ := list.Readdirnames(-1)
	for _, name := range names {
		var st unix.Stat_t
		if to, err := os.Readlink(dir + name); err != nil || !strings.HasPrefix(to, memoryFileName) || unix.Stat(dir+name, &st) != nil {
			continue
		}
		t.files[st.Ino] = st.Blocks * 512
	}
}

// addWaitedFor counts the time of the dead whom a reaper waited for.
func (t *tree) addWaitedFor(pid int) {
	if f := statOf(pid); f != nil {
		t.cpu += time.Duration(number(f[statUtime+2])+number(f[statUtime+3])) * clockTick
	}
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
