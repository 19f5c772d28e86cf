package git

import (
	"encoding/base64"
	"regexp"
	"strings"
	"unicode"

	"github.com/writbot/writ/forge/git/internal/process"
)

// maxWords bounds the server's words kept in an Outcome or error, in bytes.
const maxWords = process.MaxWords

const redacted = "[redacted]"

var (
	userinfoForm = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s@]*@`)
	headerForm   = regexp.MustCompile(`(?i)\b(basic|bearer)\s+[A-Za-z0-9._~+/=-]{6,}`)
)

// redactor takes credentials and control characters out of foreign text.
type redactor struct{ secrets []string }

func newRedactor(a Auth) redactor {
	var r redactor
	for _, s := range []string{a.Password, a.Token} {
		if s != "" {
			r.secrets = append(r.secrets, s)
		}
	}
	if a.Password != "" {
		pair := a.Username + ":" + a.Password
		r.secrets = append(r.secrets, base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	return r
}

// clean returns s on few lines, without terminal controls and credentials.
func (r redactor) clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, redacted)
	}
	s = userinfoForm.ReplaceAllString(s, "${1}"+redacted+"@")
	s = headerForm.ReplaceAllString(s, "$1 "+redacted)
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
