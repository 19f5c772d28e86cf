package config

import (
	"slices"
	"testing"
)

// TestNeedRestart_NamesTheKeys: what a running server can't take over is named by
// its key, and everything else is left out.
func TestNeedRestart_NamesTheKeys(t *testing.T) {
	const begin = "server: {state_dir: /a}\nforges: {gitlab: {repositories: [g/n]}}\n"
	started := parsed(t, begin)
	for text, want := range map[string][]string{
		begin: nil,
		"server: {state_dir: /a, sweep: 1m, poll: 2m, keep: 2h, observe: true, log_level: debug}\n" +
			"forges: {gitlab: {repositories: [g/n, g/m], hook_secrets: [A, B], token: T}}\n" +
			"builders: {x: {argv: ['true']}}\nlimits: {cpu: 1m}\ncaps: {attempts: 2}\nlease: {seconds: 90}\nredact: [A]\n": nil,
		"server: {state_dir: /b, listen: '127.0.0.1:1'}\nrefs: heads\nforges: {gitlab: {url: 'https://b', repositories: [g/n]}}\n": {
			"refs", "server.state_dir", "server.listen", "forges.gitlab.url"},
		"server: {state_dir: /a, traces: {endpoint: 'http://127.0.0.1:4318'}}\nforges: {gitlab: {repositories: [g/n]}}\n": {"server.traces"},
		"server: {state_dir: /a}\nforges: {github: {token: T, repositories: [o/n]}}\n":                                    {"forges.github", "forges.gitlab"},
	} {
		if got := NeedRestart(started, parsed(t, text)); !slices.Equal(got, want) {
			t.Errorf("%s\n%v, want %v", text, got, want)
		}
	}
}
