package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/writbot/writ/kernel"
)

// HeaderSignature is where a signature stands.
const HeaderSignature = "X-Hub-Signature-256"

const (
	headerSHA1 = "X-Hub-Signature" // the older header; never enough
	algorithm  = "sha256"
)

// bodySignature checks HMAC-SHA256 over the raw body, as GitHub and the embedded
// forge sign: X-Hub-Signature-256: sha256=<64 lower-case hexadecimal digits>.
type bodySignature struct{ secrets [][]byte }

// newBodySignature knows these secrets, of which each is enough: while a secret is
// being replaced, the old and the new one. None, or one that is empty or blank,
// is config.secret.empty: an HMAC under an empty key can be made by anybody.
func newBodySignature(secrets []string) (*bodySignature, error) {
	known, err := usable(secrets)
	if err != nil {
		return nil, err
	}
	return &bodySignature{secrets: known}, nil
}

func usable(secrets []string) ([][]byte, error) {
	if len(secrets) == 0 {
		return nil, refuse(kernel.CodeSecretEmpty, "There is none.")
	}
	known := make([][]byte, 0, len(secrets))
	for _, s := range secrets {
		if strings.TrimSpace(s) == "" {
			return nil, refuse(kernel.CodeSecretEmpty, "One of several would be enough for a stranger.")
		}
		known = append(known, []byte(s))
	}
	return known, nil
}

// Verify returns nil if body was signed with one of the secrets, and else an [*Error]
// with one of the webhook.sig codes. All secrets are tried always, and compared in
// constant time.
func (s *bodySignature) Verify(h http.Header, body []byte) error {
	got, err := signature(h)
	if err != nil {
		return err
	}
	match := 0
	for _, secret := range s.secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		match |= subtle.ConstantTimeCompare(mac.Sum(nil), got)
	}
	if match != 1 {
		return refuse(kernel.CodeSigMismatch, "")
	}
	return nil
}

// signature reads the one header. A second one is refused whatever it holds:
// which of them counts would be a stranger's choice.
func signature(h http.Header) ([]byte, error) {
	values := h.Values(HeaderSignature)
	switch {
	case len(values) == 0 && len(h.Values(headerSHA1)) > 0:
		return nil, refuse(kernel.CodeSigAlgo, "")
	case len(values) == 0:
		return nil, refuse(kernel.CodeSigMissing, "")
	case len(values) > 1:
		return nil, refuse(kernel.CodeSigMalformed, "There are several.")
	}
	name, digits, ok := strings.Cut(values[0], "=")
	if ok && name != algorithm {
		return nil, refuse(kernel.CodeSigAlgo, "")
	}
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size || digits != strings.ToLower(digits) {
		return nil, refuse(kernel.CodeSigMalformed, "")
	}
	return sum, nil
}

// secretToken checks a secret that is sent as it is, as GitLab's X-Gitlab-Token is.
type secretToken struct {
	header string
	hashes [][sha256.Size]byte
}

// newSecretToken knows the header and the secrets, of which each is enough. Empty
// ones are refused as by [newBodySignature].
func newSecretToken(header string, secrets []string) (*secretToken, error) {
	known, err := usable(secrets)
	if err != nil {
		return nil, err
	}
	t := &secretToken{header: header}
	for _, s := range known {
		t.hashes = append(t.hashes, sha256.Sum256(s))
	}
	return t, nil
}

// Verify returns nil if the header holds one of the secrets, and else an [*Error] with
// one of the webhook.sig codes. Hashes are compared, so that the time tells neither how
// much is right nor how long the secret is.
func (t *secretToken) Verify(h http.Header) error {
	values := h.Values(t.header)
	switch {
	case len(values) == 0:
		return refuse(kernel.CodeSigMissing, "")
	case len(values) > 1:
		return refuse(kernel.CodeSigMalformed, "There are several.")
	}
	got := sha256.Sum256([]byte(values[0]))
	match := 0
	for _, want := range t.hashes {
		match |= subtle.ConstantTimeCompare(want[:], got[:])
	}
	if match != 1 {
		return refuse(kernel.CodeSigMismatch, "")
	}
	return nil
}
