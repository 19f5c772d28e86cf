package github

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"go.uber.org/goleak"

	api "github.com/google/go-github/v60/github"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git/gittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(gittest.InMemory(m)) }

func TestConfig_Addresses(t *testing.T) {
	for _, c := range []struct{ url, api, rest, graphql string }{
		{"", "", "https://api.github.com/", "https://api.github.com/graphql"},
		{"https://github.com/", "", "https://api.github.com/", "https://api.github.com/graphql"},
		{"https://acme.ghe.com", "", "https://api.acme.ghe.com/", "https://api.acme.ghe.com/graphql"},
		{"https://ghe.example", "", "https://ghe.example/api/v3/", "https://ghe.example/api/graphql"},
		{"https://ghe.example/git", "", "https://ghe.example/git/api/v3/", "https://ghe.example/git/api/graphql"},
		{"https://ghe.example", "https://api.ghe.example/api/v3", "https://api.ghe.example/api/v3/", "https://api.ghe.example/api/graphql"},
	} {
		a, err := Config{URL: c.url, API: c.api}.addresses()
		if err != nil || a.rest.String() != c.rest || a.graphql.String() != c.graphql {
			t.Errorf("%q, %q: %v, %v, %v", c.url, c.api, a.rest, a.graphql, err)
		}
	}
}

func pemKey(t *testing.T, bits int, pkcs8 bool) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if pkcs8 {
		block.Type = "PRIVATE KEY"
		if block.Bytes, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
			t.Fatal(err)
		}
	}
	return pem.EncodeToMemory(block)
}

// TestConfig_Refused: what can't work is said at the start, without the secret.
func TestConfig_Refused(t *testing.T) {
	const canary = "canary-of-the-configuration"
	key := pemKey(t, 2048, false)
	for name, c := range map[string]Config{
		"nobody":         {},
		"both":           {App: App{ID: 1, Key: key}, Token: canary},
		"no id":          {App: App{Key: key}},
		"no key":         {App: App{ID: 1}},
		"no PEM":         {App: App{ID: 1, Key: []byte(canary)}},
		"no RSA":         {App: App{ID: 1, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte(canary)})}},
		"a short key":    {App: App{ID: 1, Key: pemKey(t, 1024, false)}},
		"a broken token": {Token: canary + "\n"},
		"plain HTTP":     {Token: canary, URL: "http://ghe.example"},
		"plain HTTP API": {Token: canary, API: "http://ghe.example/api/v3"},
		"userinfo":       {Token: "t", URL: "https://u:" + canary + "@ghe.example"},
		"authority":      {Token: canary, CAFile: "/nonexistent"},
	} {
		if _, err := New(t.Context(), c); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []Config{{App: App{ID: 1, Key: key}}, {App: App{ID: 1, Key: pemKey(t, 2048, true)}}, {Token: canary}} {
		h, err := New(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if warned := len(h.Warnings()) > 0; warned != (c.Token != "") {
			t.Errorf("warnings %q", h.Warnings())
		}
		h.Close()
	}
}

// TestI4_KindsOfAccounts: only what GitHub calls a user is a person.
func TestI4_KindsOfAccounts(t *testing.T) {
	for _, c := range []struct {
		login, kind string
		want        forge.Kind
	}{
		{"ana", "User", forge.Person}, {"myapp", "User", forge.Person}, {"myapp[bot]", "Bot", forge.Bot}, {"myapp[bot]", "User", forge.Bot},
		{"acme", "Organization", forge.Bot}, //nolint:misspell // GitHub's own word
		{"imported", "Mannequin", forge.Bot}, {"unknown", "", forge.Bot},
	} {
		if got := mustUser(t, &api.User{Login: &c.login, Type: &c.kind, ID: api.Int64(7)}); got.Kind != c.want || got.ID != 7 {
			t.Errorf("%s, a %q, is %+v", c.login, c.kind, got)
		}
	}
	if got := mustUser(t, nil); got.Kind == forge.Person || got.ID != 0 {
		t.Errorf("nobody is %+v", got)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct{ in, want string }{{"short", "short"}, {"0123456789", "0123456789"}, {"0123456789a", "0123456…"}, {"01234日本語", "01234…"}} {
		if got := cut(c.in, 10); got != c.want || len(got) > 10 {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func mustUser(t *testing.T, u *api.User) forge.User {
	t.Helper()
	out, err := user(u)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
