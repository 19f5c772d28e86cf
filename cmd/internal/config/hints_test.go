package config_test

import (
	"strings"
	"testing"

	"github.com/writbot/writ/cmd/internal/config"
)

// TestParse_TypicalMistakes: of each mistake that is often made, line, key, what is
// wrong and what to write instead, and nothing beside it.
func TestParse_TypicalMistakes(t *testing.T) {
	const github = "forges:\n  github:\n    app_id: 7\n"
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":      {"server:\n  listne: 127.0.0.1:1\n", "f:2: server.listne: The key is unknown; known are … Did you mean listen?"},
		"upper case":       {"Server:\n  state_dir: /s\n", "f:1: Server: The key is unknown; known are … Did you mean server?"},
		"dash":             {"server:\n  state-dir: /s\n", "f:2: server.state-dir: The key is unknown; known are … Did you mean state_dir?"},
		"time, no unit":    {"server:\n  drain: 30\n", "f:2: server.drain: It must be text with its unit: 30s, 30m or 30h."},
		"time, in words":   {"server:\n  sweep: 1 hour\n", "f:2: server.sweep: It must be a time from 1s to 24h, such as 30s, 10m or 1h30m."},
		"size, no unit":    {"server:\n  max_body: 5\n", "f:2: server.max_body: It must be text with its unit: 5KiB, 5MiB or 5GiB."},
		"size, decimal":    {"server:\n  max_body: 5 MB\n", "f:2: server.max_body: It must be a size from 1KiB to 1024TiB, in B, KiB, MiB, GiB or TiB, such as 5MiB."},
		"secret's value":   {github + "    hook_secrets: [hunter2!]\n    repositories: [o/n]\n", "f:4: forges.github.hook_secrets.0: It must be the name of an environment variable, never a value: write a name such as WRIT_TOKEN, …"},
		"http":             {github + "    url: http://git.example.org\n    repositories: [o/n]\n", "f:4: forges.github.url: It must be the forge's address, such as https://git.example.org, … plain http goes to this machine only."},
		"no slash":         {github + "    repositories: [shop]\n", "f:4: forges.github.repositories.0: It must be owner/name, such as acme/shop."},
		"address":          {github + "    repositories: ['https://github.com/o/n.git']\n", "f:4: forges.github.repositories.0: It must be owner/name, not an address: o/n."},
		".git":             {github + "    repositories: [o/n.git]\n", "f:4: forges.github.repositories.0: It must be owner/name, without .git at its end."},
		"twice":            {github + "    repositories: [o/n, O/N]\n", "f:4: forges.github.repositories.1: It is there twice, whatever its upper and lower case; delete one."},
		"no list":          {github + "    repositories: o/n\n", "f:4: forges.github.repositories: It must be a list, such as [one, two]."},
		"none":             {github, "f:3: forges.github.repositories: It must list the repositories that writ may touch: [acme/shop]."},
		"App and token":    {github + "    token: T\n    repositories: [o/n]\n", "f:4: forges.github.token: There is an App already, by app_id; take out one of the two."},
		"number in quotes": {"forges:\n  github:\n    app_id: '7'\n    repositories: [o/n]\n", "f:3: forges.github.app_id: It must be a whole number from 0 to 9007199254740991."},
		"relative":         {"server:\n  state_dir: ../state\n", "f:2: server.state_dir: It must be an absolute path, such as /var/lib/writ/state: what a relative one means would depend on where writ is started."},
		"tab":              {"server:\n\tstate_dir: /s\n", "f:2: It is not YAML (found character that cannot start any token): a tab can't indent; write spaces in its place."},
		"too deep":         {"server:\n  state_dir: /s\n   listen: x\n", "f:3: It is not YAML (mapping values are not allowed in this context): the line is indented further than the one above it, …"},
		"open quote":       {"server:\n  state_dir: \"/s\n", "f:2: It is not YAML (found unexpected end of stream): a quote or a bracket isn't closed."},
		"no list of words": {"builders:\n  default:\n    argv: gofmt -w .\n", "f:3: builders.default.argv: It must be a list, such as [one, two]."},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("f", []byte(c.text))
			if err == nil {
				t.Fatal("it is taken")
			}
			begin, end, _ := strings.Cut(c.want, "…")
			got := strings.TrimPrefix(err.Error(), "config.invalid: ")
			if !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) || strings.Contains(got, "\n") {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if strings.Contains(got, "hunter2") {
				t.Error("it shows what may be a secret")
			}
		})
	}
	crlf := "server:\r\n  state_dir: /s\r\n  drain: 10s\r\n"
	if c, err := config.Parse("f", []byte(crlf)); err != nil || c.Server.StateDir != "/s" {
		t.Errorf("lines that end as on Windows: %v %q", err, c.Server.StateDir)
	}
}
