package lease

// DefaultMarginSeconds is the time between a holder's renew deadline and the end
// of its lease: enough to kill a process tree on a busy machine.
const DefaultMarginSeconds = 15

// renewParts is how many heartbeats fit into one lease: two may be lost.
const renewParts = 3

// Deadlines are a holder's own after one renewal of its lease, on the boot clock,
// which counts suspend: a machine that slept past its lease finds them behind it
// on waking (case L16). They don't cover a virtual machine that is frozen with its
// clocks; there the compare-and-swap of the result is what keeps a stale holder
// harmless.
type Deadlines struct {
	BootID        string
	RenewedBootMs int64
	RenewBootMs   int64 // when the next heartbeat is due
	// RenewDeadlineBootMs is when a holder that could not renew must have killed
	// its executor. Records call it the fence.
	RenewDeadlineBootMs int64
}

// NewDeadlines makes the deadlines of a lease. renewed is the clock as it was read
// *before* the commit was made that won the last push: others count from there
// at the earliest. A heartbeat is due after a third of the lease; the renew
// deadline is at lease time less margin. With a margin of the whole lease or more
// it has passed at once. A lease beyond [MaxLeaseSeconds] is counted as that,
// because others cap it there.
func NewDeadlines(renewed Clock, leaseSeconds, marginSeconds int64) Deadlines {
	lease := min(max(leaseSeconds, 0), MaxLeaseSeconds)
	margin := min(max(marginSeconds, 0), lease)
	deadline := addCapped(renewed.BootMs, (lease-margin)*msPerSecond)
	return Deadlines{
		BootID:              renewed.BootID,
		RenewedBootMs:       renewed.BootMs,
		RenewBootMs:         min(deadline, addCapped(renewed.BootMs, lease*msPerSecond/renewParts)),
		RenewDeadlineBootMs: deadline,
	}
}

// RenewDue reports that a heartbeat is due.
func (d Deadlines) RenewDue(now Clock) bool { return !d.covers(now) || now.BootMs >= d.RenewBootMs }

// Overdue reports that the renew deadline has passed: the executor must be killed and
// nothing pushed. A clock of another boot, or one that went back, proves nothing: the
// deadline counts as passed.
func (d Deadlines) Overdue(now Clock) bool {
	return !d.covers(now) || now.BootMs >= d.RenewDeadlineBootMs
}

// covers reports whether now can be compared with these deadlines.
func (d Deadlines) covers(now Clock) bool {
	return d.BootID != "" && d.BootID == now.BootID && now.BootMs >= d.RenewedBootMs
}
