package webhook_test

import (
	_ "embed" // the source of what is tested
	"encoding/base64"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

const otherKey = "whsec_b3RoZXItY2FuYXJ5LWtleS1vZi0zMi1ieXRlcy4uLi4="

// TestW9_KnownSignature pins the form with the standard's example.
func TestW9_KnownSignature(t *testing.T) {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	h := heads(webhook.HeaderWebhookID, "msg_p5jXN8AQM9LWM0D4loKWxJek", webhook.HeaderWebhookTimestamp, "1614265330",
		webhook.HeaderWebhookSignature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	hook := gitlabHook(t, func(c *webhook.GitLabConfig) {
		c.Tokens, c.Keys, c.Now = nil, []string{key}, func() time.Time { return time.Unix(1614265330, 0) }
	})
	if err := hook.Verify(h, []byte(`{"test": 2432232314}`)); err != nil {
		t.Error(err)
	}
	wantCode(t, hook.Verify(h, []byte(`{"test": 2432232315}`)), kernel.CodeSigMismatch)
}

// TestW9_Freshness: five minutes either way, to the second.
func TestW9_Freshness(t *testing.T) {
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{signedHook(t, signingKey)} })
	body := jsonOf(t, gitlabIssueHook("update"))
	for _, late := range []time.Duration{5*time.Minute + time.Second, -5*time.Minute - time.Second, 365 * 24 * time.Hour, -noon.Sub(time.Unix(1, 0))} {
		r.wantRefused(r.deliver("gitlab", body, signedHead("Issue Hook", noon.Add(late), body)), http.StatusUnauthorized, kernel.CodeSigStale)
	}
	for _, fine := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		if got := r.deliver("gitlab", body, signedHead("Issue Hook", noon.Add(fine), body)); got.status != http.StatusAccepted {
			t.Errorf("%v: %d %s", fine, got.status, got.text)
		}
	}
}

// TestW9_Reused: the same id again is the same delivery; sent again by GitLab it
// has a new time and makes its task due.
func TestW9_Reused(t *testing.T) {
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{signedHook(t, signingKey)} })
	body := jsonOf(t, gitlabIssueHook("update"))
	head := signedHead("Issue Hook", noon, body)
	id, later := head.Get(webhook.HeaderWebhookID), noon.Add(time.Minute)
	again := head.Clone()
	again.Set(webhook.HeaderWebhookTimestamp, fmt.Sprint(later.Unix()))
	again.Set(webhook.HeaderWebhookSignature, stamp(signingKey, id, later, body))
	for i, h := range []http.Header{head, head.Clone(), again} {
		want := "duplicate"
		if i == 0 {
			want = "accepted"
		}
		if got := r.deliver("gitlab", body, h); got.status != http.StatusAccepted || got.Outcome != want || got.Delivery != id {
			t.Errorf("delivery %d: %d %s", i, got.status, got.text)
		}
	}
	for _, d := range r.inbox.deliveries() {
		if len(d.Event.Keys) != 1 {
			t.Errorf("its task isn't due: %+v", d)
		}
	}
	// Another id under the old signature is no other delivery.
	head.Set(webhook.HeaderWebhookID, "msg_2")
	if got := r.deliver("gitlab", body, head); got.Code != string(kernel.CodeSigMismatch) {
		t.Errorf("%d %s", got.status, got.text)
	}
}

