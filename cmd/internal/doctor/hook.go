package doctor

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/writbot/writ/forge/github"
)

// deliveriesKept is how long GitHub remembers deliveries.
const deliveriesKept = 3 * 24 * time.Hour

// appHook looks where the App's webhooks go and what became of them.
func (v *visit) appHook(ctx context.Context) {
	h, isApp := v.Host.(app)
	switch {
	case !isApp:
		return // a hook of each repository's own
	case v.Poll:
		v.skip("intake: poll needs no webhooks.", NameHook, NameDeliveries, NameAddress)
		return
	case v.personal:
		v.skip("The hooks of a repository without an App can't be seen with writ's token.", NameHook, NameDeliveries, NameAddress)
		return
	}
	var hook github.AppHook
	v.check(ctx, NameHook, func(ctx context.Context) (r result) {
		hook, r = v.appHookHealth(ctx, h)
		return r
	})
	v.check(ctx, NameDeliveries, func(ctx context.Context) result { return v.appDeliveries(ctx, h) })
	if hook.URL == "" {
		v.skip("There is no address to ask.", NameAddress)
		return
	}
	v.check(ctx, NameAddress, func(ctx context.Context) result { return v.address(ctx, hook.URL) })
}

const webhookPage = "On the App's page: General, Webhook. "

func (v *visit) appHookHealth(ctx context.Context, h app) (github.AppHook, result) {
	hook, err := h.AppHook(ctx)
	if err != nil {
		return hook, forgeTrouble(v.Forge, "", err, "The App's webhook can't be read")
	}
	u, err := url.Parse(hook.URL)
	switch {
	case hook.URL == "" || err != nil:
		return github.AppHook{}, bad(webhookPage+"Set it active, with the URL https://<your host>/hooks/github; or set server.intake: poll.", "The App has no webhook: GitHub tells writ of nothing.")
	case !strings.HasSuffix(u.Path, "/hooks/github"):
		return hook, bad(webhookPage+"Its URL ends in /hooks/github.", "The App's webhooks go to %s, which is no address of writ's.", hook.URL)
	case hook.ContentType != "json":
		return hook, bad(webhookPage+"Content type: application/json.", "The App's webhooks are sent as %q, which writ doesn't read.", hook.ContentType)
	case u.Scheme == "https" && hook.Insecure:
		return hook, warn(webhookPage+"Enable SSL verification.", "GitHub doesn't verify the certificate of %s.", hook.URL)
	case u.Scheme != "https":
		return hook, warn(webhookPage+"Its URL begins with https; a proxy before writ has the certificate.", "The App's webhooks go to %s without TLS: anybody on the way reads them.", hook.URL)
	}
	return hook, ok("The App's webhooks go to %s.", hook.URL)
}

func (v *visit) appDeliveries(ctx context.Context, h app) result {
	failed, err := h.FailedDeliveries(ctx, v.Now().Add(-deliveriesKept))
	span := "the last three days"
	switch {
	case errors.Is(err, github.ErrMoreDeliveries):
		span = "the latest two thousand"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return skipped("There are too many to be listed in time; the App's page shows them: Advanced, Recent Deliveries.")
	case err != nil:
		return forgeTrouble(v.Forge, "", err, "The deliveries can't be listed")
	}
	if len(failed) == 0 {
		return ok("None of %s has failed.", span)
	}
	last := failed[0]
	how := "the receiver could not be reached"
	if last.Status != 0 {
		how = "the answer was " + http.StatusText(last.Status)
		if http.StatusText(last.Status) == "" {
			how = "the answer was no success"
		}
		how += " (" + strconv.Itoa(last.Status) + ")"
	}
	return warn("If writ answers now, nothing is lost: the sweep finds what they told of. To send one again: the App's page, Advanced, Recent Deliveries, Redeliver.",
		"%d of %s were not taken; the last one, %s at %s: %s.", len(failed), span, last.Event, last.At.UTC().Format(time.RFC3339), how)
}

// address asks writ's public address as anybody may: the receiver refuses a GET
// with 405. What a machine can't reach of itself others may reach, so that
// nothing here fails.
func (s Site) address(ctx context.Context, hook string) result {
	res, err := s.get(ctx, hook)
	if err != nil {
		why, _ := trouble(err, "forges."+s.Forge)
		return warn("See that the forge reaches it: DNS, firewall, proxy, certificate. Some machines can't reach their own public address; then the deliveries above tell more.",
			"%s can't be reached from here: %s.", hook, why)
	}
	_ = res.Body.Close() // its head was all that is wanted
	if res.StatusCode != http.StatusMethodNotAllowed {
		return warn("See that the proxy before writ passes /hooks/ on to server.listen, and that writ serve runs.",
			"%s answers a GET with %d; writ's receiver answers 405.", hook, res.StatusCode)
	}
	return ok("%s is writ's receiver.", hook)
}
