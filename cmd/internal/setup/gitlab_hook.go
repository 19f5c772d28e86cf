package setup

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/forge"
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

// secret finds what the hooks sign or are known by, or makes a signing token:
// [GitLab.hook] sees whether this GitLab can.
func (g *GitLab) secret() error {
	if g.KeepHooks {
		g.signed = !Exists(g.path(gitlabHookFile))
		return nil
	}
	if g.PublicURL == "" {
		g.Say("without --public-url writ asks GitLab every minute, and no hook is made. GitLab shows no former text of an issue, so each approval then needs /writ approve DIGEST\n")
		return nil
	}
	g.signed = !Exists(g.path(gitlabHookFile))
	if Exists(g.secretPath()) {
		_, err := ReadKept(g.secretPath())
		return err
	}
	g.fresh = true
	return Keep(g.secretPath(), []byte(newSigningToken()+"\n"))
}

func (g *GitLab) secretPath() string {
	if g.signed {
		return g.path(gitlabKeyFile)
	}
	return g.path(gitlabHookFile)
}

// hook makes the hook of a project, or sets the one that is there.
func (g *GitLab) hook(ctx context.Context, p project) error {
	if g.PublicURL == "" || g.KeepHooks {
		return nil
	}
	if !p.hooks {
		return g.hookByHand(p)
	}
	all, err := g.admin.Hooks(ctx, p.Repo)
	if forge.IsReason(err, forge.Forbidden) {
		return g.hookByHand(p)
	}
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(h gitlab.Hook) bool { return h.URL == g.hookURL() })
	if at >= 0 && (all[at].Secret || all[at].Signed) && g.fresh && !g.Rotate {
		return wrong("If no other writ listens there, have it set anew: --rotate-hook-secret. Otherwise name the directory of that set-up with --dir.",
			"%s has a hook to %s already, and its secret isn't in %s.", p.Repo, g.hookURL(), g.Dir)
	}
	made, err := g.ensure(ctx, p)
	if err != nil {
		return err
	}
	how := "with a secret token"
	if g.signed {
		how = "signed"
	}
	g.Say("  hook: %s, %s\n", made.URL, how)
	g.try(ctx, p, made)
	return nil
}

// ensure sets the hook with the secret that is kept. The first of a new secret
// shows whether this GitLab signs.
func (g *GitLab) ensure(ctx context.Context, p project) (gitlab.Hook, error) {
	if g.Rotate && !g.fresh && !g.rotated {
		if err := g.rotate(); err != nil {
			return gitlab.Hook{}, err
		}
	}
	spec, err := g.spec()
	if err != nil {
		return gitlab.Hook{}, err
	}
	made, err := g.admin.EnsureHook(ctx, p.Repo, spec)
	if !g.signed || !forge.IsReason(err, forge.Conflict) {
		return made, err
	}
	if err := g.unsigned(); err != nil {
		return made, err
	}
	if spec, err = g.spec(); err != nil {
		return made, err
	}
	return g.admin.EnsureHook(ctx, p.Repo, spec)
}

// unsigned puts a secret token in the place of a signing token.
func (g *GitLab) unsigned() error {
	if err := Keep(g.path(gitlabHookFile), []byte(newSecretToken()+"\n")); err != nil {
		return err
	}
	g.signed = false
	return os.Remove(g.path(gitlabKeyFile))
}

func (g *GitLab) spec() (gitlab.HookSpec, error) {
	data, err := ReadKept(g.secretPath())
	spec := gitlab.HookSpec{URL: g.hookURL()}
	if value := strings.TrimSpace(string(data)); g.signed {
		spec.Signing = value
	} else {
		spec.Secret = value
	}
	return spec, err
}

// rotate puts a new secret in the old one's place, once for all projects. What
// GitLab sends until a running writ has taken it in is refused, and found by the sweep.
func (g *GitLab) rotate() error {
	g.rotated = true
	path, value := g.secretPath(), newSigningToken()
	if !g.signed {
		value = newSecretToken()
	}
	if err := os.Rename(path, path+".old"); err != nil {
		return &Error{Text: path + " can't be replaced: " + cause(err) + ".", Remedy: "Change its directory's rights, and try again.", Err: err}
	}
	if err := Keep(path, []byte(value+"\n")); err != nil {
		return errors.Join(err, os.Rename(path+".old", path))
	}
	g.Say("  made a new secret for the hooks; the old one is %s. A running writ takes the new one in within seconds; what it refuses until then it finds later\n", path+".old")
	return nil
}

// hookByHand says exactly what a Maintainer has to do.
func (g *GitLab) hookByHand(p project) error {
	if g.signed && g.fresh { // nobody has asked this GitLab whether it signs
		if err := g.unsigned(); err != nil {
			return err
		}
	}
	field := "Secret token"
	if g.signed {
		field = "Signing token"
	}
	g.Say("  hook: making one needs the role Maintainer. Somebody who has it does this once, or give his token with --maintainer-token-file:\n"+
		"    open           %s/-/hooks, Add new webhook\n"+
		"    URL            %s\n"+
		"    %-14s what %s holds\n"+
		"    Trigger        Push events, Issues events, Confidential issues events, Comments, Confidential comments, Merge request events\n"+
		"    SSL            leave the verification on\n", p.page, g.hookURL(), field, g.secretPath())
	return nil
}

// Bounds of looking whether a hook arrives.
const (
	answerTime  = 5 * time.Second
	resultEvery = 500 * time.Millisecond
	resultTries = 20
)

// try has GitLab send a sample, if writ answers at its public address, and says
// what became of it. Nothing of it stops the set-up.
func (g *GitLab) try(ctx context.Context, p project, h gitlab.Hook) {
	if !g.listens(ctx) {
		g.Say("  no writ answers at %s yet. Once it does, run this again to try the hook\n", g.PublicURL)
		return
	}
	before, err := g.admin.LastDelivery(ctx, p.Repo, h.ID)
	if err != nil {
		g.Say("  the hook was not tried: %s\n", err.Error())
		return
	}
	if err := g.admin.TryHook(ctx, p.Repo, h.ID); err != nil {
		g.Say("  the hook could not be tried: %s\n", err.Error())
		return
	}
	tick := time.NewTicker(resultEvery)
	defer tick.Stop()
	for range resultTries {
		last, err := g.admin.LastDelivery(ctx, p.Repo, h.ID)
		switch {
		case err != nil:
			g.Say("  what became of a sample can't be seen: %s\n", err.Error())
			return
		case last.ID == before.ID:
		case strings.HasPrefix(last.Status, "2"):
			g.Say("  tried: GitLab sent a sample, and writ took it\n")
			return
		default:
			g.Say("  tried: GitLab sent a sample, and was answered %s. Look whether writ runs with %s, and at its log\n", last.Status, g.EnvPath())
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	g.Say("  GitLab shows no result of a sample yet; see %s/-/hooks, Edit, Recent events\n", p.page)
}

// listens reports whether a writ answers at the public address: it takes no GET.
func (g *GitLab) listens(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.hookURL(), nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close() // the status is all
	return res.StatusCode == http.StatusMethodNotAllowed
}
