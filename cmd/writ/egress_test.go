package main

import (
	"io"
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/config"
)

// TestF3_EgressCredentials: without its secret nothing is started, and what was read is
// hidden wherever text is shown.
func TestF3_EgressCredentials(t *testing.T) {
	cfg, err := config.Parse("f", []byte("builders: {default: {argv: [a], egress: [{host: example.org, credential: {secret: REGISTRY, prefix: 'Bearer '}}]}}\n"+
		"checks: {egress: [{host: example.com, credential: {secret: REGISTRY, header: X-Key}}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	const secret = "s3cret-of-the-operator"
	if _, err := newApp(strings.NewReader(""), io.Discard, io.Discard, nil).credentials(cfg); err == nil || !strings.Contains(err.Error(), "REGISTRY is not set") {
		t.Errorf("without the secret: %v", err)
	}
	a := newApp(strings.NewReader(""), io.Discard, io.Discard, []string{"REGISTRY=" + secret})
	given, err := a.credentials(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.redactor.String("it says " + secret); strings.Contains(got, secret) {
		t.Errorf("shown: %q", got)
	}
	rules := toBuilder(cfg.Builders["default"], nil, given).Egress
	if len(rules) != 1 || rules[0].Credential == nil || rules[0].Credential.Header != "Authorization" || rules[0].Credential.Value != "Bearer "+secret {
		t.Errorf("rules %+v", rules)
	}
	if names := secretNames(cfg); len(names) != len(secretNames(config.Default()))+1 {
		t.Errorf("a change of its file is noticed by %q", names)
	}
}
