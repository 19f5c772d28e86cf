package gitlabtest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// hookEvents are what a hook may be told of.
var hookEvents = []string{
	"push_events", "tag_push_events", "issues_events", "confidential_issues_events", "note_events", "confidential_note_events",
	"merge_requests_events", "job_events", "pipeline_events", "wiki_page_events", "deployment_events", "releases_events",
	"feature_flag_events", "resource_access_token_events", "emoji_events", "milestone_events",
}

const signingPrefix = "whsec_"

func aboutHooks() []route {
	at := aProject + "/hooks"
	return []route{
		{method: "GET", pattern: at, handle: listHooks, paged: true},
		{method: "POST", pattern: at, handle: createHook, created: true, params: hookParams()},
		{method: "GET", pattern: at + "/{hook}", handle: getHook},
		{method: "PUT", pattern: at + "/{hook}", handle: updateHook, params: hookParams()},
		{method: "DELETE", pattern: at + "/{hook}", handle: deleteHook, empty: true},
		{method: "GET", pattern: at + "/{hook}/events", handle: listHookEvents, paged: true, params: params{"status": text}},
		{method: "POST", pattern: at + "/{hook}/events/{event}/resend", handle: resendHookEvent, created: true},
		{method: "POST", pattern: at + "/{hook}/test/{trigger}", handle: testHook, created: true},
	}
}

// hookParams are those of POST and PUT.
func hookParams() params {
	p := params{"url": text, "name": text, "description": text, "token": text, "signing_token": text, "enable_ssl_verification": boolean, "push_events_branch_filter": text, "branch_filter_strategy": text}
	for _, e := range hookEvents {
		p[e] = boolean
	}
	return p
}

func (c *call) hook(p *project, h *hook) any {
	state := "executable"
	if c.s.opts.Now().Before(h.Until) {
		state = "temporarily_disabled"
	}
	if h.Disabled != "" {
		state = h.Disabled
	}
	out := map[string]any{
		"id": h.ID, "url": h.URL, "name": h.Name, "description": "", "project_id": p.ID, "created_at": stamp(h.Created), "alert_status": state,
		"disabled_until": stamp(h.Until), "url_variables": []any{}, "enable_ssl_verification": h.SSL, "push_events_branch_filter": "",
		"branch_filter_strategy": "wildcard", "custom_webhook_template": "", "custom_headers": []any{}, "repository_update_events": false,
		"token_present": h.Token != "", "signing_token_present": h.Signing != "",
	}
	for _, e := range hookEvents {
		out[e] = h.Events[e]
	}
	return out
}

func listHooks(c *call) (any, error) {
	p, err := c.allowed(Maintainer)
	if err != nil {
		return nil, err
	}
	return page(c, p.Hooks, func(h *hook) any { return c.hook(p, h) }), nil
}

func (c *call) findHook() (*project, *hook, error) {
	p, err := c.allowed(Maintainer)
	if err != nil {
		return nil, nil, err
	}
	id := c.path("hook")
	at := slices.IndexFunc(p.Hooks, func(h *hook) bool { return h.ID == id })
	if at < 0 {
		return nil, nil, errNotFound
	}
	return p, p.Hooks[at], nil
}

func getHook(c *call) (any, error) {
	p, h, err := c.findHook()
	if err != nil {
		return nil, err
	}
	return c.hook(p, h), nil
}

// setHook takes the parameters in; a token that isn't given stays.
func (c *call) setHook(h *hook) error {
	if v, ok := c.word("url"); ok {
		h.URL = v
	}
	if u, err := url.Parse(h.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return &failure{http.StatusUnprocessableEntity, map[string]any{"error": "Invalid url given"}}
	}
	if v, ok := c.word("signing_token"); ok && v != "" && !c.s.opts.NoSigning {
		key, found := strings.CutPrefix(v, signingPrefix)
		if b, err := base64.StdEncoding.DecodeString(key); !found || err != nil || len(b) != 32 {
			return &failure{http.StatusUnprocessableEntity, map[string]any{"error": "signing_token is invalid"}}
		}
		h.Signing = v
	}
	if v, ok := c.word("token"); ok {
		h.Token = v
	}
	if v, ok := c.word("name"); ok {
		h.Name = v
	}
	if v, ok := c.params["enable_ssl_verification"].(bool); ok {
		h.SSL = v
	}
	for _, e := range hookEvents {
		if v, ok := c.params[e].(bool); ok {
			h.Events[e] = v
		}
	}
	return nil
}

