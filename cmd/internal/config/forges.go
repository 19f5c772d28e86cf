package config

import (
	"reflect"
	"slices"
	"strings"
)

// The ways in which a server learns that something happened.
const (
	IntakeWebhook = "webhook"
	IntakePoll    = "poll"
)

// Forges are the places where issues come from.
type Forges struct {
	GitHub GitHubForge `key:"github" doc:"github.com, Enterprise Cloud or an Enterprise Server. Without repositories there is none."`
	GitLab GitLabForge `key:"gitlab" doc:"gitlab.com or a self-managed GitLab. Without repositories there is none."`
	Local  LocalForge  `key:"local" doc:"The embedded forge of this machine, which writ forge serves."`
}

// GitHubForge is GitHub, as an App or with a personal token.
type GitHubForge struct {
	URL          string   `key:"url" restart:"yes" doc:"Where its pages and git are."`
	API          string   `key:"api" restart:"yes" doc:"Where its REST API is. Empty: what belongs to url: https://api.github.com, or /api/v3 of an Enterprise Server."`
	AppID        int64    `key:"app_id" restart:"yes" min:"0" max:"9007199254740991" doc:"The number of the App that writ acts as; it is on the App's page. 0: there is a token in its place."`
	PrivateKey   string   `key:"private_key" doc:"Name of the environment variable with the App's private key, in PEM form. With _FILE at its end the variable names the .pem file."`
	Token        string   `key:"token" doc:"In place of an App: name of the environment variable with a personal token. Writ then acts as its owner, and may do what the owner may, everywhere. For small set-ups."`
	HookSecrets  []string `key:"hook_secrets" doc:"Names of the environment variables, as with private_key, whose values sign webhooks. Several while one is being replaced."`
	Repositories []string `key:"repositories" doc:"The repositories that are governed, as owner/name. No other is ever touched."`
	CAFile       string   `key:"ca_file" restart:"yes" doc:"A PEM file with authorities beside the system's, for a server with a certificate of its own."`
	Proxy        string   `key:"proxy" restart:"yes" doc:"URL of a proxy. Empty: the environment's HTTPS_PROXY and NO_PROXY. none: none."`
}

// On reports whether the file speaks of it.
func (g GitHubForge) On() bool { return !reflect.DeepEqual(g, Default().Forges.GitHub) }

// GitLabForge is a GitLab, with an access token.
type GitLabForge struct {
	URL          string       `key:"url" restart:"yes" doc:"Where its pages and git are; also below a path."`
	Token        string       `key:"token" doc:"Name of the environment variable with the access token: of a project or group, with the scope api and the role Developer. With _FILE at its end the variable names a file that holds it."`
	HookSecrets  []string     `key:"hook_secrets" doc:"Names of the environment variables, as with token, whose values are the webhooks' secret tokens. Several while one is being replaced."`
	HookKeys     []string     `key:"hook_keys" doc:"The same for signing tokens (whsec_…), for a GitLab that signs. With one of them no delivery is taken for its secret token."`
	Hooks        []GitLabHook `key:"hooks" doc:"In their place, where there are several projects: a secret for each webhook, which speaks for its projects alone."`
	Repositories []string     `key:"repositories" doc:"The projects that are governed, with their groups: group/subgroup/name. No other is ever touched."`
	CAFile       string       `key:"ca_file" restart:"yes" doc:"A PEM file with authorities beside the system's, for a server with a certificate of its own."`
	Proxy        string       `key:"proxy" restart:"yes" doc:"URL of a proxy. Empty: the environment's HTTPS_PROXY and NO_PROXY. none: none."`
}

// GitLabHook is a webhook and what it may speak for. Several may cover one project while
// a secret is being replaced.
type GitLabHook struct {
	Key      string   `key:"key" doc:"Name of the environment variable with its signing token, as in hook_keys."`
	Secret   string   `key:"secret" doc:"Or of the one with its secret token, as in hook_secrets."`
	Projects []string `key:"projects" doc:"Some of repositories, or groups: each covers the projects below it."`
}

// Covers reports whether the hook may speak for a project.
func (h GitLabHook) Covers(project string) bool {
	return slices.ContainsFunc(h.Projects, func(p string) bool {
		return strings.EqualFold(p, project) || len(project) > len(p) && strings.EqualFold(p+"/", project[:len(p)+1])
	})
}

// On reports whether the file speaks of it.
func (g GitLabForge) On() bool { return !reflect.DeepEqual(g, Default().Forges.GitLab) }

// LocalForge is an embedded forge on this machine.
type LocalForge struct {
	Dir          string   `key:"dir" restart:"yes" doc:"The forge's directory. Empty: there is none."`
	URL          string   `key:"url" restart:"yes" doc:"Where the forge serves git and its page, such as http://127.0.0.1:8715."`
	Token        string   `key:"token" doc:"Name of the environment variable with writ's own token there. With _FILE at its end the variable names a file that holds it."`
	HookSecrets  []string `key:"hook_secrets" doc:"Names of the environment variables, as with token, whose values sign webhooks. Several while one is being replaced."`
	Repositories []string `key:"repositories" doc:"The repositories that are governed, as owner/name. No other is ever touched."`
}

// On reports whether the file speaks of it.
func (l LocalForge) On() bool { return l.Dir != "" }

// Any reports whether there is a forge at all.
func (f Forges) Any() bool { return f.GitHub.On() || f.GitLab.On() || f.Local.On() }

func defaultForges() Forges {
	return Forges{
		GitHub: GitHubForge{
			URL: "https://github.com", PrivateKey: "WRIT_GITHUB_PRIVATE_KEY",
			HookSecrets: []string{"WRIT_GITHUB_HOOK_SECRET"}, Repositories: []string{},
		},
		GitLab: GitLabForge{
			URL: "https://gitlab.com", Token: "WRIT_GITLAB_TOKEN",
			HookSecrets: []string{"WRIT_GITLAB_HOOK_SECRET"}, HookKeys: []string{}, Hooks: []GitLabHook{}, Repositories: []string{},
		},
		Local: LocalForge{Token: "WRIT_LOCAL_TOKEN", HookSecrets: []string{"WRIT_LOCAL_HOOK_SECRET"}, Repositories: []string{}},
	}
}
