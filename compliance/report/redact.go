package report

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

// MinSecret is the length in bytes from which a secret is looked for. A shorter
// one can't be told from ordinary text, and guards nothing.
const MinSecret = 6

// Redactor takes secrets out of text. It may be used by several goroutines.
type Redactor struct {
	needles []string // longest first
	longest int
}

// NewRedactor knows these secrets as they are and as they look in base64 (at
// any offset, both alphabets), in URLs, in JSON and Go strings, and in hex.
// Secrets of several lines are looked for line by line as well.
func NewRedactor(secrets []string) *Redactor {
	seen := map[string]bool{}
	r := &Redactor{}
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			if len(form) >= MinSecret && !seen[form] {
				seen[form] = true
				r.needles = append(r.needles, form)
				r.longest = max(r.longest, len(form))
			}
		}
	}
	sort.Slice(r.needles, func(i, j int) bool {
		a, b := r.needles[i], r.needles[j]
		return len(a) > len(b) || len(a) == len(b) && a < b
	})
	return r
}

func forms(secret string) []string {
	secret = strings.TrimSpace(secret)
	if len(secret) < MinSecret {
		return nil
	}
	quoted := strconv.Quote(secret)
	out := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), quoted[1 : len(quoted)-1],
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for offset := range 3 {
			out = append(out, base64At(enc, secret, offset))
		}
	}
	for line := range strings.SplitSeq(secret, "\n") {
		// Short lines of a key file are its frame or its padding.
		if line = strings.TrimSpace(line); line != secret && len(line) >= 16 && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
		}
	}
	return out
}

// base64At is the part of an encoding that depends on the secret alone when it
// stands at this offset (modulo 3) of a longer text, as in "user:token".
func base64At(enc *base64.Encoding, secret string, offset int) string {
	text := enc.EncodeToString([]byte(strings.Repeat("\x00", offset) + secret))
	from := []int{0, 2, 3}[offset]
	to := (offset + len(secret)) * 8 / 6
	return text[from:to]
}

// shapes are tokens that are known by their look, whoever's they are. In those
// with a group only what follows the group is taken out. None spans a line end.
var shapes = []lazyregexp.Regexp{
	lazyregexp.New(`\bgh[opusr]_[A-Za-z0-9]{16,255}`),
	lazyregexp.New(`\bgithub_pat_[A-Za-z0-9_]{16,255}`),
	lazyregexp.New(`\bgl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{16,255}`),
	lazyregexp.New(`\bsk-[A-Za-z0-9_-]{16,255}`),
	lazyregexp.New(`\bxox[abeoprs]-[A-Za-z0-9-]{10,255}`),
	lazyregexp.New(`\bA(?:KI|SI)A[A-Z0-9]{16}\b`),
	lazyregexp.New(`\bAIza[A-Za-z0-9_-]{35}`),
	lazyregexp.New(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`),
	lazyregexp.New(`(?i)(\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?)[^\s"'][^\r\n"']*`),
	lazyregexp.New(`(?i)(\b(?:private-token|job-token|x-gitlab-token|x-api-key|set-cookie|cookie)["']?\s*:\s*["']?)[^\s"'][^\r\n"']*`),
	lazyregexp.New(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@"']+@`),
}

const (
	keyBegin = "-----BEGIN "
	keyEnd   = "-----END "
)

// privateKey is a key in PEM; the one shape of several lines.
var privateKey = lazyregexp.New(`(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----)[^-]*(?:-----END [A-Z0-9 ]*PRIVATE KEY-----)?`)

// String returns s without the secrets.
func (r *Redactor) String(s string) string {
	if r != nil {
		for _, n := range r.needles {
			s = strings.ReplaceAll(s, n, Redacted)
		}
	}
	s = privateKey().ReplaceAllString(s, "${1}"+Redacted)
	for _, shape := range shapes {
		s = redactShape(shape, s)
	}
	return s
}

// Holds reports whether bytes have one of the secrets that the redactor knows. What only
// looks like somebody's token isn't one.
func (r *Redactor) Holds(data []byte) bool {
	return r != nil && slices.ContainsFunc(r.needles, func(n string) bool { return bytes.Contains(data, []byte(n)) })
}

func redactShape(shape lazyregexp.Regexp, s string) string {
	if shape().NumSubexp() == 0 {
		return shape().ReplaceAllLiteralString(s, Redacted)
	}
	after := ""
	if strings.HasSuffix(shape().String(), "@") {
		after = "@"
	}
	return shape().ReplaceAllString(s, "${1}"+Redacted+after)
}

// Strings redacts each of a list.
func (r *Redactor) Strings(list []string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = r.String(out[i])
	}
	return out
}
