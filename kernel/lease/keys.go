package lease

// The reserved trailers of seed 000, §1, §4 and §7, in the order in which they
// are written.
const (
	KeyState        = "aynig-state"
	KeyOriginState  = "aynig-origin-state"
	KeyRunID        = "aynig-run-id"
	KeyRunnerID     = "aynig-runner-id"
	KeyLeaseSeconds = "aynig-lease-seconds"
	KeyStalledRun   = "aynig-stalled-run"
)

// The two reserved states, which this package alone writes. `working` is the only
// one that it gives a meaning (A12).
const (
	StateWorking = "working"
	StateStalled = "stalled"
)

// UnknownRun stands for the run id of a broken lease that had no readable one.
const UnknownRun = "unknown"

// Titles of the commits made here. They are for people; nothing parses them.
const (
	TitleWorking = "writ: working"
	TitleStalled = "writ: stalled"
)

// Reserved reports whether key is a reserved one, in any case, since git
// looks keys up without regard to it. Other `aynig-` keys are conventions of
// the layers above and pass through like any unknown trailer.
func Reserved(key string) bool {
	for _, k := range []string{KeyState, KeyOriginState, KeyRunID, KeyRunnerID, KeyLeaseSeconds, KeyStalledRun} {
		if sameKey(k, key) {
			return true
		}
	}
	return false
}

const (
	// MaxStateBytes bounds the name of a state, which becomes a file name.
	MaxStateBytes = 128
	// MaxRunnerIDBytes is the longest host name of DNS.
	MaxRunnerIDBytes = 255
)

// ValidState reports whether s can be the value of `aynig-state`: words of
// lower-case letters, digits, `_` and `-`, joined by single slashes. Values are
// compared exactly; git trims them, nothing else changes them.
func ValidState(s string) bool {
	if len(s) > MaxStateBytes {
		return false
	}
	word := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-':
			word++
		case c == '/' && word > 0:
			word = 0
		default:
			return false
		}
	}
	return word > 0
}

// ValidRunID reports whether s is a UUID in its canonical form: lower-case
// hexadecimal digits, 8-4-4-4-12, and not the nil UUID, which is nobody's.
// The run id is the nonce that makes two lease commits of one second differ.
func ValidRunID(s string) bool {
	if len(s) != 36 {
		return false
	}
	nonzero := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		if hyphen != (c == '-') {
			return false
		}
		if !hyphen && !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
		nonzero = nonzero || (!hyphen && c != '0')
	}
	return nonzero
}

// ValidRunnerID reports whether s can name a host: one line of text.
func ValidRunnerID(s string) bool { return len(s) <= MaxRunnerIDBytes && validLine(s) }
