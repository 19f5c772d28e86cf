package lease

// Limits and defaults of the arithmetic, in seconds.
const (
	// MaxLeaseSeconds is the longest lease that a claim may ask for, and what
	// foreign leases are capped by unless a [Policy] says otherwise: an hour is
	// how long a writer that nobody knows may keep a state ref.
	MaxLeaseSeconds = 3600
	// DefaultLeaseSeconds is the lease time of a lease that doesn't say one. It
	// survives two lost heartbeats and keeps a dead machine's state ref for two
	// minutes.
	DefaultLeaseSeconds = 120
	// DefaultGraceSeconds covers clocks that differ a little.
	DefaultGraceSeconds = 10
	// DefaultFutureSkewSeconds is how far ahead an honest clock may run.
	DefaultFutureSkewSeconds = 60
	// MaxPolicySeconds bounds every number of a policy: a day.
	MaxPolicySeconds = 86400
)

// Policy is the configuration of the takeover rule.
type Policy struct {
	// GraceSeconds is added to the date rule: 0 to [MaxPolicySeconds].
	GraceSeconds int64
	// DefaultLeaseSeconds is the least lease time of a malformed lease: 1 to
	// MaxLeaseSeconds of this policy.
	DefaultLeaseSeconds int64
	// MaxLeaseSeconds caps the seconds of a lease: up to [MaxPolicySeconds].
	// A value below the constant of this name takes over earlier than the
	// holders expect.
	MaxLeaseSeconds int64
	// FutureSkewSeconds is how far in the future a committer date may lie: 0 to
	// [MaxPolicySeconds].
	FutureSkewSeconds int64
}

// DefaultPolicy returns the documented defaults.
func DefaultPolicy() Policy {
	return Policy{
		GraceSeconds:        DefaultGraceSeconds,
		DefaultLeaseSeconds: DefaultLeaseSeconds,
		MaxLeaseSeconds:     MaxLeaseSeconds,
		FutureSkewSeconds:   DefaultFutureSkewSeconds,
	}
}

// Validate returns an [*Error] with [CodePolicyInvalid] for the first number
// out of its limits.
func (p Policy) Validate() error {
	for _, f := range []struct {
		name          string
		n, least, top int64
	}{
		{"grace_seconds", p.GraceSeconds, 0, MaxPolicySeconds},
		{"max_lease_seconds", p.MaxLeaseSeconds, 1, MaxPolicySeconds},
		{"default_lease_seconds", p.DefaultLeaseSeconds, 1, p.MaxLeaseSeconds},
		{"future_skew_seconds", p.FutureSkewSeconds, 0, MaxPolicySeconds},
	} {
		if f.n < f.least || f.n > f.top {
			return &Error{Code: CodePolicyInvalid, Fault: Fault{FaultOutOfRange, f.name},
				Detail: "a number of the lease policy is out of its limits", Remedy: "see the limits of lease.Policy"}
		}
	}
	return nil
}
