package lease

import (
	"slices"
	"strconv"
)

// Claim is what a runner says when it takes a state ref.
type Claim struct {
	OriginState string // the state at HEAD that is claimed
	// RunID is a fresh UUID for every claim. Two claims of the same second are
	// different commits because of it; git would call equal ones "up to date"
	// and let both win.
	RunID    string
	RunnerID string // the host
	// LeaseSeconds is the time to live: 1 to [MaxLeaseSeconds].
	LeaseSeconds int64
	Title        string // [TitleWorking] if empty
	Body         string // the prompt
	Extra        []Trailer
}

// Working writes the message of the lease commit that takes the state ref (seed
// 000, §4). Extra may hold no reserved trailer. What can't be written is an
// [*Error] with [CodeUnwritable].
func Working(c Claim) ([]byte, error) {
	switch {
	case !ValidState(c.OriginState) || c.OriginState == StateWorking:
		return nil, unwritable(FaultInvalid, KeyOriginState, "the claimed state isn't a state that can be claimed", "claim the state at HEAD")
	case !ValidRunID(c.RunID):
		return nil, unwritable(FaultInvalid, KeyRunID, "the run id isn't a canonical UUID", "make a fresh one for each claim")
	case !ValidRunnerID(c.RunnerID):
		return nil, unwritable(FaultInvalid, KeyRunnerID, "the runner id isn't one line of at most 255 bytes", "name the host")
	case c.LeaseSeconds < 1 || c.LeaseSeconds > MaxLeaseSeconds:
		return nil, unwritable(FaultOutOfRange, KeyLeaseSeconds, "the lease isn't of 1 to 3600 seconds", "ask for less; others cap it anyway")
	}
	return formatOwn(c.Title, TitleWorking, c.Body, []Trailer{
		{KeyState, StateWorking},
		{KeyOriginState, c.OriginState},
		{KeyRunID, c.RunID},
		{KeyRunnerID, c.RunnerID},
		{KeyLeaseSeconds, strconv.FormatInt(c.LeaseSeconds, 10)},
	}, c.Extra)
}

// Renewal is what a holder may say in a heartbeat.
type Renewal struct {
	RunID        string    // the run that holds the lease, to be compared
	LeaseSeconds int64     // 0 keeps the claim's
	Title        string    // [TitleWorking] if empty
	Replace      []Trailer // instead of the extra trailers of the same keys
}

// Renew writes the message of a heartbeat (seed 000, §5): the event's run id,
// runner, origin state, prompt and extra trailers, so that HEAD alone says all
// there is to say (A37). If ev isn't a lease of r.RunID the error has
// [CodeLost]: the caller no longer holds the state ref. What can't be written is
// an [*Error] with [CodeUnwritable].
func Renew(ev Event, r Renewal) ([]byte, error) {
	if ev.State != StateWorking || ev.Malformed() || ev.RunID != r.RunID {
		return nil, &Error{Code: CodeLost, Detail: "HEAD isn't a lease of this run", Remedy: "stop the run; the owner at HEAD goes on"}
	}
	c := Claim{OriginState: ev.OriginState, RunID: ev.RunID, RunnerID: ev.RunnerID, LeaseSeconds: ev.LeaseSeconds,
		Title: r.Title, Body: ev.Body}
	if r.LeaseSeconds != 0 {
		c.LeaseSeconds = r.LeaseSeconds
	}
	c.Extra = slices.DeleteFunc(ev.Extra(), func(t Trailer) bool {
		return slices.ContainsFunc(r.Replace, func(n Trailer) bool { return sameKey(n.Key, t.Key) })
	})
	c.Extra = append(c.Extra, r.Replace...)
	return Working(c)
}

// Break is what a runner says when it breaks a lease, or gives up its own.
type Break struct {
	Title string // [TitleStalled] if empty
	// Body is the prompt for the command that `stalled` selects; usually the
	// broken lease's. A foreign one may be too long to be written again; with
	// an empty body and no extra trailers every lease can be broken.
	Body  string
	Extra []Trailer // what the command needs besides, such as the origin state
}

// Stalled writes the message of the commit that ends the lease ev (seed 000,
// §7), whatever its faults. The caller asks [Judge] first, or holds the lease
// itself. An event that isn't a lease is an [*Error] with [CodeLost], what can't
// be written one with [CodeUnwritable].
func Stalled(ev Event, b Break) ([]byte, error) {
	if ev.State != StateWorking {
		return nil, &Error{Code: CodeLost, Detail: "HEAD is no lease", Remedy: "read HEAD again"}
	}
	run := ev.RunID
	if run == "" {
		run = UnknownRun
	}
	return formatOwn(b.Title, TitleStalled, b.Body, []Trailer{{KeyState, StateStalled}, {KeyStalledRun, run}}, b.Extra)
}

// formatOwn writes a message with a reserved state and reads it back.
func formatOwn(title, defaultTitle, body string, own, extra []Trailer) ([]byte, error) {
	for _, t := range extra {
		if Reserved(t.Key) {
			return nil, unwritable(FaultUnexpected, t.Key, "a reserved trailer stands among the extra ones", "give it another name")
		}
	}
	if title == "" {
		title = defaultTitle
	}
	b, err := format(Message{Title: title, Body: body, Trailers: append(own, extra...)})
	if err != nil {
		return nil, err
	}
	// The check after the write: what we push must be a lease to others.
	ev, err := ReadEvent(Head{Message: b, CommitterOK: true})
	if err != nil {
		return nil, err
	}
	if len(ev.Faults) > 0 {
		return nil, &Error{Code: CodeUnwritable, Fault: ev.Faults[0], Detail: "the message doesn't read back as a lease", Remedy: "report this fault"}
	}
	return b, nil
}
