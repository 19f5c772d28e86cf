package doctor

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab"
)

// gitLab is what a GitLab is asked beside what every forge is.
type gitLab interface {
	Level(ctx context.Context, r forge.Repo, user int64) (int, error)
	Hooks(ctx context.Context, r forge.Repo) ([]gitlab.Hook, error)
	FailedDeliveries(ctx context.Context, r forge.Repo, hook int64) ([]gitlab.HookDelivery, error)
	Protections(ctx context.Context, r forge.Repo) ([]gitlab.Protection, error)
	PushRules(ctx context.Context, r forge.Repo) (gitlab.PushRules, error)
}

var _ gitLab = (*gitlab.Host)(nil)

// hookPath ends the address of writ's hook for GitLab.
const hookPath = "/hooks/gitlab"

// projectHook looks at the hook of the project, and at what became of its
// deliveries.
func (p *patient) projectHook(ctx context.Context, h gitLab) {
	if p.Poll {
		p.skip("intake: poll needs no webhooks.", NameHook, NameDeliveries)
		return
	}
	var hook gitlab.Hook
	unseen := false
	there := p.check(ctx, NameHook, func(ctx context.Context) result {
		all, err := h.Hooks(ctx, p.at())
		if forge.IsReason(err, forge.Forbidden) {
			unseen = true
			return warn("Look at the page Settings, Webhooks of "+p.Name+"; or give the token the role Maintainer while `writ doctor` runs.",
				"The hooks can't be seen: that needs the role Maintainer.")
		}
		if err != nil {
			return p.refused(err, "The hooks can't be listed")
		}
		for _, k := range all {
			if p.Hook != "" && k.URL == p.Hook || p.Hook == "" && strings.HasSuffix(k.URL, hookPath) {
				hook = k
			}
		}
		return p.hookHealth(hook)
	})
	if !there && hook.ID == 0 || unseen {
		p.skip("There is no hook whose deliveries could be looked at.", NameDeliveries)
		return
	}
	p.check(ctx, NameDeliveries, func(ctx context.Context) result { return p.projectDeliveries(ctx, h, hook) })
}

func (p *patient) hookHealth(k gitlab.Hook) result {
	page := "Settings, Webhooks of " + p.Name
	if k.ID == 0 {
		want := p.Hook
		if want == "" {
			want = "https://<your host>" + hookPath
		}
		return bad("`writ setup gitlab` makes it; or by hand on "+page+".", "There is no hook to %s: GitLab tells writ of nothing.", want)
	}
	switch missing := k.Missing(); {
	case k.State == "disabled":
		return bad("Mend what the failed deliveries below tell of, then send a test delivery on "+page+": that switches it on again.", "GitLab has switched the hook off for good: its deliveries failed too often.")
	case k.State == "temporarily_disabled":
		return bad("Mend what the failed deliveries below tell of, then send a test delivery on "+page+", or wait.", "GitLab leaves the hook alone until %s: its deliveries failed.", k.Until.UTC().Format(time.RFC3339))
	case len(missing) > 0:
		return bad("Tick them on "+page+"; or let `writ setup gitlab` set the hook again.", "The hook isn't told of: %s.", strings.Join(missing, ", "))
	case !k.Verifies && strings.HasPrefix(k.URL, "https:"):
		return warn("Tick SSL verification on "+page+".", "GitLab doesn't verify the certificate of %s.", k.URL)
	}
	return ok("It goes to %s.", k.URL)
}

func (p *patient) projectDeliveries(ctx context.Context, h gitLab, hook gitlab.Hook) result {
	failed, err := h.FailedDeliveries(ctx, p.at(), hook.ID)
	switch {
	case forge.IsReason(err, forge.NotFound):
		return skipped("This GitLab doesn't list deliveries (17.3 does); its page does: Settings, Webhooks, Edit, Recent events.")
	case err != nil:
		return p.refused(err, "The deliveries can't be listed")
	case len(failed) > 0:
		return warn("If writ answers now, nothing is lost: the sweep finds what they told of. To send one again: Settings, Webhooks, Edit, Recent events, View details, Resend request.",
			"%d of the deliveries that GitLab remembers (a week) were not taken; the last one, %s, with %s.", len(failed), failed[0].Trigger, failed[0].Status)
	}
	return ok("None of those that GitLab remembers has failed.")
}

