package doctor

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

const (
	good      = "0123456789abcdef0123456789abcdef"
	alsoGood  = "fedcba9876543210fedcba9876543210"
	goodToken = "glpat-00000000000000000001"
)

func keyOf(t *testing.T, bits int) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// TestSecrets_EachFault: each weakness of a secret is seen, named with the key of
// the configuration, and no value is ever part of what is said.
func TestSecrets_EachFault(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0") // so that a short key can be made
	pemText, short := keyOf(t, 2048), keyOf(t, 1024)
	dir := t.TempDir()
	t.Chdir(dir)
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
		must(t, os.Chmod(path, mode))
		return path
	}
	for name, c := range map[string]struct {
		set            map[string]string // over what is good
		subject        string
		status         Status
		detail, remedy string
	}{
		"nothing":                        {nil, "HOOK", OK, "It is set", ""},
		"missing":                        {map[string]string{"HOOK": ""}, "HOOK", Failed, "is not set", "HOOK_FILE"},
		"short":                          {map[string]string{"HOOK": "too-short-1"}, "HOOK", Failed, "shorter than 32", "openssl rand"},
		"of one letter":                  {map[string]string{"HOOK": strings.Repeat("ab", 20)}, "HOOK", Failed, "repeats", "openssl rand"},
		"the token again":                {map[string]string{"HOOK": good, "TOKEN": good}, "TOKEN", Failed, "same as HOOK", "of its own"},
		"no key at all":                  {map[string]string{"KEY": "not a key"}, "KEY", Failed, "no PEM file", "Private keys"},
		"a short key":                    {map[string]string{"KEY": short}, "KEY", Failed, "1024 bits", "Private keys"},
		"no signing key":                 {map[string]string{"SIGN": "whsec_short"}, "SIGN", Failed, "whsec_", "rand -base64 32"},
		"no key of a provider":           {map[string]string{"MODEL": ""}, "MODEL", Failed, "is not set", "credential.secret"},
		"file":                           {map[string]string{"HOOK": "", "HOOK_FILE": file("a", good, 0o600)}, "HOOK", OK, "only its owner", ""},
		"file of a group":                {map[string]string{"HOOK": "", "HOOK_FILE": file("b", good, 0o440)}, "HOOK", Warning, "A group may read", "chmod 600"},
		"file of all":                    {map[string]string{"HOOK": "", "HOOK_FILE": file("c", good, 0o644)}, "HOOK", Failed, "Everybody", "chmod 600"},
		"file that others write":         {map[string]string{"HOOK": "", "HOOK_FILE": file("d", good, 0o622)}, "HOOK", Failed, "Others may write", "chmod 600"},
		"file of a builder's":            {map[string]string{"MODEL": "", "MODEL_FILE": file("shown/e", "sk-key", 0o600)}, "MODEL", Failed, "builders.default.ro shows it", "elsewhere"},
		"file of the checks'":            {map[string]string{"MODEL": "", "MODEL_FILE": file("caches/f", "sk-key", 0o600)}, "MODEL", Failed, "checks.ro shows it", "elsewhere"},
		"file of a builder's, from here": {map[string]string{"MODEL": "", "MODEL_FILE": "shown/e"}, "MODEL", Failed, "builders.default.ro shows it", "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"HOOK": good, "KEY": pemText, "TOKEN": goodToken, "SIGN": gitlabtest.SigningToken("word"), "MODEL": "sk-key"}
			for k, v := range c.set {
				env[k] = v
			}
			cfg := config.Default()
			agent := config.DefaultBuilder("agent")
			agent.Egress = []config.Egress{{Host: "models.example", Credential: config.Credential{Secret: "MODEL"}}}
			agent.RO, cfg.Checks.RO = []config.Mount{{Source: filepath.Join(dir, "shown"), Target: "/opt/agent"}}, []config.Mount{{Source: filepath.Join(dir, "caches")}}
			cfg.Builders = map[string]config.Builder{"default": agent}
			cfg.Forges.GitHub.AppID, cfg.Forges.GitHub.PrivateKey, cfg.Forges.GitHub.HookSecrets = 1, "KEY", []string{"HOOK"}
			cfg.Forges.GitLab.Token, cfg.Forges.GitLab.HookSecrets, cfg.Forges.GitLab.HookKeys = "TOKEN", nil, []string{"SIGN"}
			cfg.Forges.GitLab.Repositories = []string{"a/b"}
			all := Secrets(cfg, func(name string) string { return env[name] }, nil)
			i := slices.IndexFunc(all, func(one Check) bool { return one.Subject == c.subject })
			wants(t, all[i:i+1], NameSecrets, c.status, c.detail, c.remedy)
			for _, check := range all {
				if check.Subject != c.subject && check.Status != OK {
					t.Errorf("%s is %s as well: %s", check.Subject, check.Status, check.Detail)
				}
				for _, value := range env {
					if value != "" && !strings.HasPrefix(value, dir) && (strings.Contains(check.Detail, value) || strings.Contains(check.Remedy, value)) {
						t.Errorf("a secret is in %s: %s", check.Subject, check.Detail)
					}
				}
			}
		})
	}
}

