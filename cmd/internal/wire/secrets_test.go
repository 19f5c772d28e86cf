package wire

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/forge/local/localtest"
)

// TestServe_FingerprintOfSecrets: a change of the file, or of a file with a
// secret, is noticed; one of anything else isn't.
func TestServe_FingerprintOfSecrets(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := dir + "/" + name
		must(t, installation.ReplaceFile(path, []byte(text)))
		return path
	}
	file, secret := put("writ.yaml", "one"), put("secret", "one")
	proc := NewProcess(nil, []string{"WRIT_LOCAL_HOOK_SECRET_FILE=" + secret})
	cfg := config.Default()
	before := proc.Fingerprint(file, cfg)
	put("other", "two")
	if proc.Fingerprint(file, cfg) != before {
		t.Error("another file counts")
	}
	put("secret", "two")
	rotated := proc.Fingerprint(file, cfg)
	put("writ.yaml", "two")
	if rotated == before || proc.Fingerprint(file, cfg) == rotated {
		t.Error("a change isn't noticed")
	}
}

// TestF3_KeyLinesAreHidden: each line of a private key is a secret.
func TestF3_KeyLinesAreHidden(t *testing.T) {
	const line = "MIIEpAIBAAKCAQEAsecretsecretsecretsecret"
	file := filepath.Join(t.TempDir(), "app.pem")
	must(t, os.WriteFile(file, []byte("-----BEGIN RSA PRIVATE KEY-----\n"+line+"\n-----END RSA PRIVATE KEY-----\n"), 0o600))
	cfg := config.Default()
	cfg.Forges.GitHub.AppID = 7
	proc := NewProcess(io.Discard, []string{"WRIT_GITHUB_PRIVATE_KEY_FILE=" + file, "WRIT_GITHUB_HOOK_SECRET=" + localtest.Secret})
	given, err := proc.ReadSecrets(cfg)
	must(t, err)
	if !strings.Contains(given.Github.key, line) {
		t.Error("the key was not read")
	}
	if shown := proc.Redactor.String("the key " + line + " and " + localtest.Secret); strings.Contains(shown, line) || strings.Contains(shown, localtest.Secret) {
		t.Errorf("shown is %q", shown)
	}
}

// TestF3_EgressCredentials: without its secret nothing is started, and what was read is
// hidden wherever text is shown.
func TestF3_EgressCredentials(t *testing.T) {
	cfg, err := config.Parse("f", []byte("builders: {default: {argv: [a], egress: [{host: example.org, credential: {secret: REGISTRY, prefix: 'Bearer '}}]}}\n"+
		"checks: {egress: [{host: example.com, credential: {secret: REGISTRY, header: X-Key}}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	const secret = "s3cret-of-the-operator"
	if _, err := NewProcess(io.Discard, nil).Credentials(cfg); err == nil || !strings.Contains(err.Error(), "REGISTRY is not set") {
		t.Errorf("without the secret: %v", err)
	}
	proc := NewProcess(io.Discard, []string{"REGISTRY=" + secret})
	given, err := proc.Credentials(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := proc.Redactor.String("it says " + secret); strings.Contains(got, secret) {
		t.Errorf("shown: %q", got)
	}
	rules := ToBuilder(cfg.Builders["default"], nil, given).Egress
	if len(rules) != 1 || rules[0].Credential == nil || rules[0].Credential.Header != "Authorization" || rules[0].Credential.Value != "Bearer "+secret {
		t.Errorf("rules %+v", rules)
	}
	if names := secretNames(cfg); len(names) != len(secretNames(config.Default()))+1 {
		t.Errorf("a change of its file is noticed by %q", names)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
