package wire

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/writbot/writ/compliance/report"
)

// redactor takes secrets out of text. More can be given to it at any time, by any
// goroutine; what was hidden once stays hidden.
type redactor struct {
	mu      sync.Mutex
	secrets []string
	looks   atomic.Pointer[report.Redactor]
}

func (s *redactor) add(secrets []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range secrets {
		if !slices.Contains(s.secrets, one) {
			s.secrets = append(s.secrets, one)
		}
	}
	s.looks.Store(report.NewRedactor(s.secrets))
}

// String is a text without the secrets.
func (s *redactor) String(text string) string { return s.Now().String(text) }

// Now is the redactor of this moment.
func (s *redactor) Now() *report.Redactor { return s.looks.Load() }

// Holds reports whether a file has one of the secrets in it.
func (s *redactor) Holds(data []byte) bool { return s.Now().Holds(data) }