// TestSecrets_BehindALink: a file that is named from a directory which is a link is found
// below a mount all the same.
func TestSecrets_BehindALink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "real", "shown"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "real", "shown", "key"), []byte("sk-key"), 0o600))
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	t.Chdir(filepath.Join(dir, "link"))
	cfg := config.Default()
	cfg.Checks.RO = []config.Mount{{Source: filepath.Join(dir, "link", "shown"), Target: "/opt/tools"}}
	if key := ShownBy(MountsOf(cfg), "shown/key"); key != "checks.ro" {
		t.Errorf("%q shows it", key)
	}
}

// TestSecrets_GroupOfAPod: the Secret of a pod is read by its group, which is no
// fault where no other user of the pod is in it.
func TestSecrets_GroupOfAPod(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte(good), 0o600))
	must(t, os.Chmod(path, 0o440))
	info, err := os.Stat(path)
	must(t, err)
	uid, gid := os.Geteuid(), info.Sys().(*syscall.Stat_t).Gid
	passwd := fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\nwrit:x:%d:%d::/:/bin/sh\n", uid, gid)
	group := fmt.Sprintf("root:x:0:\nwrit:x:%d:\nstaff:x:%d:ana\n", gid, gid+1)
	for name, c := range map[string]struct {
		passwd, group string
		want          Status
	}{
		"writ's alone":      {passwd, group, OK},
		"with root":         {passwd, strings.Replace(group, fmt.Sprintf("writ:x:%d:", gid), fmt.Sprintf("writ:x:%d:root,writ", gid), 1), OK},
		"another's, too":    {passwd + fmt.Sprintf("ana:x:%d:%d::/:/bin/sh\n", uid+1, gid), group, Warning},
		"another member":    {passwd, strings.Replace(group, fmt.Sprintf("writ:x:%d:", gid), fmt.Sprintf("writ:x:%d:ana", gid), 1), Warning},
		"by a second name":  {passwd, group + fmt.Sprintf("other:x:%d:ana\n", gid), Warning},
		"no list of users":  {"", group, Warning},
		"no list of groups": {passwd, "", Warning},
		"a broken line":     {passwd + "+\n", group, Warning},
	} {
		etc := t.TempDir()
		for file, text := range map[string]string{"passwd": c.passwd, "group": c.group} {
			if text != "" {
				must(t, os.WriteFile(filepath.Join(etc, file), []byte(text), 0o600))
			}
		}
		if got := modeOf(path, etc); got.status != c.want {
			t.Errorf("%s: %s, want %s: %s", name, got.status, c.want, got.detail)
		}
	}
	if got := modeOf(path, ""); got.status != Warning {
		t.Errorf("outside a pod: %s", got.status)
	}
}

// TestSecrets_Poll: without webhooks nothing that signs them is asked for.
func TestSecrets_Poll(t *testing.T) {
	cfg := config.Default()
	cfg.Forges.Local.Dir, cfg.Forges.Local.Token, cfg.Forges.Local.HookSecrets = "/x", "TOKEN", []string{"HOOK"}
	cfg.Server.Intake = config.IntakePoll
	env := map[string]string{"TOKEN": goodToken}
	all := Secrets(cfg, func(name string) string { return env[name] }, nil)
	if len(all) != 1 || all[0].Subject != "TOKEN" || all[0].Status != OK {
		t.Errorf("checked are %v", all)
	}
	if got := SecretValues(cfg, func(name string) string { return env[name] }); !slices.Equal(got, []string{goodToken}) {
		t.Error("the values to be hidden are others")
	}
}

// TestJ7_OneSecretForSeveral: a secret that speaks for several projects is warned of, and
// bound ones are looked at as any other.
func TestJ7_OneSecretForSeveral(t *testing.T) {
	cfg := config.Default()
	cfg.Forges.GitLab.Token, cfg.Forges.GitLab.HookSecrets, cfg.Forges.GitLab.Repositories = "TOKEN", []string{"HOOK"}, []string{"g/a", "g/b"}
	env := map[string]string{"TOKEN": goodToken, "HOOK": "0123456789abcdef0123456789abcdef", "WEAK": "short"}
	getenv := func(name string) string { return env[name] }
	all := Secrets(cfg, getenv, nil)
	wants(t, all[len(all)-1:], NameSecrets, Warning, "speaks for all 2 projects", "forges.gitlab.hooks")
	cfg.Forges.GitLab.Repositories = cfg.Forges.GitLab.Repositories[:1]
	for _, check := range Secrets(cfg, getenv, nil) {
		if check.Status != OK {
			t.Errorf("of one project: %v", check)
		}
	}
	cfg.Forges.GitLab.HookSecrets = nil
	cfg.Forges.GitLab.Hooks = []config.GitLabHook{{Secret: "HOOK", Projects: []string{"g/a"}}, {Secret: "WEAK", Projects: []string{"g/b"}}, {Key: "HOOK", Projects: []string{"g/b"}}}
	all = Secrets(cfg, getenv, nil)
	if len(all) != 4 || all[1].Status != OK || all[2].Status != Failed || all[3].Status != Failed {
		t.Errorf("%v", all)
	}
}
