package doctor

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

const (
	good      = "0123456789abcdef0123456789abcdef"
	alsoGood  = "fedcba9876543210fedcba9876543210"
	goodToken = "glpat-00000000000000000001"
)

func keyOf(t *testing.T, bits int) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// TestSecrets_EachFault: each weakness of a secret is seen, named with the key of
// the configuration, and no value is ever part of what is said.
func TestSecrets_EachFault(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0") // so that a short key can be made
	pemText, short := keyOf(t, 2048), keyOf(t, 1024)
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		must(t, os.Chmod(path, mode))
		return path
	}
	for name, c := range map[string]struct {
		set            map[string]string // over what is good
		subject        string
		status         Status
		detail, remedy string
	}{
		"nothing":                {nil, "HOOK", OK, "It is set", ""},
		"missing":                {map[string]string{"HOOK": ""}, "HOOK", Failed, "is not set", "HOOK_FILE"},
		"short":                  {map[string]string{"HOOK": "too-short-1"}, "HOOK", Failed, "shorter than 32", "openssl rand"},
		"of one letter":          {map[string]string{"HOOK": strings.Repeat("ab", 20)}, "HOOK", Failed, "repeats", "openssl rand"},
		"the token again":        {map[string]string{"HOOK": good, "TOKEN": good}, "TOKEN", Failed, "same as HOOK", "of its own"},
		"no key at all":          {map[string]string{"KEY": "not a key"}, "KEY", Failed, "no PEM file", "Private keys"},
		"a short key":            {map[string]string{"KEY": short}, "KEY", Failed, "1024 bits", "Private keys"},
		"no signing key":         {map[string]string{"SIGN": "whsec_short"}, "SIGN", Failed, "whsec_", "rand -base64 32"},
		"file":                   {map[string]string{"HOOK": "", "HOOK_FILE": file("a", good, 0o600)}, "HOOK", OK, "only its owner", ""},
		"file of a group":        {map[string]string{"HOOK": "", "HOOK_FILE": file("b", good, 0o440)}, "HOOK", Warning, "A group may read", "chmod 600"},
		"file of all":            {map[string]string{"HOOK": "", "HOOK_FILE": file("c", good, 0o644)}, "HOOK", Failed, "Everybody", "chmod 600"},
		"file that others write": {map[string]string{"HOOK": "", "HOOK_FILE": file("d", good, 0o622)}, "HOOK", Failed, "Others may write", "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"HOOK": good, "KEY": pemText, "TOKEN": goodToken, "SIGN": gitlabtest.SigningToken("word")}
			for k, v := range c.set {
				env[k] = v
			}
			cfg := config.Default()
			cfg.Forges.GitHub.AppID, cfg.Forges.GitHub.PrivateKey, cfg.Forges.GitHub.HookSecrets = 1, "KEY", []string{"HOOK"}
			cfg.Forges.GitLab.Token, cfg.Forges.GitLab.HookSecrets, cfg.Forges.GitLab.HookKeys = "TOKEN", nil, []string{"SIGN"}
			cfg.Forges.GitLab.Repositories = []string{"a/b"}
			all := Secrets(cfg, func(name string) string { return env[name] }, nil)
			i := slices.IndexFunc(all, func(one Check) bool { return one.Subject == c.subject })
			wants(t, all[i:i+1], NameSecrets, c.status, c.detail, c.remedy)
			for _, check := range all {
				if check.Subject != c.subject && check.Status != OK {
					t.Errorf("%s is %s as well: %s", check.Subject, check.Status, check.Detail)
				}
				for _, value := range env {
					if value != "" && !strings.HasPrefix(value, dir) && (strings.Contains(check.Detail, value) || strings.Contains(check.Remedy, value)) {
						t.Errorf("a secret is in %s: %s", check.Subject, check.Detail)
					}
				}
			}
		})
	}
}

// TestSecrets_Poll: without webhooks nothing that signs them is asked for.
func TestSecrets_Poll(t *testing.T) {
	cfg := config.Default()
	cfg.Forges.Local.Dir, cfg.Forges.Local.Token, cfg.Forges.Local.HookSecrets = "/x", "TOKEN", []string{"HOOK"}
	cfg.Server.Intake = config.IntakePoll
	env := map[string]string{"TOKEN": goodToken}
	all := Secrets(cfg, func(name string) string { return env[name] }, nil)
	if len(all) != 1 || all[0].Subject != "TOKEN" || all[0].Status != OK {
		t.Errorf("checked are %v", all)
	}
	if got := SecretValues(cfg, func(name string) string { return env[name] }); !slices.Equal(got, []string{goodToken}) {
		t.Error("the values to be hidden are others")
	}
}
