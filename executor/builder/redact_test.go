package builder

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/writbot/writ/executor"
)

func TestP9_NothingKeptHasTheSecret(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-token"
	b := newBed(t, func(c *Config) {
		c.Redact = func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") }
	})
	s := script(`echo '// changed' >> calc/add.go
echo "$TOKEN"; echo "err $TOKEN" >&2; mkdir build; echo x > "build/$TOKEN"; echo x > "$TOKEN.log"; echo x > "$TOKEN"
printf '{"status":"success","changed_files":["%s"],"commit_hash":"%s","tests_passed":true,"logs":"%s","timestamp":"2026-01-31T08:00:00Z"}' "$TOKEN" "$TOKEN" "$TOKEN" > "$WRIT_RESULT"
exit 3`)
	s.Argv = append(s.Argv, "--key="+secret)
	s.Env = map[string]string{"TOKEN": secret}
	o := b.build(b.job(s))
	if codes(o) == "" || len(o.Violations) == 0 {
		t.Fatal("there is nothing to redact")
	}
	o.Contents = nil // keyed by hashes
	all, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(all), secret) {
		t.Errorf("kept:\n%s", all)
	}
	if strings.Contains(b.lines.all(), secret) || !strings.Contains(b.lines.all(), "[redacted]") {
		t.Errorf("shown:\n%s", b.lines.all())
	}
	c := b.check(executor.BuildOutcome{}, shCheck("loud", "echo "+secret+"; exit 1"))
	if all, err = json.Marshal(c); err != nil || strings.Contains(string(all), secret) {
		t.Errorf("kept of a check: %s, %v", all, err)
	}
}

// TestP9_SecretAtACut has a secret where the capture cuts its stream.
func TestP9_SecretAtACut(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("S", 300)
	b := newBed(t, func(c *Config) {
		// The redaction shortens, so that more of what was before the cut shows.
		c.Redact = func(s string) string { return strings.ReplaceAll(s, secret, "") }
	})
	s := script(`echo '// changed' >> calc/add.go
i=0; while [ $i -lt 400 ]; do printf %s "$TOKEN"; i=$((i+1)); done; echo end`)
	s.Env = map[string]string{"TOKEN": secret}
	o := b.build(b.job(s))
	if tail := o.Result.Stdout.Tail; strings.Contains(tail, "S") || o.Result.Stdout.Bytes != 400*300+4 {
		t.Errorf("tail %q of %d bytes", tail, o.Result.Stdout.Bytes)
	}
	if strings.Contains(b.lines.all(), "S") {
		t.Errorf("shown: %q", b.lines.all())
	}
}