func createHook(c *call) (any, error) {
	p, err := c.allowed(Maintainer)
	if err != nil {
		return nil, err
	}
	h := &hook{ID: c.d.id(), SSL: true, Events: map[string]bool{"push_events": true}, Created: c.s.tick()}
	if err := c.setHook(h); err != nil {
		return nil, err
	}
	p.Hooks = append(p.Hooks, h)
	return c.hook(p, h), nil
}

func updateHook(c *call) (any, error) {
	p, h, err := c.findHook()
	if err == nil {
		err = c.setHook(h)
	}
	if err != nil {
		return nil, err
	}
	return c.hook(p, h), nil
}

func deleteHook(c *call) (any, error) {
	p, h, err := c.findHook()
	if err != nil {
		return nil, err
	}
	p.Hooks = slices.DeleteFunc(slices.Clone(p.Hooks), func(o *hook) bool { return o == h })
	return nil, nil
}

// listHookEvents shows the deliveries of the last seven days, the newest first.
func listHookEvents(c *call) (any, error) {
	_, h, err := c.findHook()
	if err != nil {
		return nil, err
	}
	const kept = 7 * 24 * time.Hour
	want, _ := c.word("status")
	var out []*hookEvent
	for _, e := range slices.Backward(h.Deliveries) {
		if c.s.opts.Now().Sub(e.At) < kept && inCategory(e.Status, want) {
			out = append(out, e)
		}
	}
	return page(c, out, func(e *hookEvent) any { return showHookEvent(h, e) }), nil
}

func inCategory(status, want string) bool {
	first := map[string]string{"successful": "2", "client_failure": "4", "server_failure": "5"}[want]
	return want == "" || status == want || first != "" && strings.HasPrefix(status, first)
}

func showHookEvent(h *hook, e *hookEvent) any {
	headers := map[string]string{}
	for name, value := range e.Headers {
		if name == "X-Gitlab-Token" {
			value = "[REDACTED]"
		}
		headers[name] = value
	}
	return map[string]any{
		"id": e.ID, "url": h.URL, "trigger": e.Trigger, "request_headers": headers, "request_data": json.RawMessage(e.Body),
		"response_headers": map[string]string{}, "response_body": "", "execution_duration": 0.1, "response_status": e.Status, "created_at": stamp(e.At),
	}
}

func resendHookEvent(c *call) (any, error) {
	p, h, err := c.findHook()
	if err != nil {
		return nil, err
	}
	id := c.path("event")
	at := slices.IndexFunc(h.Deliveries, func(e *hookEvent) bool { return e.ID == id })
	if at < 0 {
		return nil, errNotFound
	}
	e := h.Deliveries[at]
	c.s.send(p, h, e.Trigger, e.Headers["X-Gitlab-Event"], e.Body, e.Headers["Idempotency-Key"])
	return map[string]any{"response_status": 200}, nil
}

// testHook sends a sample of a push.
func testHook(c *call) (any, error) {
	p, h, err := c.findHook()
	if err != nil {
		return nil, err
	}
	if c.r.PathValue("trigger") != "push_events" {
		return nil, errs("trigger does not have a valid value")
	}
	c.s.send(p, h, "push_hooks", "Push Hook", c.s.pushPayload(p, c.user.ID, "refs/heads/"+p.DefaultBranch, noCommit, c.s.ref(p, "refs/heads/"+p.DefaultBranch)), uuid.New().String())
	return map[string]any{"message": "201 Created"}, nil
}
