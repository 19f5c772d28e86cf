package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
)

// The form of Standard Webhooks, which GitLab's signed hooks have.
const (
	keyPrefix = "whsec_"
	// minKey and maxKey bound a key in bytes; GitLab's have 32.
	minKey, maxKey = 24, 64

	versionPrefix = "v1," // HMAC-SHA256, in base64
	// maxSignatures bounds those of one delivery; a rotation has two.
	maxSignatures = 8
	// maxSignatureHeader is room for so many, in bytes.
	maxSignatureHeader = 1 << 10

	// freshness is how far a delivery's time may lie from ours, either way: what
	// the standard proposes.
	freshness = 5 * time.Minute
)

// standardSignature checks deliveries that are signed together with their id and time:
// webhook-signature holds, one beside the other, v1,<base64> of HMAC-SHA256 over
// <webhook-id>.<webhook-timestamp>.<body>. While a key is replaced there are
// several, and one that matches is enough.
type standardSignature struct {
	keys [][]byte
	now  func() time.Time
}

func newStandardSignature(keys []string, now func() time.Time) (*standardSignature, error) {
	s := &standardSignature{now: now}
	if now == nil {
		s.now = time.Now
	}
	for _, text := range keys {
		if strings.TrimSpace(strings.TrimPrefix(text, keyPrefix)) == "" {
			return nil, refuse(kernel.CodeSecretEmpty, "One of several would be enough for a stranger.")
		}
		encoded, ok := strings.CutPrefix(text, keyPrefix)
		key, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if !ok || err != nil || len(key) < minKey || len(key) > maxKey {
			return nil, refuse(kernel.CodeConfigInvalid, "A signing key is whsec_ and base64 of 24 to 64 bytes, as GitLab shows it once.")
		}
		s.keys = append(s.keys, key)
	}
	if len(s.keys) == 0 {
		return nil, refuse(kernel.CodeSecretEmpty, "There is none.")
	}
	return s, nil
}

// Verify returns nil if body was signed under one of the keys, with this id and at about
// this time, and else an [*Error] with one of the webhook.sig codes. All keys are tried
// with all signatures always, and compared in constant time.
func (s *standardSignature) Verify(h http.Header, body []byte) error {
	sums, err := sumsOf(h)
	if err != nil {
		return err
	}
	id, timestamp := one(h, HeaderWebhookID), one(h, HeaderWebhookTimestamp)
	at, ok := parseTimestamp(timestamp)
	if !ok || !deliveryID().MatchString(id) {
		return refuse(kernel.CodeSigMalformed, "webhook-id and webhook-timestamp stand there once each.")
	}
	match := 0
	for _, key := range s.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		want := mac.Sum(nil)
		for _, got := range sums {
			match |= subtle.ConstantTimeCompare(want, got)
		}
	}
	if match != 1 {
		return refuse(kernel.CodeSigMismatch, "")
	}
	if age := s.now().Sub(at); age > freshness || age < -freshness {
		return refuse(kernel.CodeSigStale, "")
	}
	return nil
}

// proof is what a holder of the key needs to check a kept body again.
func (s *standardSignature) proof(h http.Header) string {
	return one(h, HeaderWebhookID) + " " + one(h, HeaderWebhookTimestamp) + " " + one(h, HeaderWebhookSignature)
}

// timestampForm is that of a time: seconds since 1970, as a number is written.
var timestampForm = lazyregexp.New(`^[1-9][0-9]{0,10}$`)

func parseTimestamp(s string) (time.Time, bool) {
	if !timestampForm().MatchString(s) {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return time.Unix(n, 0), err == nil
}

// sumsOf reads the signatures of the one version that is known. Those of other
// versions are left out, and no version is believed for its being there.
func sumsOf(h http.Header) ([][]byte, error) {
	values := h.Values(HeaderWebhookSignature)
	switch {
	case len(values) == 0:
		return nil, refuse(kernel.CodeSigMissing, "")
	case len(values) > 1 || len(values[0]) > maxSignatureHeader:
		return nil, refuse(kernel.CodeSigMalformed, "There are several headers, or too many signatures.")
	}
	list := strings.Fields(values[0])
	if len(list) == 0 || len(list) > maxSignatures {
		return nil, refuse(kernel.CodeSigMalformed, "There is no signature, or there are too many.")
	}
	var sums [][]byte
	for _, text := range list {
		encoded, ok := strings.CutPrefix(text, versionPrefix)
		if !ok {
			continue
		}
		sum, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || len(sum) != sha256.Size {
			return nil, refuse(kernel.CodeSigMalformed, "")
		}
		sums = append(sums, sum)
	}
	if len(sums) == 0 {
		return nil, refuse(kernel.CodeSigAlgo, "")
	}
	return sums, nil
}
