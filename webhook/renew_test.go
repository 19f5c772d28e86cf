package webhook_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
)

// TestW2_RotatedSecret: a hook's secret is replaced while the receiver runs. While
// both are given both count, and afterwards the old one no longer does.
func TestW2_RotatedSecret(t *testing.T) {
	hook := func(secrets ...string) webhook.Hook {
		h, err := webhook.NewLocalHook(webhook.LocalConfig{Secrets: secrets, World: func(int64) (string, bool) { return world, true }})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	const next = "another-secret-of-the-tests"
	renewable := webhook.NewRenewable(hook(secret))
	r := start(t, func(c *webhook.Config) { c.Hooks = []webhook.Hook{renewable} })
	body := encode(t, labeled())
	send := func(by string) reply {
		return r.post(body, func(req *http.Request) {
			req.Header.Set(webhook.HeaderDelivery, uuid.NewString())
			req.Header.Set(webhook.HeaderSignature, sign(by, body))
		})
	}
	for i, c := range []struct {
		secrets  []string
		old, new bool
	}{{[]string{secret}, true, false}, {[]string{secret, next}, true, true}, {[]string{next}, false, true}} {
		renewable.Renew(hook(c.secrets...))
		for by, counts := range map[string]bool{secret: c.old, next: c.new} {
			got := send(by)
			if counts != (got.status == http.StatusAccepted) || !counts && got.Code != string(kernel.CodeSigMismatch) {
				t.Errorf("%d: %d %s", i, got.status, got.text)
			}
		}
	}
}

// TestI13_StrangersInstallation: anybody may install a public App. What happens
// to an installation that none of the listed repositories belongs to makes
// nothing due.
func TestI13_StrangersInstallation(t *testing.T) {
	asked := ""
	h := githubHook(t, func(c *webhook.GitHubConfig) {
		c.Installed = func(installation int64, account string) []string {
			asked = account
			if installation == 77 || account == "acme" {
				return []string{world}
			}
			return nil
		}
	})
	for _, c := range []struct {
		name, event string
		body        object
		worlds      int
		ignored     kernel.Code
	}{
		{"ours", "installation", githubInstallation("suspend"), 1, ""},
		{"a stranger's", "installation", with(githubInstallation("created"), "installation", object{"id": 78, "account": object{"login": "mallory"}}), 0, kernel.CodeTargetNotAllowed},
		{"one whose account is awaited", "installation", with(githubInstallation("created"), "installation", object{"id": 79, "account": object{"login": "acme"}}), 1, ""},
		{"a repository is added to a stranger's", "installation_repositories",
			with(githubInstallation("added", "repositories_added", []object{{"id": 99}}, "repositories_removed", []object{}), "installation", object{"id": 78, "account": object{"login": "mallory"}}), 0, kernel.CodeTargetNotAllowed},
		{"one that isn't known by its number is added", "installation_repositories",
			with(githubInstallation("added", "repositories_added", []object{{"id": 99}}, "repositories_removed", []object{}), "installation", object{"id": 79, "account": object{"login": "acme"}}), 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := h.Parse(heads(webhook.HeaderGitHubEvent, c.event), jsonOf(t, c.body))
			if err != nil || e.Ignored != c.ignored || (e.Access != nil) != (c.worlds > 0) || e.Access != nil && len(e.Access.Worlds) != c.worlds {
				t.Errorf("%+v %+v, %v (asked for %q)", e, e.Access, err, asked)
			}
		})
	}
}
