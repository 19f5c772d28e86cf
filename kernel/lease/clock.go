package lease

// Clock is one reading of both time domains, taken by the caller at once.
type Clock struct {
	// WallMs is the wall clock in Unix milliseconds. It may be wrong and jump.
	WallMs int64 `json:"wall_ms"`
	// BootMs is CLOCK_BOOTTIME in milliseconds. It never goes back and counts
	// suspend.
	BootMs int64 `json:"boot_ms"`
	// BootID names the boot that BootMs counts from. Readings of different
	// boots can't be compared; an empty id compares with nothing.
	BootID string `json:"boot_id"`
}

// Sighting is since when one instance has seen the same HEAD at a ref. The caller
// keeps it where its state is kept, so that the time counts on for runners that
// start, look and end (case L15).
type Sighting struct {
	Ref string `json:"ref"`
	OID string `json:"oid"`
	// FirstSeenBootMs is the boot clock at the first sighting in this boot.
	FirstSeenBootMs int64  `json:"first_seen_boot_ms"`
	BootID          string `json:"boot_id"`
	// FirstSeenWallMs is the wall clock at the same moment. It is for people who
	// read the stored sighting: no code does.
	FirstSeenWallMs int64 `json:"first_seen_wall_ms"`
}

// Observe records that oid stands at ref now. Every reading of HEAD goes
// through it: another commit, another ref or another boot starts a sighting
// anew. Starting anew after a reboot costs at most one more lease time and
// never takes a live lease: how long the machine was off is known to the wall
// clock only, and that one isn't trusted with this. So a runner whose machine
// reboots more often than the lease time takes nothing over by itself.
func Observe(prev *Sighting, ref, oid string, now Clock) Sighting {
	if prev != nil && prev.Ref == ref && prev.unchangedMs(oid, now) >= 0 {
		return *prev
	}
	return Sighting{Ref: ref, OID: oid, FirstSeenBootMs: now.BootMs, BootID: now.BootID, FirstSeenWallMs: now.WallMs}
}

// unchangedMs is for how long oid has been seen at HEAD, or -1 if this sighting
// says nothing about it.
func (o Sighting) unchangedMs(oid string, now Clock) int64 {
	if oid == "" || o.OID != oid || now.BootID == "" || o.BootID != now.BootID {
		return -1
	}
	if o.FirstSeenBootMs < 0 || now.BootMs < o.FirstSeenBootMs {
		return -1 // no reading of one boot: a damaged or foreign record
	}
	return now.BootMs - o.FirstSeenBootMs
}

// NextCommitterSeconds is the committer date of the next commit of a run whose
// last one is dated prev: the wall clock, but never earlier (A28). A clock that
// was set back leaves the date where it is; HEAD moves all the same, because
// the parent differs.
func NextCommitterSeconds(prevSeconds, wallMs int64) int64 {
	return max(prevSeconds, floorSeconds(wallMs))
}

// floorSeconds drops the fraction towards the past, as git does when it dates
// a commit, also before 1970.
func floorSeconds(ms int64) int64 {
	s := ms / msPerSecond
	if ms%msPerSecond < 0 {
		s--
	}
	return s
}

const msPerSecond = 1000
