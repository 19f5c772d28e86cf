package setup

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
	"strings"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge/gitlab"
)

// signingPrefix begins a signing token: 32 bytes in base64 follow.
const signingPrefix = "whsec_"

func newSigningToken() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // it never fails
	return signingPrefix + base64.StdEncoding.EncodeToString(key[:])
}

func newSecretToken() string { return rand.Text() + rand.Text() }

// hookSecret is what the hook of one project signs with, or is known by. Each has its
// own: who manages a project sees it, and could tell writ of the others with theirs.
type hookSecret struct {
	g       *GitLab
	project string
	word    string // the project's, in names of files
	signed  bool   // the hook signs
	fresh   bool   // it was made just now
}

// kind is the key that names it in a configuration.
func (k *hookSecret) kind() string {
	if k.signed {
		return "key"
	}
	return "secret"
}

// path is its file.
func (k *hookSecret) path() string { return k.g.path("gitlab-hook-" + k.word + "." + k.kind()) }

// variable is that by which the configuration names it, without _FILE.
func (k *hookSecret) variable() string {
	return "WRIT_GITLAB_HOOK_" + strings.ToUpper(k.kind()+"_"+strings.ReplaceAll(k.word, "-", "_"))
}

// is reports whether a configuration's hook is this one.
func (k *hookSecret) is(h config.GitLabHook) bool {
	name := h.Secret
	if k.signed {
		name = h.Key
	}
	return name == k.variable() && h.Covers(k.project)
}

// have makes a signing token where there is neither one nor a secret token:
// [hookSecret.hook] sees whether this GitLab signs.
func (k *hookSecret) have() error {
	if Exists(k.path()) {
		_, err := ReadKept(k.path())
		return err
	}
	k.fresh = true
	return Keep(k.path(), []byte(newSigningToken()+"\n"))
}

// unsigned puts a secret token in the place of a signing token.
func (k *hookSecret) unsigned() error {
	signing := k.path()
	k.signed = false
	if err := Keep(k.path(), []byte(newSecretToken()+"\n")); err != nil {
		return err
	}
	return os.Remove(signing)
}

func (k *hookSecret) spec() (gitlab.HookSpec, error) {
	data, err := ReadKept(k.path())
	spec := gitlab.HookSpec{URL: k.g.hookURL()}
	if value := strings.TrimSpace(string(data)); k.signed {
		spec.Signing = value
	} else {
		spec.Secret = value
	}
	return spec, err
}

// rotate puts a new secret in the old one's place. What GitLab sends until a running
// writ has taken it in is refused, and found by the sweep.
func (k *hookSecret) rotate() error {
	path, value := k.path(), newSigningToken()
	if !k.signed {
		value = newSecretToken()
	}
	if err := os.Rename(path, path+".old"); err != nil {
		return &Error{Text: path + " can't be replaced: " + cause(err) + ".", Remedy: "Change its directory's rights, and try again.", Err: err}
	}
	if err := Keep(path, []byte(value+"\n")); err != nil {
		return errors.Join(err, os.Rename(path+".old", path))
	}
	k.g.Say("  made a new secret for the hook; the old one is %s. A running writ takes the new one in within seconds; what it refuses until then it finds later\n", path+".old")
	return nil
}
