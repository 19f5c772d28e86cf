package config

import (
	"errors"
	"testing"
)

// TestParse_ProviderBadRow: a wrong row is one fault. The credential has its api, so that the
// reader isn't told to give one.
func TestParse_ProviderBadRow(t *testing.T) {
	_, err := Parse("f", []byte("builders: {a: {argv: [a], egress: [{host: api.anthropic.com, credential: {secret: X, api: anthropic, allow: [mcp_servers]}}]}}\n"))
	var e *Error
	if !errors.As(err, &e) || len(e.Faults) != 1 || e.Faults[0].Key != "builders.a.egress.0.credential.allow" {
		t.Errorf("got %v, want one fault, of the row", err)
	}
}
