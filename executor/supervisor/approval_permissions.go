package supervisor

import (
	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/forge"
)

const (
	// strangerFor is how long it is remembered that an account may not, in
	// milliseconds. Whoever is given the permission meanwhile needs only to act
	// again. What somebody may is never remembered.
	strangerFor = 600_000
	// maxStrangers bounds how many are remembered.
	maxStrangers = 10_000
)

// stranger is an account that may not do what it did.
type stranger struct {
	has    forge.Permission
	latest int64 // its newest act that was seen then
	asked  int64 // Unix milliseconds
}

// recall adds what the forge said a moment ago of accounts that may not, and that
// have done nothing since.
func (s *Supervisor) recall(f *approval.Facts) {
	least, err := forge.ParsePermission(f.Trigger.Permission)
	if err != nil {
		return
	}
	latest, now := approval.Latest(*f), s.now().WallMs
	s.locked(func() {
		for account, at := range latest {
			k, known := s.strangers[account]
			if known && k.has < least && at <= k.latest && now-k.asked < strangerFor {
				f.Permissions[account] = k.has
			}
		}
	})
	f.Remembered = len(f.Permissions)
}

// remember keeps that an account may not.
func (s *Supervisor) remember(f approval.Facts, account int64, has forge.Permission) {
	least, err := forge.ParsePermission(f.Trigger.Permission)
	s.locked(func() {
		delete(s.strangers, account)
		if err != nil || has >= least {
			return
		}
		if len(s.strangers) >= maxStrangers {
			clear(s.strangers)
		}
		s.strangers[account] = stranger{has: has, latest: approval.Latest(f)[account], asked: s.now().WallMs}
	})
}

// heard reports whether a stranger is to be answered, which is once an hour, on
// whatever issue of the repository.
func (s *Supervisor) heard(account, comment int64) (ok bool) {
	const hour = 3_600_000
	now := s.now().WallMs
	s.locked(func() {
		last, known := s.answered[account]
		if ok = !known || last.comment == comment || now-last.at >= hour; !ok || last.comment == comment {
			return
		}
		if len(s.answered) >= maxStrangers {
			clear(s.answered)
		}
		s.answered[account] = lastAnswer{comment: comment, at: now}
	})
	return ok
}

// lastAnswer is the last answer to a stranger.
type lastAnswer struct {
	comment int64
	at      int64 // Unix milliseconds
}
