package sandbox

import (
	"bytes"
	"os"
	"slices"
	"strconv"
)

// pageTables is the key of what a process's page tables take: a gigabyte where
// little memory is touched in many places.
const pageTables = "VmPTE:"

// memoryFileName is how the kernel shows a file in memory.
const memoryFileName = "/memfd:"

// sharedName is how the kernel shows a shared anonymous mapping.
var sharedName = []byte("/dev/zero (deleted)")

// mappingBytes is what the kernel has for one mapping of a process, about.
const mappingBytes = 256

// sharedPart is the key of what a process's mappings hold of files in memory.
const sharedPart = "Pss_Shmem:"

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
