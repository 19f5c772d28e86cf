package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func parsed(t *testing.T, text string) Config {
	t.Helper()
	c, err := Parse("writ.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestForges_RefusesWhatCannotWork(t *testing.T) {
	for text, key := range map[string]string{
		"forges: {github: {app_id: 7}}":                                                                  "forges.github.repositories",
		"forges: {github: {repositories: [o/n]}}":                                                        "forges.github.app_id",
		"forges: {github: {app_id: 7, token: T, repositories: [o/n]}}":                                   "forges.github.token",
		"forges: {github: {app_id: -7, repositories: [o/n]}}":                                            "forges.github.app_id",
		"forges: {github: {app_id: 7, private_key: '-----BEGIN', repositories: [o/n]}}":                  "forges.github.private_key",
		"forges: {github: {token: 'ghp-x', repositories: [o/n]}}":                                        "forges.github.token",
		"forges: {github: {app_id: 7, repositories: ['o/*']}}":                                           "forges.github.repositories.0",
		"forges: {github: {app_id: 7, repositories: [o/n/m]}}":                                           "forges.github.repositories.0",
		"forges: {github: {app_id: 7, repositories: [o/..]}}":                                            "forges.github.repositories.0",
		"forges: {github: {app_id: 7, repositories: [o/n, O/N]}}":                                        "forges.github.repositories.1",
		"forges: {github: {app_id: 7, repositories: [o/n], url: 'http://ghe.example'}}":                  "forges.github.url",
		"forges: {github: {app_id: 7, repositories: [o/n], url: 'https://u:p@ghe.example'}}":             "forges.github.url",
		"forges: {github: {app_id: 7, repositories: [o/n], api: 'ghe.example/api/v3'}}":                  "forges.github.api",
		"forges: {github: {app_id: 7, repositories: [o/n], hook_secrets: []}}":                           "forges.github.hook_secrets",
		"forges: {github: {app_id: 7, repositories: [o/n], hook_secrets: ['a b']}}":                      "forges.github.hook_secrets.0",
		"forges: {github: {app_id: 7, repositories: [o/n], ca_file: ca.pem}}":                            "forges.github.ca_file",
		"forges: {github: {app_id: 7, repositories: [o/n], proxy: 'http://u:p@proxy'}}":                  "forges.github.proxy",
		"forges: {gitlab: {url: 'https://git.example'}}":                                                 "forges.gitlab.repositories",
		"forges: {gitlab: {repositories: [name]}}":                                                       "forges.gitlab.repositories.0",
		"forges: {gitlab: {repositories: [g/../n]}}":                                                     "forges.gitlab.repositories.0",
		"forges: {gitlab: {repositories: [g/n], token: 'glpat-x'}}":                                      "forges.gitlab.token",
		"forges: {gitlab: {repositories: [g/n], hook_secrets: []}}":                                      "forges.gitlab.hook_secrets",
		"forges: {gitlab: {repositories: [g/n], hook_secrets: [A], hook_keys: [B]}}":                     "forges.gitlab.hook_keys",
		"forges: {gitlab: {repositories: [g/n], hook_keys: ['whsec_x=']}}":                               "forges.gitlab.hook_keys.0",
		"forges: {gitlab: {repositories: [g/n], hooks: [{key: K, secret: S, projects: [g/n]}]}}":         "forges.gitlab.hooks.0",
		"forges: {gitlab: {repositories: [g/n], hooks: [{projects: [g/n]}]}}":                            "forges.gitlab.hooks.0",
		"forges: {gitlab: {repositories: [g/n], hooks: [{secret: 'a b', projects: [g/n]}]}}":             "forges.gitlab.hooks.0.secret",
		"forges: {gitlab: {repositories: [g/n], hooks: [{key: 'whsec_x=', projects: [g/n]}]}}":           "forges.gitlab.hooks.0.key",
		"forges: {gitlab: {repositories: [g/n], hooks: [{key: K}]}}":                                     "forges.gitlab.hooks.0.projects",
		"forges: {gitlab: {repositories: [g/n], hooks: [{key: K, projects: [g/n, h]}]}}":                 "forges.gitlab.hooks.0.projects.1",
		"forges: {gitlab: {repositories: [g/n, gg/n], hooks: [{key: K, projects: [g]}]}}":                "forges.gitlab.repositories.1",
		"forges: {gitlab: {repositories: [g/n], hooks: [{key: K, projects: [g/n]}], hook_secrets: [S]}}": "forges.gitlab.hooks",
		"forges: {gitlab: {repositories: [g/n], hooks: [{key: K, projects: [g/n]}], hook_keys: [S]}}":    "forges.gitlab.hooks",
		"server: {intake: push}": "server.intake",
		"server: {poll: 0s}":     "server.poll",
	} {
		_, err := Parse("writ.yaml", []byte(text))
		var e *Error
		if !errors.As(err, &e) || !slices.ContainsFunc(e.Faults, func(f Fault) bool { return f.Key == key }) {
			t.Errorf("%s: got %v, want a fault of %s", text, err, key)
		}
	}
}

// TestI16_KeysThatWouldBeIgnored: what is written and would change nothing is
// refused, for whoever wrote it relies on it.
func TestI16_KeysThatWouldBeIgnored(t *testing.T) {
	for text, key := range map[string]string{
		"forges: {github: {token: T, private_key: K, repositories: [o/n]}}": "forges.github.private_key",
		"forges: {local: {repositories: [o/n]}}":                            "forges.local.dir",
		"forges: {local: {url: 'http://127.0.0.1:8715'}}":                   "forges.local.dir",
		"server: {traces: {headers: OTLP_HEADERS}}":                         "server.traces.headers",
	} {
		_, err := Parse("writ.yaml", []byte(text))
		var e *Error
		if !errors.As(err, &e) || len(e.Faults) != 1 || e.Faults[0].Key != key {
			t.Errorf("%s: got %v, want a fault of %s", text, err, key)
		}
	}
	parsed(t, "forges: {github: {token: T, private_key: WRIT_GITHUB_PRIVATE_KEY, repositories: [o/n]}}") // as it is printed
}

func TestForges_Defaults(t *testing.T) {
	if Default().Forges.Any() {
		t.Error("there is a forge without a configuration")
	}
	c := parsed(t, "forges: {github: {app_id: 7, repositories: [o/.github]}, gitlab: {repositories: [g/s/n]}}")
	if g := c.Forges.GitHub; !g.On() || g.URL != "https://github.com" || g.PrivateKey != "WRIT_GITHUB_PRIVATE_KEY" || g.Token != "" {
		t.Errorf("%+v", g)
	}
	if g := c.Forges.GitLab; !g.On() || g.URL != "https://gitlab.com" || g.Token != "WRIT_GITLAB_TOKEN" {
		t.Errorf("%+v", g)
	}
	if c.Forges.Local.On() {
		t.Error("there is an embedded forge")
	}
	parsed(t, "server: {intake: poll}\nforges: {github: {token: T, hook_secrets: [], repositories: [o/n]}}")
	parsed(t, "forges: {gitlab: {url: 'http://127.0.0.1:80/git', repositories: [g/n], ca_file: /ca.pem, proxy: none}}")
}

// TestForges_ReadBackTheSame: also where hook_keys or hooks take the place of a default.
func TestForges_ReadBackTheSame(t *testing.T) {
	for _, hooks := range []string{"hook_keys: [K]", "hooks: [{key: K, projects: [g]}, {secret: S, projects: [G/n]}]"} {
		given := parsed(t, "forges: {gitlab: {repositories: [g/n], "+hooks+"}, github: {token: T, repositories: [o/n]}}")
		if len(given.Forges.GitLab.HookSecrets) > 0 {
			t.Error("a secret token counts beside a key")
		}
		printed, err := given.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(given, parsed(t, string(printed)), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
}

// TestJ7_Covers: a hook covers the projects that it names and those below its groups, in
// whatever case, and none whose name only begins like theirs.
func TestJ7_Covers(t *testing.T) {
	h := GitLabHook{Projects: []string{"acme/tools", "acme/site"}}
	for name, is := range map[string]bool{
		"acme/tools/shop": true, "Acme/Tools/a/b": true, "acme/site": true,
		"acme/toolshed": false, "acme/sites": false, "acme/toolshed/shop": false, "acme": false, "x/acme/site": false, "": false,
	} {
		if h.Covers(name) != is {
			t.Errorf("%q is covered: %v", name, !is)
		}
	}
}

// TestF3_PrivateKeyHasLines: a private key is the one secret of several lines.
func TestF3_PrivateKeyHasLines(t *testing.T) {
	const pem = "-----BEGIN X-----\nhush\n-----END X-----"
	env := map[string]string{"K": pem}
	if got, err := SecretText(func(k string) string { return env[k] }, "K"); err != nil || got != pem {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := SecretText(func(string) string { return "" }, "K"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("an empty one: %v", err)
	}
}
