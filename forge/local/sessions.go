package local

import (
	"sync"

	"github.com/writbot/writ/forge"
)

// sessions are the logins to the page. They end with the process.
type sessions struct {
	mu  sync.Mutex
	all map[string]login // by cookie
}

// login is one browser's.
type login struct {
	user forge.User
	csrf string
}

// maxSessions bounds the memory; the oldest isn't known, so all end at once.
const maxSessions = 1000

func (s *sessions) begin(u forge.User) (cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= maxSessions {
		s.all = map[string]login{}
	}
	cookie = randomHex()
	s.all[cookie] = login{u, randomHex()}
	return cookie
}

func (s *sessions) find(cookie string) (login, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.all[cookie]
	return l, ok
}

func (s *sessions) drop(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, cookie)
}

// end ends all logins of an account.
func (s *sessions) end(user int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cookie, l := range s.all {
		if l.user.ID == user {
			delete(s.all, cookie)
		}
	}
}