func (p *patient) gitLabBranches(ctx context.Context, h gitLab) result {
	level, err := h.Level(ctx, p.at(), p.self.ID)
	if err != nil {
		return p.unseen(err)
	}
	var stops []string
	protections, err := h.Protections(ctx, p.at())
	if err != nil {
		return p.unseen(err)
	}
	for _, branch := range p.pushed() {
		stops = append(stops, protects(protections, branch, p.self.ID, level)...)
	}
	rules, err := h.PushRules(ctx, p.at())
	if err != nil && !forge.IsReason(err, forge.NotFound) && !forge.IsReason(err, forge.Forbidden) {
		return p.unseen(err)
	}
	hidden := err != nil
	doubts := pushDoubts(rules)
	stops = append(stops, p.pushRules(rules)...)
	if len(stops) > 0 {
		return bad("Settings, Repository of "+p.Name+": Protected branches, Push rules. Let writ's account push there, or leave writ/* out.",
			"Rules would stop writ. %s.", strings.Join(stops, "; "))
	}
	if len(doubts) > 0 {
		return warn("See Settings, Repository of "+p.Name+": Push rules. writ commits as "+p.Identity.Name+" <"+p.Identity.Email+"> (`identity`).",
			"Rules may stop writ; whether its identity keeps them can't be seen here. %s.", strings.Join(doubts, "; "))
	}
	if hidden {
		return ok("No protected branch stops writ. There are no push rules, or they can't be seen.")
	}
	return ok("Neither protected branches nor push rules stop writ.")
}

// protects lists the protections that keep an account from pushing a branch. As
// GitLab has it, one that lets it is enough.
func protects(all []gitlab.Protection, branch string, user int64, level int) (stops []string) {
	for _, one := range all {
		switch {
		case !one.Covers(branch):
		case one.Admits(user, level):
			return nil
		default:
			stops = append(stops, fmt.Sprintf("%s: the protection of %s doesn't let writ's account push", branch, one.Name))
		}
	}
	return stops
}

// pushRules lists what writ's commits can't keep.
func (p *patient) pushRules(r gitlab.PushRules) (stops []string) {
	say := func(when bool, what string) {
		if when {
			stops = append(stops, "push rule: "+what)
		}
	}
	say(r.Signed, "unsigned commits are rejected, and GitLab doesn't know writ's key")
	say(r.SignedOff, "commits without Signed-off-by are rejected")
	say(!fits(r.Email, p.Identity.Email), "identity.email "+p.Identity.Email+" doesn't match "+r.Email)
	say(!fits(r.Message, taskMessage), "messages must match "+r.Message)
	say(r.NotMessage != "" && matches(r.NotMessage, taskMessage), "messages must not match "+r.NotMessage)
	for _, branch := range p.pushed() {
		say(!fits(r.Branch, branch), "the branch "+branch+" doesn't match "+r.Branch)
	}
	return stops
}

// pushDoubts lists what an identity keeps or not, and only GitLab knows.
func pushDoubts(r gitlab.PushRules) (doubts []string) {
	if r.Members {
		doubts = append(doubts, "push rule: authors must be accounts of this GitLab: identity.email must be one's")
	}
	if r.Committer {
		doubts = append(doubts, "push rule: the committer must be who pushes: identity.email must be a verified address of writ's account")
	}
	if r.SameNameUser {
		doubts = append(doubts, "push rule: the committer must have the name of who pushes: identity.name must be that of writ's account")
	}
	return doubts
}

// matches reports whether a text is one that a pattern forbids.
func matches(pattern, text string) bool {
	re, err := regexp.Compile(pattern)
	return err == nil && re.MatchString(text)
}

// fits reports whether a text matches a pattern; "" asks nothing, and neither
// does what can't be read.
func fits(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	re, err := regexp.Compile(pattern)
	return err != nil || re.MatchString(text)
}
