package webhook_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

func headOf(event string) http.Header {
	h := http.Header{}
	h.Set(webhook.HeaderEvent, event)
	return h
}

// TestLocal_WhomItConcerns: the task, the evidence and the reason of each event.
func TestLocal_WhomItConcerns(t *testing.T) {
	comment := func(action string) forge.Payload {
		p := labeled()
		p.Event, p.Action, p.Label, p.Comment = forge.PayloadComment, action, "", &forge.PayloadText{ID: 4, Body: "/writ run"}
		return p
	}
	issue := func(action string) forge.Payload {
		p := labeled()
		p.Action = action
		return p
	}
	on := func(e forge.PayloadEvent, ref string) forge.Payload {
		p := labeled()
		p.Event, p.Ref, p.Before, p.After = e, ref, "a", "b"
		return p
	}
	onChange := func(ref string) forge.Payload {
		p := comment("created")
		p.Ref = ref
		return p
	}
	for _, c := range []struct {
		name     string
		payload  forge.Payload
		task     int64
		evidence string
		ignored  kernel.Code
	}{
		{"labeled", issue("labeled"), 3, webhook.EvidenceLabel, ""},
		{"unlabeled", issue("unlabeled"), 3, "", ""},
		{"opened", issue("opened"), 3, "", ""},
		{"edited", issue("edited"), 3, "", ""},
		{"closed", issue("closed"), 3, "", ""},
		{"comment", comment("created"), 3, webhook.EvidenceComment, ""},
		{"comment edited", comment("edited"), 3, "", ""},
		{"comment deleted", comment("deleted"), 3, "", ""},
		{"comment on a change", onChange("refs/heads/writ/change/7"), 7, "", ""},
		{"comment on somebody's change", onChange("refs/heads/fix"), 0, "", kernel.CodeEventUnused},
		{"change", on(forge.PayloadChange, "refs/heads/writ/change/7"), 7, "", ""},
		{"push to a change", on(forge.PayloadPush, "refs/heads/writ/change/7"), 7, "", ""},
		{"push to a state ref", on(forge.PayloadPush, "refs/heads/writ/task/8"), 8, "", ""},
		{"push elsewhere", on(forge.PayloadPush, "refs/heads/main"), 0, "", kernel.CodeEventUnused},
		{"a change of somebody's", on(forge.PayloadChange, "refs/heads/fix"), 0, "", kernel.CodeEventUnused},
		{"a branch that only looks like it", on(forge.PayloadPush, "refs/heads/writ/change/07"), 0, "", kernel.CodeEventUnused},
		{"a number below one", on(forge.PayloadPush, "refs/heads/writ/change/0"), 0, "", kernel.CodeEventUnused},
		{"a number beyond any", on(forge.PayloadPush, "refs/heads/writ/change/92233720368547758070"), 0, "", kernel.CodeEventUnused},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := localHook(t).Parse(headOf(string(c.payload.Event)), encode(t, c.payload))
			if err != nil {
				t.Fatal(err)
			}
			var keys []webhook.Key
			if c.task != 0 {
				keys = []webhook.Key{{World: world, Task: c.task}}
			}
			evidence := ""
			for _, v := range e.Evidence {
				evidence += v.Kind
				if v.Key != keys[0] || v.Actor != 2 {
					t.Errorf("%+v", v)
				}
			}
			if !cmp.Equal(e.Keys, keys) || evidence != c.evidence || e.Ignored != c.ignored || e.Action != c.payload.Action {
				t.Errorf("%+v", e)
			}
		})
	}
}

// FuzzW5_Parse: whatever bytes are signed, the answer is an event that holds
// together or a refusal that is the sender's fault.
func FuzzW5_Parse(f *testing.F) {
	for _, event := range []string{"issues", "push", "change", "stars", "", "Issues\n"} {
		f.Add(event, encode(f, labeled()))
	}
	f.Add("issues", []byte(`{"action":"a","action":"b"}`))
	f.Add("issues", []byte(strings.Repeat("[", 1000)))
	f.Add("push", []byte(`{"event":"push","ref":"refs/heads/writ/change/-1","before":"a","after":"b","at_ms":1}`))
	hook := localHook(f)
	f.Fuzz(func(t *testing.T, event string, body []byte) {
		e, err := hook.Parse(http.Header{http.CanonicalHeaderKey(webhook.HeaderEvent): {event}}, body)
		var refused *webhook.Error
		if err != nil {
			if !errors.As(err, &refused) || !strings.HasPrefix(string(refused.Code), "webhook.body.") {
				t.Fatalf("%v", err)
			}
			if p, _ := forge.ParsePayload(body); p.Issue != nil && p.Issue.Title != "" && strings.Contains(refused.Error(), p.Issue.Title) && len(p.Issue.Title) > 20 {
				t.Fatalf("a piece of the body is in the refusal: %v", refused)
			}
			return
		}
		if (e.Ignored == "") != (len(e.Keys) == 1) || e.Ignored != "" && !e.Ignored.Known() {
			t.Fatalf("%+v", e)
		}
		for _, k := range e.Keys {
			if k.World != world || k.Task <= 0 {
				t.Fatalf("%+v", e)
			}
		}
		for _, v := range e.Evidence {
			if v.Key != e.Keys[0] || !v.Digest.Valid() || v.Actor <= 0 {
				t.Fatalf("%+v", e)
			}
		}
		if e.Kind != "" && e.Kind != event {
			t.Fatalf("%+v", e)
		}
	})
}

// TestI6_OwnActsAreNoNews: what writ's own account does makes nothing due, and
// approves nothing.
func TestI6_OwnActsAreNoNews(t *testing.T) {
	hook, err := webhook.NewLocalHook(webhook.LocalConfig{
		Secrets: []string{secret}, Self: 2, World: func(int64) (string, bool) { return world, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	own, other := labeled(), labeled()
	other.Sender.ID = 3
	e, err := hook.Parse(headOf(string(own.Event)), encode(t, own))
	if err != nil || e.Ignored != kernel.CodeRecursion || len(e.Keys) != 0 || len(e.Evidence) != 0 {
		t.Errorf("an act of its own: %+v, %v", e, err)
	}
	e, err = hook.Parse(headOf(string(other.Event)), encode(t, other))
	if err != nil || e.Ignored != "" || len(e.Keys) != 1 {
		t.Errorf("somebody else's act: %+v, %v", e, err)
	}
}

// TestI14_LocalEvidence: a text, or a label, that is larger than any is no evidence, as at
// the other forges; the task is due all the same.
func TestI14_LocalEvidence(t *testing.T) {
	large := strings.Repeat("x", 4<<20+1)
	for name, spoil := range map[string]func(*forge.Payload){
		"title":                     func(p *forge.Payload) { p.Issue.Title = large },
		"body":                      func(p *forge.Payload) { p.Issue.Body = large },
		"label":                     func(p *forge.Payload) { p.Label = large[:1<<10+1] },
		"label with a control code": func(p *forge.Payload) { p.Label = "writ\x1b[2J" },
	} {
		p := labeled()
		spoil(&p)
		e, err := localHook(t).Parse(headOf(string(p.Event)), encode(t, p))
		if err != nil || len(e.Keys) != 1 || len(e.Evidence) != 0 {
			t.Errorf("%s: %d keys, %d pieces of evidence, %v", name, len(e.Keys), len(e.Evidence), err)
		}
	}
}