// TestW9_Rotation: of two signatures, and of two keys, one that matches is
// enough; without one of them nothing is.
func TestW9_Rotation(t *testing.T) {
	body := []byte(`{}`)
	id := "msg_1"
	good, other := stamp(signingKey, id, noon, body), stamp(otherKey, id, noon, body)
	unknown := "v1a," + strings.TrimPrefix(good, "v1,")
	for name, c := range map[string]struct {
		hook      *webhook.GitLabHook
		signature string
		code      kernel.Code
	}{
		"the new one of two":                 {signedHook(t, signingKey), other + " " + good, ""},
		"the old one of two":                 {signedHook(t, signingKey), good + " " + other, ""},
		"either key":                         {signedHook(t, otherKey, signingKey), good, ""},
		"beside a version we don't know":     {signedHook(t, signingKey), unknown + " " + good, ""},
		"the old key is gone":                {signedHook(t, otherKey), good, kernel.CodeSigMismatch},
		"neither":                            {signedHook(t, signingKey), other + " " + other, kernel.CodeSigMismatch},
		"a version that we don't know alone": {signedHook(t, signingKey), unknown, kernel.CodeSigAlgo},
		"no version":                         {signedHook(t, signingKey), good[3:], kernel.CodeSigAlgo},
		"not base64":                         {signedHook(t, signingKey), "v1,!", kernel.CodeSigMalformed},
		"too short":                          {signedHook(t, signingKey), "v1,AAAA", kernel.CodeSigMalformed},
		"empty":                              {signedHook(t, signingKey), "", kernel.CodeSigMalformed},
		"nine":                               {signedHook(t, signingKey), strings.Repeat(good+" ", 9), kernel.CodeSigMalformed},
		"longer than any":                    {signedHook(t, signingKey), good + strings.Repeat(" ", 2000), kernel.CodeSigMalformed},
	} {
		h := heads(webhook.HeaderWebhookID, id, webhook.HeaderWebhookTimestamp, fmt.Sprint(noon.Unix()), webhook.HeaderWebhookSignature, c.signature)
		err := c.hook.Verify(h, body)
		if c.code == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.code != "" {
			wantCode(t, err, c.code)
		}
	}
}

// TestW9_NoDowngrade: where a signature belongs, the right token is nothing; and
// a signature that can't be checked isn't passed over for the token beside it.
func TestW9_NoDowngrade(t *testing.T) {
	body := jsonOf(t, gitlabIssueHook("update"))
	byKey := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{signedHook(t, signingKey)} })
	byToken := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{gitlabHook(t, nil)} })
	unsigned := gitlabHead("Issue Hook")
	unsigned.Set(webhook.HeaderWebhookID, "msg_1")
	byKey.wantRefused(byKey.deliver("gitlab", body, unsigned), http.StatusUnauthorized, kernel.CodeSigMissing)
	for _, signature := range []string{stamp(signingKey, "msg_1", noon, body), "v1,AAAA", ""} {
		both := unsigned.Clone()
		both.Set(webhook.HeaderWebhookTimestamp, fmt.Sprint(noon.Unix()))
		both.Set(webhook.HeaderWebhookSignature, signature)
		byToken.wantRefused(byToken.deliver("gitlab", body, both), http.StatusUnauthorized, kernel.CodeSigMismatch)
	}
	twice := signedHead("Issue Hook", noon, body)
	twice.Add(webhook.HeaderWebhookSignature, twice.Get(webhook.HeaderWebhookSignature))
	byKey.wantRefused(byKey.deliver("gitlab", body, twice), http.StatusUnauthorized, kernel.CodeSigMalformed)
}

// TestW9_SignedParts: id, time and body are all signed, each in one reading.
func TestW9_SignedParts(t *testing.T) {
	body := jsonOf(t, gitlabIssueHook("update"))
	hook := signedHook(t, signingKey)
	for name, c := range map[string]struct {
		spoil func(http.Header)
		code  kernel.Code
	}{
		"no id":             {func(h http.Header) { h.Del(webhook.HeaderWebhookID) }, kernel.CodeSigMalformed},
		"two ids":           {func(h http.Header) { h.Add(webhook.HeaderWebhookID, "msg_2") }, kernel.CodeSigMalformed},
		"another id":        {func(h http.Header) { h.Set(webhook.HeaderWebhookID, "msg_2") }, kernel.CodeSigMismatch},
		"no time":           {func(h http.Header) { h.Del(webhook.HeaderWebhookTimestamp) }, kernel.CodeSigMalformed},
		"two times":         {func(h http.Header) { h.Add(webhook.HeaderWebhookTimestamp, "1") }, kernel.CodeSigMalformed},
		"another time":      {func(h http.Header) { h.Set(webhook.HeaderWebhookTimestamp, fmt.Sprint(noon.Unix()+1)) }, kernel.CodeSigMismatch},
		"a time with zeros": {func(h http.Header) { h.Set(webhook.HeaderWebhookTimestamp, "0"+fmt.Sprint(noon.Unix())) }, kernel.CodeSigMalformed},
		"a time with a dot": {func(h http.Header) { h.Set(webhook.HeaderWebhookTimestamp, "1.8e9") }, kernel.CodeSigMalformed},
		"a time far beyond": {func(h http.Header) { h.Set(webhook.HeaderWebhookTimestamp, strings.Repeat("9", 30)) }, kernel.CodeSigMalformed},
	} {
		h := signedHead("Issue Hook", noon, body)
		if err := hook.Verify(h, body); err != nil {
			t.Fatal(err)
		}
		c.spoil(h)
		err := hook.Verify(h, body)
		t.Log(name)
		wantCode(t, err, c.code)
	}
	for i := 0; i < len(body); i += 31 {
		h := signedHead("Issue Hook", noon, body)
		flipped := append([]byte(nil), body...)
		flipped[i] ^= 1
		wantCode(t, hook.Verify(h, flipped), kernel.CodeSigMismatch)
	}
}

