package setup

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/writbot/writ/forge/github"
)

// manifest is GitHub's description of an App that is to be made.
type manifest struct {
	Name        string            `json:"name"`
	URL         string            `json:"url"`
	Hook        *hookAttributes   `json:"hook_attributes,omitempty"`
	Redirect    string            `json:"redirect_url"`
	Public      bool              `json:"public"`
	Permissions map[string]string `json:"default_permissions"`
	Events      []string          `json:"default_events,omitempty"`
}

type hookAttributes struct {
	URL    string `json:"url"`
	Active bool   `json:"active"`
}

// homepage is the App's where writ has no public address. GitHub wants one.
const homepage = "https://github.com/writbot/writ"

// hookPath is where writ takes GitHub's webhooks.
const hookPath = "/hooks/github"

// maxName is how many characters GitHub lets an App's name have.
const maxName = 34

// newManifest describes an App that may do what writ's acts need and nothing
// else, but change workflows where that is wanted. Without a public address it has no webhook: GitHub refuses one without
// an address even if it isn't active, and events without a webhook.
func newManifest(name, publicURL, redirect string, workflows bool) manifest {
	m := manifest{Name: name, URL: homepage, Redirect: redirect, Permissions: github.Needed()}
	if workflows {
		m.Permissions["workflows"] = "write"
	}
	if publicURL != "" {
		m.URL = publicURL
		m.Hook = &hookAttributes{URL: strings.TrimSuffix(publicURL, "/") + hookPath, Active: true}
		m.Events = github.Events()
	}
	return m
}

func (m manifest) text() (string, error) {
	b, err := json.Marshal(m)
	return string(b), err
}

// may are the permissions of that level, in words.
func (m manifest) may(level string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m.Permissions)) {
		if m.Permissions[name] == level {
			out = append(out, strings.ReplaceAll(name, "_", " "))
		}
	}
	return strings.Join(out, ", ")
}
