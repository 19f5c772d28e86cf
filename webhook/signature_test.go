package webhook_test

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha512"
	_ "embed" // the source of what is tested
	"encoding/hex"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

func TestW1_SignatureMissing(t *testing.T) {
	hook := &spy{Hook: localHook(t), parsed: make(chan struct{}, 1)}
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{hook} })
	got := r.post(encode(t, labeled()), func(req *http.Request) { req.Header.Del(webhook.HeaderSignature) })
	r.wantRefused(got, http.StatusUnauthorized, kernel.CodeSigMissing)
	if len(hook.parsed) != 0 {
		t.Error("the body was parsed")
	}
	// Broken JSON is refused for its signature too: nobody looked into it.
	got = r.post([]byte(`{"action":`), func(req *http.Request) { req.Header.Del(webhook.HeaderSignature) })
	r.wantRefused(got, http.StatusUnauthorized, kernel.CodeSigMissing)
}

func TestW2_OnlySHA256(t *testing.T) {
	body := encode(t, labeled())
	old := hmac.New(sha1.New, []byte(secret))
	old.Write(body)
	sha1Sum := "sha1=" + hex.EncodeToString(old.Sum(nil))
	long := hmac.New(sha512.New, []byte(secret))
	long.Write(body)
	good := sign(secret, body)
	for name, heads := range map[string]map[string]string{
		"the old header alone":        {"X-Hub-Signature": sha1Sum},
		"SHA-1 in the new header":     {webhook.HeaderSignature: sha1Sum},
		"SHA-512 in the new header":   {webhook.HeaderSignature: "sha512=" + hex.EncodeToString(long.Sum(nil))},
		"the right sum, another name": {webhook.HeaderSignature: "sha1=" + strings.TrimPrefix(good, "sha256=")},
		"upper case":                  {webhook.HeaderSignature: "SHA256=" + strings.TrimPrefix(good, "sha256=")},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, nil)
			got := r.post(body, func(req *http.Request) {
				req.Header.Del(webhook.HeaderSignature)
				for k, v := range heads {
					req.Header.Set(k, v)
				}
			})
			r.wantRefused(got, http.StatusUnauthorized, kernel.CodeSigAlgo)
		})
	}
}

func TestW3_EmptySecret(t *testing.T) {
	for name, secrets := range map[string][]string{
		"none": nil, "empty": {""}, "blank": {" \n"}, "one of two": {secret, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := webhook.NewLocalHook(webhook.LocalConfig{Secrets: secrets, World: allowed})
			wantCode(t, err, kernel.CodeSecretEmpty)
			_, err = webhook.NewSignature(secrets)
			wantCode(t, err, kernel.CodeSecretEmpty)
			_, err = webhook.NewToken("X-Token", secrets)
			wantCode(t, err, kernel.CodeSecretEmpty)
			if secrets == nil {
				return
			}
			_, err = webhook.NewLocalHook(webhook.LocalConfig{Secrets: secrets, Unsigned: true, World: allowed})
			wantCode(t, err, kernel.CodeSecretEmpty)
		})
	}
}

func TestW3_UnsignedOnLoopbackOnly(t *testing.T) {
	open, err := webhook.NewLocalHook(webhook.LocalConfig{Unsigned: true, World: allowed})
	if err != nil {
		t.Fatal(err)
	}
	public, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer public.Close()
	r := start(t, func(c *webhook.Config) {
		everywhere := *c
		everywhere.Hooks, everywhere.Listener = []webhook.Hook{open}, public
		_, err := webhook.New(everywhere)
		wantCode(t, err, kernel.CodeSecretEmpty)
		c.Hooks = []webhook.Hook{open}
	})
	got := r.post(encode(t, labeled()), func(req *http.Request) { req.Header.Del(webhook.HeaderSignature) })
	if got.status != http.StatusAccepted {
		t.Errorf("on loopback: %d %s", got.status, got.text)
	}
}

// TestW4_KnownSignature pins the format with the example that GitHub publishes.
func TestW4_KnownSignature(t *testing.T) {
	s, err := webhook.NewSignature([]string{"It's a Secret to Everybody"})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set(webhook.HeaderSignature, "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	if err := s.Verify(h, []byte("Hello, World!")); err != nil {
		t.Error(err)
	}
	wantCode(t, s.Verify(h, []byte("Hello, World")), kernel.CodeSigMismatch)
}

