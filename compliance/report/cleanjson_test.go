package report

import (
	"encoding/json"
	"testing"

	"github.com/writbot/writ/compliance/internal/visible"
)

// TestF3_CleanJSON: what is printed says the same, and nothing in it is obeyed by a
// terminal or turns the reading direction.
func TestF3_CleanJSON(t *testing.T) {
	want := map[string]string{"title": "Fix \u202eevil\u202c \u009b31m\u200b \U000e0041 \x7f ümläut 日本 🙂"}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	clean := CleanJSON(string(data))
	if visible.Any(clean) {
		t.Errorf("hidden characters stand bare: %q", clean)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(clean), &got); err != nil || got["title"] != want["title"] {
		t.Errorf("%v: %q, want %q", err, got["title"], want["title"])
	}
	if same := "{\n\t\"a\": \"ümläut 日本 🙂\"\n}"; CleanJSON(same) != same {
		t.Errorf("%q", CleanJSON(same))
	}
}
