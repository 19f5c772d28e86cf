package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/writbot/writ/webhook"
)

// object is a JSON object as a test writes it.
type object = map[string]any

func jsonOf(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// heads makes a request's head of names and values.
func heads(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// send posts a body with this head to a hook of the running server.
func (r *receiver) deliver(hook string, body []byte, head http.Header) reply {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.url+"/hooks/"+hook, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header = head
	if head.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return r.do(req)
}

func githubHook(t testing.TB, change func(*webhook.GitHubConfig)) *webhook.GitHubHook {
	t.Helper()
	c := webhook.GitHubConfig{Secrets: []string{secret}, World: allowed}
	if change != nil {
		change(&c)
	}
	h, err := webhook.NewGitHubHook(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// githubHead is what GitHub sends with a body.
func githubHead(event string, body []byte) http.Header {
	return heads(webhook.HeaderGitHubEvent, event, webhook.HeaderGitHubDelivery, uuid.NewString(),
		webhook.HeaderSignature, sign(secret, body))
}

// signingKey is a GitLab hook's signing token.
const signingKey = "whsec_Y2FuYXJ5LWtleS1vZi0zMi1ieXRlcy1leGFjdGx5ISE="

// noon is when signed deliveries come.
var noon = time.Unix(1_800_000_000, 0)

func gitlabHook(t testing.TB, change func(*webhook.GitLabConfig)) *webhook.GitLabHook {
	t.Helper()
	c := webhook.GitLabConfig{Tokens: []string{secret}, World: allowed, Now: func() time.Time { return noon }}
	if change != nil {
		change(&c)
	}
	h, err := webhook.NewGitLabHook(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func signedHook(t testing.TB, keys ...string) *webhook.GitLabHook {
	t.Helper()
	return gitlabHook(t, func(c *webhook.GitLabConfig) { c.Tokens, c.Keys = nil, keys })
}

// gitlabHead is what GitLab sends with the secret token.
func gitlabHead(event string) http.Header {
	return heads(webhook.HeaderGitLabEvent, event, webhook.HeaderIdempotencyKey, uuid.NewString(), webhook.HeaderGitLabToken, secret)
}

// stamp is one signature of a signed hook.
func stamp(key, id string, at time.Time, body []byte) string {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// signedHead is what GitLab sends from a signed hook.
func signedHead(event string, at time.Time, body []byte) http.Header {
	id := uuid.NewString()
	return heads(webhook.HeaderGitLabEvent, event, webhook.HeaderIdempotencyKey, id, webhook.HeaderWebhookID, id,
		webhook.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10), webhook.HeaderWebhookSignature, stamp(signingKey, id, at, body))
}

// githubIssue is an event of an issue as GitHub tells it, in the parts that count.
func githubIssue(action string) object {
	return object{
		"action": action, "sender": object{"id": 2, "login": "l"}, "repository": object{"id": repoID, "clone_url": "https://evil.example/x"},
		"issue": object{"number": 3, "title": "Add fails", "body": "canary-body-of-the-issue", "updated_at": "2027-01-15T08:00:00Z"},
		"label": object{"name": "writ"},
	}
}

func githubComment(action string) object {
	p := githubIssue(action)
	delete(p, "label")
	p["comment"] = object{"id": 4, "body": "/writ run", "created_at": "2027-01-15T08:00:00Z"}
	return p
}

// gitlabIssueHook is an Issue Hook in which a label was set.
func gitlabIssueHook(action string) object {
	label := func(title string) object { return object{"id": 7, "title": title} }
	return object{
		"object_kind": "issue", "user": object{"id": 2, "username": "l"}, "project": object{"id": repoID, "git_http_url": "https://evil.example/x"},
		"object_attributes": object{
			"id": 9, "iid": 3, "title": "Add fails", "description": "canary-body-of-the-issue", "action": action,
			"created_at": "2027-01-15 08:00:00 UTC", "updated_at": "2027-01-15 08:00:00 UTC",
		},
		"changes": object{"labels": object{"previous": []object{label("bug")}, "current": []object{label("bug"), label("writ")}}},
	}
}

func gitlabNoteHook(action string) object {
	return object{
		"object_kind": "note", "user": object{"id": 2}, "project_id": repoID, "project": object{"id": repoID},
		"object_attributes": object{"id": 4, "note": "/writ run", "noteable_type": "Issue", "action": action, "created_at": "2027-01-15T08:00:00.123Z"},
		"issue":             object{"id": 9, "iid": 3, "title": "Add fails", "description": "canary-body-of-the-issue"},
	}
}

// with sets members by their paths, as "issue.body"; a nil is JSON's null, and
// absent takes the member out.
func with(p object, pairs ...any) object {
	for i := 0; i < len(pairs); i += 2 {
		at, path := p, strings.Split(pairs[i].(string), ".")
		for _, name := range path[:len(path)-1] {
			at = at[name].(object)
		}
		if last := path[len(path)-1]; pairs[i+1] == absent {
			delete(at, last)
		} else {
			at[last] = pairs[i+1]
		}
	}
	return p
}

type absence struct{}

var absent = absence{}
