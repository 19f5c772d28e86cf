package kerneltest

import (
	"strconv"

	"github.com/writbot/writ/kernel/lease"
)

// Start is the true time at which a simulation begins, Unix milliseconds.
const Start = int64(1_800_000_000_000)

// Time is the true time, which no runner knows.
type Time struct{ ms int64 }

// NewTime begins at [Start].
func NewTime() *Time { return &Time{Start} }

// Now is the true time in Unix milliseconds.
func (t *Time) Now() int64 { return t.ms }

// Advance lets time pass.
func (t *Time) Advance(ms int64) { t.ms += ms }

// Clock is one machine's two clocks: a wall clock that may be wrong and jump,
// and a boot clock that counts suspend and never goes back.
type Clock struct {
	time   *Time
	skewMs int64
	booted int64 // true time of the last boot
	boots  int
}

// NewClock is a machine that boots now, its wall clock off by skew.
func NewClock(t *Time, skewMs int64) *Clock {
	return &Clock{time: t, skewMs: skewMs, booted: t.Now(), boots: 1}
}

// Now reads both clocks.
func (c *Clock) Now() lease.Clock {
	return lease.Clock{
		WallMs: c.time.Now() + c.skewMs, BootMs: c.time.Now() - c.booted + 1000, BootID: "boot-" + strconv.Itoa(c.boots),
	}
}

// Jump moves the wall clock.
func (c *Clock) Jump(ms int64) { c.skewMs += ms }

// Advance moves both clocks ahead of the truth.
func (c *Clock) Advance(ms int64) { c.skewMs, c.booted = c.skewMs+ms, c.booted-ms }

// Reboot starts the boot clock anew.
func (c *Clock) Reboot() { c.boots, c.booted = c.boots+1, c.time.Now() }
