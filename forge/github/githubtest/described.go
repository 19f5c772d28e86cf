package githubtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// The descriptions of GitHub's REST API that GitHub publishes.
const (
	Cloud      = "api.github.com"
	Enterprise = "ghes-3.19"
)

// beside are the requests that GitHub answers and its description leaves out.
var beside = map[string]string{
	"/graphql":         "GraphQL has a schema of its own",
	"/repositories/{}": "where GitHub itself redirects renamed repositories to; used with personal tokens",
}

// Description holds requests to what GitHub publishes of its REST API.
type Description struct {
	doc   *openapi3.T
	paths map[int][]string // by their number of segments

	mu   sync.Mutex
	seen map[string]int // method and path to the number of requests
}

// Describe reads a description. It takes a second, so tests share one.
func Describe(name string) (*Description, error) {
	dir, err := toolsDir()
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, "node_modules", "@octokit", "openapi", "generated", name+".json"))
	if err != nil {
		return nil, err
	}
	small, err := requestsOnly(raw)
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(small)
	if err != nil {
		return nil, err
	}
	d := &Description{doc: doc, paths: map[int][]string{}, seen: map[string]int{}}
	for path := range doc.Paths.Map() {
		n := strings.Count(path, "/")
		d.paths[n] = append(d.paths[n], path)
	}
	return d, nil
}

// published is a description of thirteen megabytes, of which little is read.
type published struct {
	OpenAPI    string                                `json:"openapi"`
	Info       json.RawMessage                       `json:"info"`
	Paths      map[string]json.RawMessage            `json:"paths"`
	Components map[string]map[string]json.RawMessage `json:"components"`
}

// requestsOnly leaves out paths that writ never asks, what answers look like, and
// what is then not referred to.
func requestsOnly(raw []byte) ([]byte, error) {
	var all published
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	prefixes := []string{"/repos/{owner}/{repo}", "/user", "/users/{username}", "/app", "/app-manifests", "/installation/repositories"}
	paths := map[string]any{}
	kept := components{from: all.Components, taken: map[string]map[string]any{}}
	for path, raw := range all.Paths {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") }) {
			continue
		}
		var item map[string]map[string]any
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, op := range item {
			op["responses"] = map[string]any{"200": map[string]any{"description": "not looked at"}}
			delete(op, "callbacks")
			if err := kept.take(op); err != nil {
				return nil, err
			}
		}
		paths[path] = item
	}
	return json.Marshal(map[string]any{"openapi": all.OpenAPI, "info": all.Info, "paths": paths, "components": kept.taken})
}

// components are those that are referred to.
type components struct {
	from  map[string]map[string]json.RawMessage
	taken map[string]map[string]any
}

// take takes what a value refers to, and what that refers to.
func (c components) take(v any) error {
	switch v := v.(type) {
	case map[string]any:
		if ref, isRef := v["$ref"].(string); isRef {
			if err := c.takeOne(ref); err != nil {
				return err
			}
		}
		for _, x := range v {
			if err := c.take(x); err != nil {
				return err
			}
		}
	case []any:
		for _, x := range v {
			if err := c.take(x); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c components) takeOne(ref string) error {
	kind, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
	if c.taken[kind] == nil {
		c.taken[kind] = map[string]any{}
	}
	if _, taken := c.taken[kind][name]; taken {
		return nil
	}
	var v any
	if err := json.Unmarshal(c.from[kind][name], &v); err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	c.taken[kind][name] = v
	return c.take(v)
}

// Wrap checks each request before it goes on. One that GitHub doesn't describe
// fails the test.
func (d *Description) Wrap(t testing.TB) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			var body []byte
			if req.Body != nil {
				var err error
				if body, err = io.ReadAll(req.Body); err != nil {
					return nil, err
				}
				req.Body = io.NopCloser(bytes.NewReader(body))
			}
			if err := d.check(req, body); err != nil {
				t.Errorf("%s %s is not what GitHub describes: %v\n%s", req.Method, req.URL, err, body)
			}
			return next.RoundTrip(req)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Seen are the operations that were asked for, and how often.
func (d *Description) Seen() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.seen)
}

func (d *Description) check(req *http.Request, body []byte) error {
	path := strings.TrimPrefix(strings.TrimPrefix(req.URL.EscapedPath(), "/api/v3"), "/api")
	template, params, err := d.find(path)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.seen[req.Method+" "+template]++
	d.mu.Unlock()
	item := d.doc.Paths.Value(template)
	if item == nil {
		return nil // beside
	}
	op := item.GetOperation(req.Method)
	if op == nil {
		return fmt.Errorf("%s has no %s", template, req.Method)
	}
	if err := described(op, req.URL.Query(), body); err != nil {
		return err
	}
	probe := req.Clone(context.WithoutCancel(req.Context()))
	probe.Body = io.NopCloser(bytes.NewReader(body))
	return openapi3filter.ValidateRequest(probe.Context(), &openapi3filter.RequestValidationInput{
		Request: probe, PathParams: params,
		Route:   &routers.Route{Spec: d.doc, Path: template, PathItem: item, Method: req.Method, Operation: op},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	})
}

// find is the path of the description with the most of its own words.
func (d *Description) find(path string) (string, map[string]string, error) {
	segments := strings.Split(path, "/")
	best, fixed := "", -1
	var params map[string]string
	for _, template := range slices.Concat(d.paths[len(segments)-1], slices.Sorted(maps.Keys(beside))) {
		parts := strings.Split(template, "/")
		if len(parts) != len(segments) {
			continue
		}
		own, found := 0, map[string]string{}
		for i, part := range parts {
			name, isParam := strings.CutPrefix(part, "{")
			value, err := url.PathUnescape(segments[i])
			switch {
			case err != nil || !isParam && part != segments[i] || isParam && value == "":
				own = -len(parts)
			case isParam:
				found[strings.TrimSuffix(name, "}")] = value
			default:
				own++
			}
		}
		if own > fixed {
			best, fixed, params = template, own, found
		}
	}
	if fixed < 1 {
		return "", nil, fmt.Errorf("no such path")
	}
	return best, params, nil
}

// described wants each parameter and member that is sent to be one that GitHub
// names: a misspelt one would be ignored, and nobody would see it.
func described(op *openapi3.Operation, query url.Values, body []byte) error {
	for name := range query {
		if op.Parameters.GetByInAndName("query", name) == nil {
			return fmt.Errorf("the parameter %q is not described", name)
		}
	}
	if len(body) == 0 || op.RequestBody == nil {
		return nil
	}
	var sent map[string]any
	if err := json.Unmarshal(body, &sent); err != nil {
		return err
	}
	media := op.RequestBody.Value.Content.Get("application/json")
	if media == nil || len(media.Schema.Value.Properties) == 0 {
		return nil
	}
	for name := range sent {
		if media.Schema.Value.Properties[name] == nil {
			return fmt.Errorf("the member %q is not described", name)
		}
	}
	return nil
}
