package gitlabtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// samples is where the library keeps what it has recorded of GitLab.
func samples(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/xanzy/go-gitlab").Output()
	ok(t, err)
	return filepath.Join(strings.TrimSpace(string(out)), "testdata")
}

// TestPayloads_AsRecorded: each member of our payloads that the recorded ones
// have, too, has the same type there; and those that a receiver needs are there.
func TestPayloads_AsRecorded(t *testing.T) {
	p, in := newPlace(t, Options{}), newInbox(t)
	p.hook(t, in.URL, "s3cret", "")
	p.everything(t)
	first := map[string]Delivery{}
	for _, d := range in.all() {
		var body struct {
			Kind string                     `json:"object_kind"`
			MR   map[string]json.RawMessage `json:"merge_request"`
		}
		ok(t, json.Unmarshal(d.Body, &body))
		name := body.Kind
		if name == "note" {
			name = map[bool]string{true: "note_merge_request", false: "note_issue"}[body.MR != nil]
		}
		if _, known := first[name]; !known {
			first[name] = d
		}
	}
	dir := samples(t)
	for _, name := range []string{"issue", "note_issue", "note_merge_request", "merge_request", "push"} {
		raw, err := os.ReadFile(filepath.Join(dir, "webhooks", name+".json"))
		ok(t, err)
		var recorded, ours any
		ok(t, json.Unmarshal(raw, &recorded))
		ok(t, json.Unmarshal(first[name].Body, &ours))
		compare(t, name, ours, recorded)
	}
}

// TestAnswers_AsRecorded: so are the answers of the API.
func TestAnswers_AsRecorded(t *testing.T) {
	p := newPlace(t, Options{})
	p.everything(t)
	dir := samples(t)
	for file, path := range map[string]string{"get_merge_request.json": "/merge_requests/1", "get_branch.json": "/repository/branches/main"} {
		raw, err := os.ReadFile(filepath.Join(dir, file))
		ok(t, err)
		var recorded any
		ok(t, json.Unmarshal(raw, &recorded))
		_, ours, _ := p.ask(t, "GET", path, nil)
		compare(t, file, ours, recorded)
	}
}

// compare demands the same type, where both have a value that isn't null.
func compare(t *testing.T, at string, ours, recorded any) {
	t.Helper()
	switch r := recorded.(type) {
	case map[string]any:
		o, same := ours.(map[string]any)
		if !same {
			t.Errorf("%s is %T, recorded was an object", at, ours)
			return
		}
		shared := 0
		for name, value := range r {
			if mine, has := o[name]; has && mine != nil && value != nil {
				shared++
				compare(t, at+"."+name, mine, value)
			}
		}
		if shared == 0 && len(o) > 0 && len(r) > 0 {
			t.Errorf("%s shares no member with the recorded one", at)
		}
	case []any:
		o, same := ours.([]any)
		if !same {
			t.Errorf("%s is %T, recorded was a list", at, ours)
		} else if len(o) > 0 && len(r) > 0 {
			compare(t, at+"[0]", o[0], r[0])
		}
	case string:
		if _, same := ours.(string); !same {
			t.Errorf("%s is %T, recorded was a text", at, ours)
		}
	case float64:
		if _, same := ours.(float64); !same {
			t.Errorf("%s is %T, recorded was a number", at, ours)
		}
	case bool:
		if _, same := ours.(bool); !same {
			t.Errorf("%s is %T, recorded was a boolean", at, ours)
		}
	}
}
