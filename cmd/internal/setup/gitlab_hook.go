package setup

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab"
)

// hook makes the hook of a project, or sets the one that is there.
func (k *hookSecret) hook(ctx context.Context, p project) error {
	g := k.g
	if g.PublicURL == "" || g.KeepHooks {
		return nil
	}
	if err := k.have(); err != nil {
		return err
	}
	if !p.hooks {
		return k.byHand(p)
	}
	all, err := g.admin.Hooks(ctx, p.Repo)
	if forge.IsReason(err, forge.Forbidden) {
		return k.byHand(p)
	}
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(h gitlab.Hook) bool { return h.URL == g.hookURL() })
	if at >= 0 && (all[at].Secret || all[at].Signed) && k.fresh && !g.Rotate {
		return wrong("If no other writ listens there, have it set anew: --rotate-hook-secret. Otherwise name the directory of that set-up with --dir.",
			"%s has a hook to %s already, and its secret isn't in %s.", p.Repo, g.hookURL(), g.Dir)
	}
	made, err := k.ensure(ctx, p)
	if err != nil {
		return err
	}
	how := "with a secret token"
	if k.signed {
		how = "signed"
	}
	g.Say("  hook: %s, %s\n", made.URL, how)
	g.try(ctx, p, made)
	return nil
}

// ensure sets the hook with the secret that is kept. A new secret shows whether this
// GitLab signs.
func (k *hookSecret) ensure(ctx context.Context, p project) (gitlab.Hook, error) {
	if k.g.Rotate && !k.fresh {
		if err := k.rotate(); err != nil {
			return gitlab.Hook{}, err
		}
	}
	spec, err := k.spec()
	if err != nil {
		return gitlab.Hook{}, err
	}
	made, err := k.g.admin.EnsureHook(ctx, p.Repo, spec)
	if !k.signed || !forge.IsReason(err, forge.Conflict) {
		return made, err
	}
	if err := k.unsigned(); err != nil {
		return made, err
	}
	if spec, err = k.spec(); err != nil {
		return made, err
	}
	return k.g.admin.EnsureHook(ctx, p.Repo, spec)
}

// byHand says exactly what a Maintainer has to do.
func (k *hookSecret) byHand(p project) error {
	if k.signed && k.fresh { // nobody has asked this GitLab whether it signs
		if err := k.unsigned(); err != nil {
			return err
		}
	}
	field := "Secret token"
	if k.signed {
		field = "Signing token"
	}
	k.g.Say("  hook: making one needs the role Maintainer. Somebody who has it does this once, or give his token with --maintainer-token-file:\n"+
		"    open           %s/-/hooks, Add new webhook\n"+
		"    URL            %s\n"+
		"    %-14s what %s holds\n"+
		"    Trigger        Push events, Issues events, Confidential issues events, Comments, Confidential comments, Merge request events\n"+
		"    SSL            leave the verification on\n", p.page, k.g.hookURL(), field, k.path())
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
