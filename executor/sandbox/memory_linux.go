package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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

// pageTables is the key of what a process's page tables take: a gigabyte where
// little memory is touched in many places.
const pageTables = "VmPTE:"

// memoryFileName is how the kernel shows a file in memory.
const memoryFileName = "/memfd:"

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

// sharedName is how the kernel shows a shared anonymous mapping.
var sharedName = []byte("/dev/zero (deleted)")

// mappingBytes is what the kernel has for one mapping of a process, about.
const mappingBytes = 256

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

// sharedPart is the key of what a process's mappings hold of files in memory.
const sharedPart = "Pss_Shmem:"

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
