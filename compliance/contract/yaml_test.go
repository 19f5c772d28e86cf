package contract_test

import (
	"testing"

	"github.com/writbot/writ/compliance/contract"
)

// TestLint_BrokenYAML: a contract that isn't YAML is told the line, what the parser
// met, and what is written instead.
func TestLint_BrokenYAML(t *testing.T) {
	for text, want := range map[string]contract.Finding{
		"version: 1\n\tmode: govern\n":        {Line: 2, Detail: "It is not YAML (found a tab character that violates indentation): a tab can't indent; write spaces in its place."},
		"version: 1\n  mode: govern\n":        {Line: 2, Detail: "It is not YAML (mapping values are not allowed in this context): the line is indented further than the one above it, or a value with a colon in it needs quotes."},
		"version: 1\nmode: \"govern\n":        {Line: 2, Detail: "It is not YAML (found unexpected end of stream): a quote or a bracket isn't closed."},
		"version: 1\nbase: @main\n":           {Line: 2, Detail: "It is not YAML (found character that cannot start any token): a value that begins with @, % or ` needs quotes."},
		"defaults: {allowed_files: [*.go]}\n": {Detail: "It is not YAML (did not find expected alphabetic or numeric character): look at the indentation and the brackets here and above."},
		"- version: 1\n":                      {Line: 1, Detail: "It must be a mapping of keys to values."},
	} {
		if got := contract.Lint([]byte(text)); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %+v\nwant %+v", text, got, want)
		}
	}
}
