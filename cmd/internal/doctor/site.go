package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/github"
	"github.com/writbot/writ/forge/gitlab"
)

// Site is a forge to check.
type Site struct {
	Forge string // github, gitlab or local
	Host  Host
	URL   string      // what is asked to see whether it answers: its API, or its page
	Git   git.Options // the way to it
	Poll  bool        // intake: poll

	Time time.Duration    // of one check; 0: CheckTime
	Now  func() time.Time // nil: time.Now
	Each func(Check)      // told of each check as it ends; nil for nobody
}

// Forge checks a forge: whether it answers, what time it has, who writ is there,
// and at GitHub how the App's hook is. Where it doesn't answer, the checks of its
// repositories needn't be made: answers is false.
func Forge(ctx context.Context, s Site) (checks []Check, answers bool) {
	if s.Now == nil {
		s.Now = time.Now
	}
	v := &visit{Site: s, runner: runner{subject: s.Forge, limit: s.Time, each: s.Each}}
	var skew time.Duration
	if !v.check(ctx, NameReach, func(ctx context.Context) result { return v.reach(ctx, &skew) }) {
		v.skip("The forge can't be reached.", NameClock, NameAccount, NameHook, NameDeliveries, NameAddress)
		return v.done, false
	}
	v.add(NameClock, v.clock(skew))
	answers = v.check(ctx, NameAccount, v.account)
	v.appHook(ctx)
	return v.done, answers
}

type visit struct {
	Site
	runner
	dated    bool // the forge said what time it is
	personal bool // writ is a person there
}

// client makes requests as the adapter does, follows nothing, and sends no
// credential.
func (s Site) client() *http.Client {
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if s.Git.HTTPClient != nil {
		c.Transport = s.Git.HTTPClient.Transport
	}
	return c
}

// reach asks without a credential: any answer will do.
func (v *visit) reach(ctx context.Context, skew *time.Duration) result {
	began := v.Now()
	url := v.URL
	if v.Forge == "gitlab" {
		url += "user" // which it has an answer for, 401
	}
	res, err := v.get(ctx, url)
	if err != nil {
		return v.unreached(err)
	}
	_ = res.Body.Close() // its head was all that is wanted
	middle := began.Add(v.Now().Sub(began) / 2)
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		v.dated, *skew = true, middle.Sub(at)
	}
	if res.StatusCode >= http.StatusInternalServerError {
		return warn("Try again in a while; see the forge's own status page.", "%s answers %d.", v.URL, res.StatusCode)
	}
	return ok("%s answers.", v.URL)
}

func (s Site) get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "writ")
	return s.client().Do(req)
}

// unreached names what is between here and there.
func (v *visit) unreached(err error) result {
	why, remedy := trouble(err, "forges."+v.Forge)
	if v.Forge == "local" && errors.Is(err, syscall.ECONNREFUSED) {
		remedy = "Start it: `writ forge serve`; or mend forges.local.url."
	}
	return bad(remedy, "%s can't be reached: %s.", v.URL, why)
}

// trouble is why a request had no answer, in words, and what to change. key is
// the section of the configuration that says how the other side is reached.
func trouble(err error, key string) (why, remedy string) {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var dns *net.DNSError
	var plaintext tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &unknown):
		return "its certificate is signed by an authority that this machine doesn't know",
			"Give the authority's certificate, a PEM file, as " + key + ".ca_file; where a proxy opens TLS, that of the proxy."
	case errors.As(err, &name):
		return "its certificate is for another name: " + strings.Join(name.Certificate.DNSNames, ", "), "Mend the name in " + key + ".url, or the certificate there."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has ended, or this machine's clock is wrong", "Renew the certificate there; check `date` here."
	case errors.As(err, &invalid):
		return "its certificate isn't valid", "Mend the certificate there, or give its authority as " + key + ".ca_file."
	case errors.As(err, &dns):
		return "nobody knows the name " + dns.Name, "Mend " + key + ".url, or this machine's name service; behind a proxy set " + key + ".proxy."
	case errors.As(err, &plaintext), errors.Is(err, http.ErrSchemeMismatch):
		return "there is no TLS at that port", "Mend scheme and port in " + key + ".url."
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy can't be reached", "Mend " + key + ".proxy, or HTTPS_PROXY; none goes without."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens there", "Mend host and port in " + key + ".url, or start the server there."
	case errors.Is(err, context.DeadlineExceeded):
		return "there was no answer in time", "See whether a firewall is between; behind a proxy set " + key + ".proxy."
	}
	var urlErr interface{ Unwrap() error }
	if errors.As(err, &urlErr) && urlErr.Unwrap() != nil {
		err = urlErr.Unwrap()
	}
	return plain(err), "See whether `curl` reaches it from here; behind a proxy set " + key + ".proxy."
}