// TestW9_KeptProof: what is kept with evidence is what another needs to check it,
// and no key.
func TestW9_KeptProof(t *testing.T) {
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{signedHook(t, signingKey)} })
	body := jsonOf(t, gitlabIssueHook("update"))
	head := signedHead("Issue Hook", noon, body)
	if got := r.deliver("gitlab", body, head); got.status != http.StatusAccepted {
		t.Fatalf("%d %s", got.status, got.text)
	}
	d := r.inbox.deliveries()[0]
	want := head.Get(webhook.HeaderWebhookID) + " " + head.Get(webhook.HeaderWebhookTimestamp) + " " + head.Get(webhook.HeaderWebhookSignature)
	if d.Event.Signature != want || string(d.Body) != string(body) || len(d.Event.Evidence) != 1 {
		t.Errorf("%+v", d)
	}
	if strings.Contains(fmt.Sprintf("%+v%s", d, r.log), signingKey[6:]) {
		t.Error("the key is stored or logged")
	}
}

// TestW9_Keys: what GitLab shows is a key; anything else is refused without
// showing it.
func TestW9_Keys(t *testing.T) {
	bytesOf := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for key, code := range map[string]kernel.Code{
		"whsec_": kernel.CodeSecretEmpty, "  ": kernel.CodeSecretEmpty, bytesOf(23): kernel.CodeConfigInvalid, bytesOf(65): kernel.CodeConfigInvalid,
		signingKey[6:]: kernel.CodeConfigInvalid, "whsec_!": kernel.CodeConfigInvalid, bytesOf(24): "", bytesOf(64): "",
	} {
		_, err := webhook.NewGitLabHook(webhook.GitLabConfig{Keys: []string{key}, World: allowed})
		if code == "" && err != nil {
			t.Errorf("%d bytes: %v", len(key), err)
		}
		if code != "" {
			wantCode(t, err, code)
			if key != "whsec_" && strings.TrimSpace(key) != "" && strings.Contains(err.Error(), key) {
				t.Errorf("the key is shown: %v", err)
			}
		}
	}
}

//go:embed standardwebhooks.go
var standardWebhooksSource []byte

// TestW9_ConstantTime reads the source, as TestW4_ConstantTime: every key meets
// every signature, and only through crypto/subtle.
func TestW9_ConstantTime(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "standardwebhooks.go", standardWebhooksSource, 0)
	if err != nil {
		t.Fatal(err)
	}
	loops := 0
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "Verify" {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if loop, ok := n.(*ast.RangeStmt); ok {
				loops++
				constant := false
				ast.Inspect(loop.Body, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.SelectorExpr:
						constant = constant || n.Sel.Name == "ConstantTimeCompare"
					case *ast.BranchStmt, *ast.ReturnStmt, *ast.IfStmt:
						t.Error("a loop over keys or signatures ends early")
					}
					return true
				})
				if !constant {
					t.Error("a signature is compared without crypto/subtle")
				}
			}
			return true
		})
	}
	if loops != 2 {
		t.Errorf("found %d loops, want 2", loops)
	}
}