func TestW4_ChangedBytes(t *testing.T) {
	r := start(t, nil)
	body := encode(t, labeled())
	signed := func(req *http.Request) { req.Header.Set(webhook.HeaderSignature, sign(secret, body)) }
	for i := 0; i < len(body); i += 7 {
		flipped := bytes.Clone(body)
		flipped[i] ^= 1
		r.wantRefused(r.post(flipped, signed), http.StatusUnauthorized, kernel.CodeSigMismatch)
	}
	var again any
	if err := json.Unmarshal(body, &again); err != nil {
		t.Fatal(err)
	}
	same, err := json.MarshalIndent(again, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	r.wantRefused(r.post(same, signed), http.StatusUnauthorized, kernel.CodeSigMismatch)
	for name, value := range map[string]string{
		"another secret": sign("other", body), "an empty secret": sign("", body), "no digits": "sha256=", "too short": sign(secret, body)[:70],
		"no name": strings.TrimPrefix(sign(secret, body), "sha256="), "upper case": "sha256=" + strings.ToUpper(sign(secret, body)[7:]),
		"two in one": sign(secret, body) + "," + sign(secret, body),
	} {
		got := r.post(body, func(req *http.Request) { req.Header.Set(webhook.HeaderSignature, value) })
		if got.status != http.StatusUnauthorized || !strings.HasPrefix(got.Code, "webhook.sig.") {
			t.Errorf("%s: %d %s", name, got.status, got.text)
		}
	}
}

func TestW4_DuplicateHeader(t *testing.T) {
	r := start(t, nil)
	body := encode(t, labeled())
	for _, second := range []string{sign(secret, body), sign("other", body), ""} {
		got := r.post(body, func(req *http.Request) { req.Header.Add(webhook.HeaderSignature, second) })
		r.wantRefused(got, http.StatusUnauthorized, kernel.CodeSigMalformed)
	}
}

func TestW4_EncodedOrOfAnotherType(t *testing.T) {
	r := start(t, nil)
	body := encode(t, labeled())
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(body); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	form := []byte("payload=" + string(body))
	for _, c := range []struct {
		name, header, value string
		body                []byte
		code                kernel.Code
	}{
		{"gzip", "Content-Encoding", "gzip", packed.Bytes(), kernel.CodeBodyEncoding},
		{"gzip that is signed as it is unpacked", "Content-Encoding", "gzip", body, kernel.CodeBodyEncoding},
		{"form", "Content-Type", "application/x-www-form-urlencoded", form, kernel.CodeBodyType},
		{"no type", "Content-Type", "", body, kernel.CodeBodyType},
		{"text", "Content-Type", "text/json", body, kernel.CodeBodyType},
		{"another alphabet", "Content-Type", "application/json; charset=utf-16", body, kernel.CodeBodyType},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			got := r.post(c.body, func(req *http.Request) { req.Header.Set(c.header, c.value) })
			r.wantRefused(got, http.StatusUnsupportedMediaType, c.code)
		})
	}
	r.t = t
	got := r.post(body, func(req *http.Request) { req.Header.Set("Content-Type", "application/json; charset=UTF-8") })
	if got.status != http.StatusAccepted {
		t.Errorf("with its charset: %d %s", got.status, got.text)
	}
}

// TestW4_EachSecretIsEnough: while a secret is replaced both hold, afterwards
// the old one doesn't.
func TestW4_EachSecretIsEnough(t *testing.T) {
	body := []byte("{}")
	h := func(key string) http.Header {
		return http.Header{http.CanonicalHeaderKey(webhook.HeaderSignature): {sign(key, body)}}
	}
	both, err := webhook.NewSignature([]string{"old", "new"})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"old", "new"} {
		if err := both.Verify(h(key), body); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	wantCode(t, both.Verify(h("older"), body), kernel.CodeSigMismatch)
	after, err := webhook.NewSignature([]string{"new"})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, after.Verify(h("old"), body), kernel.CodeSigMismatch)
}

//go:embed signature.go
var signatureSource []byte

// TestW4_ConstantTime reads the source, since time can't be tested: what is
// compared with a secret goes through crypto/subtle, and no secret's turn
// depends on the one before.
func TestW4_ConstantTime(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "signature.go", signatureSource, 0)
	if err != nil {
		t.Fatal(err)
	}
	loops := 0
	ast.Inspect(f, func(n ast.Node) bool {
		fn, ok := n.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "Verify" {
			return true
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			loop, ok := n.(*ast.RangeStmt)
			if !ok {
				return true
			}
			loops++
			constant := false
			ast.Inspect(loop.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					constant = constant || n.Sel.Name == "ConstantTimeCompare"
				case *ast.BranchStmt, *ast.ReturnStmt, *ast.IfStmt:
					t.Error("a loop over secrets ends early")
				}
				return true
			})
			if !constant {
				t.Error("a secret is compared without crypto/subtle")
			}
			return true
		})
		return true
	})
	if loops != 2 {
		t.Errorf("found %d loops over secrets, want 2", loops)
	}
}

// tokenHook stands for a forge that sends its secret as it is.
type tokenHook struct {
	webhook.Hook
	token *webhook.Token
}

func (h tokenHook) Verify(head http.Header, _ []byte) error { return h.token.Verify(head) }

func TestW8_Token(t *testing.T) {
	token, err := webhook.NewToken("X-Gitlab-Token", []string{"old-canary-token", secret})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{tokenHook{localHook(t), token}} })
	body := encode(t, labeled())
	try := func(values ...string) reply {
		return r.post(body, func(req *http.Request) { req.Header["X-Gitlab-Token"] = values })
	}
	offByOne := secret[:len(secret)-1] + "X"
	for _, wrong := range []string{offByOne, secret[:len(secret)-1], secret + "x", strings.ToUpper(secret), "", " " + secret + "x"} {
		got := try(wrong)
		r.wantRefused(got, http.StatusUnauthorized, kernel.CodeSigMismatch)
		for _, shown := range []string{got.text, r.log.String()} {
			if strings.Contains(shown, secret) || strings.Contains(shown, offByOne) {
				t.Errorf("a token is shown: %s", shown)
			}
		}
	}
	r.wantRefused(try(), http.StatusUnauthorized, kernel.CodeSigMissing)
	r.wantRefused(try(secret, offByOne), http.StatusUnauthorized, kernel.CodeSigMalformed)
	for _, right := range []string{secret, "old-canary-token"} {
		if got := try(right); got.status != http.StatusAccepted {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
}
