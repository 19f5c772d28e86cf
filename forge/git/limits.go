package git

import "time"

// DefaultTimeout bounds one exchange with a server: long enough for a slow
// hook, short enough that a holder can renew its lease after a failure.
const DefaultTimeout = 60 * time.Second

// The defaults of Limits.
const (
	// DefaultMaxObject is in bytes. Forges refuse files over 100 MiB.
	DefaultMaxObject = 128 << 20
	// DefaultMaxPack is in bytes, compressed: one commit of a large repository.
	DefaultMaxPack = 2 << 30
	// DefaultMaxUnpacked is in bytes: several times the Linux kernel's tree, and
	// what a core inflates within DefaultTimeout.
	DefaultMaxUnpacked = 8 << 30
	// DefaultMaxTrees is in bytes: a million files in three hundred thousand directories.
	DefaultMaxTrees = 256 << 20
	// DefaultMaxAdvert is in bytes: some two million refs, of which maxRefs may be
	// wanted.
	DefaultMaxAdvert = 128 << 20
	// DefaultMaxEntries is in files: ten times the Linux kernel's tree.
	DefaultMaxEntries = 1_000_000
	// DefaultCached is in bytes: the trees and small files of a middling
	// repository.
	DefaultCached = 64 << 20
)

const (
	// maxTreePaths is in bytes: the paths of one tree, directories included, so
	// that a few small trees can't stand for gigabytes. A million files have
	// paths of some 60 bytes.
	maxTreePaths = 128 << 20
	// maxTreeDepth is in directories. PATH_MAX allows 2048 of one letter each.
	maxTreeDepth = 2048
	// maxRefs is how many refs are kept of one list: each takes some hundred bytes of
	// memory, several times what it takes on the wire.
	maxRefs = 250_000
	// maxReport is in bytes: what receive-pack answers, progress included.
	maxReport = 1 << 20
	// maxAlternates is how deep alternates may nest, as in git.
	maxAlternates = 5
	// maxCachedObject is in bytes: larger objects are handed on but not kept.
	maxCachedObject = 1 << 20
	// spoolMemory is in bytes: a larger pack is received into a file.
	spoolMemory = 16 << 20
	// wantsPerRequest keeps one fetch request below a megabyte.
	wantsPerRequest = 10_000
)

// Limits bound what is read. A zero field takes its default.
type Limits struct {
	Object  int64 // bytes of one object, inflated
	Pack    int64 // bytes of one pack received, compressed
	Advert  int64 // bytes of one advertisement of refs
	Entries int   // files of one tree

	// Unpacked is in bytes: all that is made of one pack received. Each object
	// counts with its inflated size and a KiB, a delta with its own size, twice,
	// and with what it expands to; a base that must be made again counts again.
	Unpacked int64
	// Trees is in bytes: the commits and trees that are fetched to read one tree,
	// each with another 128 bytes for its place in memory.
	Trees int64
	// Cached is in bytes: objects kept in memory between calls. A server of many
	// repositories divides what it has.
	Cached int64
}

func (l Limits) orDefaults() Limits {
	if l.Object <= 0 {
		l.Object = DefaultMaxObject
	}
	if l.Pack <= 0 {
		l.Pack = DefaultMaxPack
	}
	if l.Advert <= 0 {
		l.Advert = DefaultMaxAdvert
	}
	if l.Unpacked <= 0 {
		l.Unpacked = DefaultMaxUnpacked
	}
	if l.Trees <= 0 {
		l.Trees = DefaultMaxTrees
	}
	if l.Cached <= 0 {
		l.Cached = DefaultCached
	}
	if l.Entries <= 0 {
		l.Entries = DefaultMaxEntries
	}
	return l
}
