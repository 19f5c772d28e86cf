package installation

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/kernel/lease"
)

// sightings keeps since when this instance has seen others' leases in one file, so
// that the time counts on for short processes (case L15). It belongs to the process that
// holds the state directory, and is safe for concurrent use.
type sightings struct {
	path string

	mu   sync.Mutex
	seen map[string]map[string]lease.Sighting // by world and ref
}

// maxSightings is in bytes: more than the refs of all worlds need.
const maxSightings = 64 << 20

// openSightings reads the file. One that can't be read counts as none: a
// takeover then only comes later.
func openSightings(path string) *sightings {
	o := &sightings{path: path}
	data, err := ReadLimited(path, maxSightings)
	if err != nil || json.Unmarshal(data, &o.seen) != nil || o.seen == nil {
		o.seen = map[string]map[string]lease.Sighting{}
	}
	return o
}

// Of is what was seen in one world.
func (o *sightings) Of(world string) seenInWorld { return seenInWorld{o, world} }

// seenInWorld implements supervisor.Sightings.
type seenInWorld struct {
	all   *sightings
	world string
}

// Load implements supervisor.Sightings.
func (s seenInWorld) Load(ref string) (lease.Sighting, bool) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	obs, ok := s.all.seen[s.world][ref]
	return obs, ok
}

// Save implements supervisor.Sightings. What hasn't changed isn't written.
func (s seenInWorld) Save(obs lease.Sighting) error {
	o := s.all
	o.mu.Lock()
	defer o.mu.Unlock()
	if have, ok := o.seen[s.world][obs.Ref]; ok && have == obs {
		return nil
	}
	if o.seen[s.world] == nil {
		o.seen[s.world] = map[string]lease.Sighting{}
	}
	o.seen[s.world][obs.Ref] = obs
	data, err := json.Marshal(o.seen)
	if err != nil {
		return err
	}
	return ReplaceFile(o.path, append(data, '\n'))
}

// clock reads the wall and the boot clock of this machine.
type clock struct {
	bootID string
	behind time.Duration // of the wall clock
}

// NewClock is the clock of this machine.
func NewClock() clock {
	// Without an id nothing compares, so that nothing is ever taken over.
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return clock{}
	}
	return clock{bootID: strings.TrimSpace(string(id))}
}

// Lag is the clock with a wall clock that is behind.
func (c clock) Lag(behind time.Duration) clock {
	c.behind = behind
	return c
}

// Now implements supervisor.Clock.
func (c clock) Now() lease.Clock {
	var ts unix.Timespec
	now := lease.Clock{WallMs: time.Now().Add(-c.behind).UnixMilli(), BootID: c.bootID}
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		now.BootID = "" // a clock that can't be read proves nothing
		return now
	}
	now.BootMs = ts.Nano() / int64(time.Millisecond)
	return now
}
