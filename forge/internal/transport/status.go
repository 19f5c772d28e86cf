package transport

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
)

// Limits on what is kept of a refusal, in bytes: Body is for programs, the words
// for people.
const (
	maxKeptBody = 64 << 10
	maxWords    = 300
)

// StatusError is an answer other than 2xx.
type StatusError struct {
	Status int
	// Words are what the forge says, on one line, without credentials.
	Words string
	// Body is the beginning of the answer, without credentials.
	Body []byte
}

func (e *StatusError) Error() string {
	if e.Words == "" {
		return fmt.Sprintf("the forge answers %d", e.Status)
	}
	return fmt.Sprintf("the forge answers %d: %s", e.Status, e.Words)
}

func statusError(res *http.Response, body []byte, clean cleaner) *StatusError {
	kept := clean.secrets(string(body[:min(len(body), maxKeptBody)]))
	return &StatusError{Status: res.StatusCode, Words: words(kept, res, clean), Body: []byte(kept)}
}

// words finds the sentence in an answer: forges put it in one of three members.
func words(body string, res *http.Response, clean cleaner) string {
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return "it has moved; the redirect was not followed"
	}
	var said struct {
		Message          any `json:"message"`
		Error            any `json:"error"`
		ErrorDescription any `json:"error_description"`
	}
	if json.Unmarshal([]byte(body), &said) != nil {
		return ""
	}
	for _, s := range []any{said.ErrorDescription, said.Message, said.Error} {
		switch s := s.(type) {
		case nil:
		case string:
			return clean.text(s)
		default:
			if b, err := json.Marshal(s); err == nil {
				return clean.text(string(b))
			}
		}
	}
	return ""
}

// cleaner takes credentials out of foreign text.
type cleaner struct{ known []string }

const redacted = "[redacted]"

// minSecret is in bytes: shorter ones would take ordinary words out.
const minSecret = 6

// newCleaner knows the credentials of one request, and the proxy's.
func newCleaner(req *http.Request, proxy string) cleaner {
	var c cleaner
	add := func(s string) {
		if len(s) >= minSecret {
			c.known = append(c.known, s)
		}
	}
	for _, name := range []string{"Authorization", "Private-Token", "Job-Token", "Proxy-Authorization"} {
		for _, v := range req.Header.Values(name) {
			_, value, found := strings.Cut(v, " ")
			if !found {
				value = v
			}
			add(value)
			if pair, err := base64.StdEncoding.DecodeString(value); err == nil {
				_, password, _ := strings.Cut(string(pair), ":")
				add(password)
			}
		}
	}
	if u, err := url.Parse(proxy); err == nil && u.User != nil {
		password, _ := u.User.Password()
		add(password)
		add(url.QueryEscape(password))
	}
	return c
}

func (c cleaner) secrets(s string) string {
	for _, k := range c.known {
		s = strings.ReplaceAll(s, k, redacted)
	}
	return s
}

// text is one short line.
func (c cleaner) text(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, c.secrets(strings.ToValidUTF8(s, "\uFFFD")))
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + "…"
	}
	return strings.TrimSpace(s)
}

// error is err with a clean text.
func (c cleaner) error(err error) error {
	return &cleanError{c.text(err.Error()), err}
}

type cleanError struct {
	text  string
	cause error
}

func (e *cleanError) Error() string { return e.text }

// Is lets a cause be recognised and never be printed.
func (e *cleanError) Is(target error) bool { return errors.Is(e.cause, target) }
