package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// chartOwns are the keys that the chart sets itself.
var chartOwns = []string{"sandbox", "server.state_dir", "server.listen", "server.probes", "server.drain"}

// chartFile is what the chart's templates have to know of the configuration.
type chartFile struct {
	Defaults map[string]any `json:"defaults"`
	Restart  []string       `json:"restart"`
}

// TestSchema_IsTheCharts holds the chart's schema of config, and what its templates
// know of it, to the struct.
func TestSchema_IsTheCharts(t *testing.T) {
	chart := filepath.Join("..", "..", "..", "charts", "writ")
	c := Default()
	known := chartFile{
		Defaults: map[string]any{"builds": c.Server.Builds, "memory": showSize(c.Limits.Memory), "tmp": showSize(c.Limits.Tmp)},
		Restart:  RestartKeys(),
	}
	part := regexp.MustCompile(`(?ms)^    "config": \{.*?^    \}`)
	values, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema := part.ReplaceAllLiteral(values, append([]byte(`    "config": `), indented(t, "    ", Schema(chartOwns...))...))
	for name, want := range map[string][]byte{
		"values.schema.json": schema,
		"files/config.json":  append(indented(t, "", known), '\n'),
	} {
		path := filepath.Join(chart, name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(have)); diff != "" {
			t.Errorf("%s isn't what the struct says; run go test ./cmd/internal/config -update\n%s", name, diff)
		}
	}
	if !part.Match(values) {
		t.Error("values.schema.json has no part for config")
	}
}

func indented(t *testing.T, prefix string, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// TestRestartKeys_AreTheReferences: each key that the reference says needs a
// restart is listed, and no other.
func TestRestartKeys_AreTheReferences(t *testing.T) {
	var want []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` .* Needs a restart\\. \\|$").FindAllStringSubmatch(Reference(), -1) {
		want = append(want, m[1])
	}
	if got := RestartKeys(); !slices.Equal(got, want) || len(got) < 10 {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestSchema_KnowsEachKey: what the reference lists is in the schema, but for what
// is owned.
func TestSchema_KnowsEachKey(t *testing.T) {
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` ").FindAllStringSubmatch(Reference(), -1) {
		at, known := Schema(chartOwns...), true
		for _, word := range strings.Split(m[1], ".") {
			next, ok := at["properties"].(map[string]any)[word]
			switch word {
			case "<name>":
				next, ok = at["additionalProperties"], true
			case "<n>":
				next, ok = at["items"], true
			}
			if known = ok; !ok {
				break
			}
			at = next.(map[string]any)
			if at["properties"] == nil {
				at["properties"] = map[string]any{}
			}
		}
		if owned := slices.Contains(chartOwns, m[1]); known == owned {
			t.Errorf("%s: known %t, owned by the chart %t", m[1], known, owned)
		}
	}
}
