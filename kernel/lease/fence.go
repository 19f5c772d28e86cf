package lease

// DefaultMarginSeconds is the time between a holder's own deadline and the end
// of its lease: enough to kill a process tree on a busy machine.
const DefaultMarginSeconds = 15

// renewParts is how many heartbeats fit into one lease: two may be lost.
const renewParts = 3

// Tenure is a holder's own timetable for one renewal of its lease, on the boot
// clock, which counts suspend: a machine that slept past its lease finds the
// deadline behind it on waking (case L16). It doesn't cover a virtual machine
// that is frozen with its clocks; there the compare-and-swap of the result is
// what keeps a stale holder harmless.
type Tenure struct {
	BootID        string `json:"boot_id"`
	RenewedBootMs int64  `json:"renewed_boot_ms"`
	RenewBootMs   int64  `json:"renew_boot_ms"` // when the next heartbeat is due
	// FenceBootMs is when the executor must be dead.
	FenceBootMs int64 `json:"fence_boot_ms"`
}

// Fence computes the timetable of a lease. renewed is the clock as it was read
// *before* the commit was made that won the last push: others count from there
// at the earliest. A heartbeat is due after a third of the lease; at lease time
// less margin a holder that couldn't renew must have killed its executor (T4).
// A margin of the whole lease or more fences at once, and a lease beyond
// [MaxLeaseSeconds] is counted as that, because others cap it there.
func Fence(renewed Clock, leaseSeconds, marginSeconds int64) Tenure {
	lease := min(max(leaseSeconds, 0), MaxLeaseSeconds)
	margin := min(max(marginSeconds, 0), lease)
	fence := addCapped(renewed.BootMs, (lease-margin)*msPerSecond)
	return Tenure{
		BootID:        renewed.BootID,
		RenewedBootMs: renewed.BootMs,
		RenewBootMs:   min(fence, addCapped(renewed.BootMs, lease*msPerSecond/renewParts)),
		FenceBootMs:   fence,
	}
}

// RenewDue reports that a heartbeat is due.
func (t Tenure) RenewDue(now Clock) bool { return !t.covers(now) || now.BootMs >= t.RenewBootMs }

// MustFence reports that the executor must be killed and nothing pushed. A
// clock of another boot, or one that went back, proves nothing: it fences.
func (t Tenure) MustFence(now Clock) bool { return !t.covers(now) || now.BootMs >= t.FenceBootMs }

// covers reports whether now can be compared with this timetable.
func (t Tenure) covers(now Clock) bool {
	return t.BootID != "" && t.BootID == now.BootID && now.BootMs >= t.RenewedBootMs
}