// How far a clock may be off. GitHub takes no token of an App that is dated more
// than ten minutes ahead or a minute in its future; leases are of two minutes.
const (
	skewDoubt = 30 * time.Second
	skewMost  = 5 * time.Minute
)

const setClock = "Let the machine keep time: `timedatectl set-ntp true`, or chrony. In a container it is the host's clock."

func (v *visit) clock(skew time.Duration) result {
	if !v.dated {
		return skipped("The forge doesn't say what time it is.")
	}
	off := skew.Abs().Round(time.Second)
	word := "ahead of"
	if skew < 0 {
		word = "behind"
	}
	switch {
	case off > skewMost:
		return bad(setClock, "This machine's clock is %s %s the forge's: tokens are refused, and leases are judged wrongly.", off, word)
	case off > skewDoubt:
		return warn(setClock, "This machine's clock is %s %s the forge's.", off, word)
	}
	return ok("This machine's clock and the forge's agree.")
}

// app is what a GitHub App is asked about itself.
type app interface {
	About(ctx context.Context) (github.Made, error)
	AppHook(ctx context.Context) (github.AppHook, error)
	FailedDeliveries(ctx context.Context, since time.Time) ([]github.Delivery, error)
	Warnings() []string
}

// token is what a GitLab token is asked about itself.
type token interface {
	Self(ctx context.Context) (forge.User, error)
	Token(ctx context.Context) (gitlab.Token, error)
}

var (
	_ app   = (*github.Host)(nil)
	_ token = (*gitlab.Host)(nil)
)

// account asks who writ is.
func (v *visit) account(ctx context.Context) result {
	switch h := v.Host.(type) {
	case app:
		if warnings := h.Warnings(); len(warnings) == 0 {
			return v.asApp(ctx, h)
		}
		v.personal = true
		self, err := v.Host.Client(forge.Repo{}).Self(ctx)
		if err != nil {
			return forgeTrouble(v.Forge, "", err, "The token isn't taken")
		}
		return warn("`writ setup github` makes an App, which is bound to its repositories.", "Writ is %s. %s", self.Login, strings.Join(h.Warnings(), " "))
	case token:
		return v.asToken(ctx, h)
	}
	self, err := v.Host.Client(forge.Repo{}).Self(ctx)
	if err != nil {
		return forgeTrouble(v.Forge, "", err, "The credential isn't taken")
	}
	return ok("Writ is %s.", self.Login)
}

func (v *visit) asApp(ctx context.Context, h app) result {
	about, err := h.About(ctx)
	if err != nil {
		return forgeTrouble(v.Forge, "", err, "The App's key isn't taken")
	}
	return ok("Writ is the App %s, number %d.", about.Slug, about.ID)
}

// tokenEnds is how long before its end a token is warned of.
const tokenEnds = 14 * 24 * time.Hour

func (v *visit) asToken(ctx context.Context, h token) result {
	self, err := h.Self(ctx)
	if err != nil {
		return forgeTrouble(v.Forge, "", err, "The token isn't taken")
	}
	about, err := h.Token(ctx)
	if forge.IsReason(err, forge.NotFound) {
		return ok("Writ is %s. This GitLab doesn't say what the token may.", self.Login)
	}
	if err != nil {
		return forgeTrouble(v.Forge, "", err, "What the token may can't be read")
	}
	const anew = "Make a project or group access token with the scope api (Settings, Access tokens), and put it where forges.gitlab.token says."
	switch {
	case !slices.Contains(about.Scopes, "api"):
		return bad(anew, "Writ is %s, and the token lacks the scope api: it has %s.", self.Login, strings.Join(about.Scopes, ", "))
	case !about.Expires.IsZero() && about.Expires.Sub(v.Now()) < tokenEnds:
		return warn(anew, "Writ is %s. The token ends on %s.", self.Login, about.Expires.Format(time.DateOnly))
	case self.Kind == forge.Person:
		return warn(anew, "Writ is %s, a person: it reaches all that its owner reaches, and what writ does looks like the owner's act.", self.Login)
	}
	end := "never ends"
	if !about.Expires.IsZero() {
		end = "ends on " + about.Expires.Format(time.DateOnly)
	}
	return ok("Writ is %s. The token has the scope api and %s.", self.Login, end)
}
