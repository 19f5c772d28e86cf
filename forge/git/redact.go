package git

import (
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge/git/internal/process"
)

// maxWords bounds the server's words kept in an Outcome or error, in bytes.
const maxWords = process.MaxWords

const redacted = "[redacted]"

var (
	userinfoForm = lazyregexp.New(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s@]*@`)
	headerForm   = lazyregexp.New(`(?i)\b(basic|bearer)\s+[A-Za-z0-9._~+/=-]{6,}`)
)

// maxAsked is how many passwords are remembered to be taken out. One that is
// asked for changes, and an answer may still hold the one before.
const maxAsked = 8

// redactor takes credentials and control characters out of foreign text. Its
// copies share what is learnt later.
type redactor struct {
	secrets []string
	asked   *asked
}

type asked struct {
	mu      sync.Mutex
	secrets [][]string // latest last
}

func newRedactor(a Auth) redactor {
	r := redactor{asked: &asked{}}
	if a.Password != "" {
		r.secrets = forms(a.Username, a.Password)
	}
	if a.Token != "" {
		r.secrets = append(r.secrets, a.Token)
	}
	return r
}

// forms are a password, and how it stands in a header.
func forms(user, password string) []string {
	return []string{password, base64.StdEncoding.EncodeToString([]byte(user + ":" + password))}
}

// learn remembers a password that is about to be sent.
func (r redactor) learn(user, password string) {
	if password == "" {
		return
	}
	r.asked.mu.Lock()
	defer r.asked.mu.Unlock()
	for _, known := range r.asked.secrets {
		if known[0] == password {
			return
		}
	}
	r.asked.secrets = append(r.asked.secrets, forms(user, password))
	if n := len(r.asked.secrets); n > maxAsked {
		r.asked.secrets = r.asked.secrets[n-maxAsked:]
	}
}

func (r redactor) known() []string {
	r.asked.mu.Lock()
	defer r.asked.mu.Unlock()
	return append(slices.Concat(r.asked.secrets...), r.secrets...)
}

// clean returns s on few lines, without terminal controls and credentials.
func (r redactor) clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for _, secret := range r.known() {
		s = strings.ReplaceAll(s, secret, redacted)
	}
	s = userinfoForm().ReplaceAllString(s, "${1}"+redacted+"@")
	s = headerForm().ReplaceAllString(s, "$1 "+redacted)
	s = strings.Map(func(c rune) rune {
		switch {
		case c == '\n':
			return c
		case c == '\r' || c == '\t':
			return ' '
		case unicode.IsControl(c) || unicode.Is(unicode.Cf, c):
			return -1
		}
		return c
	}, s)
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + "…"
	}
	return strings.TrimSpace(s)
}
